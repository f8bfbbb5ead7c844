"""The figures themselves. Each comes from few rows, an index or a summary: none counts the files of the libraries.

Only the summary of the groups is brought up to date first, as by any page that shows it, for two seconds at the most.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.conf import settings
from django.db.models import Count, Max, Min, Model, Q, Sum
from django.db.models.functions import Coalesce, Now
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from duplicates import listing
from duplicates.models import FolderSearch
from jobs.health import CONSUMER_RESTARTED
from jobs.models import IoRateLimit, Job, WalMaintenanceJob, WorkerHeartbeat
from jobs.recovery_counting import RECOVERIES
from jobs.wal_deciding import last_completed, wal_bytes
from libraries.models import HashRun, LibraryRoot, LibraryState, ScanRequest, ScanSession
from logbook.models import LogbookEvent
from thumbnails.measuring import Figures, measure
from thumbnails.render_counting import RENDERS
from trash.models import Act, TrashItem
from trash.space import freed_bytes, in_trash

Metrics = Iterator[Metric]
#: What waits, runs or needs somebody. How much has ended since ever is no depth, and counting it costs more each day.
DEPTHS: dict[type[Model], tuple[str, ...]] = {
    Job: ("pending", "running", "retryable", "failed"),
    ScanRequest: ("pending", "running"),
    FolderSearch: ("pending", "running"),
    WalMaintenanceJob: ("pending", "running", "retryable", "failed"),
}
#: The same of thumbnails and of their clean-up, which `thumbnails.measuring` counts.
THUMBNAIL_DEPTHS = ("pending", "running", "failed")
#: Whose waiting counts: scans of a paused library wait for a person, so nothing is stuck.
WAITING: dict[type[Model], Q] = {ScanRequest: Q(library__is_paused=False)}
LEASED = ("jobs", "thumbnails", "thumbnail_cleanup_jobs", "wal_maintenance_jobs", "folder_searches")


def collect() -> Metrics:
    thumbnails = measure()
    yield from _queues(thumbnails)
    yield from _lost_and_restarted()
    yield from _rates()
    yield from _acts()
    yield from _duplicates()
    yield from _trash()
    yield from _thumbnails(thumbnails)
    yield from _wal()
    yield from _libraries()
    yield from _budgets()
    yield _gauge(
        "dedupfs_workers_alive", "Consumers that gave a sign of life.", WorkerHeartbeat.objects.alive().count()
    )


# --- Queues -----------------------------------------------------------------------------------------------
def _queues(thumbnails: Figures) -> Metrics:
    depth = GaugeMetricFamily("dedupfs_queue_rows", "Rows of a queue in a state.", labels=["table", "status"])
    oldest = GaugeMetricFamily(
        "dedupfs_queue_oldest_pending_seconds", "Since the row that waits for longest began to; 0 where none does.",
        labels=["table"],
    )  # fmt: skip
    for model, statuses in DEPTHS.items():
        table = model._meta.db_table
        found = _by_status(model, statuses)
        for status in statuses:
            depth.add_metric([table, status], found[status][0] if status in found else 0)
        oldest.add_metric([table], found["pending"][1] if "pending" in found else 0)
    for status in THUMBNAIL_DEPTHS:
        depth.add_metric(["thumbnails", status], thumbnails.thumbnails[status])
        depth.add_metric(["thumbnail_cleanup_jobs", status], thumbnails.cleanups[status])
    oldest.add_metric(["thumbnails"], thumbnails.oldest_pending_seconds)
    yield depth
    yield oldest
    yield _gauge(
        "dedupfs_cleanup_lag_seconds",
        "For how long the oldest due clean-up of thumbnails has been due; 0 where none is.",
        thumbnails.cleanup_lag_seconds,
    )


def _by_status(model: type[Model], statuses: tuple[str, ...]) -> dict[str, tuple[int, float]]:
    """How many rows, and for how long the oldest has been in that status: `updated_at` is when it came to it."""
    rows = model._default_manager.filter(status__in=statuses).order_by().values("status")
    oldest = Min("updated_at", filter=WAITING.get(model))
    counted = rows.annotate(rows=Count("pk"), oldest=oldest, now=Max(Now()))
    return {each["status"]: (each["rows"], _seconds(each["oldest"], each["now"])) for each in counted}


def _lost_and_restarted() -> Metrics:
    lost = CounterMetricFamily(
        "dedupfs_lease_recoveries", "Rows that were taken back since their lease ran out.", labels=["table"]
    )
    counted = RECOVERIES.count()
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


def _acts() -> Metrics:
    """Each act has one row, which stays."""
    rows = Act.objects.order_by().values_list("verb")
    sums = rows.annotate(done=_sum("done_count"), skipped=_sum("skipped_count"), size=_sum("bytes_done"))
    found = {verb: figures for verb, *figures in sums}
    for number, (name, words) in enumerate((
        ("dedupfs_acted_files", "Files that were acted on, put back or removed for good."),
        ("dedupfs_act_skipped_files", "Files that were left alone, since something spoke against it."),
        ("dedupfs_acted_bytes", "The sizes of both."),
    )):  # fmt: skip
        family = CounterMetricFamily(name, words, labels=["verb"])
        for verb in Act.Verb.values:
            family.add_metric([verb], found[verb][number] if verb in found else 0)
        yield family


def _trash() -> Metrics:
    size, files = in_trash()
    yield _gauge("dedupfs_trash_bytes", "The sizes of the files that lie in a trash.", size)
    yield _gauge("dedupfs_trash_files", "These files.", files)
    lying = TrashItem.objects.filter(status=TrashItem.Status.TRASHED)
    words = "Those that emptying left, since it found no other copy."
    yield _gauge("dedupfs_trash_last_copies", words, lying.filter(is_last_copy=True).count())
    words = "Files that somebody was about to act on; after a crash the next run settles them."
    yield _gauge("dedupfs_trash_open_items", words, TrashItem.objects.filter(status__in=TrashItem.OPEN).count())
    words = "What removing for good has brought, as the filesystems told it."
    yield _gauge("dedupfs_freed_bytes", words, freed_bytes())


def _duplicates() -> Metrics:
    totals = listing.totals(listing.Filter())
    yield _gauge("dedupfs_duplicate_groups", "Groups of equal files, without ignored ones.", totals.groups)
    yield _gauge("dedupfs_duplicate_files", "Files in these groups.", totals.files)
    words = "What would come back if one copy of each group stayed."
    yield _gauge("dedupfs_reclaimable_bytes", words, totals.reclaimable_bytes)


# --- What is kept -----------------------------------------------------------------------------------------
def _thumbnails(figures: Figures) -> Metrics:
    rendered = CounterMetricFamily("dedupfs_thumbnail_renders", "Renders that ended.", labels=["result"])
    counted = RENDERS.count()
    for result in ("ready", "failed"):
        rendered.add_metric([result], counted.get(result, 0))
    yield rendered
    yield _gauge("dedupfs_thumbnail_cache_files", "Thumbnails that are ready.", figures.thumbnails["ready"])
    yield _gauge("dedupfs_thumbnail_cache_bytes", "What they take.", figures.cache_bytes)
    limit = figures.cache_limit_bytes
    yield _gauge("dedupfs_thumbnail_cache_limit_bytes", "What they may take; 0 is no limit.", limit)
    yield _gauge("dedupfs_thumbnail_capacity", "How many may wait or be rendered.", figures.queue_capacity)


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
