"""Checkpoints as an executor carries them out, on the real log of a real file."""

from __future__ import annotations

import sqlite3
import time
from contextlib import ExitStack, closing
from typing import Any

import pytest
from django.db import OperationalError, connection, connections
from django.db.models.functions import Now
from pytest_django.fixtures import Settings

from jobs import checkpointing, wal_deciding
from jobs.executing import sweep_all
from jobs.models import WalMaintenanceJob
from logbook.models import LogbookEvent
from tests import factories
from tests.jobs.checkpoints import (
    again,
    carry_out,
    completed,
    fill_log,
    long_reader,
    on_postgresql,
    on_sqlite,
    other_checkpoint,
)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _all_modes(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.WAL_MODES = ["passive", "restart", "truncate"]
    settings.WAL_INTERVAL_SECONDS = 0
    monkeypatch.setattr(checkpointing, "PATIENCE_SECONDS", 0.2)


def ask(mode: str) -> WalMaintenanceJob:
    return wal_deciding.request_checkpoint(mode, by="test")


def seconds_until_retry(row: WalMaintenanceJob) -> float:
    until, now = WalMaintenanceJob.objects.annotate(now=Now()).values_list("retry_after", "now").get(pk=row.pk)
    assert until is not None
    return float((until - now).total_seconds())


def frames_left() -> int:
    """What the log holds that the database doesn't, by SQLite's own account."""
    with sqlite3.connect(str(connection.settings_dict["NAME"])) as own:
        ((_busy, log, copied),) = own.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    own.close()
    return int(log - copied)


@on_sqlite
@pytest.mark.parametrize("mode", ["passive", "restart", "truncate"])
def test_checkpoint_completes_with_its_figures(mode: str) -> None:
    fill_log()
    row = ask(mode)
    assert carry_out() == 1
    row.refresh_from_db()
    assert (row.status, row.error_code, row.checkpoint_busy) == ("completed", None, 0)
    assert row.checkpoint_log_frames is not None
    assert row.checkpoint_log_frames >= 20
    assert row.checkpointed_frames == row.checkpoint_log_frames
    assert (row.lease_expires_at, row.retry_count) == (None, 0)
    assert row.finished_at is not None
    steps = LogbookEvent.objects.about("wal_maintenance_jobs", str(row.pk)).values_list("event_type", "status_to")
    assert list(steps) == [("status", "pending"), ("requested", None), ("status", "running"), ("status", "completed")]


@on_sqlite
def test_restart_begins_the_log_anew_and_truncate_empties_its_file() -> None:
    fill_log(60)
    ask("restart")
    carry_out()
    large = wal_deciding.wal_bytes()
    assert large is not None
    fill_log(20)
    assert wal_deciding.wal_bytes() == large, "the log is filled from its beginning"
    ask("truncate")
    carry_out()
    small = wal_deciding.wal_bytes()
    assert small is not None
    assert small < large / 4


@on_sqlite
@pytest.mark.parametrize("mode", ["restart", "truncate"])
def test_busy_checkpoint_is_tried_again_later_and_later(mode: str) -> None:
    row = ask(mode)
    with long_reader():
        fill_log(3)
        for tries, wait in ((1, 120), (2, 240)):
            began = time.monotonic()
            assert carry_out() == 1
            assert time.monotonic() - began < 10, "others are not kept waiting for long"
            row.refresh_from_db()
            assert (row.status, row.error_code) == ("retryable", "WAL_CHECKPOINT_BUSY")
            assert (row.checkpoint_busy, row.retry_count) == (1, tries)
            assert row.checkpoint_log_frames is not None
            assert row.checkpointed_frames is not None
            assert 0 <= row.checkpointed_frames < row.checkpoint_log_frames
            assert wait - 30 < seconds_until_retry(row) <= wait
            assert carry_out() == 0, "its time has not come"
            again(row)
    carry_out()
    row.refresh_from_db()
    assert (row.status, row.error_code, row.checkpoint_busy, row.retry_count) == ("completed", None, 0, 2)
    assert row.checkpointed_frames == row.checkpoint_log_frames


@on_sqlite
def test_busy_checkpoint_has_copied_what_nobody_reads() -> None:
    fill_log(30)
    ask("restart")
    with long_reader():
        fill_log(1)
        carry_out()
    row = WalMaintenanceJob.objects.get()
    assert row.checkpointed_frames is not None
    assert row.checkpointed_frames >= 30


@on_sqlite
def test_passive_is_not_held_up_by_a_reader() -> None:
    with long_reader():
        fill_log(5)
        row = ask("passive")
        carry_out()
    row.refresh_from_db()
    assert row.status == "completed"
    assert (row.checkpointed_frames or 0) < (row.checkpoint_log_frames or 0)


@on_sqlite
def test_it_has_written_the_log_back() -> None:
    fill_log(40)
    ask("restart")
    carry_out()
    # Only what its own outcome took is left.
    assert frames_left() <= 12


@on_sqlite
def test_a_broken_disk_fails_the_row_and_does_not_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_mode: str) -> Any:
        raise OperationalError("disk I/O error")

    monkeypatch.setattr(checkpointing, "_pragma", broken)
    row = ask("passive")
    assert carry_out() == 1
    row.refresh_from_db()
    assert (row.status, row.error_code) == ("failed", "WAL_CHECKPOINT_FAILED")
    assert "disk I/O error" in (row.error_message or "")


