"""The clock is set while work is going on: one holder at a time, and everything is done once.

Rows are reckoned by the database's clock, which no test can set. But all that a step changes is the distance between
that clock and the times in rows: so a step forward is made by moving those times back, and the other way round.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.db.models.functions import Now
from pytest_django.fixtures import Settings

from database.clock import SecondsFromNow
from jobs import deciding
from jobs.errors import LeaseLost
from jobs.executing import drain
from jobs.models import Job, WorkerHeartbeat
from jobs.recovering import leased_models
from jobs.working import Work
from libraries.models import HashState
from tests import factories
from tests.concurrency.test_consumers import SHORT, STEPS, job_with_steps, moves, steps_taken, wait_for
from tests.conftest import Consumers
from tests.steps import handler
from tests.waiting import until

pytestmark = pytest.mark.django_db

HOUR = 3600
DAY = 24 * HOUR
WRITTEN = {
    **{model._meta.db_table: ("lease_expires_at", "worker_heartbeat_at") for model in leased_models()},
    "worker_heartbeats": ("started_at", "last_seen_at"),
}
MOVED = {
    "sqlite": "STRFTIME('%Y-%m-%d %H:%M:%f', {column}, '{seconds:+d} seconds')",
    "postgresql": "{column} + MAKE_INTERVAL(secs => {seconds})",
}


@pytest.fixture(autouse=True)
def _hashing_waits() -> None:
    """The hash job that follows a scan by itself would take the slot from the scans that are made here."""
    HashState.objects.create(pk=1, is_paused=True)


def step_clock(seconds: int) -> None:
    """Let the database's clock be so much later than it was for whoever wrote into rows."""
    for table, columns in WRITTEN.items():
        moved = [f"{each} = {MOVED[connection.vendor].format(column=each, seconds=-seconds)}" for each in columns]
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE {table} SET {', '.join(moved)}")


def holder_of(job: Job) -> str | None:
    return Job.objects.values_list("worker_id", flat=True).get(pk=job.pk)


# --- The database's clock ---------------------------------------------------------------------------------
def test_a_step_forward_costs_the_lease_and_the_work_is_done_once(start_consumer: Consumers, tmp_path: Path) -> None:
    """Whoever held it is still at work, and hears nothing until it writes: then its claim is gone."""
    gate = tmp_path / "gate"
    job = job_with_steps(hold=2, gate=str(gate), deaf=True)
    start_consumer(DEDUPFS_LEASE_SECONDS="30")
    until(gate.with_suffix(".reached").exists, "the second step")
    first = holder_of(job)
    start_consumer(DEDUPFS_LEASE_SECONDS="30")
    step_clock(HOUR)
    until(lambda: holder_of(job) not in (first, None), "somebody else to hold it")
    gate.touch()
    wait_for(job, "completed")
    until(lambda: f"{first} no longer holds" in (tmp_path / "consumer-0.log").read_text(), "the first to notice")
    assert holder_of(job) != first
    assert steps_taken(job) == list(range(STEPS))
    lost = [("running", "retryable"), ("retryable", "pending"), ("pending", "running")]
    assert moves(job) == [(None, "pending"), ("pending", "running"), *lost, ("running", "completed")]


def test_after_a_step_back_a_death_is_noticed_in_the_usual_time(start_consumer: Consumers, tmp_path: Path) -> None:
    """The lease lies an hour ahead until it is renewed; from then on it is as long as ever."""
    gate = tmp_path / "gate"
    job = job_with_steps(hold=2, gate=str(gate))
    victim = start_consumer(**SHORT)
    until(gate.with_suffix(".reached").exists, "the second step")
    step_clock(-HOUR)
    ahead = Job.objects.filter(pk=job.pk, lease_expires_at__gt=SecondsFromNow(HOUR / 2))
    until(lambda: not ahead.exists(), "the lease to be renewed")
    until(lambda: not WorkerHeartbeat.objects.filter(last_seen_at__gt=Now()).exists(), "a sign of life of now")
    victim.kill()
    assert victim.wait() == -signal.SIGKILL
    gate.touch()
    start_consumer()
    wait_for(job, "completed")
    assert steps_taken(job) == list(range(STEPS))


def test_a_lease_of_the_far_past_is_taken_by_one_and_its_holder_writes_nothing() -> None:
    _job, old = factories.running_job("thumbnail")
    step_clock(50 * 365 * DAY)
    assert Job.objects.recover() == 1
    assert deciding.requeue_retryable() == 1
    new = Job.objects.claim("new")
    assert new is not None
    assert Job.objects.claim("a third") is None
    writes: list[Callable[[], None]] = [old.renew, old.release, lambda: old.finish("completed")]
    for write in writes:
        with pytest.raises(LeaseLost):
            write()
    new.finish("completed")
    assert moves(new.row)[-1] == ("running", "completed")


def test_a_lease_of_the_far_future_has_one_holder_until_somebody_cancels_it() -> None:
    """Nobody can tell a holder that is dead from one that was promised much: a person decides, and at once."""
    job, lease = factories.running_job("scan")
    step_clock(-365 * DAY)
    assert Job.objects.recover() == 0
    assert Job.objects.claim("another") is None
    lease.renew()
    assert not Job.objects.filter(lease_expires_at__gt=SecondsFromNow(DAY)).exists(), "whoever lives sets it right"
    step_clock(-365 * DAY)
    deciding.cancel(job.pk, actor="vera")
    with pytest.raises(LeaseLost):
        lease.finish("completed")
    following = factories.pending_job("scan")
    taken = Job.objects.claim("another")
    assert taken is not None
    assert taken.row.pk == following.pk


def test_a_job_that_was_asked_for_while_the_clock_was_ahead_does_not_wait() -> None:
    job = factories.pending_job("thumbnail")
    Job.objects.filter(pk=job.pk).update(created_at=SecondsFromNow(DAY))
    lease = Job.objects.claim("worker")
    assert lease is not None
    lease.finish("completed")


# --- The worker's own clock -------------------------------------------------------------------------------
@pytest.mark.parametrize("seconds", [DAY, -DAY], ids=["forward", "back"])
def test_a_worker_s_own_clock_may_jump_while_it_works(
    seconds: int, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database's goes on as ever, as on another machine."""
    settings.LEASE_SECONDS = 9
    job = job_with_steps()
    with time_machine.travel(time.time()) as clock:
        left: list[float] = []

        def jump(work: Work[Any], step: int) -> None:
            if step == 2:
                clock.shift(seconds)
                left.append(work.seconds_left)
                first = Job.objects.values_list("lease_expires_at", flat=True).get(pk=job.pk)
                later = Job.objects.filter(pk=job.pk, lease_expires_at__gt=first)
                until(later.exists, "a renewal by the stepped clock")
                assert not work.is_stalled
            left.append(work.seconds_left)
            take(work, step)

        take = handler._take
        monkeypatch.setattr(handler, "_take", jump)
        assert drain("jobs") == 1
    assert all(0 < each <= settings.LEASE_SECONDS for each in left)
    assert steps_taken(job) == list(range(STEPS))
    assert moves(job) == [(None, "pending"), ("pending", "running"), ("running", "completed")]
    times = Job.objects.filter(started_at__gt=SecondsFromNow(-HOUR), finished_at__lt=SecondsFromNow(HOUR))
    assert times.filter(pk=job.pk).exists(), "no time of the worker's own is in the row"
