"""Thumbnails and the clean-up of those nobody needs."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Count, Exists, OuterRef, Q
from django.db.models.functions import Now

from jobs.lease import RUNNING, LeasedModel, LeasedQuerySet, LeaseRules
from jobs.models import legal
from libraries.models import LibraryFile


class ThumbnailQuerySet(LeasedQuerySet["Thumbnail"]):
    def due(self) -> ThumbnailQuerySet:
        """Waiting rows of every media type that has room for one more running row."""
        limits = settings.THUMBNAIL_CONCURRENCY
        running = dict(
            Thumbnail.objects.using(self.db)
            .filter(status=RUNNING)
            .values_list("media_type")
            .annotate(running=Count("pk"))
            .order_by()
        )
        free = [media_type for media_type, limit in limits.items() if running.get(media_type, 0) < limit]
        return self.filter(status=Thumbnail.Status.PENDING, media_type__in=free)


class Thumbnail(LeasedModel):
    """A small picture of a file.

    pending ──claim──▶ running ──▶ ready | failed
       ▲──lost, released──┘          │      │
       └──────file gone from disk────┴──────┴─ retry, after retry_after
    """

    class Status(models.TextChoices):
        PENDING = "pending"
        RUNNING = "running"
        READY = "ready"
        FAILED = "failed"

    class MediaType(models.TextChoices):
        IMAGE = "image"
        VIDEO = "video"

    class Format(models.TextChoices):
        JPEG = "jpeg"
        WEBP = "webp"

    MOVES = {
        "pending": frozenset({"running", "failed"}),
        "running": frozenset({"ready", "failed", "pending"}),
        "ready": frozenset({"pending"}),
        "failed": frozenset({"pending"}),
    }
    lease_rules = LeaseRules(
        claimable=("pending",),
        recovered="pending",
        outcomes=frozenset({"ready", "failed"}),
        claim_sets=("started_at",),
        finish_paths={"ready": "success", "failed": "failure"},
        # The limit per media type counts other rows.
        serial_claims=True,
    )

    thumb_key = models.CharField(max_length=128, unique=True)
    file = models.ForeignKey(LibraryFile, on_delete=models.CASCADE, related_name="thumbnails")
    group_key = models.CharField(max_length=256, null=True, blank=True)  # noqa: DJ001
    status = models.CharField(max_length=16, choices=Status.choices, db_default=Status.PENDING)
    media_type = models.CharField(max_length=16, choices=MediaType.choices)
    format = models.CharField(max_length=16, choices=Format.choices)
    max_dimension = models.IntegerField()
    version = models.IntegerField(db_default=1)
    source_size_bytes = models.BigIntegerField()
    source_mtime_ns = models.BigIntegerField()
    output_relpath = models.CharField(max_length=1024, null=True, blank=True)  # noqa: DJ001
    width = models.IntegerField(null=True, blank=True)
    height = models.IntegerField(null=True, blank=True)
    bytes_size = models.BigIntegerField(null=True, blank=True)
    #: When somebody last asked for the picture: the cache lets go of those nobody looks at first.
    last_used_at = models.DateTimeField(db_default=Now())
    error_code = models.CharField(max_length=64, null=True, blank=True)  # noqa: DJ001
    error_message = models.TextField(null=True, blank=True)  # noqa: DJ001
    error_count = models.IntegerField(db_default=0)
    retry_after = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = ThumbnailQuerySet.as_manager()

    class Meta:
        db_table = "thumbnails"
        constraints = [
            legal("status", ["pending", "running", "ready", "failed"], "ck_thumbnails_status"),
            legal("media_type", ["image", "video"], "ck_thumbnails_media_type"),
            legal("format", ["jpeg", "webp"], "ck_thumbnails_format"),
        ]
        indexes = [
            # The claim: waiting rows of a media type, oldest first; and how many of it run.
            models.Index(fields=["status", "media_type", "created_at", "id"], name="ix_thumbnails_claim"),
            # Clean-up: is anything of this group still waiting or running?
            models.Index(fields=["group_key", "status"], name="ix_thumbnails_group"),
            # The cache's limit: what it holds, and what was not looked at for longest.
            models.Index(fields=["status", "last_used_at", "id", "bytes_size"], name="ix_thumbnails_used"),
        ]

    def __str__(self) -> str:
        return self.thumb_key


class ThumbnailCleanupQuerySet(LeasedQuerySet["ThumbnailCleanupJob"]):
    def due(self) -> ThumbnailCleanupQuerySet:
        """Rows whose time has come, unless a thumbnail of their group waits or runs."""
        busy = Thumbnail.objects.using(self.db).filter(
            group_key=OuterRef("group_key"), status__in=("pending", "running")
        )
        return self.filter(Q(status="pending", execute_after__lte=Now()) & ~Exists(busy))


class ThumbnailCleanupJob(LeasedModel):
    """The removal of one group's thumbnails.

    pending ──claim──▶ running ──▶ completed | failed
       ▲──lost, released──┘            │         │
       └────────── scheduled again ────┴─────────┘
    """

    class Status(models.TextChoices):
        PENDING = "pending"
        RUNNING = "running"
        COMPLETED = "completed"
        FAILED = "failed"

    MOVES = {
        "pending": frozenset({"running", "failed"}),
        "running": frozenset({"completed", "failed", "pending"}),
        "completed": frozenset({"pending"}),
        "failed": frozenset({"pending"}),
    }
    lease_rules = LeaseRules(
        claimable=("pending",),
        recovered="pending",
        outcomes=frozenset({"completed", "failed"}),
        claim_clears=("finished_at",),
    )

    group_key = models.CharField(max_length=256, unique=True)
    status = models.CharField(max_length=16, choices=Status.choices, db_default=Status.PENDING)
    execute_after = models.DateTimeField(db_default=Now())
    error_code = models.CharField(max_length=64, null=True, blank=True)  # noqa: DJ001
    error_message = models.TextField(null=True, blank=True)  # noqa: DJ001
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = ThumbnailCleanupQuerySet.as_manager()

    class Meta:
        db_table = "thumbnail_cleanup_jobs"
        constraints = [
            legal("status", ["pending", "running", "completed", "failed"], "ck_thumbnail_cleanup_jobs_status"),
        ]
        indexes = [
            # The claim: waiting rows, oldest first.
            models.Index(fields=["status", "created_at", "id"], name="ix_cleanup_status_created"),
        ]

    def __str__(self) -> str:
        return f"cleanup {self.group_key}"
