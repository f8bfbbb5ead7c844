"""The figures themselves. Each comes from few rows, an index or a summary: none counts the files of the libraries."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime

from django.conf import settings
from django.db.models import Count, Max, Min, Model, Sum
from django.db.models.functions import Coalesce, Now
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from database.routing import POLICY
from duplicates.filtering import Filter
from duplicates.listing import ORDERS
from duplicates.models import FolderSearch
from duplicates.searching import Search
from jobs.health import CONSUMER_RESTARTED
from jobs.models import IoRateLimit, Job, WalMaintenanceJob, WorkerHeartbeat
from jobs.recovery_counting import recoveries
from jobs.wal_deciding import last_completed, wal_bytes
from libraries.models import HashRun, LibraryRoot, LibraryState, ScanRequest, ScanSession
from logbook.models import LogbookEvent
from thumbnails.models import Thumbnail, ThumbnailCleanupJob

Metrics = Iterator[Metric]
#: What waits, runs or needs somebody. How much has ended since ever is no depth, and counting it costs more each day.
DEPTHS: dict[type[Model], tuple[str, ...]] = {
    Job: ("pending", "running", "retryable", "failed"),
    ScanRequest: ("pending", "running"),
    FolderSearch: ("pending", "running"),
    Thumbnail: ("pending", "running", "failed"),
    ThumbnailCleanupJob: ("pending", "running", "failed"),
    WalMaintenanceJob: ("pending", "running", "retryable", "failed"),
}
LEASED = ("jobs", "thumbnails", "thumbnail_cleanup_jobs", "wal_maintenance_jobs", "folder_searches")
#: Adding up the groups takes no longer than this.
ADDING_SECONDS = 2.0


def collect() -> Metrics:
    yield from _queues()
    yield from _lost_and_restarted()
    yield from _rates()
    yield from _duplicates()
    yield from _thumbnails()
    yield from _wal()
    yield from _libraries()
    yield from _budgets()
    yield _gauge(
        "dedupfs_workers_alive", "Consumers that gave a sign of life.", WorkerHeartbeat.objects.alive().count()
    )


# --- Queues -----------------------------------------------------------------------------------------------
def _queues() -> Metrics:
    depth = GaugeMetricFamily("dedupfs_queue_rows", "Rows of a queue in a state.", labels=["table", "status"])
    oldest = GaugeMetricFamily(
        "dedupfs_queue_oldest_pending_seconds", "Age of the row that waits for longest; 0 where none does.",
        labels=["table"],
    )  # fmt: skip
    for model, statuses in DEPTHS.items():
        table = model._meta.db_table
        found = _by_status(model, statuses)
        for status in statuses:
            depth.add_metric([table, status], found[status][0] if status in found else 0)
        oldest.add_metric([table], found["pending"][1] if "pending" in found else 0)
    yield depth
    yield oldest
    yield _gauge(
        "dedupfs_cleanup_lag_seconds",
        "For how long the oldest due clean-up of thumbnails has been due; 0 where none is.",
        _cleanup_lag(),
    )


def _by_status(model: type[Model], statuses: tuple[str, ...]) -> dict[str, tuple[int, float]]:
    """How many rows, and how old the oldest is."""
    rows = model._default_manager.filter(status__in=statuses).order_by().values("status")
    counted = rows.annotate(rows=Count("pk"), oldest=Min("created_at"), now=Max(Now()))
    return {each["status"]: (each["rows"], _seconds(each["oldest"], each["now"])) for each in counted}


def _cleanup_lag() -> float:
    due = ThumbnailCleanupJob.objects.filter(status="pending", execute_after__lte=Now())
    found = due.aggregate(oldest=Min("execute_after"), now=Max(Now()))
    return _seconds(found["oldest"], found["now"])


def _lost_and_restarted() -> Metrics:
    lost = CounterMetricFamily(
        "dedupfs_lease_recoveries", "Rows that were taken back since their lease ran out.", labels=["table"]
    )
    counted = recoveries()
    for table in LEASED:
        lost.add_metric([table], counted.get(table, 0))
    yield lost
    restarts = LogbookEvent.objects.filter(event_type=CONSUMER_RESTARTED).count()
    yield CounterMetricFamily("dedupfs_consumer_restarts", "Consumers that died and were started again.", restarts)


# --- What was done ----------------------------------------------------------------------------------------
def _rates() -> Metrics:
    """Each job and each scan has one row, so these sums go over few."""
    hashed = HashRun.objects.aggregate(
        files=_sum("files_done"), size=_sum("bytes_done"), seconds=_sum("busy_seconds", zero=0.0)
    )
    seen = ScanSession.objects.aggregate(files=_sum("files_seen"), size=_sum("bytes_seen"), errors=_sum("error_count"))
    for name, words, value in (
        ("dedupfs_hashed_files", "Files that hash jobs are done with.", hashed["files"]),
        ("dedupfs_hashed_bytes", "Bytes that hash jobs have read.", hashed["size"]),
        ("dedupfs_hashing_seconds", "Time that hash jobs spent reading.", hashed["seconds"]),
        ("dedupfs_scanned_files", "Files that scans have seen.", seen["files"]),
        ("dedupfs_scanned_bytes", "Bytes of the files that scans have seen.", seen["size"]),
        ("dedupfs_scan_errors", "Paths that scans could not read.", seen["errors"]),
    ):
        yield CounterMetricFamily(name, words, value)


def _sum(column: str, zero: float = 0) -> Coalesce:
    return Coalesce(Sum(column), zero)


def _duplicates() -> Metrics:
    search = Search(Filter.parse({}), ORDERS["copies"], POLICY)
    (groups, files, reclaimable), _is_all = search.add_up(time.monotonic() + ADDING_SECONDS)
    yield _gauge("dedupfs_duplicate_groups", "Groups of equal files, without ignored ones.", groups)
    yield _gauge("dedupfs_duplicate_files", "Files in these groups.", files)
    yield _gauge("dedupfs_reclaimable_bytes", "What would come back if one copy of each group stayed.", reclaimable)


# --- What is kept -----------------------------------------------------------------------------------------
def _thumbnails() -> Metrics:
    ready = Thumbnail.objects.filter(status=Thumbnail.Status.READY)
    kept = ready.aggregate(count=Count("pk"), size=_sum("bytes_size"))
    yield _gauge("dedupfs_thumbnail_cache_files", "Thumbnails that are ready.", kept["count"])
    yield _gauge("dedupfs_thumbnail_cache_bytes", "What they take.", kept["size"])
    limit = settings.THUMBNAIL_CACHE_BYTES
    yield _gauge("dedupfs_thumbnail_cache_limit_bytes", "What they may take; 0 is no limit.", limit)
    yield _gauge("dedupfs_thumbnail_capacity", "How many may wait or be rendered.", settings.THUMBNAIL_CAPACITY)


def _wal() -> Metrics:
    """Nothing on PostgreSQL, which looks after its own."""
    size = wal_bytes()
    if size is None:
        return
    yield _gauge("dedupfs_wal_bytes", "The file of SQLite's write-ahead log.", size)
    yield _gauge("dedupfs_wal_limit_bytes", "Past this it is written back; 0 is never.", settings.WAL_BYTES)
    latest = last_completed().annotate(now=Now()).values_list("finished_at", "now").first()
    if latest is not None:
        age = _seconds(*latest)
        yield _gauge("dedupfs_wal_last_checkpoint_age_seconds", "Since the last checkpoint was completed.", age)


def _libraries() -> Metrics:
    """A library's name is the one of the database, unique; what is special in it is escaped by the library."""
    mount = GaugeMetricFamily(
        "dedupfs_library_mount", "1 for the state in which its disk was last seen.", labels=["library", "state"]
    )
    age = GaugeMetricFamily(
        "dedupfs_library_last_scan_age_seconds", "Since its last complete scan; missing where there was none.",
        labels=["library"],
    )  # fmt: skip
    paused = GaugeMetricFamily("dedupfs_library_paused", "1 where scans are paused.", labels=["library"])
    figures = {
        "file_count": ("dedupfs_library_files", "Files in the index."),
        "total_bytes": ("dedupfs_library_bytes", "Their bytes."),
        "missing_count": ("dedupfs_library_missing_files", "Files that are missing."),
        "error_count": ("dedupfs_library_scan_errors", "Paths that its last scan could not read."),
    }
    counts = {column: GaugeMetricFamily(*words, labels=["library"]) for column, words in figures.items()}
    for library in LibraryRoot.objects.kept().select_related("state").annotate(now=Now()):
        name, state = library.name, getattr(library, "state", None)
        current = state.mount if state else LibraryState.Mount.UNKNOWN
        for each in LibraryState.Mount.values:
            mount.add_metric([name, each], int(each == current))
        paused.add_metric([name], int(library.is_paused))
        if library.last_scanned_at is not None:
            age.add_metric([name], _seconds(library.last_scanned_at, library.now))  # type: ignore[attr-defined]
        for column, family in counts.items():
            family.add_metric([name], getattr(state, column, 0))
    yield from (mount, age, paused, *counts.values())


def _budgets() -> Metrics:
    ahead = GaugeMetricFamily(
        "dedupfs_io_budget_ahead_seconds", "How long readers of a budget have to wait for it.", labels=["bucket"]
    )
    for bucket in IoRateLimit.objects.annotate(now=Now()).order_by("bucket_key"):
        ahead.add_metric([bucket.bucket_key], seconds_ahead(bucket.next_available_at_ms, bucket.now))
    yield ahead


def seconds_ahead(next_available_at_ms: int, now: datetime) -> float:
    return max(next_available_at_ms / 1000 - now.timestamp(), 0.0)


# --- Small parts ------------------------------------------------------------------------------------------
def _gauge(name: str, words: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, words, value)


def _seconds(since: datetime | None, now: datetime | None) -> float:
    return 0.0 if since is None or now is None else max((now - since).total_seconds(), 0.0)
