"""`/metrics`: who gets it, that Prometheus can read it, and that its figures are those of the database."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable

import pytest
import yaml
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from accounts.models import ApiToken, Role
from database.clock import SecondsFromNow
from duplicates import summary
from frame import slow_figures
from jobs import deciding
from jobs.executing import sweep_all
from jobs.models import IoRateLimit, Job, WalMaintenanceJob, WorkerHeartbeat
from jobs.recovery_counting import RECOVERIES
from libraries.models import HashRun, LibraryRoot, LibraryState, ScanRequest, ScanSession
from libraries.names import to_text
from logbook.counting import EventCount
from logbook.models import write_event
from tests import factories
from tests.conftest import ROOT
from tests.jobs.checkpoints import completed
from tests.pages import logged_in
from thumbnails.models import Thumbnail, ThumbnailCleanupJob
from thumbnails.render_counting import RENDERS
from trash.models import Act

pytestmark = pytest.mark.django_db

HOSTILE = to_text(b'a"b\\c\nd\re {x="1"} \xe9 <script> # HELP')
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def script() -> Client:
    _, secret = ApiToken.issue(factories.user(), "prometheus", Role.VIEWER)
    return Client(headers={"Authorization": f"Bearer {secret}"})


def flat(families: Iterable[Metric]) -> Series:
    """Every series with its value; none may be there twice, which Prometheus would refuse."""
    samples = [(each.name, frozenset(each.labels.items()), each.value) for one in families for each in one.samples]
    found = {(name, labels): value for name, labels, value in samples}
    assert len(found) == len(samples)
    return found


def read(client: Client) -> Series:
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/plain; version=0.0.4")
    return flat(parse(answer.content.decode()))


def value(found: Series, name: str, **labels: str) -> float:
    return found[(f"dedupfs_{name}", frozenset(labels.items()))]


# --- Who --------------------------------------------------------------------------------------------------
def test_only_a_token_opens_it(script: Client) -> None:
    stranger = Client().get("/metrics")
    assert (stranger.status_code, stranger["WWW-Authenticate"]) == (401, "Bearer")
    assert "API token" in stranger.json()["detail"]
    unknown = Client(headers={"Authorization": "Bearer dfs_made-up"}).get("/metrics")
    assert (unknown.status_code, unknown["WWW-Authenticate"]) == (401, "Bearer")
    browser = logged_in(Role.ADMIN).get("/metrics")
    assert browser.status_code == 403
    assert "API token" in browser.json()["detail"]
    assert script.get("/metrics").status_code == 200
    assert script.head("/metrics").status_code == 200
    assert script.post("/metrics").status_code == 405
    assert "no-store" in script.get("/metrics")["Cache-Control"]
    ApiToken.objects.all().delete()
    assert script.get("/metrics").status_code == 401


# --- What -------------------------------------------------------------------------------------------------
def test_an_empty_installation_has_every_figure(script: Client) -> None:
    found = read(script)
    for table in ("jobs", "thumbnails", "wal_maintenance_jobs", "scan_requests", "folder_searches"):
        assert value(found, "queue_rows", table=table, status="pending") == 0
        assert value(found, "queue_oldest_pending_seconds", table=table) == 0
    assert value(found, "queue_rows", table="thumbnail_cleanup_jobs", status="pending") == 0
    assert value(found, "lease_recoveries_total", table="jobs") == 0
    for name in (
        "workers_alive", "cleanup_lag_seconds", "reclaimable_bytes", "duplicate_groups", "thumbnail_cache_bytes",
        "hashed_files_total", "hashed_bytes_total", "scanned_files_total", "consumer_restarts_total",
    ):  # fmt: skip
        assert value(found, name) == 0
    assert (("dedupfs_wal_bytes", frozenset()) in found) == (connection.vendor == "sqlite")


def test_openmetrics_can_be_asked_for(script: Client) -> None:
    factories.library(HOSTILE)
    answer = script.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer["Content-Type"].startswith("application/openmetrics-text")
    found = flat(parse_openmetrics(answer.content.decode()))  # type: ignore[no-untyped-call]
    assert value(found, "library_mount", library=HOSTILE, state="unknown") == 1


def test_queues_are_counted_by_state_with_the_age_of_the_oldest(script: Client) -> None:
    Job.objects.bulk_create(
        Job(kind="thumbnail", created_at=SecondsFromNow(-86400), updated_at=SecondsFromNow(-500)) for _ in range(3)
    )
    factories.finished_job("hash", status="failed")
    factories.finished_job("hash")
    file = factories.library_file()
    for number, status in enumerate(["pending", "failed", "failed", "ready", "ready"]):
        factories.pending_thumbnail(
            f"{number}", of=file, status=status, bytes_size=100, updated_at=SecondsFromNow(-300)
        )
    ThumbnailCleanupJob.objects.create(group_key="a", execute_after=SecondsFromNow(-700))
    ThumbnailCleanupJob.objects.create(group_key="b", execute_after=SecondsFromNow(700))
    WalMaintenanceJob.objects.create(status="retryable")
    found = read(script)
    assert value(found, "queue_rows", table="jobs", status="pending") == 3
    assert value(found, "queue_rows", table="jobs", status="failed") == 1
    assert value(found, "queue_rows", table="thumbnails", status="failed") == 2
    assert value(found, "queue_rows", table="thumbnail_cleanup_jobs", status="pending") == 2
    assert value(found, "queue_rows", table="wal_maintenance_jobs", status="retryable") == 1
    assert 500 <= value(found, "queue_oldest_pending_seconds", table="jobs") < 600, "since it was put back"
    assert 300 <= value(found, "queue_oldest_pending_seconds", table="thumbnails") < 400
    assert 700 <= value(found, "cleanup_lag_seconds") < 800
    assert (value(found, "thumbnail_cache_files"), value(found, "thumbnail_cache_bytes")) == (2, 200)


def test_what_waits_by_design_is_not_stuck(script: Client) -> None:
    """`DedupfsQueueStuck` goes by this figure, over all its tables."""
    long_ago = SecondsFromNow(-86400)
    ThumbnailCleanupJob.objects.create(
        group_key="a", execute_after=SecondsFromNow(60), created_at=long_ago, updated_at=long_ago
    )
    for is_paused in (True, False):
        waits = SecondsFromNow(-100 if not is_paused else -86400)
        library = factories.library(f"paused {is_paused}", is_paused=is_paused)
        ScanRequest.objects.create(library=library, created_at=long_ago, updated_at=waits)
    found = read(script)
    waiting = {dict(labels)["table"]: each for (name, labels), each in found.items() if "oldest_pending" in name}
    assert 100 <= waiting["scan_requests"] < 200
    assert max(waiting.values()) < 200
    assert value(found, "cleanup_lag_seconds") == 0
    assert value(found, "queue_rows", table="scan_requests", status="pending") == 2


def test_recoveries_only_grow_whatever_becomes_of_the_rows(script: Client) -> None:
    counted = []
    for _ in range(3):
        job, _lease = factories.running_job("thumbnail")
        factories.expire(job)
        sweep_all()
        counted.append(value(read(script), "lease_recoveries_total", table="jobs"))
    assert counted == [1, 2, 3]
    _, lease = factories.running_job("thumbnail")
    lease.release()
    Job.objects.all().delete()
    assert value(read(script), "lease_recoveries_total", table="jobs") == 3
    assert value(read(script), "lease_recoveries_total", table="thumbnails") == 0


def test_what_was_lost_once_and_then_given_back_or_cancelled_is_counted_once(script: Client) -> None:
    picture = factories.pending_thumbnail()
    assert Thumbnail.objects.claim("gone") is not None
    factories.expire(picture)
    lease = Thumbnail.objects.claim("next")
    assert lease is not None
    lease.release()
    job, _lease = factories.running_job("thumbnail")
    factories.expire(job)
    sweep_all()
    assert Job.objects.claim("next") is not None
    assert deciding.cancel(job.pk, actor="otto").error_code == "LEASE_EXPIRED"
    found = read(script)
    assert value(found, "lease_recoveries_total", table="thumbnails") == 1
    assert value(found, "lease_recoveries_total", table="jobs") == 1


def test_libraries_tell_mount_size_and_the_age_of_the_last_scan(script: Client) -> None:
    library = factories.library(HOSTILE)
    LibraryRoot.objects.filter(pk=library.pk).update(last_scanned_at=SecondsFromNow(-3600))
    LibraryState.objects.create(
        library=library, mount="absent", file_count=5, total_bytes=10, missing_count=2, error_count=1
    )
    factories.library("never", is_paused=True)
    found = read(script)
    assert value(found, "library_mount", library=HOSTILE, state="absent") == 1
    assert value(found, "library_mount", library=HOSTILE, state="present") == 0
    assert value(found, "library_mount", library="never", state="unknown") == 1
    assert 3600 <= value(found, "library_last_scan_age_seconds", library=HOSTILE) < 3700
    assert ("dedupfs_library_last_scan_age_seconds", frozenset({("library", "never")})) not in found
    assert value(found, "library_files", library=HOSTILE) == 5
    assert value(found, "library_missing_files", library=HOSTILE) == 2
    assert value(found, "library_paused", library="never") == 1


def test_work_done_duplicates_budgets_and_workers(script: Client) -> None:
    for _ in range(2):
        HashRun.objects.create(job=factories.finished_job("hash"), files_done=7, bytes_done=1000, busy_seconds=1.5)
        ScanSession.objects.create(files_seen=11, bytes_seen=13, error_count=1, status="succeeded")
    photos = factories.library()
    for number in range(6):
        digest = bytes([number // 3]) * 32
        factories.library_file(
            f"{number}", photos, size_bytes=50, hash_algorithm="blake3", content_hash=digest, needs_hash=False, nlink=1
        )
    IoRateLimit.objects.create(bucket_key="thumbnail_io_global", next_available_at_ms=0)
    WorkerHeartbeat.objects.create(worker_id="nas:7", hostname="nas")
    write_event("supervisor", "nas", "consumer_restarted")
    found = read(script)
    assert (value(found, "hashed_files_total"), value(found, "hashed_bytes_total")) == (14, 2000)
    assert value(found, "hashing_seconds_total") == 3
    assert (value(found, "scanned_files_total"), value(found, "scan_errors_total")) == (22, 2)
    assert (value(found, "duplicate_groups"), value(found, "duplicate_files")) == (2, 6), "counted before it is told"
    assert value(found, "reclaimable_bytes") == 200
    assert value(found, "io_budget_ahead_seconds", bucket="thumbnail_io_global") == 0
    assert value(found, "workers_alive") == 1
    assert value(found, "consumer_restarts_total") == 1


def test_renders_are_counted_whatever_becomes_of_the_thumbnails(script: Client) -> None:
    file = factories.library_file()
    for number, status in enumerate(["ready", "failed", "ready"]):
        picture = factories.pending_thumbnail(f"{number}", of=file)
        assert Thumbnail.objects.claim("w") is not None
        Thumbnail.objects.filter(pk=picture.pk).update(status=status)
    factories.finished_job("hash", status="failed")
    Thumbnail.objects.all().delete()
    found = read(script)
    assert value(found, "thumbnail_renders_total", result="ready") == 2
    assert value(found, "thumbnail_renders_total", result="failed") == 1


def test_what_acts_did_is_told_by_verb(script: Client) -> None:
    for verb, done in (("undo", 5), ("undo", 7), ("empty", 3)):
        Act.objects.create(verb=verb, done_count=done, skipped_count=1, bytes_done=done * 100, authorised_by="otto")
    found = read(script)
    assert [value(found, "acted_files_total", verb=verb) for verb in ("act", "undo", "empty")] == [0, 12, 3]
    assert value(found, "act_skipped_files_total", verb="undo") == 2
    assert value(found, "acted_bytes_total", verb="undo") == 1200


def test_a_scrape_is_few_statements_and_reads_no_files(script: Client) -> None:
    read(script)
    cache.clear()
    with CaptureQueriesContext(connection) as few:
        read(script)
    for number in range(5):
        library = factories.library(f"{number}")
        factories.library_file("a", library)
        LibraryState.objects.create(library=library)
        factories.pending_job("thumbnail")
    read(script)  # which counts what is new
    cache.clear()
    with CaptureQueriesContext(connection) as more:
        read(script)
    assert len(more) == len(few) <= 37
    statements = [each["sql"] for each in more.captured_queries]
    assert [sql for sql in statements if "library_files" in sql and "SELECT MAX(id)" not in sql] == []
    assert [sql for sql in statements if sql.startswith(("INSERT", "DELETE"))] == []


def test_groups_that_take_long_to_add_up_are_not_added_up_by_each_scrape(
    script: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*_arguments: object) -> bool:
        time.sleep(0.5)  # what took so long is kept
        return True

    monkeypatch.setattr(slow_figures, "QUICK_SECONDS", 0.05)
    monkeypatch.setattr(summary, "bring_up_to_date", slow)
    with CaptureQueriesContext(connection) as both:
        read(script)
        read(script)
    assert len([each for each in both.captured_queries if "duplicate_groups" in each["sql"]]) == 1


@pytest.mark.parametrize(
    ("counted", "index"), [(RECOVERIES, "ix_logbook_events_recovered"), (RENDERS, "ix_logbook_events_rendered")]
)
def test_what_only_the_logbook_knows_is_counted_by_an_index_of_its_own(counted: EventCount, index: str) -> None:
    with CaptureQueriesContext(connection) as asked:
        counted.count()
    if connection.vendor == "sqlite":
        for each in asked.captured_queries:
            with connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN QUERY PLAN {each['sql']}")
                assert index in " ".join(str(row) for row in cursor.fetchall())


# --- What the docs say ------------------------------------------------------------------------------------
def documented() -> tuple[str, str]:
    """The section's table and its rules."""
    text = (ROOT / "docs/operating/monitoring.md").read_text()
    section = text.partition("## Metrics and alerts")[2].partition("\n## ")[0]
    table, _, rules = section.partition("Rules to begin with")
    return table, rules


def test_the_docs_list_every_metric_and_no_other(script: Client) -> None:
    library = factories.library()
    LibraryRoot.objects.filter(pk=library.pk).update(last_scanned_at=SecondsFromNow(-1))
    IoRateLimit.objects.create(bucket_key="thumbnail_io_global")
    completed()
    exposed = {name for name, _labels in read(script)}
    table, rules = documented()
    listed = set(re.findall(r"`(dedupfs_\w+)", table))
    if connection.vendor == "sqlite":
        assert listed == exposed
    else:
        assert {name for name in listed if "_wal_" not in name} == exposed
    (scrape,) = re.findall(r"```yaml\n(.*?)```", table, re.S)
    assert "scrape_configs" in yaml.safe_load(scrape)
    (written,) = re.findall(r"```yaml\n(.*?)```", rules, re.S)
    (group,) = yaml.safe_load(written)["groups"]
    assert len(group["rules"]) > 10
    assert all({"alert", "expr", "annotations"} <= set(rule) for rule in group["rules"])
    assert set(re.findall(r"\bdedupfs_\w+", rules)) <= listed
