"""Checkpoints of SQLite's write-ahead log, as an executor carries them out.

`restart` and `truncate` keep every writer waiting while they wait for readers. So most of the log is copied by a
passive checkpoint first, which disturbs nobody, and the rest is tried with little patience: what is busy comes again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connections
from django.db.models import Exists, F, OuterRef, Q

from database.clock import SecondsFromNow
from database.crash_points import reach
from database.routing import EXECUTOR
from jobs.enforcing import writing
from jobs.executing import Handler, Outcome, Queue, carry_out_here, register_queue, worker_name
from jobs.models import WalMaintenanceJob, WalMaintenanceQuerySet
from jobs.wal_deciding import QUEUE, allowed_modes, not_allowed
from jobs.working import Work

WAL_CHECKPOINT_BUSY = "WAL_CHECKPOINT_BUSY"
WAL_CHECKPOINT_FAILED = "WAL_CHECKPOINT_FAILED"
BUSY_MESSAGE = "Somebody was reading or writing and did not end in time; it is tried again by itself."
NO_WAL_MESSAGE = "The database keeps no write-ahead log (its journal mode is not WAL)."
NOT_SQLITE_MESSAGE = "This does not apply: the database is not SQLite."
#: Writers wait as long as this at the most; by then those that came first have waited no longer than SQLite lets them.
PATIENCE_SECONDS = 5
LONGEST_RETRY_SECONDS = 3600


@dataclass(frozen=True)
class Copied:
    """SQLite's answer: whether something was in the way, and how much of the log is in the database now."""

    busy: int
    log_frames: int
    frames: int

    def columns(self) -> dict[str, int]:
        return {
            "checkpoint_busy": self.busy,
            "checkpoint_log_frames": self.log_frames,
            "checkpointed_frames": self.frames,
        }


def checkpoint(work: Work[WalMaintenanceJob]) -> Outcome:
    """Carry out one row; what went wrong is the row's outcome."""
    reach("wal_started")
    if connections[EXECUTOR].vendor != "sqlite":
        return Outcome("failed", WAL_CHECKPOINT_FAILED, NOT_SQLITE_MESSAGE)
    if work.row.requested_mode not in allowed_modes():
        # It was when it was asked for; a retry may come after the setting has changed.
        return Outcome("failed", WAL_CHECKPOINT_FAILED, not_allowed(work.row.requested_mode))
    try:
        copied = _copy(work)
    except DatabaseError as error:
        if not _is_locked(error):
            # Given back it would be taken up again at once, and find the same full or broken disk.
            return Outcome("failed", WAL_CHECKPOINT_FAILED, f"{type(error).__name__}: {error}")
        copied = Copied(1, -1, -1)
    reach("wal_copied")
    if copied.busy:
        more = {"retry_count": F("retry_count") + 1, "retry_after": SecondsFromNow(retry_seconds(work.row.retry_count))}
        return Outcome("retryable", WAL_CHECKPOINT_BUSY, BUSY_MESSAGE, {**copied.columns(), **more})
    if copied.log_frames < 0:
        return Outcome("failed", WAL_CHECKPOINT_FAILED, NO_WAL_MESSAGE)
    return Outcome(columns=copied.columns())


def retry_seconds(retries: int) -> int:
    """How long to wait after so many tries that came to nothing: 2 min, 4 min, up to an hour."""
    return min(WalMaintenanceJob.RETRY_SECONDS << min(retries, 10), LONGEST_RETRY_SECONDS)


def _is_locked(error: DatabaseError) -> bool:
    """Whether others kept the database for themselves longer than is waited for, such as while it was opened."""
    return str(getattr(error.__cause__, "sqlite_errorname", "")).startswith("SQLITE_BUSY")


def _copy(work: Work[WalMaintenanceJob]) -> Copied:
    mode = work.row.requested_mode
    with _impatient(), writing("success"):
        work.advance(doing="passive")
        copied = _pragma("passive")
        reach("wal_passive")
        if mode == WalMaintenanceJob.Mode.PASSIVE:
            return copied
        work.check()
        work.advance(doing=mode)
        whole = _pragma(mode)
    return _told(copied, whole)


def _told(copied: Copied, whole: Copied) -> Copied:
    """SQLite's last answer, with the figures of the passive one where it has none of its own.

    Where another checkpoint is in the way SQLite says busy and -1 frames, at the first copy or at the second.
    `truncate` says 0 frames, since none are left.
    """
    if whole.busy:
        return whole if whole.log_frames >= 0 else Copied(1, copied.log_frames, copied.frames)
    return whole if whole.log_frames or copied.log_frames < 0 else Copied(0, copied.log_frames, copied.log_frames)


def _pragma(mode: str) -> Copied:
    """Outside every transaction: SQLite refuses it inside one. It takes no parameters, so the mode is one of three."""
    statement = {
        "passive": "PRAGMA wal_checkpoint(PASSIVE)",
        "restart": "PRAGMA wal_checkpoint(RESTART)",
        "truncate": "PRAGMA wal_checkpoint(TRUNCATE)",
    }[mode]
    with connections[EXECUTOR].cursor() as cursor:
        cursor.execute(statement)
        ((busy, log_frames, frames),) = cursor.fetchall()
    return Copied(busy, log_frames, frames)


@contextmanager
def _impatient() -> Iterator[None]:
    """An executor's connection of its own for this thread, which waits for others only so long."""
    usual = connections[EXECUTOR]
    own: Any = usual.copy()
    own.settings_dict["OPTIONS"]["timeout"] = min(PATIENCE_SECONDS, settings.SQLITE_BUSY_SECONDS)
    connections[EXECUTOR] = own
    try:
        yield
    finally:
        own.close()
        connections[EXECUTOR] = usual


# --- The queue --------------------------------------------------------------------------------------------
def claimable() -> WalMaintenanceQuerySet:
    """All rows but retries too soon after a checkpoint that was completed since they were asked for."""
    lately = WalMaintenanceJob.objects.filter(
        status="completed",
        finished_at__gt=SecondsFromNow(-settings.WAL_INTERVAL_SECONDS),
        finished_at__gte=OuterRef("created_at"),
    )
    return WalMaintenanceJob.objects.exclude(Q(status="retryable") & Exists(lately))


def _handler_of(_row: Any) -> Handler:
    return checkpoint


def carry_out_now(row: WalMaintenanceJob) -> bool:
    """Carry one row out in this process, where its time has come; whether it could be had."""
    lease = claimable().filter(pk=row.pk).claim(worker_name())
    if lease is not None:
        carry_out_here(QUEUE, lease)
    return lease is not None


def register() -> None:
    register_queue(Queue(QUEUE, claimable, _handler_of))
