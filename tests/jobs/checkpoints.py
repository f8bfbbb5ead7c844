"""What tests of checkpoints have in common: a log with something in it, and somebody who reads for long."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection

from database.clock import SecondsFromNow
from jobs.executing import drain
from jobs.models import WalMaintenanceJob
from jobs.wal_deciding import QUEUE
from logbook.models import write_event

on_sqlite = pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL has no log of SQLite's")
on_postgresql = pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has the log")


def fill_log(events: int = 20) -> None:
    """Pages that are in the log and not yet in the database."""
    for number in range(events):
        write_event("test", f"{number}", "filled", words="x" * 5000)


def empty_log() -> None:
    """A file without any length: one that an earlier test has left large would not grow."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert cursor.fetchone()[0] == 0, "somebody reads"


@contextmanager
def long_reader() -> Iterator[None]:
    """Somebody who began to read, and stays."""
    reader = sqlite3.connect(str(connection.settings_dict["NAME"]), isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT COUNT(*) FROM logbook_events").fetchall()
    try:
        yield
    finally:
        reader.close()


#: The byte of SQLite's shared memory that whoever makes a checkpoint has locked meanwhile (WAL_CKPT_LOCK).
_HOLD = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX, 1, 121)
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def other_checkpoint() -> Iterator[None]:
    """Another process makes a checkpoint: not this one, which would let go of its own locks with the file."""
    command = [sys.executable, "-c", _HOLD, f"{connection.settings_dict['NAME']}-shm"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        yield
        other.stdin.close()


def carry_out() -> int:
    return drain(QUEUE)


def again(row: WalMaintenanceJob) -> None:
    """Let the time of a row's next try come."""
    WalMaintenanceJob.objects.filter(pk=row.pk).update(retry_after=SecondsFromNow(-1))


def completed(seconds_ago: float = 0, **fields: Any) -> WalMaintenanceJob:
    """One that somebody carried out."""
    row = WalMaintenanceJob.objects.create(created_at=SecondsFromNow(-seconds_ago - 1), **fields)
    lease = WalMaintenanceJob.objects.filter(pk=row.pk).claim("factory")
    assert lease is not None
    lease.finish("completed", checkpoint_busy=0, checkpoint_log_frames=7, checkpointed_frames=7)
    WalMaintenanceJob.objects.filter(pk=row.pk).update(finished_at=SecondsFromNow(-seconds_ago))
    row.refresh_from_db()
    return row
