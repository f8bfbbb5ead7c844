"""`manage.py jobs` and `manage.py recover`, in processes of their own."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
from collections.abc import Callable

import pytest
from django.core.management import call_command
from pytest_django import Settings

from duplicates.models import FolderSearch
from jobs.models import Job, WalMaintenanceJob
from logbook.models import LogbookEvent
from tests import factories
from thumbnails.models import Thumbnail, ThumbnailCleanupJob

pytestmark = pytest.mark.django_db
Run = Callable[..., subprocess.CompletedProcess[str]]
ME = f"{pwd.getpwuid(os.getuid()).pw_name} (command line)"


def ended_well(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


def was_refused(done: subprocess.CompletedProcess[str]) -> str:
    """The one line of a clear error; never a traceback."""
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    return done.stderr


def test_list_shows_the_newest_first_and_filters(run_manage: Run) -> None:
    old = factories.finished_job("scan", status="failed")
    new, lease = factories.running_job("thumbnail")
    lines = ended_well(run_manage("jobs", "list")).splitlines()
    assert [line.split()[0] for line in lines[1:]] == [new.pk, old.pk]
    assert lease.worker_id in lines[1]
    assert "WORKER_FAILURE" in lines[2]
    only = ended_well(run_manage("jobs", "list", "--kind", "scan", "--status", "failed", "--limit", "1", "--json"))
    assert [item["id"] for item in json.loads(only)["items"]] == [old.pk]


def test_a_consumer_knows_how_many_threads_it_was_given(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    seen: list[tuple[int, int]] = []

    class Consumer:
        def __init__(self, _huey: object, *, workers: int, **_: object) -> None:
            self.workers = workers

        def run(self) -> None:
            seen.append((self.workers, settings.CONSUMER_WORKERS))

    settings.CONSUMER_WORKERS = 4
    monkeypatch.setattr("jobs.management.commands.run_huey.LeaseConsumer", Consumer)
    call_command("run_huey", "-w", "7")
    assert seen == [(7, 7)]


def test_list_says_when_there_is_nothing(run_manage: Run) -> None:
    assert "No such jobs." in ended_well(run_manage("jobs", "list"))


def test_show_tells_lease_and_history(run_manage: Run) -> None:
    job, lease = factories.running_job("scan", payload={"library_id": 4})
    shown = ended_well(run_manage("jobs", "show", job.pk))
    assert f"held by {lease.worker_id} until" in shown
    assert "new → pending" in shown
    assert "pending → running" in shown
    data = json.loads(ended_well(run_manage("jobs", "show", job.pk, "--json")))
    assert (data["id"], data["worker_id"], data["payload"]) == (job.pk, lease.worker_id, {"library_id": 4})
    assert data["lease_expires_at"].endswith("Z")
    assert [event["status_to"] for event in data["history"]] == ["pending", "running"]


def test_show_obeys_nothing_that_a_worker_wrote(run_manage: Run) -> None:
    job, lease = factories.running_job("scan")
    lease.finish("failed", code="WORKER_FAILURE", message="can't read a\x1b[2Jb\nc")
    shown = ended_well(run_manage("jobs", "show", job.pk))
    assert "\x1b" not in shown
    assert "a\\x1b[2Jb\\nc" in shown


def test_cancel_ends_the_job_and_says_who_and_why(run_manage: Run) -> None:
    job = factories.pending_job()
    assert job.pk in ended_well(run_manage("jobs", "cancel", job.pk, "--reason", "not now"))
    job.refresh_from_db()
    assert job.status == "cancelled"
    event = LogbookEvent.objects.about("jobs", job.pk).get(event_type="cancel")
    assert (event.actor, event.payload_json) == (ME, {"reason": "not now"})


def test_reset_puts_a_retryable_job_back(run_manage: Run) -> None:
    job = factories.finished_job(status="retryable")
    data = json.loads(ended_well(run_manage("jobs", "reset", job.pk, "--json")))
    assert (data["id"], data["status"]) == (job.pk, "pending")
    job.refresh_from_db()
    assert job.status == "pending"
    assert LogbookEvent.objects.about("jobs", job.pk).get(event_type="reset").actor == ME


def test_what_the_state_forbids_is_said_with_the_id(run_manage: Run) -> None:
    job = factories.finished_job()
    for verb in ("cancel", "reset"):
        line = was_refused(run_manage("jobs", verb, job.pk))
        assert job.pk in line
        assert "completed" in line
    job.refresh_from_db()
    assert job.status == "completed"


def test_an_unknown_job_is_named(run_manage: Run) -> None:
    for verb in ("show", "cancel", "reset"):
        assert "no-such-job" in was_refused(run_manage("jobs", verb, "no-such-job"))
    assert "no job" in was_refused(run_manage("jobs", "show", os.fsdecode(b"\xff")))


def test_a_wrong_option_is_explained(run_manage: Run) -> None:
    for arguments, words in (
        (("list", "--limit", "0"), "1 to 200"),
        (("list", "--limit", "many"), "1 to 200"),
        (("list", "--kind", "sync"), "scan"),
        ((), "list|show|cancel|reset"),
    ):
        done = run_manage("jobs", *arguments)
        assert done.returncode == 2
        assert words in done.stderr


def test_help_describes_every_verb(run_manage: Run) -> None:
    assert "lease and its history" in ended_well(run_manage("jobs", "--help"))
    assert "--reason" in ended_well(run_manage("jobs", "cancel", "--help"))
    assert "lease ran out" in ended_well(run_manage("recover", "--help"))


def test_recover_takes_back_rows_of_every_leased_table(run_manage: Run) -> None:
    factories.pending_job("scan")
    WalMaintenanceJob.objects.create()
    factories.pending_thumbnail()
    ThumbnailCleanupJob.objects.create(group_key="blake3:00")
    FolderSearch.objects.create()
    held, _ = factories.running_job("thumbnail")  # before anything is lost: a claim recovers by itself
    for model in (Job, WalMaintenanceJob, Thumbnail, ThumbnailCleanupJob, FolderSearch):
        lease = model.objects.claim("gone")
        assert lease is not None
        factories.expire(lease.row)
    counts = json.loads(ended_well(run_manage("recover", "--json")))
    assert counts == dict.fromkeys(
        ("jobs", "wal_maintenance_jobs", "thumbnails", "thumbnail_cleanup_jobs", "folder_searches"), 1
    )
    assert Job.objects.get(kind="scan").status == "retryable"
    assert WalMaintenanceJob.objects.get().status == "retryable"
    assert Thumbnail.objects.get().status == "pending"
    assert ThumbnailCleanupJob.objects.get().status == "pending"
    held.refresh_from_db()
    assert held.status == "running"
    asked = LogbookEvent.objects.filter(event_type="recover").values_list("item__subject_id", "actor")
    assert dict(asked) == dict.fromkeys(counts, ME)
    assert "jobs: 0 rows taken back" in ended_well(run_manage("recover"))
