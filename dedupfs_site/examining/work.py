"""Background work: leases that live, a slot that moves on, consumers that carry it out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import Q
from django.db.models.functions import Now
from huey.contrib.djhuey import HUEY

from database.clock import SecondsFromNow
from database.examining import Finding, error, ok, register_check, warning
from jobs.lease import LeasedModel, LeasedQuerySet
from jobs.models import Job, WorkerHeartbeat
from jobs.recovering import leased_models

#: How long the one scan or hash job may wait, wait to be tried again, or run, before a person should look.
WAITS_SECONDS = 60 * 60
RUNS_SECONDS = 7 * 24 * 60 * 60
RECOVER = "run `manage.py recover`; a running consumer does so by itself"


@register_check("leases")
def check_leases() -> Iterator[Finding]:
    found = [finding for model in leased_models() for finding in _stale_rows(model)]
    yield from found
    if not found:
        yield ok("every running row has a living lease")


def _stale_rows(model: type[LeasedModel]) -> Iterator[Finding]:
    rows: LeasedQuerySet[Any] = model._default_manager.all()  # type: ignore[assignment]
    count = rows.stale().count()
    if not count:
        return
    ages = rows.stale().filter(lease_expires_at__isnull=False).order_by("lease_expires_at")
    oldest = ages.values_list("lease_expires_at", Now()).first()
    since = f"the oldest {_words((oldest[1] - oldest[0]).total_seconds())} ago" if oldest else "without a lease at all"
    yield warning(f"{model._meta.db_table}: {count:,} running rows lost their worker, {since}", RECOVER)


def _words(seconds: float) -> str:
    for size, word in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {word}"
    return f"{seconds:.0f} seconds"


@register_check("slot")
def check_slot() -> Iterator[Finding]:
    """The one scan or hash job that may be active, and those that wait to take its place."""
    slot = Job.objects.filter(kind__in=Job.SLOT_KINDS)
    waited, ran = SecondsFromNow(-WAITS_SECONDS), SecondsFromNow(-RUNS_SECONDS)
    stuck = slot.filter(
        Q(status="pending", created_at__lte=waited, updated_at__lte=waited)
        | Q(status="retryable", updated_at__lte=waited)
        | Q(status="running", started_at__lte=ran)
    )
    found = [_told(job) for job in stuck.order_by("created_at", "id")[:5]]
    yield from found
    if not found:
        holder = slot.holding_slot().first()
        yield ok(f"held by {holder.kind} {holder.pk}, {holder.status}" if holder else "free")


def _told(job: Job) -> Finding:
    if job.status == "running":
        message = f"{job.kind} {job.pk} runs since {job.started_at:%Y-%m-%d %H:%M}, held by {job.worker_id}"
        return warning(message, f"look at its progress; `manage.py jobs cancel {job.pk}` frees the slot")
    state = "waits to be tried again" if job.status == "retryable" else "waits"
    code = f" ({job.error_code})" if job.error_code else ""
    message = f"{job.kind} {job.pk} {state} since {job.updated_at:%Y-%m-%d %H:%M}{code}"
    return warning(message, f"see that a consumer runs; `manage.py jobs cancel {job.pk}` gives it up")


@register_check("consumers")
def check_consumers() -> Iterator[Finding]:
    alive = WorkerHeartbeat.objects.alive().count()
    if alive:
        yield ok(f"{alive} alive")
        return
    waiting = _waiting_rows()
    if waiting:
        yield error(f"no consumer is alive, and {waiting:,} rows of work wait", "start `manage.py up`")
    else:
        yield warning("no consumer is alive; nothing waits either", "start `manage.py up`")


def _waiting_rows() -> int:
    managers: list[Any] = [model._default_manager for model in leased_models()]
    return sum(manager.filter(status__in=("pending", "running")).count() for manager in managers)


@register_check("bell", needs_database=False)
def check_bell() -> Iterator[Finding]:
    try:
        pending = HUEY.pending_count()
    except Exception as problem:
        yield error(
            f"Huey's storage can't be reached: {type(problem).__name__}: {problem}",
            "see that HUEY_URL is right, or that the state folder can be written; work goes on by the sweep, slower",
        )
        return
    yield ok(f"Huey's storage answers; {pending} messages wait")
