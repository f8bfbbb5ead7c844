"""`/api/v1/maintenance/wal`, by its addresses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from accounts.models import Role
from jobs.models import WalMaintenanceJob
from tests.jobs.checkpoints import carry_out, completed, fill_log, on_postgresql, on_sqlite
from tests.pages import with_token

pytestmark = pytest.mark.django_db
WAL = "/api/v1/maintenance/wal"


@pytest.fixture
def operator() -> Client:
    return with_token(Role.OPERATOR)


@pytest.fixture
def viewer() -> Client:
    return with_token(Role.VIEWER)


def ask(client: Client, **body: Any) -> Any:
    return client.post(f"{WAL}/checkpoint", json.dumps(body), content_type="application/json")


@on_sqlite
def test_a_checkpoint_is_accepted_and_carried_out(operator: Client, viewer: Client) -> None:
    fill_log()
    assert viewer.get(f"{WAL}/checkpoint/latest").status_code == 404
    answer = ask(operator, mode="restart", reason="nightly")
    assert answer.status_code == 202
    row = answer.json()
    assert (row["status"], row["requested_mode"], row["reason"]) == ("pending", "restart", "nightly")
    assert row["requested_by"] == "operator via token script"
    assert row["created_at"].endswith("Z")
    assert ask(operator).json()["id"] == row["id"], "asking again returns the one that waits"
    carry_out()
    latest = viewer.get(f"{WAL}/checkpoint/latest").json()
    assert (latest["id"], latest["status"], latest["checkpoint_busy"]) == (row["id"], "completed", 0)
    assert latest["checkpointed_frames"] == latest["checkpoint_log_frames"] > 0


@on_sqlite
def test_no_body_asks_for_a_passive_one(operator: Client) -> None:
    answer = operator.generic("POST", f"{WAL}/checkpoint")
    assert (answer.status_code, answer.json()["requested_mode"]) == (202, "passive")


@on_sqlite
def test_too_soon_is_429_with_the_wait(operator: Client) -> None:
    completed(seconds_ago=800)
    answer = ask(operator)
    assert answer.status_code == 429
    assert 80 <= int(answer["Retry-After"]) <= 100
    assert answer["Retry-After"] in answer.json()["detail"]
    assert answer["Content-Type"].startswith("application/json")
    forced = ask(operator, force=True)
    assert forced.status_code == 202


@on_sqlite
def test_what_is_not_allowed_is_409_and_what_is_not_is_422(operator: Client) -> None:
    refused = ask(operator, mode="truncate")
    assert refused.status_code == 409
    assert "DEDUPFS_WAL_MODES" in refused.json()["detail"]
    assert ask(operator, mode="full").status_code == 422
    assert ask(operator, mode="passive", forced=True).status_code == 422
    assert ask(operator, force="yes").status_code == 422
    assert ask(operator, reason="x" * 501).status_code == 422
    assert not WalMaintenanceJob.objects.exists()


def test_a_viewer_may_look_but_not_ask(viewer: Client) -> None:
    assert ask(viewer).status_code == 403
    assert viewer.get(f"{WAL}/metrics").status_code == 200
    assert Client().get(f"{WAL}/metrics").status_code == 401
    assert not WalMaintenanceJob.objects.exists()


@on_sqlite
def test_metrics_tell_size_limit_wait_and_rows(viewer: Client, settings: Settings) -> None:
    settings.WAL_BYTES = 5 << 20
    fill_log()
    completed(seconds_ago=100)
    WalMaintenanceJob.objects.create(status="retryable")
    told = viewer.get(f"{WAL}/metrics").json()
    assert told["applies"] is True
    assert told["wal_bytes"] > 100_000
    assert (told["limit_bytes"], told["interval_seconds"]) == (5 << 20, 900)
    assert 780 <= told["wait_seconds"] <= 800
    assert told["allowed_modes"] == ["passive", "restart"]
    assert told["by_status"] == {"completed": 1, "retryable": 1}
    assert told["last_completed_at"].endswith("Z")


@on_postgresql
def test_on_postgresql_it_does_not_apply(operator: Client) -> None:
    for answer in (ask(operator), ask(operator, force=True), operator.get(f"{WAL}/checkpoint/latest")):
        assert answer.status_code == 409
        assert "does not apply" in answer.json()["detail"]
    told = operator.get(f"{WAL}/metrics").json()
    assert (told["applies"], told["wal_bytes"]) == (False, None)
    assert "PostgreSQL" in told["detail"]
