"""`manage.py act`: this process carries out what was authorised, as an executor with a lease of its own.

It takes over the job that waits; where somebody else has it, it says who. It can't authorise anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from django.db.models.functions import Now

from jobs import deciding, stopping
from jobs.deciding import QUEUE
from jobs.executing import carry_out_here, worker_name
from jobs.models import Job
from jobs.recovering import recover
from libraries.errors import NotThere, Refused
from trash.locking import Busy
from trash.models import Act
from trash.settling import end_ended, settle_all

#: How long to sleep at a time until the grace is over.
NAP_SECONDS = 0.5


class NotAuthorised(Refused):
    """Nobody has approved it, or not any more."""


class SomebodyElse(Refused):
    """Another worker has it in hand."""


class Paused(Refused):
    """A person has paused it."""


def act_of(plan_id: int) -> Act | None:
    """The newest act that carries out the plan; None where it was never authorised."""
    from duplicates.models import Plan

    if not Plan.objects.filter(pk=plan_id).exists():
        raise NotThere(f"There is no plan {plan_id}.")
    acts = Act.objects.filter(plan_id=plan_id, verb=Act.Verb.ACT).select_related("plan", "job")
    return acts.order_by("-pk").first()


def act_here(act: Act, *, actor: str, wait: Callable[[float], None]) -> Act:
    """Carry it out to its end. `wait` is told the seconds until it may begin, again and again. Raises `Refused`."""
    settle()
    act = _read(act)
    if not act.is_living or act.job_id is None:
        return act
    recover(Job.objects.all(), actor=actor)
    deciding.put_back(act.job_id)
    _wait_out_grace(act, wait)
    lease = Job.objects.filter(pk=act.job_id).claim(worker_name())
    if lease is None:
        raise _why_not(_read(act))
    carry_out_here(QUEUE, lease)
    settle()
    return _read(act)


def settle() -> None:
    """What was left by somebody who died. Another who acts at this moment does it himself."""
    try:
        settle_all()
        end_ended()
    except Busy as reason:
        raise SomebodyElse(str(reason)) from None


def _read(act: Act) -> Act:
    return Act.objects.select_related("plan", "job").get(pk=act.pk)


def _wait_out_grace(act: Act, wait: Callable[[float], None]) -> None:
    """The time to stop it belongs to the person who authorised it, whoever carries it out."""
    if act.is_paused:
        raise Paused("It is paused. Let it go on first.")
    while seconds := _seconds_left(act):
        stopping.check()
        wait(seconds)
        time.sleep(min(seconds, NAP_SECONDS))


def _seconds_left(act: Act) -> float:
    """By the database's clock; 0 where it may begin, or has ended meanwhile."""
    rows = Job.objects.filter(pk=act.job_id, status=Job.Status.PENDING, retry_after__gt=Now())
    found = rows.annotate(now=Now()).values_list("retry_after", "now").first()
    if found is None or found[0] is None:
        return 0.0
    if Act.objects.filter(pk=act.pk, is_paused=True).exists():
        raise Paused("It is paused. Let it go on first.")
    return max((found[0] - found[1]).total_seconds(), 0.01)


def _why_not(act: Act) -> Refused:
    if not act.is_living:
        return NotAuthorised(f"{act} is {act.status}: {act.note or 'it was stopped'}.")
    job = act.job
    if job is not None and job.status == Job.Status.RUNNING:
        return SomebodyElse(f"{job.worker_id} is at it{_until(job)}.")
    other = Job.objects.filter(kind=Job.Kind.DELETE, dry_run=False, status=Job.Status.RUNNING).first()
    if other is not None:
        return SomebodyElse(f"{other.worker_id} acts on files for another plan{_until(other)}. Try again after it.")
    return NotAuthorised(f"The job of {act} is {job.status if job else 'gone'}: it can't be carried out.")


def _until(job: Job) -> str:
    if job.lease_expires_at is None:
        return ""
    return f"; without a sign of life it is taken back at {job.lease_expires_at:%H:%M:%S} UTC"
