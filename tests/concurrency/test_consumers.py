"""Consumers that are stopped, killed, frozen and starved: nothing is lost, nothing is done twice."""

from __future__ import annotations

import random
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from database.clock import SecondsFromNow
from jobs.models import Job, WorkerHeartbeat
from libraries.models import HashState, LibraryFile
from logbook.models import LogbookEvent
from tests import factories
from tests.conftest import Consumers
from tests.waiting import DEADLINE_SECONDS, until

pytestmark = pytest.mark.django_db

STEPS = 6
#: For those whose lease is to run out.
SHORT = {"DEDUPFS_LEASE_SECONDS": "3"}


@pytest.fixture(autouse=True)
def _hashing_waits() -> None:
    """The hash job that follows a scan by itself would take the slot from the scans that are made here."""
    HashState.objects.create(pk=1, is_paused=True)


def job_with_steps(**asked: Any) -> Job:
    payload = {"library": factories.library().pk, "steps": STEPS, **asked}
    return factories.pending_job("scan", payload=payload)


def status(job: Job) -> str:
    return Job.objects.values_list("status", flat=True).get(pk=job.pk)


def steps_taken(job: Job) -> list[int]:
    return sorted(LibraryFile.objects.filter(relative_path__startswith=job.pk).values_list("size_bytes", flat=True))


def moves(job: Job) -> list[tuple[str | None, str | None]]:
    events = LogbookEvent.objects.about("jobs", job.pk).filter(event_type="status")
    return list(events.values_list("status_from", "status_to"))


def wait_for(job: Job, wanted: str) -> None:
    until(lambda: status(job) == wanted, f"the job to be {wanted} (it is {status(job)})")


def test_a_consumer_finds_and_finishes_a_job_that_nobody_rang_for(start_consumer: Consumers) -> None:
    job = job_with_steps()
    start_consumer()
    wait_for(job, "completed")
    job.refresh_from_db()
    assert (job.progress, job.processed_items, job.total_items) == (1.0, STEPS, STEPS)
    assert job.lease_expires_at is None
    assert steps_taken(job) == list(range(STEPS))


def test_a_failing_handler_fails_its_job_and_the_queue_goes_on(start_consumer: Consumers) -> None:
    bad = job_with_steps(fail=2)
    start_consumer()
    wait_for(bad, "failed")
    bad.refresh_from_db()
    assert bad.error_code == "WORKER_FAILURE"
    assert "this step fails" in (bad.error_message or "")
    good = factories.pending_job("scan", payload={**bad.payload, "fail": None})
    wait_for(good, "completed")


