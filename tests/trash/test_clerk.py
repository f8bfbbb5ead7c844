"""The records of an act, kept beside the work on its files."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connections

from database.routing import EXECUTOR
from jobs.errors import GivesWay
from jobs.models import Job
from jobs.working import in_hand
from tests.trash.acts import authorised, carry_out, contents, items, library, reasons
from tests.waiting import until
from trash import item_storing, settling
from trash.acting import Acting
from trash.clerk import Clerk
from trash.models import TrashItem
from trash.preparing import Prepared, Preparing

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("everything_allowed")]
Patch = pytest.MonkeyPatch
FILES = {f"{name}{n}": b"%d" % n for n in range(6) for name in ("a", "b/copy")}


@pytest.fixture(autouse=True)
def _small_batches(settings: Any) -> None:
    settings.ACT_BATCH_FILES = 2


def test_the_next_batch_is_prepared_while_one_is_acted_on(tmp_path: Path, monkeypatch: Patch) -> None:
    """The second is ready before the first has been acted on: else this would wait for ever."""
    library(tmp_path / "photos", FILES)
    prepared = threading.Semaphore(0)
    acted_on: list[int] = []
    after, act_on = Preparing.after, Acting._act_on

    def prepare(self: Preparing, last: int) -> Any:
        found = after(self, last)
        prepared.release()
        return found

    def act(self: Acting, batch: Any) -> Any:
        assert prepared.acquire(timeout=60)
        if not acted_on:
            assert prepared.acquire(timeout=60), "nobody prepares the second batch"
            assert TrashItem.objects.filter(status="intended").count() == 4
            prepared.release()
        acted_on.append(len(batch.intents))
        return act_on(self, batch)

    monkeypatch.setattr(Preparing, "after", prepare)
    monkeypatch.setattr(Acting, "_act_on", act)
    act_row = carry_out(authorised())
    assert (act_row.status, act_row.done_count) == ("completed", 6)
    assert acted_on == [2, 2, 2]


@pytest.mark.parametrize("hand_files", [1, 100], ids=["by the hand", "here"])
def test_no_batch_stays_in_memory_when_it_is_recorded(
    tmp_path: Path, monkeypatch: Patch, settings: Any, hand_files: int
) -> None:
    """Without the help of the collector, which rests while an act goes on."""
    settings.ACT_HAND_FILES = hand_files
    library(tmp_path / "photos", FILES)
    batches: list[weakref.ref[Prepared]] = []
    after = Preparing.after

    def prepare(self: Preparing, last: int) -> Prepared | None:
        found = after(self, last)
        if found is not None:
            batches.append(weakref.ref(found))
        return found

    monkeypatch.setattr(Preparing, "after", prepare)
    act = authorised()
    gc.disable()
    try:
        act = carry_out(act)
        left = [batch() for batch in batches]
    finally:
        gc.enable()
    assert (act.status, act.done_count, left) == ("completed", 6, [None, None, None])


def test_records_that_can_t_be_written_stop_the_act_and_the_disk_is_asked(tmp_path: Path, monkeypatch: Patch) -> None:
    root = tmp_path / "photos"
    library(root, FILES)
    act = authorised()
    before = set(contents(root).values())

    def fail(*_: object) -> None:
        raise OperationalError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(item_storing, "store_outcomes", fail)
        carry_out(act)
    assert Job.objects.get(pk=act.job_id).status == "retryable"
    moved = {path.rpartition("/")[2] for path in contents(root) if "dedupfs-trash" in path}
    assert 2 <= len(moved) <= 4, "of the batches after it at most the one in hand was acted on"
    assert set(contents(root).values()) == before
    assert {row.status for row in items(act).values()} == {"intended"}
    settling.tend()
    act.refresh_from_db()
    trashed = {str(row.plan_file_id) for row in items(act).values() if row.status == "trashed"}
    assert (trashed, act.done_count) == (moved, len(moved))
    act = carry_out(act)
    assert (act.status, act.done_count, reasons(act)) == ("completed", 6, {})


def test_a_batch_that_was_prepared_in_vain_is_intended_still_and_taken_up_again(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    library(tmp_path / "photos", FILES)
    act = authorised()

    def leave(*_: object) -> None:
        until(lambda: TrashItem.objects.filter(status="intended").count() == 4, "the batch after it")
        raise GivesWay("PAUSED", "It rests.")

    with monkeypatch.context() as patch:
        patch.setattr(Acting, "_act_on", leave)
        carry_out(act)
    assert TrashItem.objects.filter(act=act, status="intended").count() == 4
    act = carry_out(act)
    assert (act.status, act.done_count, reasons(act)) == ("completed", 6, {})


def test_a_long_look_at_the_next_files_is_progress_and_names_them(
    tmp_path: Path, settings: Any, monkeypatch: Patch
) -> None:
    library(tmp_path / "photos", FILES)
    settings.ACT_BATCH_FILES = 6
    monkeypatch.setattr("trash.acting.WAIT_SECONDS", 0.01)
    look = Preparing._look
    seen: list[str] = []

    def slow(self: Preparing, item: Any, batch: Any) -> Any:
        if seen:
            until(lambda: any(work.doing == seen[-1] for work in in_hand()), "the file that was looked at")
        seen.append(item.path)
        return look(self, item, batch)

    monkeypatch.setattr(Preparing, "_look", slow)
    assert carry_out(authorised()).done_count == 6
    assert len(seen) == 6


def test_a_stop_does_not_wait_for_all_of_the_next_files(tmp_path: Path, settings: Any, monkeypatch: Patch) -> None:
    """The first batch is left while the second is looked at: its third file is not looked at any more."""
    library(tmp_path / "photos", FILES)
    settings.ACT_BATCH_FILES = 3
    monkeypatch.setattr("trash.preparing.LOOK_FILES", 1)
    look, left = Preparing._look, threading.Event()
    seen: list[str] = []

    def slow(self: Preparing, item: Any, batch: Any) -> Any:
        seen.append(item.path)
        if len(seen) == 5:
            left.set()
            until(lambda: self.is_left, "a word that it is left")
        return look(self, item, batch)

    def leave(*_: object) -> None:
        assert left.wait(60)
        raise GivesWay("PAUSED", "It rests.")

    monkeypatch.setattr(Preparing, "_look", slow)
    with monkeypatch.context() as patch:
        patch.setattr(Acting, "_act_on", leave)
        act = authorised()
        carry_out(act)
    assert len(seen) == 5
    assert carry_out(act).done_count == 6


def test_it_does_what_it_is_asked_in_order_with_a_connection_that_it_closes() -> None:
    done: list[Any] = []
    with Clerk() as clerk:
        for number in range(3):
            clerk.ask(done.append, number)
        there = clerk.ask(lambda: (threading.get_ident(), connections[EXECUTOR]))
        with pytest.raises(ZeroDivisionError):
            clerk.ask(lambda: 1 // 0).result()
        thread, connection = there.result()
        assert thread != threading.get_ident()
        clerk.ask(connection.ensure_connection).result()
    assert done == [0, 1, 2]
    assert connection.connection is None
