"""Django's admin: every table can be looked at, none can be written, and admins may decide."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from accounts.models import Role
from duplicates import summary
from duplicates.models import (
    DuplicateGroup,
    FolderPair,
    FolderSearch,
    GroupChange,
    IgnoredGroup,
    Plan,
    PlanFile,
    PlanFolder,
    RuleSet,
    Summary,
)
from jobs.models import IoRateLimit, Job, WalMaintenanceJob, WorkerHeartbeat
from libraries.models import HashRun, HashState, LibraryFile, LibraryState, Rehash, ScanError, ScanRequest, ScanSession
from logbook.models import LogbookEvent, LogbookItem
from tests import factories
from thumbnails.models import Thumbnail, ThumbnailCleanupJob

pytestmark = pytest.mark.django_db

TABLES = {
    "jobs", "wal_maintenance_jobs", "io_rate_limits", "worker_heartbeats", "library_roots", "library_files",
    "scan_sessions", "thumbnails", "thumbnail_cleanup_jobs", "logbook_items", "logbook_events", "library_states",
    "scan_requests", "scan_errors", "hash_states", "hash_runs", "rehashes", "duplicate_groups", "duplicate_changes",
    "duplicate_summary", "ignored_groups", "rule_sets", "plans", "plan_files", "plan_folders", "folder_searches",
    "folder_pairs",
}  # fmt: skip
LEASED = (Job, WalMaintenanceJob, Thumbnail, ThumbnailCleanupJob, FolderSearch)


def logged_in(role: Role) -> Client:
    browser = Client()
    browser.force_login(factories.user(role.value, role), "django.contrib.auth.backends.ModelBackend")
    return browser


@pytest.fixture
def admin_browser() -> Client:
    return logged_in(Role.ADMIN)


@pytest.fixture
def operator_browser() -> Client:
    return logged_in(Role.OPERATOR)


def models_shown() -> list[type[Model]]:
    return [model for model in apps.get_models() if model._meta.db_table in TABLES]


def list_page(model: type[Model]) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")


def row_page(row: Model, page: str = "change") -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_{page}", args=[quote(row.pk)])


def one_of_each() -> dict[type[Model], Model]:
    """A row in every table, as full of content as rows get."""
    running, _ = factories.running_job("scan", payload={"library_id": 1})
    session = ScanSession.objects.create()
    digest: dict[str, Any] = {"hash_algorithm": "blake3", "content_hash": b"\x0f" * 32}
    file = factories.library_file("sub/ä.jpg", needs_hash=False, last_seen_scan=session, **digest)
    factories.library_file("twin", file.library, needs_hash=False, **digest)
    summary.bring_up_to_date()
    plan = Plan.objects.create(job=running, rule_set_name="<b>", created_by="otto")
    thumbnail = factories.pending_thumbnail("key", file, group_key="blake3:0f")
    rows: list[Model] = [
        running, session, file, file.library, thumbnail,
        WalMaintenanceJob.objects.create(reason="a <b>bold</b> reason"),
        IoRateLimit.objects.create(bucket_key="thumbnail_io_global"),
        WorkerHeartbeat.objects.create(worker_id="box:7", hostname="box", pid=7),
        ThumbnailCleanupJob.objects.create(group_key="blake3:0f"),
        LogbookItem.objects.get(item_type="jobs", subject_id=running.pk),
        LogbookEvent.objects.about("jobs", running.pk)[0],
        LibraryState.objects.create(library=file.library, filesystems={"": "uuid:<b>"}),
        ScanRequest.objects.create(library=file.library, job=running, status="running"),
        ScanError.objects.create(library=file.library, session=session, relative_path="<b>", reason="EIO: broken"),
        HashState.objects.create(id=1),
        HashRun.objects.create(job=running),
        Rehash.objects.create(file=file, content_hash=b"\x0f" * 32, size_bytes=1, mtime_ns=1),
        DuplicateGroup.objects.get(), Summary.objects.get(), GroupChange.objects.create(**digest),
        IgnoredGroup.objects.create(note="<b>", ignored_by="otto", **digest),
        RuleSet.objects.create(name="<b>", rules=[{"kind": "keep_oldest"}]),
        plan,
        PlanFile.objects.create(
            plan=plan, role="keep", file=file, library=file.library, relative_path="<b>", size_bytes=1, mtime_ns=1,
            **digest,
        ),
        PlanFolder.objects.create(plan=plan, library=file.library, folder="<b>"),
        search := FolderSearch.objects.create(requested_by="otto"),
        FolderPair.objects.create(
            search=search, left_library=file.library, left_folder="<b>", right_library=file.library, shared_files=1,
            shared_bytes=1, left_files=1, left_bytes=1, left_only_files=0, right_files=1, right_bytes=1,
            right_only_files=0,
        ),
    ]  # fmt: skip
    return {type(row): row for row in rows}


def act(browser: Client, action: str, *rows: Model) -> Any:
    data = {"action": action, "_selected_action": [str(row.pk) for row in rows], "index": "0"}
    return browser.post(list_page(type(rows[0])), data, follow=True)


def said(answer: Any) -> list[str]:
    return [str(message) for message in answer.context["messages"]]


# --- Looking ----------------------------------------------------------------------------------------------
def test_every_table_has_a_list_and_a_page_for_each_row(operator_browser: Client) -> None:
    rows = one_of_each()
    assert {model._meta.db_table for model in rows} == TABLES
    assert {model._meta.db_table for model in admin.site._registry} >= TABLES
    for model, row in rows.items():
        listed = operator_browser.get(list_page(model))
        assert listed.status_code == 200, model
        assert row_page(row) in listed.content.decode()
        assert operator_browser.get(row_page(row)).status_code == 200, model
        assert operator_browser.get(list_page(model), {"q": "nothing like this"}).status_code == 200, model


def test_filters_and_searches_find_rows(operator_browser: Client) -> None:
    rows = one_of_each()
    job, file = rows[Job], rows[LibraryFile]
    for model, query, found in (
        (Job, {"q": job.pk}, job),
        (Job, {"status__exact": "running"}, job),
        (Job, {"status__exact": "failed"}, None),
        (LibraryFile, {"q": "ä.jp"}, file),
        (LibraryFile, {"is_missing__exact": "1"}, None),
        (Thumbnail, {"q": "blake3:0f"}, rows[Thumbnail]),
        (LogbookEvent, {"about": "jobs"}, rows[LogbookEvent]),
        (LogbookEvent, {"about": "library_files"}, None),
        (LogbookItem, {"q": job.pk}, rows[LogbookItem]),
        (WorkerHeartbeat, {"stopped_at__isempty": "1"}, rows[WorkerHeartbeat]),
    ):
        listed = operator_browser.get(list_page(model), query)
        shown = list(listed.context["cl"].result_list)
        assert (found in shown) if found else not shown, (model, query)


def test_rows_link_to_one_another(operator_browser: Client) -> None:
    rows = one_of_each()
    for row, target in (
        (rows[LibraryFile], row_page(rows[LibraryFile].library)),  # type: ignore[attr-defined]
        (rows[LibraryFile], f"{list_page(Thumbnail)}?file__id__exact="),
        (rows[Thumbnail], row_page(rows[LibraryFile])),
        (rows[Thumbnail], f"{list_page(ThumbnailCleanupJob)}?q=blake3%3A0f"),
        (rows[LogbookEvent], row_page(rows[LogbookItem])),
        (rows[LogbookItem], row_page(rows[Job])),
        (rows[Job], f"{list_page(WorkerHeartbeat)}?q="),
    ):
        assert f'href="{target}' in operator_browser.get(row_page(row)).content.decode(), (row, target)


def test_history_of_a_row_is_its_logbook(operator_browser: Client) -> None:
    rows = one_of_each()
    factories.pending_job("thumbnail")
    answer = operator_browser.get(row_page(rows[Job], "history"), follow=True)
    assert answer.status_code == 200
    events = list(answer.context["cl"].result_list)
    assert {event.item.subject_id for event in events} == {rows[Job].pk}
    assert [event.status_to for event in events] == ["running", "pending"]


def test_a_page_escapes_what_is_in_the_row(operator_browser: Client) -> None:
    row = WalMaintenanceJob.objects.create(reason="<script>alert(1)</script>")
    assert "<script>alert(1)" not in operator_browser.get(row_page(row)).content.decode()


def test_a_long_table_is_neither_counted_nor_sorted_whole(operator_browser: Client) -> None:
    Job.objects.bulk_create([Job(pk=str(uuid.uuid4()), kind="thumbnail") for _ in range(60)])
    with CaptureQueriesContext(connection) as queries:
        listed = operator_browser.get(list_page(Job), {"o": "3.2"})
    assert len(listed.context["cl"].result_list) == 50
    counting = [query["sql"] for query in queries if "COUNT(" in query["sql"] and '"jobs"' in query["sql"]]
    assert counting
    assert all("LIMIT" in sql for sql in counting)
    assert listed.context["cl"].queryset.query.order_by == ("-created_at", "-id")


def test_a_nul_in_the_address_finds_nothing(operator_browser: Client) -> None:
    job = factories.pending_job()
    assert operator_browser.get(f"{list_page(Job)}%00/change/").status_code == 302
    assert operator_browser.get(list_page(Job), {"status__exact": "\0"}).status_code == 400
    assert operator_browser.post(list_page(Job), {"_selected_action": "\0"}).status_code == 400
    job.refresh_from_db()
    assert job.status == "pending"


# --- Writing ----------------------------------------------------------------------------------------------
def test_nobody_adds_changes_or_deletes_by_hand(admin_browser: Client) -> None:
    for model, row in one_of_each().items():
        before = model._default_manager.values().get(pk=row.pk)
        count = model._default_manager.count()
        add = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_add")
        for address, data in (
            (add, {"kind": "scan", "name": "x", "root_path": "/"}),
            (row_page(row), {"status": "completed", "name": "changed", "_save": "1"}),
            (row_page(row, "delete"), {"post": "yes"}),
        ):
            assert admin_browser.post(address, data).status_code == 403, address
        assert admin_browser.get(add).status_code == 403
        act(admin_browser, "delete_selected", row)
        assert model._default_manager.values().get(pk=row.pk) == before, model
        assert model._default_manager.count() == count, model


def test_admins_cancel_jobs_and_hear_what_was_refused(admin_browser: Client) -> None:
    done, waiting = factories.finished_job("scan"), factories.pending_job("hash")
    messages = said(act(admin_browser, "cancel", done, waiting))
    assert [done.pk in text and "completed" in text for text in messages].count(True) == 1
    done.refresh_from_db()
    waiting.refresh_from_db()
    assert (done.status, waiting.status) == ("completed", "cancelled")
    assert LogbookEvent.objects.about("jobs", waiting.pk).get(event_type="cancel").actor == "admin"


def test_admins_put_jobs_back_one_by_one(admin_browser: Client) -> None:
    first = factories.finished_job("scan", status="retryable")
    second = factories.finished_job("scan", status="retryable")
    messages = said(act(admin_browser, "reset", first, second))
    assert sorted(Job.objects.values_list("status", flat=True)) == ["pending", "retryable"]
    assert len(messages) == 2
    assert any("only one scan or hash job" in text for text in messages)


def test_admins_take_back_rows_of_each_leased_table(admin_browser: Client) -> None:
    factories.pending_job("scan")
    WalMaintenanceJob.objects.create()
    factories.pending_thumbnail()
    ThumbnailCleanupJob.objects.create(group_key="blake3:00")
    FolderSearch.objects.create()
    for model in LEASED:
        lease = model.objects.claim("gone")
        assert lease is not None
        assert any("0 rows" in text for text in said(act(admin_browser, "recover", lease.row)))
        lease.row.refresh_from_db()
        assert lease.row.status == "running"
        factories.expire(lease.row)
        assert any("1 row" in text for text in said(act(admin_browser, "recover", lease.row)))
        lease.row.refresh_from_db()
        assert lease.row.status == model.lease_rules.recovered
        assert lease.row.error_code == "LEASE_EXPIRED"


def test_recover_leaves_rows_that_were_not_chosen(admin_browser: Client) -> None:
    chosen, other = factories.running_job("thumbnail")[0], factories.running_job("thumbnail")[0]
    factories.expire(chosen)
    factories.expire(other)
    act(admin_browser, "recover", chosen)
    chosen.refresh_from_db()
    other.refresh_from_db()
    assert (chosen.status, other.status) == ("retryable", "running")


def test_operators_look_but_have_no_actions(operator_browser: Client) -> None:
    job, _ = factories.running_job()
    factories.expire(job)
    for action in ("cancel", "reset", "recover", "delete_selected"):
        act(operator_browser, action, job)
    job.refresh_from_db()
    assert job.status == "running"
    assert 'name="action"' not in operator_browser.get(list_page(Job)).content.decode()


def test_viewers_and_strangers_see_no_table(client: Client) -> None:
    job = factories.pending_job()
    viewer = logged_in(Role.VIEWER)
    for model in models_shown():
        assert client.get(list_page(model)).status_code == 302
        assert viewer.get(list_page(model)).status_code == 403
    for browser in (client, viewer):
        browser.post(list_page(Job), {"action": "cancel", "_selected_action": [job.pk], "index": "0"})
    job.refresh_from_db()
    assert job.status == "pending"
