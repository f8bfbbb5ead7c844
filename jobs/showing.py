"""A job as pages show it: shares, lengths and what to do, worked out from the row and the database's time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models.functions import Now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from jobs import deciding
from jobs.models import Job, JobQuerySet

#: What a claim adds to the worker's name (`LeasedQuerySet.claim`).
FENCE = re.compile(r":[0-9a-f]{32}$")
#: Before this share is done, "how long still" would be a guess.
ENOUGH_TO_TELL = 20

ADVICE = {
    "LEASE_EXPIRED": gettext_noop(
        "Its worker died, hung or lost the database. The job is put back by itself until its attempts are "
        "used up. If this repeats, look at the workers page and at the disk it was reading."
    ),
    "WORKER_STOPPED": gettext_noop(
        "A consumer was stopped in order and gave the job back. Nothing is lost: it goes on as soon as a consumer runs."
    ),
    "WORKER_FAILURE": gettext_noop(
        "The work met an error that it didn't expect. The consumer's log has the whole trace. "
        "Mend the cause, then try the job again."
    ),
    "DATABASE_UNAVAILABLE": gettext_noop(
        "The database could not be reached while the job ran. It is put back by itself; "
        "if this repeats, look at the database's disk and log."
    ),
    "MIGRATION_MUTEX_RECOVERY": gettext_noop(
        "It was one of several running jobs in the database that was adopted, and only one may run. "
        "Put it back in the queue, or cancel it."
    ),
    "MIGRATION_ACTIVE_RECOVERY": gettext_noop(
        "It was one of several waiting jobs in the database that was adopted, and only one may wait. "
        "Put it back in the queue, or cancel it."
    ),
    "NOT_AUTHORISED": gettext_noop(
        "It asked for a removal that nobody has authorised. No file was touched. "
        "Make a plan, and let an admin authorise it on the plan's page."
    ),
    "NO_PLAN": gettext_noop(
        "No plan waits for this job: it was discarded or made anew, or the job was put in by hand. No file was "
        "touched. Make a plan on the page of the plans; trying this job again helps nothing."
    ),
    "PLAN_REFUSED": gettext_noop(
        "The plan's rules or its filter can't be used any more; the message says what is wrong. "
        "Mend the keep rules, then make the plan anew."
    ),
}
OTHER_ADVICE = gettext_noop("Read the message, mend the cause, then try the job again.")


@dataclass(frozen=True)
class ShownJob:
    """A job and the time at which it was read; both come from the database."""

    job: Job
    now: datetime

    @property
    def is_live(self) -> bool:
        """Whether it may change by itself; a page asks again about these."""
        return self.job.status in deciding.CANCELLABLE

    @property
    def is_running(self) -> bool:
        return self.job.status == Job.Status.RUNNING

    @property
    def short_id(self) -> str:
        return self.job.pk[:8]

    @property
    def share(self) -> int | None:
        return share_of(self.job)

    @property
    def percent(self) -> int | None:
        return None if self.share is None else self.share // 10

    @property
    def lasted(self) -> timedelta | None:
        """How long it ran, or has run so far."""
        job = self.job
        if job.started_at is None or (self.is_live and not self.is_running):
            return None
        end = self.now if self.is_running else job.finished_at
        return None if end is None else max(end - job.started_at, timedelta(0))

    @property
    def left(self) -> timedelta | None:
        if not self.is_running or self.lasted is None or self.share is None:
            return None
        if not ENOUGH_TO_TELL <= self.share < 1000:
            return None
        return self.lasted * (1000 - self.share) / self.share

    @property
    def worker(self) -> str:
        """The worker's name without the part that is fresh for each claim."""
        return FENCE.sub("", self.job.worker_id or "")

    @property
    def lease_left(self) -> timedelta:
        until = self.job.lease_expires_at
        return timedelta(0) if until is None else max(until - self.now, timedelta(0))

    @property
    def lease_share(self) -> int:
        """How much of the lease is left, in thousandths of what the last heartbeat gave."""
        job = self.job
        if job.lease_expires_at is None or job.worker_heartbeat_at is None:
            return 0
        whole = job.lease_expires_at - job.worker_heartbeat_at
        return _clamped(self.lease_left / whole) if whole > timedelta(0) else 0

    @property
    def lease_state(self) -> str:
        if not self.lease_left:
            return "danger"
        return "attention" if self.lease_share < 250 else "ok"

    @property
    def has_error(self) -> bool:
        return bool(self.job.error_code or self.job.error_message)

    @property
    def error_state(self) -> str:
        return "danger" if self.job.status == Job.Status.FAILED else "attention"

    @property
    def advice(self) -> str:
        return _(ADVICE.get(self.job.error_code or "", OTHER_ADVICE))

    # What `jobs.deciding` would do rather than refuse.
    @property
    def can_cancel(self) -> bool:
        return self.job.status in deciding.CANCELLABLE

    @property
    def can_reset(self) -> bool:
        return self.job.status in deciding.RESETTABLE

    @property
    def can_retry(self) -> bool:
        return deciding.may_retry(self.job)


def share_of(job: Job) -> int | None:
    """How much is done, in thousandths; None where nobody knows."""
    if job.status == Job.Status.COMPLETED:
        return 1000
    shares = [job.progress]
    if job.total_items:
        shares.append(job.processed_items / job.total_items)
    if job.total_items is None and not job.progress:
        return None
    return _clamped(max(shares))


def _clamped(share: float) -> int:
    return int(min(max(share, 0.0), 1.0) * 1000)


def shown(jobs: JobQuerySet) -> JobQuerySet:
    """Read jobs together with the time at which they are read."""
    return jobs.annotate(now=Now())


def as_shown(jobs: list[Job]) -> list[ShownJob]:
    """What `shown` read, ready for a template."""
    return [ShownJob(job, job.now) for job in jobs]  # type: ignore[attr-defined]
