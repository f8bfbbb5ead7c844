"""A stop and a pause hold between two files, in the middle of a batch, while the lease is good: the file in hand goes,
no other one, and rows and disk agree."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs.models import Job
from libraries.models import LibraryRoot
from tests.trash.acts import acted, authorised, carry_out, contents, due, items, library, trash_of
from trash import acting_on_file, authorising, settling
from trash.authorising import ask_undo, authorise_emptying
from trash.emptying import Emptying
from trash.models import Act, TrashItem
from trash.undoing import Undoing

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("everything_allowed")]
Patch = pytest.MonkeyPatch
Say = Callable[..., Act]
#: One batch of so many files, and the one that is in hand when a person speaks.
FILES, IN_HAND = 50, 10
SAYING = pytest.mark.parametrize("say", [authorising.stop, authorising.pause])


def library_of_pairs(root: Path) -> None:
    library(root, {f"{name}{n}": b"content %d" % n for n in range(FILES) for name in ("a", "b/copy")})


@pytest.fixture
def asks_each_time(monkeypatch: Patch) -> None:
    """A file of this test takes no time, so that all of them would go before the second question."""
    monkeypatch.setattr("trash.heeding.EVERY_SECONDS", 0)


def when_in_hand(patch: Patch, owner: Any, name: str, verb: Callable[[], Any]) -> None:
    """Do something when the file `IN_HAND` gets there."""
    original, told = getattr(owner, name), []

    def counted(*arguments: Any, **named: Any) -> Any:
        told.append(1)
        if len(told) == IN_HAND:
            verb()
        return original(*arguments, **named)

    patch.setattr(owner, name, counted)


def rests_or_ended(act: Act, say: Say, *, done: set[int]) -> None:
    """Somebody looks after what is open, as consumers do; then the act tells how far it got."""
    settling.tend()
    act.refresh_from_db()
    assert act.done_count in done
    assert act.skipped_count == 0
    job = Job.objects.get(pk=act.job_id)
    if say is authorising.stop:
        assert (act.status, job.status) == ("cancelled", "cancelled")
        assert not TrashItem.objects.filter(status__in=TrashItem.OPEN).exists()
        assert act.proof_name
    else:
        assert (act.status, act.is_paused, job.error_code) == ("running", True, "PAUSED")


def goes_on(act: Act) -> None:
    authorising.resume(act.pk, actor="ada")
    assert (carry_out(act).status, act.done_count, act.skipped_count) == ("completed", FILES, 0)


# --- Acting -----------------------------------------------------------------------------------------------
def agrees(root: Path, act: Act) -> None:
    """Every file is where its row says."""
    done = {path: row for path, row in items(act).items() if row.status in ("trashed", "deleted")}
    assert len(done) == act.done_count
    held = {path.name for path in (trash_of(root, act) / "files").glob("*")}
    assert held == {str(row.plan_file_id) for row in done.values() if row.status == "trashed"}
    for n in range(FILES):
        copy, kept = root / f"b/copy{n}", root / f"a{n}"
        assert kept.read_bytes() == b"content %d" % n
        row = done.get(f"b/copy{n}")
        is_there = row is None or row.plan_file.action == "hardlink"
        assert copy.exists() == is_there
        assert not is_there or copy.samefile(kept) == (row is not None)


@SAYING
@pytest.mark.parametrize("action", ["trash", "hardlink"])
@pytest.mark.usefixtures("asks_each_time")
def test_one_more_file_goes_at_most(tmp_path: Path, monkeypatch: Patch, say: Say, action: str) -> None:
    _one_more_goes(tmp_path / "photos", monkeypatch, say, action)


@SAYING
def test_one_more_file_is_deleted_at_most_however_quickly_they_go(tmp_path: Path, monkeypatch: Patch, say: Say) -> None:
    _one_more_goes(tmp_path / "photos", monkeypatch, say, "delete")


def _one_more_goes(root: Path, patch: Patch, say: Say, action: str) -> None:
    library_of_pairs(root)
    act = authorised(action)
    when_in_hand(patch, acting_on_file, "reach", lambda: say(act.pk, actor="ada"))
    carry_out(act)
    rests_or_ended(act, say, done={IN_HAND})
    agrees(root, act)
    if say is authorising.pause:
        goes_on(act)
        agrees(root, act)


@SAYING
def test_a_budget_that_is_waited_for_keeps_nobody_waiting(tmp_path: Path, monkeypatch: Patch, say: Say) -> None:
    root = tmp_path / "photos"
    library(root, {"a": b"x" * 600_000, "b/copy": b"x" * 600_000})
    LibraryRoot.objects.update(read_bytes_per_second=10_000)
    act = authorised()
    spoken: list[Act] = []

    def sleep(seconds: float) -> None:
        if not spoken:
            spoken.append(say(act.pk, actor="ada"))
        real(seconds)

    real = time.sleep
    monkeypatch.setattr("trash.acting.time.sleep", sleep)
    carry_out(act)
    assert spoken
    settling.tend()
    act.refresh_from_db()
    assert act.status == ("cancelled" if say is authorising.stop else "running")
    assert contents(root).keys() == {"a", "b/copy"}
    assert not TrashItem.objects.exclude(status="intended").exists()


# --- Taking out -------------------------------------------------------------------------------------------
def agrees_taken(root: Path, source: Act, *, out: str) -> None:
    rows = items(source)
    held = {path.name for path in (trash_of(root, source) / "files").glob("*")}
    assert held == {str(row.plan_file_id) for row in rows.values() if row.status == "trashed"}
    for path, row in rows.items():
        assert row.status in ("trashed", out)
        assert (root / path).exists() == (row.status == "undone")


@SAYING
def test_one_more_file_is_emptied_at_most_however_quickly_they_go(tmp_path: Path, monkeypatch: Patch, say: Say) -> None:
    root = tmp_path / "photos"
    library_of_pairs(root)
    source = acted()
    act = authorise_emptying({"all": True}, FILES, actor="ada")
    due(act)
    when_in_hand(monkeypatch, Emptying, "take_out", lambda: say(act.pk, actor="ada"))
    carry_out(act)
    rests_or_ended(act, say, done={IN_HAND - 1, IN_HAND})
    agrees_taken(root, source, out="emptied")
    if say is authorising.pause:
        goes_on(act)


@SAYING
@pytest.mark.parametrize("action", ["trash", "hardlink"])
@pytest.mark.usefixtures("asks_each_time")
def test_one_more_file_comes_back_at_most(tmp_path: Path, monkeypatch: Patch, say: Say, action: str) -> None:
    root = tmp_path / "photos"
    library_of_pairs(root)
    source = acted(action)
    act = ask_undo({"all": True}, actor="otto")
    when_in_hand(monkeypatch, Undoing, "take_out", lambda: say(act.pk, actor="otto"))
    carry_out(act)
    rests_or_ended(act, say, done={IN_HAND - 1, IN_HAND})
    if action == "trash":
        agrees_taken(root, source, out="undone")
    back = sum((root / f"b/copy{n}").exists() and (root / f"b/copy{n}").stat().st_nlink == 1 for n in range(FILES))
    assert back == TrashItem.objects.filter(status="undone").count() == act.done_count
    if say is authorising.pause:
        goes_on(act)
        assert all((root / f"b/copy{n}").read_bytes() == b"content %d" % n for n in range(FILES))
