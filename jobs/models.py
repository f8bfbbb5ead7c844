"""Jobs, WAL maintenance, I/O budgets and the workers that are alive."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Exists, F, JSONField, OuterRef, Q, Value
from django.db.models.functions import Lower, Now
from django.utils.translation import gettext_lazy as _

from database.clock import SecondsFromNow
from database.liveness import alive_within_seconds
from jobs.lease import LeasedModel, LeasedQuerySet, LeaseRules


def new_job_id() -> str:
    return str(uuid.uuid4())


def legal(field: str, values: list[str], name: str) -> models.CheckConstraint:
    """The CHECK that holds an enum column to its lowercase values."""
    return models.CheckConstraint(condition=Q(**{f"{field}__in": values}), name=name)


class JobQuerySet(LeasedQuerySet["Job"]):
    def due(self) -> JobQuerySet:
        waiting = self.filter(status=Job.Status.PENDING).filter(Q(retry_after__isnull=True) | Q(retry_after__lte=Now()))
        # One that acts on files waits until no other does.
        acting = Q(kind=Job.Kind.DELETE, dry_run=False)
        return waiting.exclude(acting & Exists(Job.objects.using(self.db).filter(acting, status=Job.Status.RUNNING)))

    def holding_slot(self) -> JobQuerySet:
        """The one scan or hash job that is waiting or running, if there is one."""
        # As an expression the kind has no index: by it SQLite would go through all scans there ever were.
        return self.alias(kind_word=Lower("kind")).filter(kind_word__in=Job.SLOT_KINDS, status__in=Job.ACTIVE)

    def current(self) -> JobQuerySet:
        return self.filter(status=Job.Status.RUNNING).order_by("started_at", "id")


class Job(LeasedModel):
    """One piece of background work.

        pending ──claim──▶ running ──finish──▶ completed | failed
           │                  │  └─lost, released─▶ retryable ──requeue──▶ pending
           └────cancel────────┴──────cancel────────────┴───▶ cancelled

    `retryable` may also end as `failed`, when its attempts are used up. The database refuses every other move.
    """

    class Kind(models.TextChoices):
        SCAN = "scan", _("Scan")
        HASH = "hash", _("Hash")
        DELETE = "delete", _("Delete")
        THUMBNAIL = "thumbnail", _("Thumbnail")

    class Status(models.TextChoices):
        PENDING = "pending", _("Pending")
        RUNNING = "running", _("Running")
        COMPLETED = "completed", _("Completed")
        FAILED = "failed", _("Failed")
        CANCELLED = "cancelled", _("Cancelled")
        RETRYABLE = "retryable", _("Retryable")

    #: Kinds of which at most one may be waiting or running.
    SLOT_KINDS = (Kind.SCAN, Kind.HASH)
    ACTIVE = (Status.PENDING, Status.RUNNING)
    UNFINISHED = (*ACTIVE, Status.RETRYABLE)
    MOVES = {
        "pending": frozenset({"running", "cancelled"}),
        "running": frozenset({"completed", "failed", "cancelled", "retryable"}),
        "retryable": frozenset({"pending", "cancelled", "failed"}),
    }
    lease_rules = LeaseRules(
        claimable=("pending",),
        recovered="retryable",
        outcomes=MOVES["running"],
        claim_sets=("started_at",),
        tells_release=True,
        progress=("processed_items", "total_items", "progress"),
    )

    id = models.CharField(max_length=36, primary_key=True, default=new_job_id)
    kind = models.CharField(max_length=16, choices=Kind.choices)
    status = models.CharField(max_length=16, choices=Status.choices, db_default=Status.PENDING)
    dry_run = models.BooleanField(db_default=False)
    progress = models.FloatField(db_default=0.0)
    total_items = models.BigIntegerField(null=True, blank=True)
    processed_items = models.BigIntegerField(db_default=0)
    payload = models.JSONField(db_default=Value({}, JSONField()))
    error_code = models.CharField(max_length=64, null=True, blank=True)  # noqa: DJ001
    error_message = models.TextField(null=True, blank=True)  # noqa: DJ001
    #: Ours: how often the policy side has put it back, and when it may run again.
    attempts = models.IntegerField(db_default=0)
    retry_after = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = JobQuerySet.as_manager()

    class Meta:
        db_table = "jobs"
        constraints = [
            legal("kind", ["scan", "hash", "delete", "thumbnail"], "ck_jobs_kind"),
            legal(
                "status",
                ["pending", "running", "completed", "failed", "cancelled", "retryable"],
                "ck_jobs_status",
            ),
        ]
        indexes = [
            # The jobs page and the claim: newest or oldest first, all, of a status, of a kind.
            models.Index(fields=["created_at", "id"], name="ix_jobs_created"),
            models.Index(fields=["status", "created_at", "id"], name="ix_jobs_status_created"),
            models.Index(fields=["kind", "created_at", "id"], name="ix_jobs_kind_created"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"

    @property
    def called(self) -> str:
        """On pages: people know plans and acts, not the kind that both have in the protocol."""
        if self.kind == Job.Kind.DELETE:
            return str(_("Plan") if self.dry_run else _("Acting"))
        return str(Job.Kind(self.kind).label)

    @property
    def icon(self) -> str:
        return "plans" if self.kind == Job.Kind.DELETE and self.dry_run else self.kind


class WalMaintenanceQuerySet(LeasedQuerySet["WalMaintenanceJob"]):
    def due(self) -> WalMaintenanceQuerySet:
        """Waiting rows whose time has come, and retries while nothing else waits or runs."""
        active = WalMaintenanceJob.objects.using(self.db).filter(status__in=("pending", "running"))
        pending = Q(status="pending", execute_after__lte=Now())
        retry = Q(status="retryable") & ~Exists(active.exclude(pk=OuterRef("pk")))
        return self.filter(pending | retry).filter(Q(retry_after__isnull=True) | Q(retry_after__lte=Now()))


class WalMaintenanceJob(LeasedModel):
    """A checkpoint of SQLite's write-ahead log.

    pending ──claim──▶ running ──▶ completed | failed
                          │ ▲
                   busy, lost│ claim, after retry_after
                          ▼ │
                      retryable
    """

    class Mode(models.TextChoices):
        PASSIVE = "passive", _("Passive")
        RESTART = "restart", _("Restart")
        TRUNCATE = "truncate", _("Truncate")

    class Status(models.TextChoices):
        PENDING = "pending", _("Pending")
        RUNNING = "running", _("Running")
        RETRYABLE = "retryable", _("Retryable")
        COMPLETED = "completed", _("Completed")
        FAILED = "failed", _("Failed")

    RETRY_SECONDS = 120
    MOVES = {
        "pending": frozenset({"running", "failed"}),
        "running": frozenset({"completed", "failed", "retryable"}),
        "retryable": frozenset({"running", "pending", "failed"}),
    }
    lease_rules = LeaseRules(
        claimable=("pending", "retryable"),
        recovered="retryable",
        outcomes=MOVES["running"],
        claim_sets=("started_at",),
        claim_clears=("finished_at",),
        recover_extra={"retry_count": F("retry_count") + 1, "retry_after": SecondsFromNow(RETRY_SECONDS)},
        finish_paths={"completed": "success", "failed": "failure", "retryable": "busy"},
        # Only one row may run, so whether one is due depends on the others.
        serial_claims=True,
    )

    requested_mode = models.CharField(max_length=16, choices=Mode.choices, db_default=Mode.PASSIVE)
    status = models.CharField(max_length=16, choices=Status.choices, db_default=Status.PENDING)
    requested_by = models.CharField(max_length=64, null=True, blank=True)  # noqa: DJ001
    reason = models.TextField(null=True, blank=True)  # noqa: DJ001
    execute_after = models.DateTimeField(db_default=Now())
    retry_count = models.IntegerField(db_default=0)
    retry_after = models.DateTimeField(null=True, blank=True)
    checkpoint_busy = models.BigIntegerField(null=True, blank=True)
    checkpoint_log_frames = models.BigIntegerField(null=True, blank=True)
    checkpointed_frames = models.BigIntegerField(null=True, blank=True)
    error_code = models.CharField(max_length=64, null=True, blank=True)  # noqa: DJ001
    error_message = models.TextField(null=True, blank=True)  # noqa: DJ001
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = WalMaintenanceQuerySet.as_manager()

    class Meta:
        db_table = "wal_maintenance_jobs"
        constraints = [
            legal("requested_mode", ["passive", "restart", "truncate"], "ck_wal_maintenance_jobs_mode"),
            legal(
                "status",
                ["pending", "running", "retryable", "completed", "failed"],
                "ck_wal_maintenance_jobs_status",
            ),
        ]
        indexes = [
            # The claim: waiting rows, oldest first.
            models.Index(fields=["status", "created_at", "id"], name="ix_wal_jobs_status_created"),
        ]

    def __str__(self) -> str:
        return f"checkpoint {self.requested_mode} {self.pk}"


class WalSize(models.Model):
    """How large SQLite's write-ahead log was at a moment, for the page that shows it over time."""

    seen_at = models.DateTimeField(db_default=Now())
    bytes_size = models.BigIntegerField()

    class Meta:
        db_table = "wal_sizes"
        indexes = [models.Index(fields=["seen_at"], name="ix_wal_sizes_seen")]


