"""The disk of the state folder is full while a consumer works: nothing is torn, and with room again all is done."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import connections

from tests.conftest import ROOT
from tests.database.installations import Installation
from tests.trash.disks import Disk, loop_disk
from tests.waiting import until

pytestmark = pytest.mark.skipif(
    connections["default"].vendor != "sqlite", reason="PostgreSQL's disk belongs to its server, not to a consumer"
)
STEPS = 40
FULL = "database or disk is full"


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Made once and only copied from."""
    made = Installation(tmp_path_factory.mktemp("migrated"))
    done = made.manage("migrate", "--verbosity=0")
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with loop_disk(tmp_path / "disk", mebibytes=48) as disk:
        yield disk


@pytest.fixture
def installation(migrated: Installation, disk: Disk, tmp_path: Path) -> Installation:
    """Its database and Huey's lie on the small disk, with one job that another program has put there."""
    made = Installation(disk.point / "state")
    made.state.mkdir(mode=0o700)
    shutil.copy2(migrated.database, made.database)
    payload = {"library": 1, "steps": STEPS, "hold": 5, "gate": str(tmp_path / "gate")}
    with made.open() as database:
        # The hash job that follows a scan by itself has nothing to do here.
        database.execute("INSERT INTO hash_states (id, is_paused) VALUES (1, 1)")
        database.execute("INSERT INTO library_roots (id, name, root_path) VALUES (1, 'photos', '/photos')")
        database.execute("INSERT INTO jobs (id, kind, payload) VALUES ('j', 'scan', ?)", [json.dumps(payload)])
    return made


@contextmanager
def consumer(installation: Installation, log: Path, lease_seconds: str) -> Iterator[subprocess.Popen[str]]:
    quick = {f"DEDUPFS_{name}_SECONDS": "1" for name in ("SWEEP", "HEARTBEAT", "SQLITE_BUSY")}
    steps = {"DJANGO_SETTINGS_MODULE": "tests.settings", "PYTHONPATH": str(ROOT)}
    environment = {**installation.environment, **steps, **quick, "DEDUPFS_LEASE_SECONDS": lease_seconds}
    with log.open("w") as file:
        command = [sys.executable, str(ROOT / "manage.py"), "run_huey"]
        process = subprocess.Popen(command, env=environment, stdout=file, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def fill(disk: Disk, installation: Installation) -> Path:
    """No page more can be written. The log is emptied before: into its old length something could be."""
    with installation.open() as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return disk.fill()


def statuses(installation: Installation) -> list[tuple[str | None, ...]]:
    """How the job moved, with the reasons."""
    return installation.rows(
        "SELECT status_from, status_to, error_code FROM logbook_events e JOIN logbook_items i ON i.id = e.item_id"
        " WHERE i.item_type = 'jobs' AND e.event_type = 'status' ORDER BY e.id"
    )


@pytest.mark.parametrize(
    ("lease_seconds", "told", "code"),
    [
        ("60", "The outcome of j can't be written yet", "DATABASE_UNAVAILABLE"),
        # Long enough to live until the disk is full. By which clock it is seen first that it ran out is chance.
        ("10", "Unhandled exception in task|its outcome is not written", "LEASE_EXPIRED"),
    ],
    ids=["for a moment", "for longer than the lease"],
)
def test_a_consumer_whose_disk_is_full_tears_nothing_and_goes_on_with_room(
    lease_seconds: str, told: str, code: str, disk: Disk, installation: Installation, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with consumer(installation, log, lease_seconds) as process:
        until((tmp_path / "gate.reached").exists, "the job to be under way")
        filler = fill(disk, installation)
        (tmp_path / "gate").touch()
        until(lambda: f"jobs j is given back: {FULL}" in log.read_text(), "the consumer to say what is wrong")
        until(lambda: re.search(told, log.read_text()), "the consumer to find that it can't give the job back")
        assert installation.rows("SELECT status FROM jobs") == [("running",)]
        assert installation.rows("PRAGMA integrity_check") == [("ok",)]
        filler.unlink()
        until(lambda: installation.rows("SELECT status FROM jobs") == [("completed",)], "the job to be done")
        assert process.poll() is None, "it lived on"
    assert ("running", "retryable", code) in statuses(installation)
    steps = installation.rows("SELECT size_bytes FROM library_files ORDER BY size_bytes")
    assert steps == [(step,) for step in range(STEPS)], "each step is taken once"
    for file in installation.state.glob("*.sqlite3"):
        assert installation.rows("PRAGMA integrity_check", file) == [("ok",)], file
