"""Library roots, the files below them, and the sessions that looked at them."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Length, Now

models.BinaryField.register_lookup(Length)


class LibraryRoot(models.Model):
    name = models.CharField(max_length=255, unique=True)
    root_path = models.CharField(max_length=2048, unique=True)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())
    last_scanned_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "library_roots"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class ScanSession(models.Model):
    """One walk over the libraries.

    running ──▶ succeeded | failed
    """

    class Status(models.TextChoices):
        RUNNING = "running"
        SUCCEEDED = "succeeded"
        FAILED = "failed"

    MOVES = {"running": frozenset({"succeeded", "failed"})}

    status = models.CharField(max_length=16, choices=Status.choices, db_default=Status.RUNNING)
    started_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True, blank=True)
    error_message = models.TextField(null=True, blank=True)  # noqa: DJ001
    files_seen = models.BigIntegerField(db_default=0)
    directories_seen = models.BigIntegerField(db_default=0)
    bytes_seen = models.BigIntegerField(db_default=0)
    error_count = models.BigIntegerField(db_default=0)

    class Meta:
        db_table = "scan_sessions"
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=["running", "succeeded", "failed"]), name="ck_scan_sessions_status"
            ),
        ]

    def __str__(self) -> str:
        return f"scan session {self.pk}"


class LibraryFile(models.Model):
    """A file as the last scan saw it. Unique by library and path (`libraries.objects`)."""

    class HashAlgorithm(models.TextChoices):
        BLAKE3 = "blake3"
        SHA256 = "sha256"

    library = models.ForeignKey(LibraryRoot, on_delete=models.CASCADE, related_name="files", db_index=False)
    relative_path = models.CharField(max_length=4096)
    size_bytes = models.BigIntegerField()
    mtime_ns = models.BigIntegerField()
    inode = models.BigIntegerField(null=True, blank=True)
    device = models.BigIntegerField(null=True, blank=True)
    is_missing = models.BooleanField(db_default=False)
    needs_hash = models.BooleanField(db_default=True)
    last_seen_scan = models.ForeignKey(
        ScanSession, on_delete=models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )
    hash_algorithm = models.CharField(max_length=16, choices=HashAlgorithm.choices, null=True, blank=True)  # noqa: DJ001
    content_hash = models.BinaryField(max_length=32, null=True, blank=True)
    hashed_size_bytes = models.BigIntegerField(null=True, blank=True)
    hashed_mtime_ns = models.BigIntegerField(null=True, blank=True)
    hashed_at = models.DateTimeField(null=True, blank=True)
    hash_error_count = models.IntegerField(db_default=0)
    hash_last_error = models.TextField(null=True, blank=True)  # noqa: DJ001
    hash_last_error_at = models.DateTimeField(null=True, blank=True)
    hash_retry_after = models.DateTimeField(null=True, blank=True)
    hash_claim_token = models.CharField(max_length=64, null=True, blank=True)  # noqa: DJ001
    hash_claimed_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "library_files"
        constraints = [
            models.CheckConstraint(
                condition=Q(hash_algorithm__isnull=True) | Q(hash_algorithm__in=["blake3", "sha256"]),
                name="ck_library_files_hash_algorithm",
            ),
            models.CheckConstraint(
                condition=Q(content_hash__isnull=True) | Q(content_hash__length=32),
                name="ck_library_files_content_hash",
            ),
        ]
        indexes = [
            # Members of a group, and the groups themselves, in the order of their files' ids.
            models.Index(
                fields=["hash_algorithm", "content_hash", "id"],
                name="ix_library_files_dedup_group",
                # `content_hash = x` implies this to both planners, however else a query is written.
                condition=Q(content_hash__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.relative_path
