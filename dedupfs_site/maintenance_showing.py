"""What the maintenance page shows, read in a fixed number of statements."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Min
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from database.clock import SecondsFromNow
from dedupfs_site.charts import Chart, draw
from dedupfs_site.metric_collecting import seconds_ahead
from jobs import wal_deciding
from jobs.models import IoRateLimit, Job, WalMaintenanceJob, WalSize, WorkerHeartbeat
from libraries.models import LibraryRoot
from libraries.names import to_display
from thumbnails.measuring import Figures, measure
from thumbnails.models import Thumbnail, ThumbnailCleanupJob

CHECKPOINTS = 10
BUDGETS = 50
#: How far back the chart goes, and how much time a row of its table holds.
SPANS = {"": (timedelta(hours=24), timedelta(hours=1)), "week": (timedelta(days=7), timedelta(hours=6))}


@dataclass(frozen=True)
class ShownCheckpoint:
    row: WalMaintenanceJob
    now: datetime

    @property
    def is_active(self) -> bool:
        return self.row.status in ("pending", "running")

    @property
    def has_figures(self) -> bool:
        """SQLite says -1 where another checkpoint was in the way."""
        frames = self.row.checkpoint_log_frames
        return frames is not None and frames >= 0 and self.row.checkpointed_frames is not None

    @property
    def when(self) -> datetime:
        return self.row.finished_at or self.row.started_at or self.row.created_at

    @property
    def lasted(self) -> timedelta | None:
        begun, ended = self.row.started_at, self.row.finished_at
        return max(ended - begun, timedelta(0)) if begun and ended else None


@dataclass(frozen=True)
class Backlog:
    """What came to nothing and will be tried again."""

    key: str
    name: str
    count: int
    next_at: datetime | None


@dataclass(frozen=True)
class Budget:
    name: str
    #: Bytes a second; 0 is no limit any more, None is unknown.
    limit: int | None
    ahead: timedelta
    updated_at: datetime


def read_maintenance(span: str, now: datetime) -> dict[str, Any]:
    """All of the page but its form. `now` is the database's."""
    thumbnails = measure()
    backlog = _backlog()
    checkpoints = _checkpoints()
    return {
        "now": now,
        "applies": wal_deciding.applies(),
        "wal_bytes": wal_deciding.wal_bytes(),
        "wal_limit": settings.WAL_BYTES,
        "wait": wal_deciding.seconds_to_wait(),
        "chart": _chart(span, now),
        "checkpoints": checkpoints,
        "backlog": backlog,
        "backlog_count": sum(each.count for each in backlog),
        "backlog_next": min((each.next_at for each in backlog if each.next_at), default=None),
        "cleanup": _cleanup(thumbnails),
        "budgets": _budgets(now),
        "thumbnails": thumbnails.thumbnails,
        "cache_bytes": thumbnails.cache_bytes,
        "cache_limit": thumbnails.cache_limit_bytes,
        "capacity": thumbnails.queue_capacity,
        "alive_count": WorkerHeartbeat.objects.alive().count(),
        "is_busy": any(each.is_active for each in checkpoints)
        or bool(thumbnails.cleanup_due or thumbnails.queue_depth),
    }


def _chart(span: str, now: datetime) -> Chart | None:
    if not wal_deciding.applies():
        return None
    length, row = SPANS[span]
    since = WalSize.objects.filter(seen_at__gt=SecondsFromNow(-length.total_seconds()))
    points = list(since.order_by("seen_at").values_list("seen_at", "bytes_size"))
    return draw(points, now - length, now, settings.WAL_BYTES, row)


def _checkpoints() -> list[ShownCheckpoint]:
    rows = WalMaintenanceJob.objects.annotate(now=Now()).order_by("-id")[:CHECKPOINTS]
    return [ShownCheckpoint(row, row.now) for row in rows]  # type: ignore[attr-defined]


def _cleanup(figures: Figures) -> dict[str, Any]:
    waiting = ThumbnailCleanupJob.objects.filter(status="pending")
    return {
        "waiting": figures.cleanups["pending"],
        "running": figures.cleanups["running"],
        "failed": figures.cleanups["failed"],
        "due": figures.cleanup_due,
        "lag": timedelta(seconds=figures.cleanup_lag_seconds) if figures.cleanup_due else None,
        "next": waiting.aggregate(next=Min("execute_after"))["next"],
    }


def _backlog() -> list[Backlog]:
    again = {"count": Count("pk"), "next_at": Min("retry_after")}
    # One whose time has come waits for nothing but somebody who looks at it.
    failed = Thumbnail.objects.filter(status="failed", retry_after__gt=Now())
    found = [
        Backlog("jobs", _("Jobs"), **Job.objects.filter(status="retryable").aggregate(**again)),
        Backlog("thumbnails", _("Thumbnails"), **failed.aggregate(**again)),
    ]
    if wal_deciding.applies():
        busy = WalMaintenanceJob.objects.filter(status="retryable")
        found.append(Backlog("checkpoints", _("Checkpoints"), **busy.aggregate(**again)))
    return found


def _budgets(now: datetime) -> list[Budget]:
    libraries = {row[0]: row[1:] for row in LibraryRoot.objects.values_list("pk", "name", "read_bytes_per_second")}
    shown = []
    for bucket in IoRateLimit.objects.order_by("bucket_key")[:BUDGETS]:
        kind, _colon, key = bucket.bucket_key.partition(":")
        library = int(key) if kind == "library" and key.isdecimal() else 0
        name, limit = to_display(bucket.bucket_key), None
        if library in libraries:
            text, limit = libraries[library]
            name = _("Library %(name)s") % {"name": to_display(text)}
        elif bucket.bucket_key == "thumbnail_io_global":
            name, limit = _("Thumbnails"), settings.THUMBNAIL_IO_BYTES
        ahead = timedelta(seconds=seconds_ahead(bucket.next_available_at_ms, now))
        shown.append(Budget(name, limit, ahead, bucket.updated_at))
    return shown
