"""Figures of the thumbnail queues, for the API and for whoever watches the system."""

from __future__ import annotations

from dataclasses import dataclass, field

from django.conf import settings
from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import Now

from thumbnails.models import Thumbnail, ThumbnailCleanupJob


@dataclass(frozen=True)
class Figures:
    """The state of this moment; ages are in seconds, and 0 where nothing waits."""

    queue_depth: int
    queue_capacity: int
    thumbnails: dict[str, int] = field(default_factory=dict)
    running: dict[str, int] = field(default_factory=dict)
    concurrency: dict[str, int] = field(default_factory=dict)
    oldest_pending_seconds: float = 0.0
    #: Failed ones that may be tried again now, and later.
    retry_due: int = 0
    retry_waiting: int = 0
    cache_bytes: int = 0
    cache_limit_bytes: int = 0
    cleanups: dict[str, int] = field(default_factory=dict)
    cleanup_due: int = 0
    cleanup_lag_seconds: float = 0.0


def measure() -> Figures:
    # By status in one go, from an index alone: what is ready is what the cache holds.
    by_status = Thumbnail.objects.order_by().values("status").annotate(count=Count("pk"), size=Sum("bytes_size"))
    rows = list(by_status)
    thumbnails = dict.fromkeys(Thumbnail.Status.values, 0) | {row["status"]: row["count"] for row in rows}
    sizes = {row["status"]: row["size"] for row in rows}
    cleanups = dict.fromkeys(ThumbnailCleanupJob.Status.values, 0)
    cleanups |= _counted(ThumbnailCleanupJob.objects.all(), "status")
    failed = Thumbnail.objects.filter(status=Thumbnail.Status.FAILED)
    may_again = Q(retry_after__isnull=True) | Q(retry_after__lte=Now())
    retry_due = failed.filter(may_again).count()
    due = ThumbnailCleanupJob.objects.filter(status="pending", execute_after__lte=Now())
    pending = Thumbnail.objects.filter(status=Thumbnail.Status.PENDING)
    return Figures(
        queue_depth=thumbnails["pending"] + thumbnails["running"],
        queue_capacity=settings.THUMBNAIL_CAPACITY,
        thumbnails=thumbnails,
        running=dict.fromkeys(Thumbnail.MediaType.values, 0)
        | _counted(Thumbnail.objects.filter(status=Thumbnail.Status.RUNNING), "media_type"),
        concurrency=dict(settings.THUMBNAIL_CONCURRENCY),
        oldest_pending_seconds=_age(pending, "updated_at"),
        retry_due=retry_due,
        retry_waiting=max(thumbnails["failed"] - retry_due, 0),
        cache_bytes=sizes.get("ready", 0) or 0,
        cache_limit_bytes=settings.THUMBNAIL_CACHE_BYTES,
        cleanups=cleanups,
        cleanup_due=due.count(),
        cleanup_lag_seconds=_age(due, "execute_after"),
    )


def _counted(rows: QuerySet[Thumbnail] | QuerySet[ThumbnailCleanupJob], column: str) -> dict[str, int]:
    return dict(rows.order_by().values_list(column).annotate(count=Count("pk")))


def _age(rows: QuerySet[Thumbnail] | QuerySet[ThumbnailCleanupJob], column: str) -> float:
    """How long ago the oldest is, by the database's clock."""
    found = rows.order_by(column).annotate(now=Now()).values_list(column, "now").first()
    return max((found[1] - found[0]).total_seconds(), 0.0) if found else 0.0
