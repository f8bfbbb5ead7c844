"""`manage.py checkpoint`, in a process of its own; and the knobs it obeys."""

from __future__ import annotations

import json
import os
import pwd

import pytest

from database.clock import SecondsFromNow
from jobs.models import WalMaintenanceJob
from tests.conftest import Consumers, Manage
from tests.jobs.checkpoints import (
    again,
    completed,
    fill_log,
    long_reader,
    on_postgresql,
    on_sqlite,
    other_checkpoint,
)
from tests.waiting import until

pytestmark = pytest.mark.django_db
ME = f"{pwd.getpwuid(os.getuid()).pw_name} (command line)"


def is_completed() -> WalMaintenanceJob | None:
    """The one that a consumer made. SQLite makes checkpoints by itself, too: what met one of those is tried at once."""
    for row in WalMaintenanceJob.objects.filter(status="retryable", error_code="WAL_CHECKPOINT_BUSY"):
        again(row)
    return WalMaintenanceJob.objects.filter(status="completed").first()


@on_sqlite
def test_checkpoint_now_completes_and_prints_json(run_manage: Manage) -> None:
    fill_log()
    done = run_manage("checkpoint", "--mode", "restart", "--now", "--json", "--reason", "before the backup")
    assert done.returncode == 0, done.stderr
    row = WalMaintenanceJob.objects.get()
    told = json.loads(done.stdout)
    assert (told["id"], told["status"], told["requested_mode"]) == (row.pk, "completed", "restart")
    assert told["checkpointed_frames"] == row.checkpointed_frames
    assert (row.requested_by, row.reason) == (ME, "before the backup")
    soon = run_manage("checkpoint", "--now")
    assert soon.returncode == 1
    assert "ask again in" in soon.stderr
    assert "--force" in soon.stderr
    forced = run_manage("checkpoint", "--now", "--force")
    assert forced.returncode == 0, forced.stderr
    assert "frames of the log are in the database" in forced.stdout


@on_sqlite
def test_checkpoint_is_carried_out_by_a_consumer(run_manage: Manage, start_consumer: Consumers) -> None:
    start_consumer()
    asked = run_manage("checkpoint")
    assert asked.returncode == 0, asked.stderr
    assert "passive checkpoint" in asked.stdout
    until(is_completed, "the checkpoint")


@on_sqlite
def test_busy_is_told_with_a_code_of_failure(run_manage: Manage) -> None:
    with long_reader():
        fill_log(2)
        done = run_manage("checkpoint", "--mode", "restart", "--now", env={"DEDUPFS_SQLITE_BUSY_SECONDS": "1"})
    assert done.returncode == 1
    assert "is retryable" in done.stdout
    assert "the next try is at" in done.stdout
    assert "WAL_CHECKPOINT_BUSY" in done.stderr
    assert "Traceback" not in done.stderr
    row = WalMaintenanceJob.objects.get()
    early = run_manage("checkpoint", "--mode", "restart", "--now")
    assert (early.returncode, WalMaintenanceJob.objects.get().retry_count) == (1, 1), "its time has not come"
    again(row)
    late = run_manage("checkpoint", "--mode", "restart", "--now")
    assert late.returncode == 0, late.stderr
    assert WalMaintenanceJob.objects.get().status == "completed"


@on_sqlite
def test_now_keeps_the_distance_of_a_retry_to_one_that_was_completed_since(run_manage: Manage) -> None:
    WalMaintenanceJob.objects.create(requested_mode="restart", status="retryable", created_at=SecondsFromNow(-600))
    completed(seconds_ago=30)
    soon = run_manage("checkpoint", "--mode", "restart", "--now")
    assert (soon.returncode, WalMaintenanceJob.objects.get(requested_mode="restart").status) == (1, "retryable")
    forced = run_manage("checkpoint", "--mode", "restart", "--now", "--force")
    assert forced.returncode == 0, forced.stderr


@on_sqlite
def test_figures_that_sqlite_did_not_give_are_not_told(run_manage: Manage) -> None:
    fill_log(2)
    with other_checkpoint():
        done = run_manage("checkpoint", "--now")
    assert done.returncode == 1
    assert "passive checkpoint" in done.stdout
    assert "is retryable; the next try is at" in done.stdout


@on_sqlite
def test_knobs_allow_modes_and_set_the_interval(run_manage: Manage) -> None:
    refused = run_manage("checkpoint", "--mode", "truncate")
    assert refused.returncode == 1
    assert "DEDUPFS_WAL_MODES" in refused.stderr
    completed(seconds_ago=30)
    chosen = {"DEDUPFS_WAL_MODES": "passive,truncate", "DEDUPFS_WAL_INTERVAL_SECONDS": "20"}
    done = run_manage("checkpoint", "--mode", "truncate", "--now", env=chosen)
    assert done.returncode == 0, done.stderr


@on_sqlite
def test_a_consumer_asks_by_itself_past_the_limit(start_consumer: Consumers) -> None:
    fill_log(300)
    start_consumer(DEDUPFS_WAL_MB="1")
    row = until(is_completed, "the automatic checkpoint")
    assert row.requested_by == "automatic"


@on_postgresql
def test_on_postgresql_it_says_that_it_does_not_apply(run_manage: Manage) -> None:
    done = run_manage("checkpoint", "--now")
    assert done.returncode == 2
    assert "does not apply" in done.stderr
    assert not WalMaintenanceJob.objects.exists()
