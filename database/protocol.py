"""The protocol's tables and the legal values of their enum columns, as names: this room knows no models."""

from __future__ import annotations

#: In the order in which rows can be copied: parents first.
TABLES = (
    "library_roots",
    "scan_sessions",
    "library_files",
    "jobs",
    "thumbnails",
    "thumbnail_cleanup_jobs",
    "wal_maintenance_jobs",
    "io_rate_limits",
)

LEGAL: dict[tuple[str, str], frozenset[str]] = {
    ("jobs", "kind"): frozenset({"scan", "hash", "delete", "thumbnail"}),
    ("jobs", "status"): frozenset({"pending", "running", "completed", "failed", "cancelled", "retryable"}),
    ("scan_sessions", "status"): frozenset({"running", "succeeded", "failed"}),
    ("library_files", "hash_algorithm"): frozenset({"blake3", "sha256"}),
    ("thumbnails", "status"): frozenset({"pending", "running", "ready", "failed"}),
    ("thumbnails", "media_type"): frozenset({"image", "video"}),
    ("thumbnails", "format"): frozenset({"jpeg", "webp"}),
    ("thumbnail_cleanup_jobs", "status"): frozenset({"pending", "running", "completed", "failed"}),
    ("wal_maintenance_jobs", "requested_mode"): frozenset({"passive", "restart", "truncate"}),
    ("wal_maintenance_jobs", "status"): frozenset({"pending", "running", "retryable", "completed", "failed"}),
}
