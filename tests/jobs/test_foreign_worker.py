"""A worker written by somebody else, knowing only the protocol: plain `sqlite3`, not one line of our models.

It works on a file that `manage.py migrate` made, so these tests are the same whatever database the suite runs on.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: Every form of a time that the protocol allows, for the same moment in the past and in the future.
FORMS = ["%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%f", "%Y-%m-%d %H:%M:%S.123456"]


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    state = tmp_path_factory.mktemp("foreign")
    environment = {
        **os.environ,
        "DEDUPFS_STATE_ROOT": str(state),
        "DATABASE_URL": "",
        "PYTHONPATH": str(ROOT),
    }
    environment["DJANGO_SETTINGS_MODULE"] = "dedupfs_site.settings"
    command = [sys.executable, str(ROOT / "manage.py"), "migrate", "-v", "0"]
    subprocess.run(command, env=environment, check=True)
    with sqlite3.connect(state / "dedupfs.sqlite3") as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file.close()
    return state / "dedupfs.sqlite3"


@pytest.fixture
def db(migrated: Path, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    copy = shutil.copy(migrated, tmp_path / "dedupfs.sqlite3")
    connection = sqlite3.connect(copy, isolation_level=None)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    yield connection
    connection.close()


def one(db: sqlite3.Connection, sql: str, *values: object) -> sqlite3.Row:
    rows = db.execute(sql, values).fetchall()
    assert len(rows) == 1, f"{len(rows)} rows from {sql}"
    return rows[0]  # type: ignore[no-any-return]


def moment(form: str, shift: str) -> str:
    """A time in SQL, in one of the forms."""
    return f"strftime('{form}', 'now', '{shift}')"


def events(db: sqlite3.Connection, table: str, key: object) -> list[tuple[str | None, str | None]]:
    sql = """SELECT e.status_from, e.status_to FROM logbook_events e JOIN logbook_items i ON i.id = e.item_id
             WHERE i.item_type = ? AND i.subject_id = ? AND e.event_type = 'status' ORDER BY e.id"""
    return [tuple(row) for row in db.execute(sql, (table, str(key)))]


@pytest.fixture
def file_id(db: sqlite3.Connection) -> int:
    db.execute("INSERT INTO library_roots (name, root_path) VALUES ('photos', '/libraries/photos')")
    db.execute("INSERT INTO library_files (library_id, relative_path, size_bytes, mtime_ns) VALUES (1, 'a.jpg', 5, -1)")
    return 1


@pytest.mark.parametrize("form", FORMS)
def test_a_scan_job_from_insert_to_finish(db: sqlite3.Connection, form: str) -> None:
    job = str(uuid.uuid4())
    db.execute(f"INSERT INTO jobs (id, kind, created_at) VALUES (?, 'scan', {moment(form, '-1 minute')})", (job,))
    claimed = db.execute(
        f"""UPDATE jobs SET status = 'running', worker_id = 'rust-1',
            worker_heartbeat_at = {moment(form, "+0 seconds")},
            lease_expires_at = {moment(form, "+300 seconds")}, started_at = {moment(form, "+0 seconds")},
            updated_at = {moment(form, "+0 seconds")}
            WHERE id = (SELECT id FROM jobs WHERE status = 'pending' AND kind IN ('scan', 'hash')
                        ORDER BY created_at, id LIMIT 1) RETURNING id""",
    ).fetchall()
    assert [row["id"] for row in claimed] == [job]
    renewed = db.execute(
        f"""UPDATE jobs SET processed_items = 10, progress = 0.5, worker_heartbeat_at = {moment(form, "+0 seconds")},
            lease_expires_at = {moment(form, "+300 seconds")}
            WHERE id = ? AND worker_id = 'rust-1' AND status = 'running'
              AND lease_expires_at > {moment(form, "+0 seconds")}""",
        (job,),
    )
    assert renewed.rowcount == 1
    db.execute(
        f"""UPDATE jobs SET status = 'completed', progress = 1.0, finished_at = {moment(form, "+0 seconds")},
            lease_expires_at = NULL WHERE id = ? AND worker_id = 'rust-1'""",
        (job,),
    )
    assert events(db, "jobs", job) == [(None, "pending"), ("pending", "running"), ("running", "completed")]
    row = one(db, "SELECT * FROM jobs")
    assert (row["dry_run"], row["processed_items"], row["payload"], row["total_items"]) == (0, 10, "{}", None)


def test_only_one_scan_or_hash_job_is_active(db: sqlite3.Connection) -> None:
    db.execute("INSERT INTO jobs (id, kind) VALUES ('a', 'scan')")
    with pytest.raises(sqlite3.IntegrityError, match="ix_jobs_single_active_scan_hash"):
        db.execute("INSERT INTO jobs (id, kind, status) VALUES ('b', 'hash', 'running')")
    db.execute("INSERT INTO jobs (id, kind) VALUES ('c', 'delete')")
    db.execute("UPDATE jobs SET status = 'running' WHERE id = 'a'")
    db.execute("UPDATE jobs SET status = 'retryable' WHERE id = 'a'")
    db.execute("INSERT INTO jobs (id, kind) VALUES ('d', 'hash')")


@pytest.mark.parametrize(
    ("column", "value"),
    [("kind", "SCAN"), ("kind", "sync"), ("status", "PENDING"), ("status", "done"), ("payload", "{no json")],
)
def test_values_outside_the_protocol_are_refused(db: sqlite3.Connection, column: str, value: str) -> None:
    row = {"id": "a", "kind": "scan", column: value}
    with pytest.raises(sqlite3.IntegrityError):
        db.execute(f"INSERT INTO jobs ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", tuple(row.values()))


LEGAL = {
    ("pending", "running"), ("pending", "cancelled"), ("running", "completed"), ("running", "failed"),
    ("running", "cancelled"), ("running", "retryable"), ("retryable", "pending"), ("retryable", "cancelled"),
    ("retryable", "failed"),
}  # fmt: skip
STATES = ["pending", "running", "completed", "failed", "cancelled", "retryable"]


@pytest.mark.parametrize("start", STATES)
@pytest.mark.parametrize("end", STATES)
def test_a_job_moves_only_along_the_protocol_s_arrows(db: sqlite3.Connection, start: str, end: str) -> None:
    db.execute("INSERT INTO jobs (id, kind, status) VALUES ('a', 'delete', ?)", (start,))
    if start == end or (start, end) in LEGAL:
        db.execute("UPDATE jobs SET status = ?", (end,))
    else:
        with pytest.raises(sqlite3.IntegrityError, match="illegal move"):
            db.execute("UPDATE jobs SET status = ?", (end,))


@pytest.mark.parametrize("form", FORMS)
def test_a_thumbnail_from_insert_to_ready_and_deleted(db: sqlite3.Connection, file_id: int, form: str) -> None:
    db.execute(
        """INSERT INTO thumbnails (thumb_key, file_id, media_type, format, max_dimension, source_size_bytes,
                                   source_mtime_ns) VALUES ('k', ?, 'image', 'webp', 320, 5, -1)""",
        (file_id,),
    )
    db.execute(
        f"""UPDATE thumbnails SET status = 'running', worker_id = 'rust-1',
            lease_expires_at = {moment(form, "+9 seconds")} WHERE status = 'pending'"""
    )
    db.execute(
        f"""UPDATE thumbnails SET status = 'ready', width = 320, height = 200, bytes_size = 9, lease_expires_at = NULL,
            finished_at = {moment(form, "+0 seconds")} WHERE thumb_key = 'k' AND worker_id = 'rust-1'"""
    )
    db.execute("DELETE FROM thumbnails WHERE status IN ('ready', 'failed')")
    assert events(db, "thumbnails", 1) == [
        (None, "pending"), ("pending", "running"), ("running", "ready"), ("ready", None),
    ]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_cleanup_is_claimed_when_it_is_due(db: sqlite3.Connection, form: str) -> None:
    for key, shift in (("late", "+1 hour"), ("due", "-1 second")):
        db.execute(
            f"INSERT INTO thumbnail_cleanup_jobs (group_key, execute_after) VALUES (?, {moment(form, shift)})",
            (key,),
        )
    db.execute("INSERT INTO thumbnail_cleanup_jobs (group_key) VALUES ('now')")
    soon = moment("%Y-%m-%d %H:%M:%f", "+1 second")
    due = f"SELECT group_key FROM thumbnail_cleanup_jobs WHERE execute_after <= {soon}"
    assert [row[0] for row in db.execute(due + " ORDER BY created_at, id")] == ["due", "now"]
    db.execute("UPDATE thumbnail_cleanup_jobs SET status = 'running', worker_id = 'r' WHERE group_key = 'due'")
    db.execute("UPDATE thumbnail_cleanup_jobs SET status = 'completed' WHERE group_key = 'due' AND worker_id = 'r'")
    assert events(db, "thumbnail_cleanup_jobs", 2)[-1] == ("running", "completed")


def test_a_checkpoint_that_is_busy_is_tried_again(db: sqlite3.Connection) -> None:
    db.execute("INSERT INTO wal_maintenance_jobs (requested_mode) VALUES ('passive')")
    with pytest.raises(sqlite3.IntegrityError):
        db.execute("INSERT INTO wal_maintenance_jobs (requested_mode) VALUES ('restart')")
    db.execute("UPDATE wal_maintenance_jobs SET status = 'running', worker_id = 'r'")
    db.execute(
        """UPDATE wal_maintenance_jobs SET status = 'retryable', retry_count = retry_count + 1, checkpoint_busy = 1,
           checkpoint_log_frames = 10, checkpointed_frames = 3, error_code = 'WAL_CHECKPOINT_BUSY',
           retry_after = strftime('%Y-%m-%d %H:%M:%S', 'now', '+120 seconds')"""
    )
    db.execute("UPDATE wal_maintenance_jobs SET status = 'running', worker_id = 'r2'")
    db.execute("UPDATE wal_maintenance_jobs SET status = 'completed'")
    assert one(db, "SELECT retry_count FROM wal_maintenance_jobs")[0] == 1


def test_an_io_budget_is_reserved_in_one_statement(db: sqlite3.Connection) -> None:
    db.execute("INSERT OR IGNORE INTO io_rate_limits (bucket_key) VALUES ('thumbnail_io_global')")
    reserve = """UPDATE io_rate_limits SET next_available_at_ms = MAX(next_available_at_ms, 1000) + 500
                 WHERE bucket_key = 'thumbnail_io_global' RETURNING next_available_at_ms"""
    assert [db.execute(reserve).fetchall()[0][0] for _ in range(2)] == [1500, 2000]


def test_a_scan_writes_sessions_and_files(db: sqlite3.Connection, file_id: int) -> None:
    db.execute("INSERT INTO scan_sessions DEFAULT VALUES")
    row = one(db, "SELECT * FROM scan_sessions")
    assert (row["status"], row["files_seen"], row["finished_at"]) == ("running", 0, None)
    assert " " in row["started_at"]
    assert "T" not in row["started_at"]
    upsert = """INSERT INTO library_files (library_id, relative_path, size_bytes, mtime_ns, last_seen_scan_id)
                VALUES (1, 'a.jpg', 6, -2, 1)
                ON CONFLICT (library_id, relative_path) DO UPDATE SET size_bytes = excluded.size_bytes"""
    db.execute(upsert)
    row = one(db, "SELECT * FROM library_files")
    assert (row["size_bytes"], row["is_missing"], row["needs_hash"], row["hash_error_count"]) == (6, 0, 1, 0)
    db.execute("UPDATE library_files SET content_hash = ?, hash_algorithm = 'blake3', needs_hash = 0", (bytes(32),))
    for bad in (bytes(31), "ab" * 32):
        with pytest.raises(sqlite3.IntegrityError):
            db.execute("UPDATE library_files SET content_hash = ?", (bad,))
    db.execute("UPDATE scan_sessions SET status = 'succeeded'")
    assert events(db, "scan_sessions", 1) == [(None, "running"), ("running", "succeeded")]


def test_replacing_a_row_leaves_its_trail_too(db: sqlite3.Connection) -> None:
    db.execute("INSERT INTO jobs (id, kind) VALUES ('a', 'scan')")
    db.execute("INSERT OR REPLACE INTO jobs (id, kind, status) VALUES ('a', 'scan', 'failed')")
    assert events(db, "jobs", "a") == [(None, "pending"), ("pending", "failed")]


def test_the_tables_and_indexes_have_the_protocol_s_names(db: sqlite3.Connection) -> None:
    names = {row[0] for row in db.execute("SELECT name FROM sqlite_master")}
    tables = {"library_roots", "library_files", "scan_sessions", "jobs", "thumbnails", "thumbnail_cleanup_jobs",
              "wal_maintenance_jobs", "io_rate_limits", "logbook_items", "logbook_events"}  # fmt: skip
    assert tables <= names
    assert {"ix_jobs_single_active_scan_hash", "ix_library_files_dedup_group"} <= names
    assert one(db, "PRAGMA journal_mode")[0] == "wal"
