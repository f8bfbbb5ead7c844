"""The scan queue's endpoints of `/api/v1`, by their addresses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from accounts.models import Role
from database.clock import SecondsFromNow
from jobs.models import Job
from libraries.models import HashState, LibraryRoot, ScanRequest
from tests import factories
from tests.pages import with_token

pytestmark = pytest.mark.django_db

QUEUE = "/api/v1/scan-requests"
FIELDS = {
    "id", "library_id", "priority", "status", "requested_by", "accept_missing", "job_id", "attempts", "created_at",
    "started_at", "completed_at", "progress", "result", "error",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _hashing_waits() -> None:
    HashState.objects.create(pk=1, is_paused=True)


@pytest.fixture
def operator() -> Client:
    return with_token(Role.OPERATOR)


def scan(client: Client, library: LibraryRoot | int, body: Any = None) -> Any:
    key = library if isinstance(library, int) else library.pk
    data = "" if body is None else json.dumps(body)
    return client.post(f"/api/v1/libraries/{key}/scan", data, content_type="application/json")


def cancel(client: Client, key: str) -> Any:
    return client.post(f"{QUEUE}/{key}/cancel")


def test_a_scan_is_asked_for_and_answered_at_once(operator: Client) -> None:
    library = factories.library()
    answer = scan(operator, library)
    assert answer.status_code == 202
    told = answer.json()
    assert set(told) == FIELDS
    row = ScanRequest.objects.get()
    assert (told["id"], told["library_id"], told["status"], told["priority"]) == (row.pk, library.pk, "pending", 1)
    assert (told["progress"], told["result"], told["error"], told["started_at"]) == (None, None, None, None)
    assert told["requested_by"] == "operator via token script"
    assert told["created_at"].endswith("Z")
    assert told["job_id"] == Job.objects.get().pk
    assert Job.objects.get().status == "pending", "nothing is scanned inside the request"


def test_asking_again_answers_with_the_same_request(operator: Client) -> None:
    library = factories.library()
    first = scan(operator, library).json()
    again = scan(operator, library, {"accept_missing": True})
    assert (again.status_code, again.json()["id"], again.json()["accept_missing"]) == (202, first["id"], True)


@pytest.mark.parametrize("body", [{"accept_missing": "yes"}, {"accept_mising": True}, [], "x"])
def test_a_body_that_is_not_as_described_is_refused(operator: Client, body: Any) -> None:
    assert scan(operator, factories.library(), body).status_code == 422
    assert not ScanRequest.objects.exists()


def test_a_library_that_is_unknown_or_paused_is_refused(operator: Client) -> None:
    library = factories.library()
    assert scan(operator, library.pk + 1).status_code == 404
    assert scan(operator, 2**64).status_code == 422
    LibraryRoot.objects.update(is_paused=True)
    paused = scan(operator, library)
    assert paused.status_code == 409
    assert "Resume it" in paused.json()["detail"]


def test_a_viewer_looks_and_does_not_act(operator: Client) -> None:
    viewer = with_token(Role.VIEWER)
    library = factories.library()
    assert scan(viewer, library).status_code == 403
    key = scan(operator, library).json()["id"]
    assert cancel(viewer, key).status_code == 403
    assert viewer.get(f"{QUEUE}/{key}").json()["id"] == key
    assert viewer.get(QUEUE).status_code == 200


def test_the_queue_shows_what_waits_in_order_what_runs_and_what_ended(operator: Client) -> None:
    libraries = [factories.library(name) for name in "abcd"]
    keys = [scan(operator, library).json()["id"] for library in libraries]
    lease = Job.objects.claim("w")
    assert lease is not None
    ScanRequest.objects.filter(pk=keys[2]).update(priority=0)
    cancel(operator, keys[3])
    queue = operator.get(QUEUE).json()
    assert queue.pop("next_cursor") is None
    assert {name: [row["id"] for row in rows] for name, rows in queue.items()} == {
        "pending": [keys[1], keys[2]],
        "processing": [keys[0]],
        "history": [keys[3]],
    }


def test_the_history_is_as_long_as_asked_for_and_nothing_is_deleted(operator: Client) -> None:
    library = factories.library()
    for hours in range(60):
        at = SecondsFromNow(-hours * 60)
        ScanRequest.objects.create(library=library, status="completed", completed_at=at)
    old = ScanRequest.objects.create(library=library, status="failed", completed_at=SecondsFromNow(-90000))
    assert len(operator.get(QUEUE).json()["history"]) == 50
    everything = operator.get(QUEUE, {"limit": 200}).json()["history"]
    assert len(everything) == 60
    assert everything == sorted(everything, key=lambda row: row["completed_at"], reverse=True)
    assert operator.get(QUEUE, {"limit": 0}).status_code == 422
    told: list[Any] = []
    address: str | None = f"{QUEUE}?limit=25"
    while address is not None:
        page = operator.get(address).json()
        told += page["history"]
        address = f"{QUEUE}?limit=25&cursor={page['next_cursor']}" if page["next_cursor"] else None
    assert told == everything, "page by page it is all there, too"
    for unknown in ("", "x", "\0"):
        assert operator.get(QUEUE, {"cursor": unknown}).status_code == 422
    assert operator.get(f"{QUEUE}/{old.pk}").json()["status"] == "failed", "by its id it is there until it is pruned"


def test_progress_and_result_are_told(operator: Client) -> None:
    key = scan(operator, factories.library()).json()["id"]
    lease = Job.objects.claim("w")
    assert lease is not None
    address = f"{QUEUE}/{key}"
    assert operator.get(address).json()["progress"] == {"scanned_paths": 0, "total_paths": 0, "percentage": 0}
    ScanRequest.objects.update(scanned_paths=1, total_paths=3)
    running = operator.get(address).json()
    assert running["progress"] == {"scanned_paths": 1, "total_paths": 3, "percentage": 33.3}
    assert (running["status"], running["result"]) == ("running", None)
    ScanRequest.objects.update(scanned_paths=4, added_count=1, changed_count=2, removed_count=3, failed_count=4)
    lease.finish("completed")
    ended = operator.get(address).json()
    assert ended["progress"]["percentage"] == 100
    assert ended["result"] == {"added_count": 1, "changed_count": 2, "removed_count": 3, "failed_count": 4}
    assert ended["completed_at"] is not None


def test_cancelling_answers_with_the_cancelled_request(operator: Client) -> None:
    key = scan(operator, factories.library()).json()["id"]
    answer = cancel(operator, key)
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    assert Job.objects.get().status == "cancelled"


def test_cancelling_what_has_ended_says_how_and_what_is_unknown_is_not_there(operator: Client) -> None:
    key = scan(operator, factories.library()).json()["id"]
    lease = Job.objects.claim("w")
    assert lease is not None
    lease.finish("completed")
    answer = cancel(operator, key)
    assert answer.status_code == 400
    assert "is completed" in answer.json()["detail"]
    for nobody in ("nobody", "x" * 500, "%00"):
        assert cancel(operator, nobody).status_code == 404
        assert operator.get(f"{QUEUE}/{nobody}").status_code == 404
