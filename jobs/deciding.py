"""What people and policy decide about jobs: enqueue, cancel, put back, retry.

Each verb is one compare-and-swap on the state it expects, with a logbook event in the same transaction that says who
asked and why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F
from django.db.models.functions import Now

from jobs.doorbell import ring
from jobs.errors import Refused
from jobs.lease import WORKER_STOPPED
from jobs.models import Job
from logbook.models import write_event

QUEUE = "jobs"
CANCELLABLE = Job.UNFINISHED
RESETTABLE = (Job.Status.RETRYABLE,)


def enqueue(kind: str, *, actor: str, dry_run: bool = False, payload: dict[str, Any] | None = None) -> Job:
    """Make a job that waits for an executor."""
    if kind == Job.Kind.DELETE and not dry_run:
        raise Refused("Removing files needs a plan that an admin has authorised; only a dry run can be asked for here.")
    try:
        with transaction.atomic():
            job = Job.objects.create(kind=kind, dry_run=dry_run, payload=payload or {})
            write_event("jobs", job.pk, "requested", actor=actor)
            ring(QUEUE)
    except IntegrityError:
        if kind not in Job.SLOT_KINDS:
            raise
        raise Refused(_slot_taken()) from None
    job.refresh_from_db()
    return job


def cancel(job_id: str, *, actor: str, reason: str = "") -> Job:
    """Cancel what has not ended; the slot is free at once, and whatever its holder still writes is refused."""
    return _move(
        job_id,
        CANCELLABLE,
        "cancel",
        actor,
        reason,
        status="cancelled",
        finished_at=Now(),
        lease_expires_at=None,
    )


def reset(job_id: str, *, actor: str, reason: str = "") -> Job:
    """Put a retryable job back in the queue."""
    try:
        job = _move(
            job_id,
            RESETTABLE,
            "reset",
            actor,
            reason,
            status="pending",
            retry_after=None,
            finished_at=None,
        )
    except IntegrityError:
        raise Refused(_slot_taken()) from None
    ring(QUEUE)
    return job


def may_retry(job: Job) -> bool:
    """Whether `retry` would be granted: what removes files is authorised anew instead."""
    removes_files = job.kind == Job.Kind.DELETE and not job.dry_run
    return job.status in (Job.Status.FAILED, Job.Status.CANCELLED) and not removes_files


def retry(job_id: str, *, actor: str) -> Job:
    """Start again what failed or was cancelled, as a new job: the old one keeps its history."""
    old = Job.objects.get(pk=job_id)
    if not may_retry(old):
        raise Refused(f"Only a failed or cancelled job that removes no files can be tried again; this is {old.status}.")
    with transaction.atomic():
        job = enqueue(old.kind, actor=actor, dry_run=old.dry_run, payload=old.payload)
        write_event("jobs", old.pk, "retried", actor=actor, as_job=job.pk)
    return job


def requeue_retryable() -> int:
    """Policy's half of a retry: put jobs back while the slot is free, fail those whose attempts are used up."""
    moved = 0
    due = Job.objects.filter(status="retryable").order_by("created_at", "id")
    for job_id, code, attempts in due.values_list("pk", "error_code", "attempts"):
        stopped_in_order = code == WORKER_STOPPED
        if attempts >= settings.JOB_ATTEMPTS and not stopped_in_order:
            moved += _swap(job_id, status="failed", finished_at=Now())
            continue
        try:
            with transaction.atomic():
                counted = F("attempts") + (0 if stopped_in_order else 1)
                moved += _swap(job_id, status="pending", attempts=counted, finished_at=None)
        except IntegrityError:
            continue  # the slot is taken: it waits as it is
    if moved:
        ring(QUEUE)
    return moved


def _swap(job_id: str, **values: Any) -> int:
    return Job.objects.filter(pk=job_id, status="retryable").update(updated_at=Now(), **values)


def _move(job_id: str, expected: Sequence[str], verb: str, actor: str, reason: str, **values: Any) -> Job:
    with transaction.atomic():
        changed = Job.objects.filter(pk=job_id, status__in=expected).update(updated_at=Now(), **values)
        job = Job.objects.get(pk=job_id)
        if changed == 0:
            raise Refused(f"This job is {job.status}; {verb} is possible while it is {' or '.join(expected)}.")
        write_event("jobs", job.pk, verb, actor=actor, **({"reason": reason} if reason else {}))
    return job


def _slot_taken() -> str:
    holder = Job.objects.holding_slot().first()
    if holder is None:
        return "Another scan or hash job is active."
    return f"The {holder.kind} job {holder.pk} is {holder.status}; only one scan or hash job may be active at a time."
