from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from database import adopting, crash_points
from database.legacy import SURPLUS_PENDING, SURPLUS_RUNNING
from database.migrating import migrate_file
from database.objects import expected
from tests.database.installations import Installation, killed_at_each_point, sound
from tests.database.legacy import old_database

A, B, C, D, E = ("a" * 32, "b" * 32, "c" * 32, "d" * 32, "e" * 32)


def dashed(key: str) -> str:
    return f"{key[:8]}-{key[8:12]}-{key[12:16]}-{key[16:20]}-{key[20:]}"


def adopt(path: Path) -> Any:
    answer = io.StringIO()
    call_command("adopt", str(path), json=True, stdout=answer)
    return json.loads(answer.getvalue())


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def everything(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables."""
    tables = rows(path, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    return {name: sorted(rows(path, f'SELECT * FROM "{name}"'), key=repr) for (name,) in tables}


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What a fresh file becomes by this version's migrations."""
    path = tmp_path_factory.mktemp("fresh") / "fresh.sqlite3"
    migrate_file(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=DELETE")
    connection.close()
    return path.read_bytes()


@pytest.fixture(autouse=True)
def _migrated_once(monkeypatch: pytest.MonkeyPatch, migrated: bytes) -> None:
    """Migrating takes seconds in a process of its own and gives the same file each time."""
    monkeypatch.setattr(adopting, "migrate_file", lambda path: path.write_bytes(migrated))


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file with something of everything that an adoption has to mend."""
    path = tmp_path / "old.sqlite3"
    with old_database(path, has_hash_columns=True) as database:
        database.library()
        database.add("scan_sessions", id=7, status="SUCCEEDED", started_at="2023-05-01T10:00:00+02:00", files_seen=3)
        digest = hashlib.sha256(b"x").hexdigest().upper()
        database.file(1, "a.jpg", last_seen_scan_id=7, hash_algorithm="SHA256", content_hash=digest, needs_hash=0)
        database.file(2, "b.jpg", last_seen_scan_id=99)
        database.job(
            A, "SCAN", "RUNNING", "2023-05-02 00:00:00", worker_id="w1", lease_expires_at="2023-05-02T01:00:00Z"
        )
        database.job(B, "HASH", "PENDING", "2023-05-01 00:00:00")
        database.job(C, "DELETE", "COMPLETED", "2023-04-01 00:00:00", payload="not json", dry_run=1)
        database.thumbnail(1, file_id=1)
        database.add(
            "thumbnail_cleanup_jobs", id=1, group_key="g", status="FAILED", execute_after="2023-05-01T00:00:00Z"
        )
        database.checkpoint(1, "COMPLETED", "2023-05-01 00:00:00")
        database.add("io_rate_limits", bucket_key="thumbnail_io_global", next_available_at_ms=5)
    return path


def test_adopt_writes_lower_case_values_and_times_with_a_space(old: Path) -> None:
    adopt(old)
    assert rows(old, "SELECT id, kind, status, dry_run FROM jobs ORDER BY id") == [
        (dashed(A), "scan", "running", 0),
        (dashed(B), "hash", "retryable", 0),
        (dashed(C), "delete", "completed", 1),
    ]
    assert rows(old, "SELECT status, started_at FROM scan_sessions") == [("succeeded", "2023-05-01 08:00:00")]
    assert rows(old, "SELECT status, media_type, format, error_count FROM thumbnails") == [
        ("ready", "image", "webp", 0)
    ]
    assert rows(old, "SELECT status, execute_after FROM thumbnail_cleanup_jobs") == [("failed", "2023-05-01 00:00:00")]
    assert rows(old, "SELECT requested_mode, status, retry_after FROM wal_maintenance_jobs") == [
        ("passive", "completed", None)
    ]
    assert rows(old, "SELECT created_at FROM library_roots") == [("2023-05-01 08:00:00",)]
    assert rows(old, "SELECT lease_expires_at FROM jobs WHERE worker_id = 'w1'") == [("2023-05-02 01:00:00",)]
    assert rows(old, "SELECT next_available_at_ms FROM io_rate_limits") == [(5,)]


def test_adopt_stores_digests_as_raw_bytes(old: Path) -> None:
    adopt(old)
    assert rows(old, "SELECT hash_algorithm, content_hash, needs_hash, is_missing FROM library_files ORDER BY id") == [
        ("sha256", hashlib.sha256(b"x").digest(), 0, 0),
        (None, None, 1, 0),
    ]


def test_adopt_keeps_a_payload_that_is_no_json_inside_one(old: Path) -> None:
    adopt(old)
    ((payload,),) = rows(old, "SELECT payload FROM jobs WHERE kind = 'delete'")
    assert json.loads(payload) == {"adopted_text": "not json"}


def test_adopt_forgets_a_scan_that_is_not_there(old: Path) -> None:
    answer = adopt(old)
    assert rows(old, "SELECT id, last_seen_scan_id FROM library_files ORDER BY id") == [(1, 7), (2, None)]
    (note,) = answer["changed"]["library_files"].values()
    assert note == {"rows": 1, "ids": ["2"]}


def test_adopt_keeps_the_old_file_beside_the_new_one(old: Path) -> None:
    before = everything(old)
    old.chmod(0o640)
    answer = adopt(old)
    kept = old.with_name("old.sqlite3.before-adoption")
    assert answer["kept_as"] == str(kept)
    assert everything(kept) == before
    assert old.stat().st_mode & 0o777 == 0o640
    assert {each.name for each in old.parent.iterdir()} == {old.name, kept.name}


def test_adopt_numbers_the_kept_files(old: Path) -> None:
    old.with_name("old.sqlite3.before-adoption").write_text("of another day")
    answer = adopt(old)
    assert answer["kept_as"].endswith("old.sqlite3.before-adoption-2")
    assert old.with_name("old.sqlite3.before-adoption").read_text() == "of another day"


def test_adopt_builds_every_trigger_and_index(old: Path) -> None:
    adopt(old)
    present = dict(rows(old, "SELECT name, sql FROM sqlite_master"))
    assert {each.name: each.create for each in expected("sqlite")}.items() <= present.items()
    assert "ix_library_files_dedup_group" in present
    with pytest.raises(sqlite3.IntegrityError), sqlite3.connect(old) as connection:
        connection.execute("INSERT INTO jobs (id, kind) VALUES ('another', 'scan')")
    connection.close()


def test_adopt_leaves_unknown_tables_and_columns_behind_and_says_so(old: Path) -> None:
    with sqlite3.connect(old) as connection:
        connection.execute("ALTER TABLE jobs ADD COLUMN Mood TEXT")
    connection.close()
    answer = adopt(old)
    assert answer["unknown_tables"] == ["schema_migrations"]
    assert answer["unknown_columns"] == {"jobs": ["Mood"]}
    assert rows(old, "SELECT 1 FROM sqlite_master WHERE name = 'schema_migrations'") == []


def test_adopt_twice_changes_nothing_the_second_time(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    adopt(old)
    bytes_before, names = old.read_bytes(), {each.name for each in old.parent.iterdir()}
    call_command("adopt", str(old))
    assert "nothing was changed" in capsys.readouterr().out
    assert old.read_bytes() == bytes_before
    assert {each.name for each in old.parent.iterdir()} == names


def test_adopt_keeps_the_oldest_running_job_and_makes_room_for_it(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite3"
    with old_database(path) as database:
        database.job(A, "SCAN", "PENDING", "2020-01-01 00:00:00")
        database.job(B, "HASH", "RUNNING", "2022-01-01T01:30:00+02:00", worker_id="late", error_code="OLD")
        database.job(
            C, "SCAN", "RUNNING", "2021-12-31 23:00:00.5", worker_id="first", lease_expires_at="2022-01-01 01:00:00"
        )
        database.job(D, "HASH", "PENDING", "2019-01-01 00:00:00")
        database.job(E, "THUMBNAIL", "RUNNING", "2018-01-01 00:00:00", worker_id="other")
    answer = adopt(path)
    found = rows(path, "SELECT id, status, error_code, worker_id, lease_expires_at, progress FROM jobs ORDER BY id")
    assert found == [
        (dashed(A), "retryable", SURPLUS_PENDING, None, None, 0.25),
        (dashed(B), "retryable", SURPLUS_RUNNING, None, None, 0.25),
        (dashed(C), "running", None, "first", "2022-01-01 01:00:00", 0.25),
        (dashed(D), "retryable", SURPLUS_PENDING, None, None, 0.25),
        (dashed(E), "running", None, "other", None, 0.25),
    ]
    assert {each["id"] for each in answer["recovered"]} == {dashed(A), dashed(B), dashed(D)}


def test_adopt_keeps_the_oldest_pending_job_where_none_runs(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite3"
    with old_database(path) as database:
        database.job(B, "HASH", "pending", "2020-01-01 00:00:00")
        database.job(A, "SCAN", "Pending", "2020-01-01T00:00:00.000Z")
        database.job(C, "SCAN", "pending", None)
    adopt(path)
    assert rows(path, "SELECT id, status FROM jobs ORDER BY id") == [
        (dashed(A), "pending"),
        (dashed(B), "retryable"),
        (dashed(C), "retryable"),
    ]


def test_adopt_keeps_one_active_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite3"
    with old_database(path) as database:
        database.checkpoint(1, "PENDING", "2020-01-01 00:00:00")
        database.checkpoint(2, "RUNNING", "2020-01-03 00:00:00", worker_id="w", retry_count=4)
        database.checkpoint(3, "RUNNING", "2020-01-02 00:00:00")
        database.checkpoint(4, "RETRYABLE", "2020-01-01 00:00:00")
    adopt(path)
    found = rows(path, "SELECT id, status, error_code, worker_id, retry_count FROM wal_maintenance_jobs ORDER BY id")
    assert found == [
        (1, "retryable", SURPLUS_PENDING, None, 0),
        (2, "retryable", SURPLUS_RUNNING, None, 4),
        (3, "running", None, None, 0),
        (4, "retryable", None, None, 0),
    ]


def test_adopt_tells_the_logbook_of_itself_and_of_every_recovered_job(old: Path) -> None:
    adopt(old)
    history = rows(
        old,
        "SELECT event_type, status_to, error_code, payload_json"
        " FROM logbook_events e JOIN logbook_items i ON i.id = e.item_id"
        f" WHERE i.item_type = 'jobs' AND subject_id = '{dashed(B)}' ORDER BY e.id",
    )
    assert [event[:3] for event in history] == [("status", "retryable", SURPLUS_PENDING), ("recovered", None, None)]
    assert json.loads(history[1][3])["kept_active"] == dashed(A)
    ((payload,),) = rows(
        old,
        "SELECT payload_json FROM logbook_events e JOIN logbook_items i ON i.id = e.item_id"
        " WHERE i.item_type = 'database' AND event_type = 'adopted'",
    )
    told = json.loads(payload)
    assert told["kept_as"] == "old.sqlite3.before-adoption"
    assert told["copied"] == {**dict.fromkeys(told["copied"], 1), "jobs": 3, "library_files": 2}


def test_adopt_completes_columns_that_the_old_file_never_had(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite3"
    with old_database(path) as database:
        database.library()
        # A number that SQLite could only keep as a float has lost digits.
        database.file(1, "a.jpg", inode=2**63 - 1, device=float(2**64 - 1))
        database.add("io_rate_limits", bucket_key="b")
        database.connection.execute("ALTER TABLE jobs DROP COLUMN progress")
        database.add("jobs", id=A, kind="SCAN", status="FAILED")
    adopt(path)
    found = rows(path, "SELECT is_missing, needs_hash, hash_algorithm, content_hash, inode, device FROM library_files")
    assert found == [(0, 1, None, None, 2**63 - 1, None)]
    ((attempts, progress, payload, created_at),) = rows(
        path, "SELECT attempts, progress, payload, created_at FROM jobs"
    )
    assert (attempts, progress, payload) == (0, 0.0, "{}")
    assert created_at[10] == " "
    assert rows(path, "SELECT next_available_at_ms FROM io_rate_limits") == [(0,)]


def test_adopt_asks_for_a_hash_where_digest_or_algorithm_is_not_known(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite3"
    raw = hashlib.sha256(b"").digest()
    with old_database(path, has_hash_columns=True) as database:
        database.library()
        database.file(1, "known", hash_algorithm="BLAKE3", content_hash=raw)
        database.file(2, "told", content_hash=f"sha256:{raw.hex()}", is_missing="true")
        database.file(3, "no algorithm", content_hash=raw, needs_hash=0)
        database.file(4, "too short", hash_algorithm="sha256", content_hash=raw[:16], needs_hash=0)
        database.file(5, "no digest", hash_algorithm="sha256", needs_hash=0)
        database.file(6, "changed since", hash_algorithm="sha256", content_hash=raw, needs_hash=1)
    answer = adopt(path)
    found = rows(path, "SELECT id, hash_algorithm, content_hash, needs_hash, is_missing FROM library_files ORDER BY id")
    assert found == [
        (1, "blake3", raw, 0, 0),
        (2, "sha256", raw, 0, 1),
        (3, None, raw, 1, 0),
        (4, "sha256", None, 1, 0),
        (5, "sha256", None, 1, 0),
        (6, "sha256", raw, 1, 0),
    ]
    assert sorted(note["ids"] for note in answer["changed"]["library_files"].values()) == [["3"], ["4"]]


def test_adopt_keeps_the_most_recent_of_files_with_the_same_path(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite3"
    with old_database(path) as database:
        database.library()
        database.library(2, "music")
        database.file(1, "a", updated_at="2023-01-01T12:00:00+05:00", size_bytes=1)
        database.file(2, "a", updated_at="2023-01-01 08:00:00", size_bytes=2)
        database.file(3, "a", updated_at=None, size_bytes=3)
        database.file(4, "a", library_id=2)
        database.thumbnail(1, file_id=1)
        database.thumbnail(2, file_id=2)
    answer = adopt(path)
    assert rows(path, "SELECT id, size_bytes FROM library_files ORDER BY id") == [(2, 2), (4, 10)]
    assert rows(path, "SELECT id FROM thumbnails") == [(2,)]
    (note,) = answer["left_out"]["library_files"].values()
    assert note == {"rows": 2, "ids": ["1", "3"]}


def test_adopt_leaves_out_rows_without_their_parent(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite3"
    with old_database(path) as database:
        database.library()
        database.file(1, "a", library_id=5)
        database.file(2, "b")
        database.thumbnail(1, file_id=1)
        database.thumbnail(2, file_id=2)
        database.thumbnail(3, file_id=77)
    answer = adopt(path)
    assert rows(path, "SELECT id FROM library_files") == [(2,)]
    assert rows(path, "SELECT id FROM thumbnails") == [(2,)]
    assert [note["rows"] for note in answer["left_out"]["thumbnails"].values()] == [2]
    assert [note["rows"] for note in answer["left_out"]["library_files"].values()] == [1]


def test_adopt_survives_text_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite3"
    with old_database(path) as database:
        database.library()
        database.file(1, "plain")
        database.connection.execute("UPDATE library_files SET relative_path = CAST(x'636166e9' AS TEXT)")
        database.file(2, "café".encode())
        database.job(A, "SCAN", "FAILED", "2020-01-01 00:00:00")
        database.connection.execute("UPDATE jobs SET error_message = CAST(x'ff20626164' AS TEXT)")
    answer = adopt(path)
    assert rows(path, "SELECT id, relative_path FROM library_files") == [(2, "café")]
    assert rows(path, "SELECT error_message FROM jobs") == [("? bad",)]
    assert answer["left_out"]["library_files"] == {
        "its path is not UTF-8; the next scan finds it again": {"rows": 1, "ids": ["1"]}
    }


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("UPDATE jobs SET status = 'PAUSED'", ("jobs", A, "status", "'PAUSED'")),
        ("UPDATE library_files SET hash_algorithm = 'MD5'", ("library_files", "1", "hash_algorithm", "'MD5'")),
        ("UPDATE thumbnails SET media_type = 'audio'", ("thumbnails", "1", "media_type", "'audio'")),
        ("UPDATE scan_sessions SET started_at = 'yesterday'", ("scan_sessions", "7", "started_at", "'yesterday'")),
        ("UPDATE jobs SET created_at = 1683000000", ("jobs", A, "created_at", "1683000000")),
        ("UPDATE library_files SET size_bytes = 'big'", ("library_files", "1", "size_bytes", "'big'")),
        ("UPDATE jobs SET dry_run = 'maybe'", ("jobs", A, "dry_run", "'maybe'")),
        ("UPDATE jobs SET id = id || 'xxxxxx' WHERE kind = 'SCAN'", ("jobs", "id", "xxxxxx")),
        ("ALTER TABLE jobs DROP COLUMN status", ("jobs", "status")),
    ],
)
def test_adopt_refuses_what_it_would_have_to_guess(old: Path, sql: str, told: tuple[str, ...]) -> None:
    with sqlite3.connect(old) as connection:
        connection.execute(sql)
    connection.close()
    before = everything(old)
    with pytest.raises(CommandError) as refused:
        adopt(old)
    assert all(word in str(refused.value) for word in told), str(refused.value)
    assert everything(old) == before
    assert {each.name for each in old.parent.iterdir()} == {old.name}


def test_adopt_names_the_row_that_the_schema_refuses(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite3"
    with old_database(path) as database:
        database.job(A, "SCAN", "FAILED", "2020-01-01 00:00:00")
        database.job(dashed(A).upper(), "SCAN", "FAILED", "2020-01-01 00:00:00")
    with pytest.raises(CommandError, match=f"jobs {dashed(A)} can't be taken over: UNIQUE"):
        adopt(path)


def test_adopt_folds_the_log_in_before_it_reads(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite3"
    # The writer dies with its rows still in the log.
    code = (
        "import os, signal; from pathlib import Path; from tests.database.legacy import old_database\n"
        f"with old_database(Path({str(path)!r}), wal=True) as d: d.library()\n"
    )
    crash = code.replace(
        "d.library()", "d.library(); d.connection.execute('COMMIT'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", crash]).returncode == -signal.SIGKILL
    assert path.with_name("old.sqlite3-wal").stat().st_size > 0
    answer = adopt(path)
    assert answer["copied"]["library_roots"] == 1
    assert {each.name for each in tmp_path.iterdir()} == {"old.sqlite3", "old.sqlite3.before-adoption"}
    assert rows(tmp_path / "old.sqlite3.before-adoption", "SELECT name FROM library_roots") == [("photos",)]


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_adopt_refuses_while_an_old_writer_is_connected(old: Path, mode: str) -> None:
    program = (
        "import sqlite3, sys\n"
        f"c = sqlite3.connect({str(old)!r}); c.execute('PRAGMA journal_mode={mode}')\n"
        "c.execute('SELECT * FROM jobs').fetchall()\n"
        "print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"open\n"
        before = everything(old)
        with pytest.raises(CommandError, match=f"process {writer.pid}"):
            adopt(old)
        assert everything(old) == before
        writer.kill()
    assert adopt(old)["adopted"]


def test_adopt_gives_a_refused_file_its_journal_mode_back(old: Path) -> None:
    with sqlite3.connect(old) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("UPDATE jobs SET kind = 'BAKE'")
    connection.close()
    with pytest.raises(CommandError, match="BAKE"):
        adopt(old)
    assert rows(old, "PRAGMA journal_mode") == [("wal",)]


@pytest.mark.parametrize("content", [b"", b"hello", b"SQLite format 3\x00 but then not"])
def test_adopt_refuses_what_is_no_database(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "old.sqlite3"
    path.write_bytes(content)
    with pytest.raises(CommandError, match=r"SQLite|database"):
        adopt(path)
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_adopt_refuses_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no file"):
        adopt(tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []


def test_adopt_refuses_a_database_about_something_else(tmp_path: Path) -> None:
    path = tmp_path / "bookmarks.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookmarks (id INTEGER)")
    connection.close()
    with pytest.raises(CommandError, match="none of the tables"):
        adopt(path)


def test_adopt_streams_many_files(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite3"
    with old_database(path, has_hash_columns=True) as database:
        database.library()
        rows_of_files = ((key, f"dir/{key % 97}/{key}.jpg", key, f"{key:064x}") for key in range(1, 50_001))
        database.connection.executemany(
            "INSERT INTO library_files"
            " (id, library_id, relative_path, size_bytes, mtime_ns, hash_algorithm, content_hash)"
            " VALUES (?, 1, ?, ?, 1, 'BLAKE3', ?)",
            rows_of_files,
        )
    answer = adopt(path)
    assert answer["found"]["library_files"] == answer["copied"]["library_files"] == 50_000
    found = rows(
        path, "SELECT COUNT(*), SUM(needs_hash), MIN(length(content_hash)), SUM(size_bytes) FROM library_files"
    )
    assert found == [(50_000, 0, 32, sum(range(1, 50_001)))]
    assert sound(path)


def adopt_in_a_fork(path: Path, environment: dict[str, str]) -> int:
    """Adopt in a process that may be killed; return how it ended."""
    connections.close_all()
    child = os.fork()
    if child == 0:
        os.environ.update(environment)
        crash_points.read_variables()
        try:
            adopt(path)
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_adopt_killed_anywhere_leaves_the_old_file_or_the_new_one(old: Path) -> None:
    untouched = old.with_name("untouched")
    shutil.copy2(old, untouched)
    before = everything(untouched)
    adopted_after: list[int] = []

    def look(number: int) -> None:
        assert sound(old)
        if "django_migrations" not in everything(old):
            assert everything(old) == before
            return
        adopted_after.append(number)
        assert rows(old, "SELECT COUNT(*) FROM jobs") == [(3,)]
        (kept,) = old.parent.glob("old.sqlite3.before-adoption*")
        assert everything(kept) == before
        # So that the later points are reached, too.
        kept.unlink()
        shutil.copy2(untouched, old)

    kills = killed_at_each_point(lambda env: adopt_in_a_fork(old, env), "adopt", look)
    assert kills >= 12
    assert adopted_after
    assert everything(old.with_name("old.sqlite3.before-adoption")) == before
    assert {each.name for each in old.parent.iterdir()} == {"old.sqlite3", "old.sqlite3.before-adoption", "untouched"}
    assert rows(old, "SELECT COUNT(*) FROM jobs") == [(3,)]
    assert sound(old)


def test_adopted_file_is_one_that_the_program_runs_on(installation: Installation, old: Path) -> None:
    installation.database.unlink()
    old.rename(installation.database)
    killed = installation.manage("adopt", "dedupfs.sqlite3", env={"DEDUPFS_CRASH_POINT": "adopt:2"})
    assert killed.returncode == -signal.SIGKILL
    done = installation.manage("adopt", "dedupfs.sqlite3")
    assert done.returncode == 0, done.stderr
    assert f"jobs {dashed(B)}: was pending, now retryable ({SURPLUS_PENDING})." in done.stdout
    checked = installation.manage("migrate", "--check")
    assert checked.returncode == 0, checked.stdout
    assert installation.manage("backup").returncode == 0
    left = {name for name in installation.names() if not name.startswith(("huey", "secret_key", "backups"))}
    assert left == {"dedupfs.sqlite3", "dedupfs.sqlite3.before-adoption"}
