from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import connections

from tests.database.installations import Installation, sound
from tests.waiting import until

pytestmark = pytest.mark.skipif(
    connections["default"].vendor != "sqlite", reason="about SQLite files; runs in the pass on SQLite"
)
LIBRARY = "INSERT INTO library_roots (id, name, root_path) VALUES (1, 'photos', '/libraries/photos')"
#: Adds one file after another, each in a transaction of its own, until it is ended.
WRITER = """
import itertools, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=20)
for number in itertools.count():
    connection.execute(
        "INSERT INTO library_files (library_id, relative_path, size_bytes, mtime_ns) VALUES (1, ?, 1, 1)",
        [f"new/{number}"],
    )
    if number == 0:
        print("writing", flush=True)
"""


@contextmanager
def busy_writer(database: Path) -> Iterator[None]:
    command = [sys.executable, "-c", WRITER, str(database)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"writing\n"
        try:
            yield
            assert writer.poll() is None
        finally:
            writer.kill()


def fill(installation: Installation, files: int) -> None:
    with installation.open() as connection:
        connection.execute(LIBRARY)
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO library_files (library_id, relative_path, size_bytes, mtime_ns) VALUES (1, ?, 1, 1)",
            ((f"{number:08d}/{'x' * 500}",) for number in range(files)),
        )
        connection.execute("COMMIT")


def test_backup_is_whole_while_another_process_writes(installation: Installation) -> None:
    fill(installation, 30_000)
    before = installation.rows("SELECT COUNT(*) FROM library_files")
    with busy_writer(installation.database):
        done = installation.manage("backup", "--json")
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        path = Path(answer["path"])
        copied = installation.rows("SELECT COUNT(*) FROM library_files", path)
        until(lambda: installation.rows("SELECT COUNT(*) FROM library_files") > copied, "the writer to go on")
    assert before < copied
    assert answer["rows"]["library_files"] == copied[0][0]
    assert sound(path)


def test_backup_is_one_private_file_in_the_state_folder(installation: Installation) -> None:
    done = installation.manage("backup")
    assert done.returncode == 0, done.stderr
    folder = installation.state / "backups"
    (path,) = folder.iterdir()
    assert str(path) in done.stdout
    assert path.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert installation.rows("PRAGMA journal_mode", path) == [("delete",)]
    assert installation.rows("SELECT app, name FROM django_migrations ORDER BY id", path) == installation.rows(
        "SELECT app, name FROM django_migrations ORDER BY id"
    )


def test_backup_never_overwrites_a_file(installation: Installation) -> None:
    target = installation.state / "precious"
    target.write_text("mine")
    done = installation.manage("backup", str(target))
    assert done.returncode == 1
    assert "exists already" in done.stderr
    assert target.read_text() == "mine"


def test_backup_goes_into_a_folder_that_is_named(installation: Installation, tmp_path: Path) -> None:
    done = installation.manage("backup", str(tmp_path), "--json")
    assert Path(json.loads(done.stdout)["path"]).parent == tmp_path


@pytest.mark.parametrize("target", ["missing/backup.sqlite3", "secret_key/backup.sqlite3"])
def test_backup_says_when_its_target_cannot_be_written(installation: Installation, target: str) -> None:
    before = installation.names()
    done = installation.manage("backup", target)
    assert done.returncode == 1
    assert "no backup could be written there" in done.stderr
    assert "Traceback" not in done.stderr
    assert installation.names() - before <= {"huey.sqlite3"}


def test_backup_on_a_full_disk_leaves_nothing_behind(installation: Installation) -> None:
    fill(installation, 3000)
    folder = installation.state / "backups"

    def disk_is_full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))

    done = installation.manage("backup", preexec_fn=disk_is_full)
    assert done.returncode == 1
    assert "disk" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(folder.iterdir()) == []


def test_backup_of_a_damaged_database_is_refused(installation: Installation) -> None:
    fill(installation, 3000)
    installation.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    with installation.database.open("r+b") as file:
        file.seek(installation.database.stat().st_size // 2)
        file.write(os.urandom(3 * 4096))
    done = installation.manage("backup")
    assert done.returncode == 1
    assert "damaged" in done.stderr
    assert list((installation.state / "backups").iterdir()) == []


def test_backup_of_nothing_says_so(installation: Installation) -> None:
    installation.database.unlink()
    done = installation.manage("backup")
    assert done.returncode == 1
    assert "nothing to back up" in done.stderr
    assert not installation.database.exists()


@pytest.mark.parametrize("point", [1, 2])
def test_backup_clears_away_what_a_killed_one_left(installation: Installation, point: int) -> None:
    killed = installation.manage("backup", env={"DEDUPFS_CRASH_POINT": f"backup:{point}"})
    assert killed.returncode == -signal.SIGKILL
    folder = installation.state / "backups"
    (draft,) = folder.iterdir()
    an_hour_ago = time.time() - 3600
    os.utime(draft, (an_hour_ago, an_hour_ago))
    assert installation.manage("backup").returncode == 0
    (path,) = folder.iterdir()
    assert path != draft
    assert sound(path)


def test_backup_leaves_the_draft_of_another_one_alone(installation: Installation) -> None:
    """One that is stopped in the middle still holds its draft."""
    fill(installation, 100)
    folder = installation.state / "backups"
    with subprocess.Popen(
        [sys.executable, "-c", _STOPPED_BACKUP], env=installation.environment, stdout=subprocess.PIPE
    ) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == b"copied\n"
            (draft,) = folder.glob(".*.dedupfs-part")
            os.utime(draft, (0, 0))
            assert installation.manage("backup").returncode == 0
            assert draft.exists()
        finally:
            other.kill()


_STOPPED_BACKUP = """
import signal, sys
from pathlib import Path
import django
sys.path.insert(0, {root!r})
django.setup()
from database import backing_up
def stop(point):
    print("copied", flush=True)
    signal.pause()
backing_up.reach = stop
backing_up.back_up()
""".replace("{root!r}", repr(str(Path(__file__).resolve().parents[2])))


def test_backup_tells_of_references_that_point_nowhere(installation: Installation) -> None:
    with installation.open() as connection:
        connection.execute("PRAGMA foreign_keys=OFF")
        connection.execute(
            "INSERT INTO library_files (library_id, relative_path, size_bytes, mtime_ns) VALUES (9, 'lost', 1, 1)"
        )
    done = installation.manage("backup", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["dangling_references"] == 1