def test_sigterm_gives_the_row_back_at_once_and_the_next_consumer_goes_on(
    start_consumer: Consumers, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    job = job_with_steps(hold=3, gate=str(gate))
    first = start_consumer(DEDUPFS_LEASE_SECONDS="3600")
    until(gate.with_suffix(".reached").exists, "the third step")
    first.send_signal(signal.SIGTERM)
    assert first.wait(timeout=DEADLINE_SECONDS) == 0
    job.refresh_from_db()
    assert (job.status, job.worker_id, job.lease_expires_at) == ("retryable", None, None)
    assert job.error_code == "WORKER_STOPPED"
    assert WorkerHeartbeat.objects.get().stopped_at is not None
    gate.touch()
    start_consumer(DEDUPFS_LEASE_SECONDS="3600")
    wait_for(job, "completed")
    job.refresh_from_db()
    assert job.attempts == 0, "an orderly stop is not a failed attempt"
    assert steps_taken(job) == list(range(STEPS))


def test_sigint_is_as_orderly_as_sigterm(start_consumer: Consumers, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = job_with_steps(hold=0, gate=str(gate))
    consumer = start_consumer(DEDUPFS_LEASE_SECONDS="3600")
    until(gate.with_suffix(".reached").exists, "the handler")
    consumer.send_signal(signal.SIGINT)
    assert consumer.wait(timeout=DEADLINE_SECONDS) == 0
    assert status(job) == "retryable"


CRASH_POINTS = ["claimed", *(f"stepped:{n}" for n in (1, 3, STEPS)), "handled", "finished"]


@pytest.mark.parametrize("point", CRASH_POINTS)
def test_sigkill_anywhere_loses_nothing(point: str, start_consumer: Consumers) -> None:
    job = job_with_steps()
    victim = start_consumer(DEDUPFS_CRASH_POINT=point)
    assert victim.wait(timeout=DEADLINE_SECONDS) == -signal.SIGKILL
    Job.objects.filter(status="running").update(lease_expires_at=SecondsFromNow(-1))
    start_consumer()
    wait_for(job, "completed")
    assert steps_taken(job) == list(range(STEPS))
    recovered = [("running", "retryable"), ("retryable", "pending"), ("pending", "running")]
    lost = [] if point == "finished" else recovered
    assert moves(job) == [(None, "pending"), ("pending", "running"), *lost, ("running", "completed")]


def test_a_frozen_consumer_writes_nothing_after_it_wakes(start_consumer: Consumers, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = job_with_steps(hold=2, gate=str(gate), deaf=True)
    frozen = start_consumer(**SHORT)
    until(gate.with_suffix(".reached").exists, "the second step")
    job.refresh_from_db()
    first_holder = job.worker_id
    _freeze(frozen)
    gate.touch()
    start_consumer()
    wait_for(job, "completed")
    job.refresh_from_db()
    finished_by, finished_at = job.worker_id, job.updated_at
    assert finished_by != first_holder
    history = moves(job)
    frozen.send_signal(signal.SIGCONT)
    until(lambda: _noticed(tmp_path), "the woken consumer to notice")
    frozen.send_signal(signal.SIGTERM)
    assert frozen.wait(timeout=DEADLINE_SECONDS) == 0
    job.refresh_from_db()
    assert (job.worker_id, job.updated_at, job.status) == (finished_by, finished_at, "completed")
    assert steps_taken(job) == list(range(STEPS))
    assert moves(job) == history


def _freeze(consumer: subprocess.Popen[str]) -> None:
    """Between two writes: whoever is frozen inside one keeps the database's lock, and nobody could take over."""
    writes = {
        "sqlite": "UPDATE worker_heartbeats SET doing = doing",
        "postgresql": "LOCK TABLE worker_heartbeats, jobs IN SHARE MODE NOWAIT",
    }

    def is_frozen_outside() -> bool:
        consumer.send_signal(signal.SIGSTOP)
        until(lambda: _states(consumer.pid) == {"T"}, "every thread to stand still")
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(writes[connection.vendor])
        except OperationalError:
            consumer.send_signal(signal.SIGCONT)
            return False
        return True

    until(is_frozen_outside, "the consumer to be frozen outside of a write")


def _states(pid: int) -> set[str]:
    """Of its threads: one that is inside the kernel ends its call before it stops, and may get the lock by that."""
    found: set[str] = set()
    for task in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):  # it has just ended
            found.add(task.read_text().rpartition(")")[2].split()[0])
    return found


def _noticed(tmp_path: Path) -> bool:
    return "no longer holds" in (tmp_path / "consumer-0.log").read_text()


def test_a_handler_that_hangs_loses_its_lease_and_what_hung_is_named(start_consumer: Consumers, tmp_path: Path) -> None:
    # It hangs before its first step, and long enough to have said at what.
    job = job_with_steps(hold=0, gate=str(tmp_path / "never"), silent=True, deaf=True)
    start_consumer(DEDUPFS_STALL_SECONDS="5", DEDUPFS_JOB_ATTEMPTS="1", DEDUPFS_CONSUMER_WORKERS="1", **SHORT)
    until(lambda: ("running", "retryable") in moves(job), "the lease to run out")
    stalled = LogbookEvent.objects.about("jobs", job.pk).get(event_type="stalled")
    assert stalled.payload_json["doing"] == "waiting for never"


def test_a_slow_step_keeps_its_lease_while_it_makes_progress(start_consumer: Consumers, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = job_with_steps(hold=1, gate=str(gate))
    start_consumer(DEDUPFS_LEASE_SECONDS="15")
    until(gate.with_suffix(".reached").exists, "the first step")
    holder = Job.objects.get(pk=job.pk).worker_id
    for _ in range(2):
        end = Job.objects.values_list("lease_expires_at", flat=True).get(pk=job.pk)
        until(Job.objects.filter(pk=job.pk, lease_expires_at__gt=end).exists, "the lease to be renewed")
    gate.touch()
    wait_for(job, "completed")
    job.refresh_from_db()
    assert job.worker_id == holder
    assert ("running", "retryable") not in moves(job)


def test_a_cancelled_job_stops_its_handler_and_frees_the_slot_at_once(
    start_consumer: Consumers, tmp_path: Path
) -> None:
    from jobs import deciding

    gate = tmp_path / "gate"
    job = job_with_steps(hold=2, gate=str(gate))
    start_consumer(DEDUPFS_LEASE_SECONDS="2")
    until(gate.with_suffix(".reached").exists, "the second step")
    deciding.cancel(job.pk, actor="vera")
    following = factories.pending_job("scan", payload={**job.payload, "hold": None})
    wait_for(following, "completed")
    assert status(job) == "cancelled"
    assert steps_taken(job) == [0, 1]


def test_attempts_are_limited(start_consumer: Consumers) -> None:
    job = job_with_steps()
    for _ in range(2):
        victim = start_consumer(DEDUPFS_CRASH_POINT="claimed", DEDUPFS_JOB_ATTEMPTS="1", **SHORT)
        assert victim.wait(timeout=DEADLINE_SECONDS) == -signal.SIGKILL
    start_consumer(DEDUPFS_JOB_ATTEMPTS="1")
    wait_for(job, "failed")
    job.refresh_from_db()
    assert job.error_code == "LEASE_EXPIRED"
    assert job.attempts == 1


def test_a_killed_consumer_is_noted_as_dead_by_the_next_one(start_consumer: Consumers) -> None:
    WorkerHeartbeat.objects.create(worker_id="long gone", last_seen_at=SecondsFromNow(-30 * 24 * 3600))
    victim = start_consumer()
    until(lambda: WorkerHeartbeat.objects.filter(pid=victim.pid).exists(), "the first sign of life")
    victim.kill()
    victim.wait()
    start_consumer()
    until(lambda: not WorkerHeartbeat.objects.filter(pk="long gone").exists(), "the old one to be forgotten")
    until(lambda: WorkerHeartbeat.objects.filter(pid=victim.pid, stopped_at__isnull=False).exists(), "the note")


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_a_job_survives_a_long_series_of_kills(start_consumer: Consumers) -> None:
    """Each consumer dies at a point drawn from the seed; nothing is lost and nothing is done twice."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    job = job_with_steps(steps=40)
    points = ["claimed", "handled", *(f"stepped:{n}" for n in range(1, 6))]
    kills = 0
    while status(job) != "completed" and kills < 60:
        victim = start_consumer(DEDUPFS_CRASH_POINT=dice.choice(points), DEDUPFS_JOB_ATTEMPTS="100", **SHORT)
        until(lambda: victim.poll() is not None or status(job) == "completed", "the kill")  # noqa: B023
        victim.kill()
        victim.wait()
        kills += 1
    start_consumer(DEDUPFS_JOB_ATTEMPTS="100")
    wait_for(job, "completed")
    assert steps_taken(job) == list(range(40))
