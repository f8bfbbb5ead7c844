"""The database goes away for a while and comes back."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from django.db import connections

from jobs.models import Job
from tests.concurrency.test_consumers import STEPS, job_with_steps, moves, steps_taken
from tests.conftest import Consumers
from tests.waiting import until

pytestmark = pytest.mark.django_db


@contextmanager
def database_away() -> Iterator[None]:
    """SQLite: locked by somebody else. PostgreSQL: every connection is cut and no new one gets in."""
    chosen = connections["default"].settings_dict
    connections.close_all()
    if chosen["ENGINE"].endswith("sqlite3"):
        lock = sqlite3.connect(chosen["NAME"], isolation_level=None, timeout=60)
        lock.execute("BEGIN EXCLUSIVE")
        try:
            yield
        finally:
            lock.rollback()
            lock.close()
        return
    address = f"postgresql://{chosen['USER']}@{chosen['HOST']}:{chosen['PORT']}/postgres"
    with psycopg.connect(address, autocommit=True) as beside:
        beside.execute(f'ALTER DATABASE "{chosen["NAME"]}" ALLOW_CONNECTIONS false')
        try:
            # Of one's own alone: the server may be vacuuming there, and that is no user's to end.
            beside.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND usename = current_user",
                [chosen["NAME"]],
            )
            yield
        finally:
            beside.execute(f'ALTER DATABASE "{chosen["NAME"]}" ALLOW_CONNECTIONS true')


def test_a_job_survives_a_database_that_is_away_for_longer_than_its_lease(
    start_consumer: Consumers, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    job = job_with_steps(hold=2, gate=str(gate))
    consumer = start_consumer(DEDUPFS_LEASE_SECONDS="3", DEDUPFS_SQLITE_BUSY_SECONDS="1")
    until(gate.with_suffix(".reached").exists, "the second step")
    with database_away():
        gate.touch()
        until(lambda: _told_of_renewal(tmp_path / "consumer-0.log"), "a renewal to fail")
        ends = time.monotonic() + 4
        until(lambda: time.monotonic() > ends, "the lease to be over")
    until(lambda: Job.objects.filter(pk=job.pk, status="completed").exists(), "the job to be done")
    assert consumer.poll() is None, "the consumer lived on"
    assert steps_taken(job) == list(range(STEPS))
    assert moves(job)[-1] == ("running", "completed")


def _told_of_renewal(log: Path) -> bool:
    """That it failed: in time for another try, or as late as only a busy machine has it."""
    words = ("could not be renewed yet", "could not be reached before the lease ran out")
    return any(each in log.read_text() for each in words)


def test_a_short_outage_costs_no_lease(start_consumer: Consumers, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = job_with_steps(hold=2, gate=str(gate))
    start_consumer(DEDUPFS_LEASE_SECONDS="30", DEDUPFS_SQLITE_BUSY_SECONDS="1", DEDUPFS_SWEEP_SECONDS="1")
    until(gate.with_suffix(".reached").exists, "the second step")
    with database_away():
        until(lambda: "can't be reached" in (tmp_path / "consumer-0.log").read_text(), "the consumer to notice")
    gate.touch()
    until(lambda: Job.objects.filter(pk=job.pk, status="completed").exists(), "the job to be done")
    assert moves(job) == [(None, "pending"), ("pending", "running"), ("running", "completed")]
