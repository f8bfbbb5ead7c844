"""What people and policy decide about jobs: enqueue, cancel, put back, retry.

Each verb is one compare-and-swap on the state it expects, with a logbook event in the same transaction that says who
asked and why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Case, F, Q, When
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from database.durable import durable_transaction
from jobs.doorbell import ring
from jobs.errors import Refused
from jobs.executing import ACT_LOCKED, GAVE_WAY, PAUSED
from jobs.lease import WORKER_STOPPED
from jobs.models import Job
from logbook.models import write_event

QUEUE = "jobs"
CANCELLABLE = Job.UNFINISHED
RESETTABLE = (Job.Status.RETRYABLE,)
#: Given back in order: being put back is no new attempt.
UNCOUNTED = frozenset({WORKER_STOPPED, GAVE_WAY, PAUSED, ACT_LOCKED})
#: Who decides which scan or hash job is next.
_slot_fillers: list[Callable[[], bool]] = []


def enqueue(kind: str, *, actor: str, dry_run: bool = False, payload: dict[str, Any] | None = None) -> Job:
    """Make a job that waits for an executor."""
    if kind == Job.Kind.DELETE and not dry_run:
        raise Refused(
            _("Removing files needs a plan that an admin has authorised; only a dry run can be asked for here.")
        )
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
    """Cancel what has not ended; the slot is free at once, and whatever its holder still writes is refused. Durably:
    it may be what stops somebody from acting on files."""
    with durable_transaction():
        job = _move(
            job_id,
            CANCELLABLE,
            "cancel",
            actor,
            reason,
            status="cancelled",
            finished_at=Now(),
            lease_expires_at=None,
        )
    ring(QUEUE)  # somebody else may have the slot now
    return job


def reset(job_id: str, *, actor: str, reason: str = "") -> Job:
    """Put a retryable job back in the queue."""
    if Job.objects.filter(pk=job_id, kind=Job.Kind.DELETE, dry_run=False).exists():
        raise Refused(
            _("A job that acts on files goes on by itself; one that is paused is resumed on the page of its act.")
        )
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
        words = _("Only a failed or cancelled job that removes no files can be tried again; this is %(status)s.")
        raise Refused(words % {"status": old.status})
    with transaction.atomic():
        job = enqueue(old.kind, actor=actor, dry_run=old.dry_run, payload=old.payload)
        write_event("jobs", old.pk, "retried", actor=actor, as_job=job.pk)
    return job


def requeue_retryable() -> int:
    """Policy's half of a retry: put jobs back, fail those whose attempts are used up, and fill the slot."""
    moved = 0
    for job_id in Job.objects.filter(status="retryable").exclude(may_go_on()).values_list("pk", flat=True):
        moved += _swap(job_id, status="failed", finished_at=Now())
    others = Job.objects.filter(status="retryable").exclude(kind__in=Job.SLOT_KINDS).order_by("created_at", "id")
    for job_id in others.values_list("pk", flat=True):
        moved += put_back(job_id)
    if moved:
        ring(QUEUE)
    return moved + fill_slot()


def may_go_on(job: str = "") -> Q:
    """Retryable jobs with an attempt left, or given back in order; `job` is the way to them, as in `job__`."""
    again = Q(**{f"{job}error_code__in": UNCOUNTED}) | Q(**{f"{job}attempts__lt": settings.JOB_ATTEMPTS})
    return Q(**{f"{job}status": Job.Status.RETRYABLE}) & again


def put_back(job_id: str) -> bool:
    """Let a retryable job wait again. A scan or hash job raises `IntegrityError` where another one has the slot."""
    counted = Case(When(error_code__in=UNCOUNTED, then=F("attempts")), default=F("attempts") + 1)
    rows = Job.objects.filter(may_go_on(), pk=job_id)
    return rows.update(status="pending", attempts=counted, finished_at=None, updated_at=Now()) == 1


# --- The slot ---------------------------------------------------------------------------------------------
def fills_slot(verb: Callable[[], bool]) -> None:
    """Let a room above decide which scan or hash job is next. `verb` says whether it gave the slot to one.

    It is called often and by many at once: with each sweep, and whenever a consumer finds nothing to do.
    """
    _slot_fillers.append(verb)


def fill_slot() -> bool:
    """Give the slot, where it is free, to whoever is next."""
    return any(verb() for verb in _slot_fillers)


def _swap(job_id: str, **values: Any) -> int:
    return Job.objects.filter(pk=job_id, status="retryable").update(updated_at=Now(), **values)


def _move(job_id: str, expected: Sequence[str], verb: str, actor: str, reason: str, **values: Any) -> Job:
    with transaction.atomic():
        changed = Job.objects.filter(pk=job_id, status__in=expected).update(updated_at=Now(), **values)
        job = Job.objects.get(pk=job_id)
        if changed == 0:
            raise Refused(_not_in_this_state(job, verb, expected))
        write_event("jobs", job.pk, verb, actor=actor, **({"reason": reason} if reason else {}))
    return job


def _not_in_this_state(job: Job, verb: str, expected: Sequence[str]) -> str:
    words = _("This job is %(status)s; %(verb)s is possible while it is %(expected)s.")
    return words % {"status": job.status, "verb": verb, "expected": _(" or ").join(expected)}


def _slot_taken() -> str:
    holder = Job.objects.holding_slot().first()
    if holder is None:
        return _("Another scan or hash job is active.")
    words = _("The %(kind)s job %(id)s is %(status)s; only one scan or hash job may be active at a time.")
    return words % {"kind": holder.kind, "id": holder.pk, "status": holder.status}
