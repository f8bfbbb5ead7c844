"""What an executor may write: the protocol's list, as data. The database enforces it (`jobs.enforcing`).

A *path* is one way of writing a table: claiming a row, renewing its lease, finishing it. SQLite enforces each path;
PostgreSQL grants the union of a table's paths.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

HEARTBEAT = frozenset({"worker_heartbeat_at", "lease_expires_at"})
LEASE = HEARTBEAT | {"worker_id"}
ERROR = frozenset({"error_code", "error_message"})
CHECKPOINT = frozenset({"checkpoint_busy", "checkpoint_log_frames", "checkpointed_frames"})


@dataclass(frozen=True)
class TableRules:
    """What executors may do to one table. `updated_at` may be written on every path."""

    paths: Mapping[str, frozenset[str]] = field(default_factory=dict)
    may_insert: bool = False
    #: Paths that may insert, where not every path of the table may.
    inserts_on: frozenset[str] | None = None
    #: Paths that may delete rows, and the statuses a row must have for it (none named: any row).
    deletes_on: frozenset[str] = frozenset()
    deletable: frozenset[str] = frozenset()

    def lets_insert(self, path: str) -> bool:
        return self.may_insert and (self.inserts_on is None or path in self.inserts_on)

    @property
    def updatable(self) -> frozenset[str]:
        """Every column that some path writes."""
        columns = frozenset().union(*self.paths.values()) if self.paths else frozenset()
        return columns | {"updated_at"} if columns else columns


_OUTCOME = {"status", "finished_at"} | HEARTBEAT | ERROR
_LIBRARY_FILE = frozenset({
    "size_bytes", "mtime_ns", "inode", "device", "is_missing", "needs_hash", "last_seen_scan_id", "hash_algorithm",
    "content_hash", "hashed_size_bytes", "hashed_mtime_ns", "hashed_at", "hash_error_count", "hash_last_error",
    "hash_last_error_at", "hash_retry_after", "hash_claim_token", "hash_claimed_at", "relative_path", "ctime_ns",
    "nlink", "sample_hash",
})  # fmt: skip
#: What acting on a file changes of what is known about it: its digest is not among it.
_ACTED_ON = frozenset({"is_missing", "inode", "device", "mtime_ns", "ctime_ns", "nlink", "hashed_mtime_ns"})
_SCAN_SESSION = frozenset({
    "status", "started_at", "finished_at", "error_message", "files_seen", "directories_seen", "bytes_seen",
    "error_count", "library_id", "job_id", "added_count", "changed_count", "removed_count",
})  # fmt: skip
_LIBRARY_STATE = frozenset({
    "mount", "mount_note", "filesystems", "is_writable", "file_count", "total_bytes", "missing_count", "error_count",
    "walked_files", "walked_bytes", "gone_count", "checked_at",
})  # fmt: skip
_SCAN_RESULT = frozenset({
    "scanned_paths", "total_paths", "added_count", "changed_count", "removed_count", "failed_count",
})  # fmt: skip
_HASH_RUN = frozenset({"phase", "files_done", "files_total", "bytes_done", "bytes_total", "share_held", "busy_seconds"})

_GROUP = frozenset({
    "size_bytes", "file_count", "total_size_bytes", "inode_count", "reclaimable_bytes", "newest_ns", "sample_file_id",
    "library_ids", "spans_libraries",
})  # fmt: skip
RULES: dict[str, TableRules] = {
    "jobs": TableRules({
        "claim": frozenset({"status", "started_at"}) | LEASE,
        "heartbeat": frozenset({"processed_items", "total_items", "progress"}) | HEARTBEAT,
        "finish": frozenset({"progress"}) | _OUTCOME,
        "recover": frozenset({"status", "finished_at"}) | LEASE | ERROR,
        "release": frozenset({"status", "finished_at"}) | LEASE | ERROR,
    }),
    "thumbnails": TableRules(
        {
            "claim": frozenset({"status", "started_at"}) | LEASE,
            "heartbeat": HEARTBEAT,
            "success": frozenset({"width", "height", "bytes_size", "error_count", "retry_after"}) | _OUTCOME,
            "failure": frozenset({"error_count", "retry_after"}) | _OUTCOME,
            "recover": frozenset({"status"}) | LEASE | ERROR,
            "release": frozenset({"status"}) | LEASE | ERROR,
            "cleanup": frozenset(),
        },
        deletes_on=frozenset({"cleanup"}),
        deletable=frozenset({"ready", "failed"}),
    ),
    "thumbnail_cleanup_jobs": TableRules({
        "claim": frozenset({"status", "finished_at"}) | LEASE,
        "heartbeat": HEARTBEAT,
        "finish": frozenset(_OUTCOME),
        "recover": frozenset({"status"}) | LEASE | ERROR,
        "release": frozenset({"status"}) | LEASE | ERROR,
    }),
    "wal_maintenance_jobs": TableRules({
        "claim": frozenset({"status", "started_at", "finished_at"}) | LEASE,
        "heartbeat": HEARTBEAT,
        "recover": frozenset({"status", "retry_count", "retry_after", "finished_at"}) | LEASE | ERROR,
        "release": frozenset({"status", "retry_count", "retry_after", "finished_at"}) | LEASE | ERROR,
        "success": CHECKPOINT | _OUTCOME,
        "busy": frozenset({"retry_count", "retry_after"}) | CHECKPOINT | _OUTCOME,
        "failure": frozenset(_OUTCOME),
    }),
    "io_rate_limits": TableRules({"reserve": frozenset({"next_available_at_ms"})}, may_insert=True),
    "library_files": TableRules(
        {"scan": _LIBRARY_FILE, "hash": _LIBRARY_FILE, "act": _ACTED_ON},
        may_insert=True,
        inserts_on=frozenset({"scan", "hash"}),
    ),
    "scan_sessions": TableRules({"scan": _SCAN_SESSION, "hash": _SCAN_SESSION}, may_insert=True),
    "library_roots": TableRules({"scan": frozenset({"last_scanned_at"})}),
    "library_states": TableRules(
        {"scan": _LIBRARY_STATE, "hash": _LIBRARY_STATE, "look": _LIBRARY_STATE}, may_insert=True
    ),
    "scan_errors": TableRules({"scan": frozenset()}, may_insert=True, deletes_on=frozenset({"scan"})),
    "scan_requests": TableRules({"scan": _SCAN_RESULT}),
    "hash_states": TableRules(
        {"hash": frozenset({"algorithm", "switching_to", "is_due", "retry_at"})}, may_insert=True
    ),
    "hash_runs": TableRules({"hash": _HASH_RUN}, may_insert=True),
    "rehashes": TableRules(
        {"hash": frozenset({"content_hash", "size_bytes", "mtime_ns"}), "scan": frozenset()},
        may_insert=True,
        deletes_on=frozenset({"hash", "scan"}),
    ),
    # The summary of the groups is derived: whoever counts may write it.
    "duplicate_groups": TableRules({"count": _GROUP}, may_insert=True, deletes_on=frozenset({"count"})),
    "duplicate_changes": TableRules({"count": frozenset()}, deletes_on=frozenset({"count"})),
    "duplicate_summary": TableRules(
        {"count": frozenset({"counted_file_id", "is_stale", "recounted_algorithm", "recounted_hash"})}, may_insert=True
    ),
    # A switch of the algorithm takes what is remembered by content along.
    "ignored_groups": TableRules(
        {"hash": frozenset({"hash_algorithm", "content_hash"})}, deletes_on=frozenset({"hash"})
    ),
    "plans": TableRules({
        "plan": frozenset({
            "status", "group_count", "keep_count", "remove_count", "remove_bytes", "freed_bytes", "untouched_count",
            "left_out", "warnings",
        }),
        "act": frozenset({"status"}),
    }),
    "plan_files": TableRules({"plan": frozenset()}, may_insert=True, deletes_on=frozenset({"plan"})),
    "plan_folders": TableRules(
        {"plan": frozenset({"file_count", "remove_count", "remove_bytes"})},
        may_insert=True,
        deletes_on=frozenset({"plan"}),
    ),
    "acts": TableRules({
        "act": frozenset({
            "status", "done_count", "skipped_count", "bytes_done", "busy_seconds", "bytes_in_hand",
            "seconds_in_hand", "trashed_count", "trashed_bytes", "space", "proof_name", "proof_sha256", "note",
            "finished_at",
        }),
    }),
    "trash_items": TableRules(
        {
            "act": frozenset({
                "status", "reason_code", "reason", "trash_folder", "device", "inode", "linked_inode", "acted_at",
                "left_by_id", "left_at", "is_last_copy", "stray_size_bytes", "stray_mtime_ns",
            }),
        },
        may_insert=True,
        deletes_on=frozenset({"act"}),
    ),
    "removed_folders": TableRules({"act": frozenset({"is_back"})}, may_insert=True),
    "folder_searches": TableRules({
        "claim": frozenset({"status", "started_at"}) | LEASE,
        "heartbeat": frozenset({"processed_items", "total_items", "progress"}) | HEARTBEAT,
        "finish": frozenset({"progress", "pair_count"}) | _OUTCOME,
        "recover": frozenset({"status"}) | LEASE | ERROR,
        "release": frozenset({"status"}) | LEASE | ERROR,
    }),
    "folder_pairs": TableRules({"pair": frozenset()}, may_insert=True, deletes_on=frozenset({"pair"})),
    "worker_heartbeats": TableRules(
        {"live": frozenset({"last_seen_at", "stopped_at", "doing", "hostname", "pid", "started_at"})}, may_insert=True
    ),
}  # fmt: skip

#: Tables that an executor may add to on every path: the memory of what it did.
APPEND_ONLY = frozenset({"logbook_items", "logbook_events"})
#: Tables that our own triggers keep in step, whoever set them off.
KEPT_BY_TRIGGERS = APPEND_ONLY | {"scan_requests", "hash_states", "duplicate_changes", "duplicate_summary"}
