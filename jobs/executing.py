"""Executors: what a consumer does with a queue, whatever the queue holds.

A room registers a queue (a leased table) and handlers for its rows. Claiming, renewing, giving back and recording the
outcome are done here once, for all of them.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.db import DatabaseError, InterfaceError, OperationalError, connections

from database.crash_points import reach
from jobs import stopping
from jobs.doorbell import ring
from jobs.errors import GivesWay, LeaseLost, Stopping
from jobs.lease import Lease, LeasedQuerySet
from jobs.working import Work, kept_alive

logger = logging.getLogger(__name__)
WORKER_FAILURE = "WORKER_FAILURE"
DATABASE_UNAVAILABLE = "DATABASE_UNAVAILABLE"
#: A handler that ends as `retryable` with this code let something more urgent go first; it is no failed attempt.
GAVE_WAY = "GAVE_WAY"
#: The same, since somebody has paused its kind of work.
PAUSED = "PAUSED"
#: The same, since another process acts on files at this moment.
ACT_LOCKED = "ACT_LOCKED"


#: A long queue gives its thread back now and then, so that the other queues get their turn.
TURN_SECONDS = 10.0


@dataclass(frozen=True)
class Outcome:
    """How a row ends, with the columns that tell of it."""

    status: str = "completed"
    code: str | None = None
    message: str | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)


Handler = Callable[[Work[Any]], Outcome | None]


def _failed(_row: Any, error: Exception) -> Outcome:
    return Outcome("failed", WORKER_FAILURE, f"{type(error).__name__}: {error}")


@dataclass(frozen=True)
class Queue:
    """A leased table and who carries out its rows.

    `claimable` narrows the table to rows that some handler here can carry out; the rest wait for a worker elsewhere.
    """

    name: str
    claimable: Callable[[], LeasedQuerySet[Any]]
    handler_of: Callable[[Any], Handler]
    failure: Callable[[Any, Exception], Outcome] = _failed
    #: Policy's part of a sweep, run before the queue is looked at.
    tend: Callable[[], Any] | None = None
    #: Policy's part when nothing is due: whether it has put something in the queue.
    refill: Callable[[], bool] | None = None


_queues: dict[str, Queue] = {}
_swept: list[Callable[[], Any]] = []


def register_queue(queue: Queue) -> None:
    _queues[queue.name] = queue


def with_each_sweep(verb: Callable[[], Any]) -> None:
    """Let every consumer do this with each sweep, before its queues are looked at. Many do it at once."""
    _swept.append(verb)


def worker_name() -> str:
    return f"{socket.gethostname()[:60]}:{os.getpid()}"


def drain(name: str) -> int:
    """Carry out rows of one queue until none is due, the turn is over or the consumer stops; return how many."""
    queue, done = _queues[name], 0
    until = time.monotonic() + TURN_SECONDS
    while not stopping.is_requested():
        lease = queue.claimable().claim(worker_name())
        if lease is None:
            if queue.refill is not None and queue.refill():
                continue
            break
        reach("claimed")
        carry_out(queue, lease)
        done += 1
        if time.monotonic() > until:
            ring(name)
            break
    return done


def drain_all(name: str) -> int:
    """The same, turn after turn: for a process that has no other queue to look after."""
    done = 0
    while some := drain(name):
        done += some
    return done


def carry_out_here(name: str, lease: Lease[Any]) -> None:
    """Carry out one row that this process claimed by itself."""
    carry_out(_queues[name], lease)


def carry_out(queue: Queue, lease: Lease[Any]) -> None:
    """Work on one claimed row and record how it ended."""
    work = Work(lease)
    with kept_alive(work):
        try:
            outcome = queue.handler_of(lease.row)(work) or Outcome()
            work.check_lost()
        except GivesWay as reason:
            _record(work, partial(lease.release, reason.code, reason.message))
            ring(queue.name)
            return
        except Stopping:
            _record(work, lease.release)
            ring(queue.name)
            return
        except LeaseLost as error:
            logger.warning("%s: stopped, nothing more is written", error)
            return
        except (OperationalError, InterfaceError) as error:
            logger.warning("%s %s is given back: %s", queue.name, lease.row.pk, error)
            _record(work, partial(lease.release, DATABASE_UNAVAILABLE, str(error)))
            return
        except Exception as error:
            logger.exception("%s %s failed", queue.name, lease.row.pk)
            outcome = queue.failure(lease.row, error)
        reach("handled")
        _record(work, partial(_finish, work, outcome))
    reach("finished")


def _finish(work: Work[Any], outcome: Outcome) -> None:
    if work.processed is not None:
        work.renew()
    work.lease.finish(outcome.status, code=outcome.code, message=outcome.message, **outcome.columns)


def _record(work: Work[Any], write: Callable[[], None]) -> None:
    """Write an outcome; a database that is away for a moment is waited for while the lease lives."""
    work.is_ending = True
    while True:
        try:
            return write()
        except LeaseLost as error:
            return logger.warning("%s: its outcome is not written", error)
        except (OperationalError, InterfaceError) as error:
            if work.seconds_left <= 0:
                raise
            logger.warning("The outcome of %s can't be written yet: %s", work.row.pk, error)
            connections.close_all()
            time.sleep(min(1.0, work.seconds_left / 4))


def sweep_all() -> None:
    """Take back what was lost, put back what may be tried again, and ring where something is due."""
    for verb in _swept:
        _do(verb)
    for queue in _queues.values():
        rows = queue.claimable()
        recovered = rows.model.objects.recover()
        if recovered:
            logger.warning("%d rows of %s were taken back from workers that are gone", recovered, queue.name)
        if queue.tend is not None:
            queue.tend()
        if rows.due().exists():
            ring(queue.name)


def _do(verb: Callable[[], Any]) -> None:
    """What one room can't do must not keep the others' rows from being taken back; a database that is away may."""
    try:
        verb()
    except (DatabaseError, InterfaceError):
        raise
    except Exception:
        logger.exception("A part of the sweep failed; the rest goes on")
