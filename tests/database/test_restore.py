from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connections

from tests.database.installations import Installation, killed_at_each_point, sound
from tests.database.legacy import old_database

pytestmark = pytest.mark.skipif(
    connections["default"].vendor != "sqlite", reason="about SQLite files; runs in the pass on SQLite"
)
IN_BACKUP = [("in the backup",)]
SINCE = [("in the backup",), ("since then",)]


def add_library(installation: Installation, name: str) -> None:
    with installation.open() as connection:
        connection.execute("INSERT INTO library_roots (name, root_path) VALUES (?, ?)", [name, f"/libraries/{name}"])


def libraries(installation: Installation, path: Path | None = None) -> list[tuple[str]]:
    return installation.rows("SELECT name FROM library_roots ORDER BY id", path)


@pytest.fixture(scope="session")
def backed_up_state(migrated_state: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup beside a database that has moved on since; made once and only copied from."""
    state = tmp_path_factory.mktemp("backed-up")
    shutil.copytree(migrated_state, state, dirs_exist_ok=True)
    add_library(Installation(state), "in the backup")
    done = Installation(state).manage("backup", "backup.sqlite3")
    assert done.returncode == 0, done.stderr
    add_library(Installation(state), "since then")
    return state


@pytest.fixture
def backup(installation: Installation, backed_up_state: Path, tmp_path: Path) -> Path:
    shutil.copy2(backed_up_state / "dedupfs.sqlite3", installation.database)
    return Path(shutil.copy2(backed_up_state / "backup.sqlite3", tmp_path / "backup.sqlite3"))


def refused(installation: Installation, backup: Path) -> str:
    """Try to restore; see that nothing changed; return why not."""
    before, names = libraries(installation), installation.names()
    done = installation.manage("restore", str(backup))
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    assert libraries(installation) == before
    assert installation.names() - names <= {"up.lock", "huey.sqlite3"}
    return str(done.stderr)


def test_restore_puts_the_backup_in_place_and_keeps_the_database_of_before(
    installation: Installation, backup: Path
) -> None:
    installation.database.chmod(0o640)
    (installation.state / "acts.witness").write_text("{}")  # of the database of before
    done = installation.manage("restore", str(backup), "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert libraries(installation) == IN_BACKUP
    assert libraries(installation, Path(answer["kept_as"])) == SINCE
    assert Path(answer["kept_as"]).name.startswith("dedupfs.sqlite3.before-restore-")
    assert answer["migrated"] == []
    assert installation.database.stat().st_mode & 0o777 == 0o640
    assert not [name for name in installation.names() if name.startswith(".") or name.endswith(("-wal", "-shm"))]
    assert sound(installation.database)
    assert "acts.witness" not in installation.names()


def test_restore_is_told_in_the_logbook(installation: Installation, backup: Path) -> None:
    assert installation.manage("restore", str(backup)).returncode == 0
    ((event, payload),) = installation.rows("SELECT event_type, payload_json FROM logbook_events")
    assert event == "restored"
    assert json.loads(payload) == {"backup": "backup.sqlite3"}


def test_restore_refuses_while_the_supervisor_runs(installation: Installation, backup: Path) -> None:
    with (installation.state / "up.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "stop it first" in refused(installation, backup)


def test_restore_refuses_while_another_connection_is_open(installation: Installation, backup: Path) -> None:
    with installation.open() as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("SELECT * FROM jobs").fetchall()
        assert f"(process {os.getpid()})" in refused(installation, backup)
    assert installation.manage("restore", str(backup)).returncode == 0


def test_restore_refuses_while_a_consumer_is_alive(installation: Installation, backup: Path) -> None:
    with installation.open() as connection:
        connection.execute("INSERT INTO worker_heartbeats (worker_id) VALUES ('nas:1:abc')")
    assert "nas:1:abc" in refused(installation, backup)
    with installation.open() as connection:
        connection.execute("UPDATE worker_heartbeats SET stopped_at = last_seen_at")
    assert installation.manage("restore", str(backup)).returncode == 0


def test_restore_does_not_wait_for_a_consumer_that_died_long_ago(installation: Installation, backup: Path) -> None:
    with installation.open() as connection:
        connection.execute(
            "INSERT INTO worker_heartbeats (worker_id, last_seen_at) VALUES ('nas:1:abc', '2020-01-01 00:00:00')"
        )
    assert installation.manage("restore", str(backup)).returncode == 0


def test_restore_refuses_a_newer_backup(installation: Installation, backup: Path) -> None:
    with installation.open(backup) as connection:
        connection.execute("INSERT INTO django_migrations (app, name, applied) VALUES ('jobs', '9999_later', '')")
    assert "is newer than this version of DedupFS (it has jobs.9999_later)" in refused(installation, backup)


def test_restore_refuses_a_damaged_backup(installation: Installation, backup: Path) -> None:
    with backup.open("r+b") as file:
        file.seek(backup.stat().st_size // 2)
        file.write(os.urandom(20 * 4096))
    assert "damaged" in refused(installation, backup)


def test_restore_refuses_half_a_backup(installation: Installation, backup: Path) -> None:
    os.truncate(backup, backup.stat().st_size // 2)
    assert "damaged" in refused(installation, backup)


def test_restore_sends_an_old_implementation_s_file_to_adopt(installation: Installation, backup: Path) -> None:
    old = backup.with_name("old.sqlite3")
    with old_database(old) as database:
        database.library()
    assert "use `manage.py adopt`" in refused(installation, old)


@pytest.mark.parametrize(
    ("name", "why"),
    [("secret_key", "is no SQLite database"), ("nothing", "is no file"), ("dedupfs.sqlite3", "is the database itself")],
)
def test_restore_refuses_what_is_no_backup(installation: Installation, backup: Path, name: str, why: str) -> None:
    assert why in refused(installation, installation.state / name)


def test_restore_folds_the_old_log_into_the_kept_file(installation: Installation, backup: Path) -> None:
    """The old database's last rows are only in its log: they stay with it, and never reach the restored one."""
    crash = (
        "import os, signal, sqlite3, sys\n"
        "c = sqlite3.connect(sys.argv[1], isolation_level=None); c.execute('PRAGMA journal_mode=WAL')\n"
        "c.execute(\"INSERT INTO library_roots (name, root_path) VALUES ('in the log', '/x')\")\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    died = subprocess.run([sys.executable, "-c", crash, str(installation.database)])
    assert died.returncode == -signal.SIGKILL
    assert installation.database.with_name("dedupfs.sqlite3-wal").stat().st_size > 0
    done = installation.manage("restore", str(backup), "--json")
    assert done.returncode == 0, done.stderr
    assert libraries(installation) == IN_BACKUP
    assert libraries(installation, Path(json.loads(done.stdout)["kept_as"])) == [*SINCE, ("in the log",)]
    assert "dedupfs.sqlite3-wal" not in installation.names()


def test_restore_replaces_a_database_that_nobody_can_read(installation: Installation, backup: Path) -> None:
    installation.database.write_bytes(b"SQLite format 3\x00" + os.urandom(100_000))
    broken = installation.database.read_bytes()
    installation.database.with_name("dedupfs.sqlite3-wal").write_bytes(b"an old log")
    done = installation.manage("restore", str(backup), "--json")
    assert done.returncode == 0, done.stderr
    kept = Path(json.loads(done.stdout)["kept_as"])
    assert kept.read_bytes() == broken
    assert kept.with_name(kept.name + "-wal").read_bytes() == b"an old log"
    assert libraries(installation) == IN_BACKUP
    assert sound(installation.database)


def test_restore_into_an_empty_place_pairs_it_with_no_old_log(installation: Installation, backup: Path) -> None:
    with installation.open() as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("INSERT INTO library_roots (name, root_path) VALUES ('lost', '/lost')")
        log = installation.database.with_name("dedupfs.sqlite3-wal").read_bytes()
    installation.database.unlink()
    installation.database.with_name("dedupfs.sqlite3-wal").write_bytes(log)
    done = installation.manage("restore", str(backup), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kept_as"] is None
    assert libraries(installation) == IN_BACKUP
    assert sound(installation.database)


def test_restore_migrates_an_older_backup(installation: Installation, backup: Path) -> None:
    with installation.open(backup) as connection:
        connection.execute("DROP TABLE django_session")
        connection.execute("DELETE FROM django_migrations WHERE app = 'sessions'")
        connection.execute("DROP TRIGGER logbook_jobs_insert")
    done = installation.manage("restore", str(backup), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["migrated"] == ["sessions.0001_initial"]
    assert installation.rows("SELECT COUNT(*) FROM django_session") == [(0,)]
    assert installation.rows("SELECT 1 FROM sqlite_master WHERE name = 'logbook_jobs_insert'") == [(1,)]
    assert installation.rows("SELECT COUNT(*) FROM django_migrations WHERE app = 'sessions'", backup) == [(0,)]


def test_restore_leaves_the_database_alone_when_the_backup_cannot_be_migrated(
    installation: Installation, backup: Path
) -> None:
    with installation.open(backup) as connection:
        # Its table is there, so the migration that makes it fails.
        connection.execute("DELETE FROM django_migrations WHERE app = 'sessions'")
    assert "could not be migrated" in refused(installation, backup)


def test_restore_killed_anywhere_leaves_one_database_or_the_other(installation: Installation, backup: Path) -> None:
    restored_after: list[int] = []

    def look(number: int) -> None:
        assert sound(installation.database)
        if libraries(installation) == SINCE:
            return
        restored_after.append(number)
        assert libraries(installation) == IN_BACKUP
        add_library(installation, "since then")

    def run(environment: dict[str, str]) -> int:
        code: int = installation.manage("restore", str(backup), env=environment).returncode
        return code

    assert killed_at_each_point(run, "restore", look) >= 5
    assert restored_after
    assert libraries(installation) == IN_BACKUP
    kept = [installation.state / name for name in installation.names() if ".before-restore-" in name]
    assert all(libraries(installation, path) == SINCE for path in kept)
    # One for each run that got as far as the new file; none is a second name of the database.
    assert len(kept) == len(restored_after) + 1
    assert installation.database.stat().st_nlink == 1
    assert not [name for name in installation.names() if name.startswith(".")]


def test_restore_of_a_raw_copy_takes_its_log_too(installation: Installation, backup: Path, tmp_path: Path) -> None:
    """Somebody copied the files of a database in WAL mode by hand."""
    raw = tmp_path / "raw.sqlite3"
    connection = sqlite3.connect(backup, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("INSERT INTO library_roots (name, root_path) VALUES ('in its log', '/x')")
    raw.write_bytes(backup.read_bytes())
    raw.with_name("raw.sqlite3-wal").write_bytes(backup.with_name("backup.sqlite3-wal").read_bytes())
    connection.close()
    assert installation.manage("restore", str(raw)).returncode == 0
    assert libraries(installation) == [*IN_BACKUP, ("in its log",)]
