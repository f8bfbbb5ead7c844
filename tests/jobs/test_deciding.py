"""What people and policy decide about jobs."""

from __future__ import annotations

import pytest
from pytest_django.fixtures import Settings

from jobs import deciding
from jobs.errors import Refused
from jobs.models import Job
from logbook.models import LogbookEvent
from tests import factories

pytestmark = pytest.mark.django_db


def told(job: Job, event_type: str) -> LogbookEvent:
    return LogbookEvent.objects.about("jobs", job.pk).get(event_type=event_type)


def test_a_second_scan_or_hash_is_refused_and_names_who_holds_the_slot() -> None:
    holder = deciding.enqueue("scan", actor="vera")
    with pytest.raises(Refused, match=holder.pk):
        deciding.enqueue("hash", actor="vera")
    assert Job.objects.count() == 1


def test_enqueue_says_who_asked() -> None:
    job = deciding.enqueue("scan", actor="vera", payload={"library": 1})
    assert told(job, "requested").actor == "vera"
    assert job.payload == {"library": 1}


def test_only_a_dry_run_of_a_delete_can_be_asked_for() -> None:
    with pytest.raises(Refused, match="authorised"):
        deciding.enqueue("delete", actor="vera")
    assert deciding.enqueue("delete", actor="vera", dry_run=True).dry_run


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_what_has_ended_can_not_be_cancelled(status: str) -> None:
    job = factories.finished_job(status=status)
    with pytest.raises(Refused, match=status):
        deciding.cancel(job.pk, actor="vera")
    job.refresh_from_db()
    assert job.status == status
    assert not LogbookEvent.objects.filter(event_type="cancel").exists(), "a refused wish leaves no event"


def test_cancelling_a_running_job_frees_the_slot_at_once() -> None:
    job, _ = factories.running_job("scan")
    deciding.cancel(job.pk, actor="vera", reason="wrong disk")
    event = told(job, "cancel")
    assert (event.actor, event.payload_json) == ("vera", {"reason": "wrong disk"})
    assert deciding.enqueue("hash", actor="vera").status == "pending"


def test_a_retryable_job_stays_so_while_the_slot_is_taken() -> None:
    waiting, lease = factories.running_job("scan")
    lease.release()
    deciding.enqueue("hash", actor="vera")
    with pytest.raises(Refused, match="only one"):
        deciding.reset(waiting.pk, actor="vera")
    assert deciding.requeue_retryable() == 0
    waiting.refresh_from_db()
    assert waiting.status == "retryable"


def test_a_retryable_job_does_not_block_new_ones() -> None:
    _, lease = factories.running_job("scan")
    lease.finish("retryable", code="WORKER_FAILURE")
    assert deciding.enqueue("scan", actor="vera").status == "pending"


def test_requeueing_gives_up_when_the_attempts_are_used_up(settings: Settings) -> None:
    settings.JOB_ATTEMPTS = 2
    job, lease = factories.running_job("scan")
    for attempt in (1, 2):
        lease.finish("retryable", code="LEASE_EXPIRED", message="gone")
        assert deciding.requeue_retryable() == 1
        job.refresh_from_db()
        assert (job.status, job.attempts, job.finished_at) == ("pending", attempt, None)
        claimed = Job.objects.claim("w")
        assert claimed is not None
        lease = claimed
    lease.finish("retryable", code="LEASE_EXPIRED", message="gone")
    deciding.requeue_retryable()
    job.refresh_from_db()
    assert (job.status, job.error_code) == ("failed", "LEASE_EXPIRED")


def test_retrying_makes_a_new_job_and_the_old_one_keeps_its_history() -> None:
    old = factories.finished_job(status="failed", payload={"library": 3})
    new = deciding.retry(old.pk, actor="vera")
    assert new.pk != old.pk
    assert (new.kind, new.payload, new.status) == (old.kind, {"library": 3}, "pending")
    assert told(old, "retried").payload_json == {"as_job": new.pk}
    with pytest.raises(Refused):
        deciding.retry(new.pk, actor="vera")