# --- Another one's checkpoint -----------------------------------------------------------------------------
@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> ExitStack:
    """What is put into it ends, or happens, when the passive copy is done."""
    stack = ExitStack()

    def reach(point: str) -> None:
        if point == "wal_passive":
            stack.close()

    monkeypatch.setattr(checkpointing, "reach", reach)
    return stack


@on_sqlite
def test_another_checkpoint_that_ends_meanwhile_is_no_failure(between: ExitStack) -> None:
    fill_log()
    row = ask("truncate")
    between.enter_context(other_checkpoint())
    assert carry_out() == 1
    row.refresh_from_db()
    assert (row.status, row.error_message) == ("completed", None)
    # SQLite counted for the other one; of this one it only says that nothing is left.
    assert (row.checkpoint_busy, row.checkpoint_log_frames, row.checkpointed_frames) == (0, 0, 0)


@on_sqlite
def test_another_checkpoint_that_comes_between_leaves_the_figures_there_are(between: ExitStack) -> None:
    fill_log()
    row = ask("restart")
    with ExitStack() as other:
        between.callback(lambda: other.enter_context(other_checkpoint()))
        assert carry_out() == 1
    row.refresh_from_db()
    assert (row.status, row.error_code, row.checkpoint_busy) == ("retryable", "WAL_CHECKPOINT_BUSY", 1)
    assert row.checkpoint_log_frames is not None
    assert row.checkpoint_log_frames >= 20
    assert row.checkpointed_frames == row.checkpoint_log_frames


@on_sqlite
def test_a_locked_database_is_busy_and_not_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(_mode: str) -> Any:
        other = sqlite3.connect(str(connection.settings_dict["NAME"]), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with closing(other), connections["executor"].cursor() as cursor:
            cursor.execute("BEGIN IMMEDIATE")

    row = ask("passive")
    with monkeypatch.context() as patch:
        patch.setattr(checkpointing, "_pragma", locked)
        assert carry_out() == 1
    row.refresh_from_db()
    assert (row.status, row.error_code, row.retry_count) == ("retryable", "WAL_CHECKPOINT_BUSY", 1)
    again(row)
    assert carry_out() == 1
    row.refresh_from_db()
    assert row.status == "completed"


@on_sqlite
def test_a_mode_that_is_no_longer_allowed_is_not_tried_again(settings: Settings) -> None:
    row = ask("truncate")
    with long_reader():
        fill_log(2)
        carry_out()
    again(row)
    settings.WAL_MODES = ["passive", "restart"]
    size = wal_deciding.wal_bytes()
    assert carry_out() == 1
    row.refresh_from_db()
    assert (row.status, row.error_code) == ("failed", "WAL_CHECKPOINT_FAILED")
    assert "The mode truncate is not allowed here" in (row.error_message or "")
    assert (wal_deciding.wal_bytes() or 0) >= (size or 0) > 0


def test_a_lost_checkpoint_is_taken_back_and_completes_later() -> None:
    row = WalMaintenanceJob.objects.create(requested_mode="passive")
    lease = WalMaintenanceJob.objects.claim("gone")
    assert lease is not None
    factories.expire(row)
    sweep_all()
    row.refresh_from_db()
    assert (row.status, row.error_code, row.retry_count) == ("retryable", "LEASE_EXPIRED", 1)
    assert 90 < seconds_until_retry(row) <= 120
    assert carry_out() == 0
    again(row)
    assert carry_out() == 1
    row.refresh_from_db()
    assert row.status == ("completed" if connection.vendor == "sqlite" else "failed")


@on_sqlite
def test_a_retry_keeps_the_distance_to_one_that_was_completed_since(settings: Settings) -> None:
    settings.WAL_INTERVAL_SECONDS = 900
    waiting = WalMaintenanceJob.objects.create(requested_mode="restart", status="retryable")
    other = ask("passive")
    assert carry_out() == 1, "the retry doesn't follow at once"
    waiting.refresh_from_db()
    assert waiting.status == "retryable"
    WalMaintenanceJob.objects.filter(pk=waiting.pk).update(created_at=Now())
    assert carry_out() == 1, "one that was asked for later does not wait for an earlier one"
    assert set(WalMaintenanceJob.objects.values_list("pk", "status")) == {
        (waiting.pk, "completed"), (other.pk, "completed"),
    }  # fmt: skip


def test_retries_wait_longer_each_time_and_an_hour_at_the_most() -> None:
    assert [checkpointing.retry_seconds(n) for n in (0, 1, 2, 3, 4, 5, 60)] == [120, 240, 480, 960, 1920, 3600, 3600]


@on_postgresql
def test_on_postgresql_a_row_of_somebody_else_s_fails_with_words() -> None:
    row = WalMaintenanceJob.objects.create(requested_mode="passive")
    assert carry_out() == 1
    row.refresh_from_db()
    assert (row.status, row.error_code) == ("failed", "WAL_CHECKPOINT_FAILED")
    assert "not SQLite" in (row.error_message or "")


def test_completed_rows_are_left_alone() -> None:
    completed()
    assert carry_out() == 0