class IoRateLimit(models.Model):
    """A virtual clock for one I/O budget: when the next byte may be read."""

    bucket_key = models.CharField(max_length=64, primary_key=True)
    next_available_at_ms = models.BigIntegerField(db_default=0)
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "io_rate_limits"

    def __str__(self) -> str:
        return self.bucket_key


class WorkerHeartbeatQuerySet(models.QuerySet["WorkerHeartbeat"]):
    def alive(self) -> WorkerHeartbeatQuerySet:
        return self.filter(stopped_at__isnull=True, last_seen_at__gte=SecondsFromNow(-alive_within_seconds()))


class WorkerHeartbeat(models.Model):
    """A consumer process: who it is and when it was last seen."""

    worker_id = models.CharField(max_length=128, primary_key=True)
    hostname = models.CharField(max_length=255, db_default="")
    pid = models.BigIntegerField(null=True, blank=True)
    doing = models.CharField(max_length=255, db_default="")
    started_at = models.DateTimeField(db_default=Now())
    last_seen_at = models.DateTimeField(db_default=Now())
    stopped_at = models.DateTimeField(null=True, blank=True)

    objects = WorkerHeartbeatQuerySet.as_manager()

    class Meta:
        db_table = "worker_heartbeats"
        indexes = [
            # "Who is alive?"
            models.Index(fields=["last_seen_at"], name="ix_worker_heartbeats_seen"),
        ]

    def __str__(self) -> str:
        return self.worker_id
