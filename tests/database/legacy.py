"""Files as an earlier implementation made them: SQLAlchemy's habits, in plain sqlite3."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

#: Enum columns held the names of Python's enums, in capitals.
OLD_SCHEMA = """
CREATE TABLE schema_migrations (version VARCHAR(64) PRIMARY KEY, applied_at DATETIME);
CREATE TABLE library_roots (
  id INTEGER PRIMARY KEY, name VARCHAR(255) NOT NULL UNIQUE, root_path VARCHAR(2048) NOT NULL UNIQUE,
  created_at DATETIME, updated_at DATETIME, last_scanned_at DATETIME);
CREATE TABLE scan_sessions (
  id INTEGER PRIMARY KEY, status VARCHAR(9) NOT NULL, started_at DATETIME, finished_at DATETIME, error_message TEXT,
  files_seen INTEGER, directories_seen INTEGER, bytes_seen INTEGER, error_count INTEGER);
CREATE TABLE library_files (
  id INTEGER PRIMARY KEY, library_id INTEGER NOT NULL REFERENCES library_roots (id),
  relative_path VARCHAR(4096) NOT NULL, size_bytes BIGINT NOT NULL, mtime_ns BIGINT NOT NULL,
  inode BIGINT, device BIGINT, last_seen_scan_id INTEGER,
  created_at DATETIME, updated_at DATETIME);
CREATE TABLE jobs (
  id CHAR(32) PRIMARY KEY, kind VARCHAR(9) NOT NULL, status VARCHAR(9) NOT NULL, dry_run BOOLEAN,
  worker_id VARCHAR(128), worker_heartbeat_at DATETIME, lease_expires_at DATETIME, progress FLOAT, total_items INTEGER,
  processed_items INTEGER, payload JSON, error_code VARCHAR(64), error_message TEXT,
  created_at DATETIME, updated_at DATETIME, started_at DATETIME, finished_at DATETIME);
CREATE TABLE thumbnails (
  id INTEGER PRIMARY KEY, thumb_key VARCHAR(128) NOT NULL UNIQUE, file_id INTEGER NOT NULL, group_key VARCHAR(256),
  status VARCHAR(7) NOT NULL, media_type VARCHAR(5) NOT NULL, format VARCHAR(4) NOT NULL,
  max_dimension INTEGER NOT NULL, version INTEGER, source_size_bytes BIGINT NOT NULL,
  source_mtime_ns BIGINT NOT NULL, output_relpath VARCHAR(1024),
  width INTEGER, height INTEGER, bytes_size BIGINT, error_code VARCHAR(64), error_message TEXT, error_count INTEGER,
  retry_after DATETIME, worker_id VARCHAR(128), worker_heartbeat_at DATETIME, lease_expires_at DATETIME,
  created_at DATETIME, updated_at DATETIME, started_at DATETIME, finished_at DATETIME);
CREATE TABLE thumbnail_cleanup_jobs (
  id INTEGER PRIMARY KEY, group_key VARCHAR(256) NOT NULL UNIQUE, status VARCHAR(9) NOT NULL, execute_after DATETIME,
  worker_id VARCHAR(128), worker_heartbeat_at DATETIME, lease_expires_at DATETIME, error_code VARCHAR(64),
  error_message TEXT, created_at DATETIME, updated_at DATETIME, finished_at DATETIME);
CREATE TABLE wal_maintenance_jobs (
  id INTEGER PRIMARY KEY, requested_mode VARCHAR(8) NOT NULL, status VARCHAR(9) NOT NULL, requested_by VARCHAR(64),
  reason TEXT, execute_after DATETIME, retry_count INTEGER, worker_id VARCHAR(128), worker_heartbeat_at DATETIME,
  lease_expires_at DATETIME, checkpoint_busy INTEGER, checkpoint_log_frames INTEGER, checkpointed_frames INTEGER,
  error_code VARCHAR(64), error_message TEXT, created_at DATETIME, updated_at DATETIME, started_at DATETIME,
  finished_at DATETIME);
CREATE TABLE io_rate_limits (bucket_key VARCHAR(64) PRIMARY KEY, next_available_at_ms BIGINT, updated_at DATETIME);
"""
#: What a later version of the old implementation added to its files.
HASH_COLUMNS = """
ALTER TABLE library_files ADD COLUMN is_missing BOOLEAN;
ALTER TABLE library_files ADD COLUMN needs_hash BOOLEAN;
ALTER TABLE library_files ADD COLUMN hash_algorithm VARCHAR(6);
ALTER TABLE library_files ADD COLUMN content_hash BLOB;
"""


class OldDatabase:
    """An open file of the earlier implementation; each method adds a row, with words in capitals."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def add(self, table: str, **values: Any) -> None:
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        self.connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(values.values()))

    def library(self, key: int = 1, name: str = "photos") -> None:
        self.add("library_roots", id=key, name=name, root_path=f"/libraries/{name}", created_at="2023-05-01T08:00:00Z")

    def file(self, key: int, path: str | bytes, **values: Any) -> None:
        row = {
            "library_id": 1,
            "size_bytes": 10,
            "mtime_ns": 1_000 + key,
            "updated_at": "2023-05-01 08:00:00",
            **values,
        }
        self.add("library_files", id=key, relative_path=path, **row)

    def job(self, key: str, kind: str, status: str, created_at: str | None, **values: Any) -> None:
        row = {"payload": json.dumps({"n": 1}), "progress": 0.25, "processed_items": 5, **values}
        self.add("jobs", id=key, kind=kind, status=status, created_at=created_at, **row)

    def thumbnail(self, key: int, file_id: int, **values: Any) -> None:
        row = {"status": "READY", "media_type": "IMAGE", "format": "WEBP", "max_dimension": 320, **values}
        sizes = {"source_size_bytes": 10, "source_mtime_ns": 1}
        self.add("thumbnails", id=key, thumb_key=f"{key:064x}", file_id=file_id, **sizes, **row)

    def checkpoint(self, key: int, status: str, created_at: str, **values: Any) -> None:
        self.add(
            "wal_maintenance_jobs", id=key, requested_mode="PASSIVE", status=status, created_at=created_at, **values
        )


@contextmanager
def old_database(path: Path, *, has_hash_columns: bool = False, wal: bool = False) -> Iterator[OldDatabase]:
    """Make a file with the old schema, to be filled in the block."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        if wal:
            connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript(OLD_SCHEMA + (HASH_COLUMNS if has_hash_columns else ""))
        connection.execute("BEGIN")
        yield OldDatabase(connection)
        connection.execute("COMMIT")
