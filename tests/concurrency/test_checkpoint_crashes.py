"""SIGKILL at every step of a checkpoint, and eight processes that all want one."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection
from pytest_django.fixtures import Settings

from jobs.executing import sweep_all
from jobs.models import WalMaintenanceJob
from logbook.models import LogbookEvent
from tests import factories
from tests.conftest import Manage
from tests.jobs.checkpoints import again, carry_out, fill_log, on_sqlite

pytestmark = pytest.mark.django_db
RACERS = 8
#: Before anything is copied, between both copies, after them, and with the outcome known but not written.
POINTS = ["wal_started", "wal_passive", "wal_copied", "handled"]


@on_sqlite
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_checkpoint_is_taken_back_and_completes_later(run_manage: Manage, point: str) -> None:
    fill_log()
    ended = run_manage("checkpoint", "--mode", "restart", "--now", env={"DEDUPFS_CRASH_POINT": point})
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    row = WalMaintenanceJob.objects.get()
    assert (row.status, row.checkpoint_busy) == ("running", None)
    sweep_all()
    row.refresh_from_db()
    assert row.status == "running", "its lease still lives"
    factories.expire(row)
    sweep_all()
    row.refresh_from_db()
    assert (row.status, row.error_code, row.retry_count) == ("retryable", "LEASE_EXPIRED", 1)
    assert (row.worker_id, row.lease_expires_at) == (None, None)
    assert row.retry_after is not None
    assert carry_out() == 0, "its next try has its time"
    again(row)
    assert carry_out() == 1
    row.refresh_from_db()
    assert (row.status, row.error_code, row.retry_count, row.checkpoint_busy) == ("completed", None, 1, 0)
    events = LogbookEvent.objects.about("wal_maintenance_jobs", str(row.pk)).filter(event_type="status")
    statuses = ["pending", "running", "retryable", "running", "completed"]
    assert list(events.values_list("status_to", flat=True)) == statuses
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA integrity_check")
        assert cursor.fetchone() == ("ok",)


@on_sqlite
def test_one_that_was_killed_after_its_outcome_stays_completed(run_manage: Manage) -> None:
    ended = run_manage("checkpoint", "--now", env={"DEDUPFS_CRASH_POINT": "finished"})
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert WalMaintenanceJob.objects.get().status == "completed"


# --- Races ------------------------------------------------------------------------------------------------
def lines(racer: subprocess.Popen[str], count: int) -> list[str]:
    assert racer.stdout is not None
    return [racer.stdout.readline().strip() for _ in range(count)]


def test_eight_that_ask_and_carry_out_at_once_never_have_two_active_rows(
    child_environment: dict[str, str], tmp_path: Path, settings: Settings
) -> None:
    gates = [tmp_path / "first", tmp_path / "second"]
    command = [sys.executable, "-m", "tests.concurrency.checkpoint_racer"]
    environment = {**child_environment, "DEDUPFS_SQLITE_BUSY_SECONDS": "120"}
    racers = [
        subprocess.Popen([*command, str(number), *map(str, gates)], env=environment, stdout=subprocess.PIPE, text=True)
        for number in range(RACERS)
    ]
    assert [lines(racer, 1) for racer in racers] == [["ready"]] * RACERS
    gates[0].touch()
    got = sorted(lines(racer, 1)[0] for racer in racers)
    (row,) = WalMaintenanceJob.objects.all()
    is_sqlite = connection.vendor == "sqlite"
    assert got == (sorted([str(row.pk)] * RACERS if is_sqlite else [str(row.pk), *["refused"] * (RACERS - 1)]))
    if is_sqlite:
        assert [lines(racer, 1) for racer in racers] == [["ready"]] * RACERS
    gates[1].touch()
    counts = [word for racer in racers for word in racer.communicate(timeout=240)[0].split()]
    assert [racer.returncode for racer in racers] == [0] * RACERS
    assert set(counts) <= {"0", "1"}
    assert len(counts) == (RACERS * 15 if is_sqlite else 0)
    if is_sqlite:
        # One that was busy may be left, asked for before another was completed: it keeps no distance to that here.
        settings.WAL_INTERVAL_SECONDS = 0
        WalMaintenanceJob.objects.filter(status="retryable").update(retry_after=None)
        carry_out()
        assert set(WalMaintenanceJob.objects.values_list("status", flat=True)) == {"completed"}
