"""`/health` and `/api/v1/health`: the same answer, for everybody, also when the database is away."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from django.test import Client

from accounts.models import Role
from database.clock import SecondsFromNow
from jobs.models import WorkerHeartbeat
from logbook.models import LogbookEvent, write_event
from tests import factories
from tests.conftest import ROOT

pytestmark = pytest.mark.django_db

ADDRESSES = ("/health", "/api/v1/health")
ASK = """
import django, json, sys
django.setup()
from django.test import Client
browser = Client(SERVER_NAME="localhost")
browser.cookies["dedupfs_session"] = "somebody"
answers = [browser.get(address) for address in sys.argv[1:]]
print(json.dumps([[answer.status_code, answer.json()] for answer in answers]))
"""


def ask(client: Client) -> dict[str, Any]:
    """Ask both addresses; they must agree."""
    answers = [client.get(address) for address in ADDRESSES]
    assert [answer.status_code for answer in answers] == [200, 200]
    first, second = (answer.json() for answer in answers)
    assert first == second
    assert set(first) == {"status", "detail", "database", "consumers_alive", "consumer_restarts_24h"}
    return first  # type: ignore[no-any-return]


def test_health_is_open_and_degraded_without_a_consumer(client: Client) -> None:
    found = ask(client)
    assert (found["status"], found["database"], found["consumers_alive"]) == ("degraded", "reachable", 0)
    assert "No consumer" in found["detail"]


def test_health_counts_consumers_that_are_alive(client: Client, settings: Any) -> None:
    WorkerHeartbeat.objects.create(worker_id="box:1")
    WorkerHeartbeat.objects.create(worker_id="box:2", last_seen_at=SecondsFromNow(-2 * settings.HEARTBEAT_SECONDS))
    WorkerHeartbeat.objects.create(worker_id="box:3", last_seen_at=SecondsFromNow(-4 * settings.HEARTBEAT_SECONDS))
    WorkerHeartbeat.objects.create(worker_id="box:4", stopped_at=SecondsFromNow(0))
    found = ask(client)
    assert (found["status"], found["consumers_alive"]) == ("ok", 2)


def test_health_tells_of_consumers_that_died(client: Client) -> None:
    WorkerHeartbeat.objects.create(worker_id="box:1")
    for _ in range(3):
        write_event("supervisor", "box", "consumer_restarted", exit="SIGKILL")
    old = LogbookEvent.objects.latest("id")
    LogbookEvent.objects.filter(pk=old.pk).update(created_at=SecondsFromNow(-25 * 60 * 60))
    found = ask(client)
    assert (found["status"], found["consumer_restarts_24h"]) == ("ok", 2)
    assert "2 times" in found["detail"]


def test_health_only_answers(client: Client) -> None:
    assert client.post("/health").status_code == 405
    assert client.head("/health").status_code == 200
    assert "no-store" in client.get("/health")["Cache-Control"]


def test_health_is_reached_before_a_first_password_is_chosen(client: Client) -> None:
    person = factories.user("otto", Role.OPERATOR, must_change_password=True)
    client.force_login(person, "django.contrib.auth.backends.ModelBackend")
    ask(client)


@pytest.mark.parametrize(
    "url", ["sqlite:////nowhere/at-all/dedupfs.sqlite3", "postgres://dora:s3cret@127.0.0.1:1/dedupfs"]
)
def test_health_is_503_when_the_database_is_gone(child_environment: dict[str, str], url: str) -> None:
    """In a process of its own, also for a browser with a session: that is in the database that is gone."""
    environment = {**child_environment, "DATABASE_URL": url}
    command = [sys.executable, "-c", ASK, *ADDRESSES]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for status, found in json.loads(done.stdout):
        assert status == 503
        assert (found["status"], found["database"]) == ("degraded", "unreachable")
        assert (found["consumers_alive"], found["consumer_restarts_24h"]) == (None, None)
        told = json.dumps(found)
        assert not any(secret in told for secret in ("s3cret", "dora", "127.0.0.1", "nowhere"))
