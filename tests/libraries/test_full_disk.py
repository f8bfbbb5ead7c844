"""The disk of the database is full in the middle of a scan."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.tree import tree
from tests.waiting import DEADLINE_SECONDS

FILES = 4_000
#: What is left on the disk when the scan begins: enough for its beginning, and a third of what its rows take.
ROOM_BYTES = 512 << 10


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    point = tmp_path / "disk"
    point.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=700", "dedupfs-full", point], check=True)
    yield point
    subprocess.run(["umount", point], check=True)


@pytest.fixture
def environment(child_environment: dict[str, str], tmp_path: Path, disk: Path) -> dict[str, str]:
    """SQLite on that disk, whatever the other tests use."""
    return {
        **child_environment,
        "DATABASE_URL": "",
        "DEDUPFS_STATE_ROOT": str(disk / "state"),
        "DEDUPFS_LIBRARIES_ROOT": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "dedupfs_site.settings",
    }


def start(environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(ROOT / "manage.py"), *arguments]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def succeeds(environment: dict[str, str], *arguments: str) -> None:
    with start(environment, *arguments) as process:
        _, said = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 0, said


def query(disk: Path, sql: str) -> list[tuple[Any, ...]]:
    database = sqlite3.connect(disk / "state/dedupfs.sqlite3")
    try:
        return database.execute(sql).fetchall()
    finally:
        database.close()


def fill_up(disk: Path) -> Path:
    """Leave little room; return what takes the rest."""
    filler = disk / "filler"
    with filler.open("wb") as file:
        left = os.statvfs(disk)
        os.posix_fallocate(file.fileno(), 0, left.f_bavail * left.f_bsize - ROOM_BYTES)
    return filler


def test_a_scan_whose_database_has_no_room_is_given_back_whole_and_completed_later(
    environment: dict[str, str], tmp_path: Path, disk: Path
) -> None:
    tree(tmp_path / "photos", {f"{number % 40}/{number}": b"%d" % number for number in range(FILES)})
    succeeds(environment, "add_library", "photos", str(tmp_path / "photos"))
    filler = fill_up(disk)
    with start(environment, "scan", "--now") as process:
        assert process.stderr is not None
        said = next((line for line in process.stderr if "database or disk is full" in line), "")
        filler.unlink()  # giving back may have to wait for that
        process.communicate(timeout=DEADLINE_SECONDS)
    assert "is given back" in said
    assert process.returncode == 1
    assert query(disk, "PRAGMA integrity_check") == [("ok",)]
    given_back = query(disk, "SELECT id, status, error_code FROM jobs WHERE kind = 'scan'")
    assert [row[1:] for row in given_back] == [("retryable", "DATABASE_UNAVAILABLE")]
    assert query(disk, "SELECT status FROM scan_requests") == [("pending",)]
    assert query(disk, "SELECT count(*) FROM library_files") < [(FILES,)]

    succeeds(environment, "scan", "--now")
    assert query(disk, "PRAGMA integrity_check") == [("ok",)]
    assert query(disk, "SELECT id, status FROM jobs WHERE kind = 'scan'") == [(given_back[0][0], "completed")]
    assert query(disk, "SELECT DISTINCT status FROM jobs") == [("completed",)]
    assert query(disk, "SELECT status FROM scan_sessions ORDER BY id") == [("failed",), ("succeeded",)]
    found = query(disk, "SELECT count(*), count(content_hash), sum(is_missing) FROM library_files")
    assert found == [(FILES, FILES, 0)]
