"""The job endpoints of `/api/v1`, by their addresses."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from accounts.models import Role
from database.clock import SecondsFromNow
from jobs.models import Job
from logbook.models import LogbookEvent
from tests import factories
from tests.pages import with_token

pytestmark = pytest.mark.django_db

JOBS = "/api/v1/jobs"
JSON = "application/json"
#: The forms in which the protocol allows a time to be written.
TIME_FORMS = ("2026-01-01 00:00:00", "2026-01-01 00:00:00.500", "2026-01-01 00:00:00.500000")


@pytest.fixture
def operator() -> Client:
    return with_token(Role.OPERATOR)


@pytest.fixture
def viewer() -> Client:
    return with_token(Role.VIEWER)


def post(client: Client, path: str, body: Any = None) -> Any:
    data = body if isinstance(body, str | bytes) else json.dumps({} if body is None else body)
    return client.post(f"{JOBS}{path}", data, content_type=JSON)


def insert_job(created_at: str, *, kind: str = "thumbnail", status: str = "completed") -> str:
    """A row as another program writes it: plain SQL, and a time in a form of its own."""
    key = str(uuid.uuid4())
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO jobs (id, kind, status, created_at) VALUES (%s, %s, %s, %s)",
            [key, kind, status, created_at],
        )
    return key


def walk(client: Client, limit: int, *, between: Callable[[], Any] = lambda: None, **filters: str) -> list[str]:
    """Follow `next_cursor` to the end; return the ids in the order they came."""
    seen: list[str] = []
    cursor: dict[str, str] = {}
    for _ in range(1000):
        answer = client.get(JOBS, {"limit": str(limit), **filters, **cursor})
        assert answer.status_code == 200, answer.content
        page = answer.json()
        seen += [item["id"] for item in page["items"]]
        if page["next_cursor"] is None:
            return seen
        assert len(page["items"]) == limit
        cursor = {"cursor": page["next_cursor"]}
        between()
    raise AssertionError("the walk doesn't end")


# --- Listing ----------------------------------------------------------------------------------------------
def test_list_is_empty_at_first(viewer: Client) -> None:
    assert viewer.get(JOBS).json() == {"items": [], "next_cursor": None}


def test_list_shows_the_newest_first(viewer: Client) -> None:
    old, new = insert_job("2026-01-01 00:00:00"), insert_job("2026-01-02 00:00:00")
    assert [item["id"] for item in viewer.get(JOBS).json()["items"]] == [new, old]


@pytest.mark.parametrize("limit", [1, 2, 5, 200])
def test_walk_visits_every_row_once_whatever_form_its_time_has(viewer: Client, limit: int) -> None:
    for _ in range(4):
        for form in TIME_FORMS:
            insert_job(form)
    factories.pending_job("thumbnail")  # and one with the time as the database writes it
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM jobs ORDER BY created_at DESC, id DESC")
        expected = [key for (key,) in cursor.fetchall()]
    assert walk(viewer, limit) == expected
    assert len(set(expected)) == 13


def test_walk_neither_repeats_nor_misses_while_rows_are_added(viewer: Client) -> None:
    there = {insert_job(form) for form in TIME_FORMS for _ in range(5)}

    def add() -> None:
        factories.pending_job("thumbnail")
        for form in TIME_FORMS:
            insert_job(form)
        insert_job("2027-01-01 00:00:00")

    added = iter(range(6))
    seen = walk(viewer, 3, between=lambda: add() if next(added, None) is not None else None)
    assert len(seen) == len(set(seen))
    assert there <= set(seen)


def test_walk_goes_on_when_the_last_row_leaves_the_filter(viewer: Client) -> None:
    jobs = [insert_job(f"2026-01-0{day} 00:00:00", status="pending") for day in range(1, 7)]
    page = viewer.get(JOBS, {"limit": "2", "status": "pending"}).json()
    Job.objects.filter(pk=page["next_cursor"]).update(status="cancelled")
    rest = viewer.get(JOBS, {"limit": "200", "status": "pending", "cursor": page["next_cursor"]}).json()
    assert [item["id"] for item in rest["items"]] == jobs[3::-1]


def test_list_filters_by_kind_and_status(viewer: Client) -> None:
    factories.finished_job("scan")
    factories.finished_job("thumbnail")
    factories.pending_job("thumbnail")
    for filters, count in (
        ({"kind": "scan"}, 1),
        ({"kind": "thumbnail"}, 2),
        ({"status": "completed"}, 2),
        ({"status": "failed"}, 0),
        ({"kind": "thumbnail", "status": "pending"}, 1),
    ):
        items = viewer.get(JOBS, filters).json()["items"]
        assert len(items) == count, filters
        assert all(item[name] == value for item in items for name, value in filters.items())


def test_list_has_fifty_rows_unless_asked_otherwise(viewer: Client) -> None:
    Job.objects.bulk_create([Job(kind="thumbnail") for _ in range(60)])
    assert len(viewer.get(JOBS).json()["items"]) == 50
    assert len(viewer.get(JOBS, {"limit": 200}).json()["items"]) == 60


BAD_QUERIES = [
    "limit=0", "limit=201", "limit=-1", "limit=ten", "limit=", "limit=1e9999", f"limit={'9' * 5000}",
    "kind=sync", "kind=SCAN", "status=", "cursor=", "cursor=nobody", "cursor=%00", "kind=%00", "cursor=%27--",
    f"cursor={'x' * 5000}",
]  # fmt: skip


def test_list_refuses_what_it_does_not_know(viewer: Client) -> None:
    for query in BAD_QUERIES:
        answer = viewer.get(f"{JOBS}?{query}")
        assert answer.status_code == 422, query
        assert isinstance(answer.json()["detail"], str), query


# --- One job ----------------------------------------------------------------------------------------------
def test_job_shows_every_column_of_the_table(viewer: Client) -> None:
    job, _ = factories.running_job(payload={"library_id": 7})
    answer = viewer.get(f"{JOBS}/{job.pk}")
    assert answer.status_code == 200
    with connection.cursor() as cursor:
        columns = {column.name for column in connection.introspection.get_table_description(cursor, "jobs")}
    assert set(answer.json()) == columns
    assert answer.json()["payload"] == {"library_id": 7}
    assert answer.json()["status"] == "running"


def test_times_are_utc_and_say_so(viewer: Client) -> None:
    keys = [insert_job(form) for form in TIME_FORMS]
    shown = [viewer.get(f"{JOBS}/{key}").json()["created_at"] for key in keys]
    assert shown == ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.500Z", "2026-01-01T00:00:00.500Z"]
    job = viewer.get(f"{JOBS}/{factories.finished_job().pk}").json()
    times = [value for name, value in job.items() if name.endswith("_at") and value]
    assert len(times) == 5
    assert all(time.endswith("Z") for time in times)


HOSTILE = ["nobody", "%00", "a%00b", "'%20OR%20''='", "%22", "%F0%9F%98%80", "%FF%FE", "x" * 5000, "a%2Fb", "%0A"]


@pytest.mark.parametrize(("verb", "body"), [
    (None, None), ("cancel", {}), ("reset", {}), ("heartbeat", {"worker_id": "w"}),
    ("finish", {"worker_id": "w", "status": "completed"}),
])  # fmt: skip
def test_unknown_job_is_404_however_it_is_spelled(operator: Client, verb: str | None, body: Any) -> None:
    factories.running_job()
    for key in HOSTILE:
        answer = operator.get(f"{JOBS}/{key}") if verb is None else post(operator, f"/{key}/{verb}", body)
        assert answer.status_code == 404, key
        assert isinstance(answer.json()["detail"], str), key
    assert Job.objects.get().status == "running"


# --- Creating ---------------------------------------------------------------------------------------------
def test_create_makes_a_waiting_job_and_says_who_asked(operator: Client) -> None:
    answer = post(operator, "", {"kind": "scan", "dry_run": True, "payload": {"library_id": 3}})
    assert answer.status_code == 201
    job = Job.objects.get()
    assert (job.pk, job.kind, job.status, job.dry_run) == (answer.json()["id"], "scan", "pending", True)
    assert job.payload == {"library_id": 3}
    asked = LogbookEvent.objects.about("jobs", job.pk).get(event_type="requested")
    assert asked.actor == "operator via token script"


def test_create_refuses_a_second_active_scan_or_hash_and_names_the_first(operator: Client) -> None:
    first = factories.pending_job("scan")
    answer = post(operator, "", {"kind": "hash"})
    assert answer.status_code == 409
    assert first.pk in answer.json()["detail"]
    assert Job.objects.count() == 1


def test_create_refuses_to_delete_files_without_a_plan(operator: Client) -> None:
    assert post(operator, "", {"kind": "delete"}).status_code == 409
    assert not Job.objects.exists()
    assert post(operator, "", {"kind": "delete", "dry_run": True}).status_code == 201


DEEP = '{"kind": "scan", "payload": ' + '{"a": ' * 500 + "1" + "}" * 500 + "}"
BAD_BODIES = {
    "nothing": "",
    "no json": "{kind: scan}",
    "not utf-8": b'{"kind": "scan", "payload": {"a": "\xff"}}',
    "a list": "[]",
    "null": "null",
    "no kind": "{}",
    "unknown kind": '{"kind": "sync"}',
    "upper case": '{"kind": "SCAN"}',
    "a word for a truth": '{"kind": "scan", "dry_run": "yes"}',
    "a mistyped field": '{"kind": "scan", "dryrun": true}',
    "payload is a list": '{"kind": "scan", "payload": []}',
    "NaN": '{"kind": "scan", "payload": {"a": NaN}}',
    "infinity": '{"kind": "scan", "payload": {"a": [1e999]}}',
    "NUL in a value": '{"kind": "scan", "payload": {"a": "b\\u0000"}}',
    "NUL in a name": '{"kind": "scan", "payload": {"\\u0000": 1}}',
    "half a surrogate": '{"kind": "scan", "payload": {"a": "\\ud800"}}',
    "nested deeply": DEEP,
    "nested absurdly": "[" * 100_000,
    "payload too long": json.dumps({"kind": "scan", "payload": {"a": "x" * 70_000}}),
}


def test_create_refuses_a_body_it_can_not_store(operator: Client) -> None:
    for name, body in BAD_BODIES.items():
        answer = post(operator, "", body)
        assert answer.status_code == 422, name
        assert isinstance(answer.json()["detail"], str), name
    assert not Job.objects.exists()


def test_a_refused_field_is_named(operator: Client) -> None:
    detail = post(operator, "", {"kind": "scan", "dry_run": "yes", "more": 1}).json()["detail"]
    assert "dry_run: " in detail
    assert "more: " in detail


def test_a_body_of_megabytes_is_413(operator: Client) -> None:
    answer = post(operator, "", '{"kind": "' + "x" * 3_000_000 + '"}')
    assert answer.status_code == 413
    assert isinstance(answer.json()["detail"], str)


# --- Deciding ---------------------------------------------------------------------------------------------
def test_cancel_ends_a_running_job_and_frees_the_slot(operator: Client) -> None:
    job, _ = factories.running_job("scan")
    answer = post(operator, f"/{job.pk}/cancel", {"reason": "wrong library"})
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    event = LogbookEvent.objects.about("jobs", job.pk).get(event_type="cancel")
    assert (event.actor, event.payload_json) == ("operator via token script", {"reason": "wrong library"})
    assert post(operator, "", {"kind": "hash"}).status_code == 201


def test_cancel_needs_no_body(operator: Client) -> None:
    job = factories.pending_job()
    assert operator.generic("POST", f"{JOBS}/{job.pk}/cancel").status_code == 200
    job.refresh_from_db()
    assert job.status == "cancelled"


@pytest.mark.parametrize("verb", ["cancel", "reset"])
def test_a_finished_job_is_left_alone(operator: Client, verb: str) -> None:
    job = factories.finished_job()
    answer = post(operator, f"/{job.pk}/{verb}")
    assert answer.status_code == 409
    assert "completed" in answer.json()["detail"]
    job.refresh_from_db()
    assert job.status == "completed"


def test_reset_puts_a_retryable_job_back(operator: Client) -> None:
    job = factories.finished_job(status="retryable")
    answer = post(operator, f"/{job.pk}/reset")
    assert (answer.status_code, answer.json()["status"]) == (200, "pending")
    job.refresh_from_db()
    assert job.status == "pending"


def test_reset_is_refused_while_the_slot_is_taken(operator: Client) -> None:
    job = factories.finished_job("scan", status="retryable")
    holder = factories.pending_job("hash")
    answer = post(operator, f"/{job.pk}/reset")
    assert answer.status_code == 409
    assert holder.pk in answer.json()["detail"]
    job.refresh_from_db()
    assert job.status == "retryable"


def test_recover_stale_takes_back_what_lost_its_lease(operator: Client) -> None:
    job, _ = factories.running_job("thumbnail")
    held, _ = factories.running_job("thumbnail")
    factories.expire(job)
    answer = post(operator, "/recover-stale")
    assert (answer.status_code, answer.json()) == (200, {"recovered": 1})
    job.refresh_from_db()
    held.refresh_from_db()
    assert (job.status, job.error_code, job.worker_id) == ("retryable", "LEASE_EXPIRED", None)
    assert held.status == "running"
    assert post(operator, "/recover-stale").json() == {"recovered": 0}


# --- Carrying out -----------------------------------------------------------------------------------------
def test_claim_is_204_where_nothing_is_due(operator: Client) -> None:
    factories.pending_job("thumbnail")
    factories.pending_job("delete", dry_run=True)
    answer = post(operator, "/scan-hash/claim", {"worker_id": "w"})
    assert (answer.status_code, answer.content) == (204, b"")
    assert not Job.objects.filter(status="running").exists()


def test_a_worker_elsewhere_claims_reports_and_finishes(operator: Client) -> None:
    job = factories.pending_job("hash")
    claimed = post(operator, "/scan-hash/claim", {"worker_id": " box:1 ", "lease_seconds": 60})
    assert claimed.status_code == 200
    assert (claimed.json()["id"], claimed.json()["worker_id"]) == (job.pk, "box:1")
    assert Job.objects.filter(
        pk=job.pk, lease_expires_at__gt=SecondsFromNow(30), lease_expires_at__lt=SecondsFromNow(61)
    ).exists()
    beat = {"worker_id": "box:1", "processed_items": 5, "total_items": 10}
    assert post(operator, f"/{job.pk}/heartbeat", beat).json()["progress"] == 0.5
    done = post(operator, f"/{job.pk}/finish", {"worker_id": "box:1", "status": "completed"})
    assert done.status_code == 200
    job.refresh_from_db()
    assert (job.status, job.progress, job.processed_items, job.lease_expires_at) == ("completed", 1.0, 5, None)


def test_a_heartbeat_may_tell_only_the_total_or_ask_for_a_longer_lease(operator: Client) -> None:
    job = factories.pending_job()
    post(operator, "/scan-hash/claim", {"worker_id": "w"})
    post(operator, f"/{job.pk}/heartbeat", {"worker_id": "w", "processed_items": 3})
    beat = post(operator, f"/{job.pk}/heartbeat", {"worker_id": "w", "total_items": 8.0, "lease_seconds": 3600})
    assert (beat.json()["processed_items"], beat.json()["total_items"]) == (3, 8)
    assert Job.objects.filter(pk=job.pk, lease_expires_at__gt=SecondsFromNow(3000)).exists()
    assert beat["Cache-Control"] == "no-store"


def test_claim_takes_a_lease_of_the_settings_length_unless_told(operator: Client, settings: Any) -> None:
    settings.LEASE_SECONDS = 1000
    job = factories.pending_job()
    post(operator, "/scan-hash/claim", {"worker_id": "w"})
    assert Job.objects.filter(pk=job.pk, lease_expires_at__gt=SecondsFromNow(900)).exists()


def test_a_failed_job_keeps_what_the_worker_said(operator: Client) -> None:
    job = factories.pending_job()
    post(operator, "/scan-hash/claim", {"worker_id": "w"})
    outcome = {"worker_id": "w", "status": "failed", "error_code": "WORKER_FAILURE", "error_message": "disk gone"}
    assert post(operator, f"/{job.pk}/finish", outcome).status_code == 200
    job.refresh_from_db()
    assert (job.status, job.error_code, job.error_message) == ("failed", "WORKER_FAILURE", "disk gone")


def lose_by_time(job: Job, operator: Client) -> None:
    factories.expire(job)


def lose_by_recovery(job: Job, operator: Client) -> None:
    factories.expire(job)
    post(operator, "/recover-stale")


def lose_by_cancel(job: Job, operator: Client) -> None:
    post(operator, f"/{job.pk}/cancel")


def lose_to_another(job: Job, operator: Client) -> None:
    lose_by_recovery(job, operator)
    post(operator, f"/{job.pk}/reset")
    assert post(operator, "/scan-hash/claim", {"worker_id": "new"}).status_code == 200


@pytest.mark.parametrize("lose", [lose_by_time, lose_by_recovery, lose_by_cancel, lose_to_another])
def test_a_lost_claim_changes_nothing(operator: Client, lose: Callable[[Job, Client], None]) -> None:
    job = factories.pending_job("scan")
    post(operator, "/scan-hash/claim", {"worker_id": "old"})
    lose(job, operator)
    before = Job.objects.values().get(pk=job.pk)
    for verb, more in (("heartbeat", {"processed_items": 9}), ("finish", {"status": "completed"})):
        answer = post(operator, f"/{job.pk}/{verb}", {"worker_id": "old", **more})
        assert answer.status_code == 409
        assert isinstance(answer.json()["detail"], str)
    assert Job.objects.values().get(pk=job.pk) == before


TOO_MUCH = 2**63
BAD_REPORTS = [
    ("/scan-hash/claim", {}),
    ("/scan-hash/claim", {"worker_id": ""}),
    ("/scan-hash/claim", {"worker_id": " \t\n"}),
    ("/scan-hash/claim", {"worker_id": "\u3000"}),
    ("/scan-hash/claim", {"worker_id": "w" * 129}),
    ("/scan-hash/claim", {"worker_id": "w\0"}),
    ("/scan-hash/claim", {"worker_id": 7}),
    ("/scan-hash/claim", {"worker_id": None}),
    ("/scan-hash/claim", {"worker_id": "w", "lease_seconds": 0}),
    ("/scan-hash/claim", {"worker_id": "w", "lease_seconds": -5}),
    ("/scan-hash/claim", {"worker_id": "w", "lease_seconds": 86401}),
    ("/scan-hash/claim", {"worker_id": "w", "lease_seconds": "60"}),
    ("/{id}/heartbeat", {"worker_id": " "}),
    ("/{id}/heartbeat", {"worker_id": "held", "lease_seconds": 0}),
    ("/{id}/heartbeat", {"worker_id": "held", "processed_items": 1.5}),
    ("/{id}/heartbeat", {"worker_id": "held", "processed_items": -1}),
    ("/{id}/heartbeat", {"worker_id": "held", "total_items": -1}),
    ("/{id}/heartbeat", {"worker_id": "held", "processed_items": TOO_MUCH}),
    ("/{id}/heartbeat", {"worker_id": "held", "processed_items": True}),
    ("/{id}/finish", {"worker_id": "", "status": "completed"}),
    ("/{id}/finish", {"worker_id": "held"}),
    ("/{id}/finish", {"worker_id": "held", "status": "cancelled"}),
    ("/{id}/finish", {"worker_id": "held", "status": "pending"}),
    ("/{id}/finish", {"worker_id": "held", "status": "running"}),
    ("/{id}/finish", {"worker_id": "held", "status": "failed", "error_code": "x" * 65}),
    ("/{id}/finish", {"worker_id": "held", "status": "failed", "error_message": "x" * 10_001}),
]


def test_a_worker_that_talks_nonsense_is_422_and_nothing_changes(operator: Client) -> None:
    job = factories.pending_job("scan")
    Job.objects.filter(pk=job.pk).claim("w", fence="held")
    before = Job.objects.values().get()
    for path, body in BAD_REPORTS:
        answer = post(operator, path.format(id=job.pk), body)
        assert answer.status_code == 422, body
        assert isinstance(answer.json()["detail"], str), body
    assert Job.objects.values().get() == before


def test_a_worker_id_of_128_characters_is_taken(operator: Client) -> None:
    factories.pending_job()
    assert post(operator, "/scan-hash/claim", {"worker_id": "w" * 128}).status_code == 200


# --- Doors ------------------------------------------------------------------------------------------------
READING = ["", "/{id}"]
WRITING = [
    "", "/recover-stale", "/scan-hash/claim", "/{id}/cancel", "/{id}/reset", "/{id}/heartbeat", "/{id}/finish",
]  # fmt: skip


def test_a_stranger_gets_401_everywhere(client: Client) -> None:
    job, _ = factories.running_job()
    answers = [client.get(f"{JOBS}{path.format(id=job.pk)}") for path in READING]
    answers += [post(client, path.format(id=job.pk), {"worker_id": "w", "kind": "hash"}) for path in WRITING]
    answers += [client.put(JOBS), client.get(f"{JOBS}/a/b/c"), client.get("/api/v1/"), client.get(f"{JOBS}/%00")]
    for answer in answers:
        assert answer.status_code == 401
        assert set(answer.json()) == {"detail"}
        assert answer["WWW-Authenticate"] == "Bearer"
    job.refresh_from_db()
    assert job.status == "running"


def test_a_viewer_may_read_and_nothing_else(viewer: Client) -> None:
    job, _ = factories.running_job()
    for path in READING:
        assert viewer.get(f"{JOBS}{path.format(id=job.pk)}").status_code == 200
    for path in WRITING:
        answer = post(viewer, path.format(id=job.pk), {"worker_id": "w", "kind": "thumbnail"})
        assert answer.status_code == 403
        assert set(answer.json()) == {"detail"}
    job.refresh_from_db()
    assert (job.status, Job.objects.count()) == ("running", 1)


def test_a_session_needs_the_csrf_token_to_act() -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(factories.user("otto", Role.OPERATOR), "django.contrib.auth.backends.ModelBackend")
    assert browser.get(JOBS).status_code == 200
    answer = post(browser, "", {"kind": "scan"})
    assert answer.status_code == 403
    assert set(answer.json()) == {"detail"}
    assert not Job.objects.exists()


def test_an_address_nobody_has_is_404_in_json(operator: Client) -> None:
    for answer in (
        operator.get("/api/v1/"), operator.get("/api/v1/nothing/here"), operator.get(f"{JOBS}/"),
        post(operator, "/a/b/c"),
    ):  # fmt: skip
        assert answer.status_code == 404
        assert set(answer.json()) == {"detail"}


def test_a_method_nobody_takes_is_405_in_json(operator: Client) -> None:
    for answer, allowed in (
        (operator.put(JOBS), "GET, POST"),
        (operator.delete(f"{JOBS}/x"), "GET"),
        (operator.get(f"{JOBS}/x/cancel"), "POST"),
    ):
        assert answer.status_code == 405
        assert set(answer.json()) == {"detail"}
        assert answer["Allow"] == allowed
