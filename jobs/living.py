"""The consumer's caretaker: says that the process is alive, sweeps, and does the rooms' chores.

It doesn't depend on Huey's storage: leases are recovered and rows put back even while that is away. Each chore
has a thread of its own: one that waits for a slow disk holds up neither signs of life nor other chores.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Thread

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connections
from django.db.models.functions import Now

from database.clock import SecondsFromNow
from database.routing import EXECUTOR
from jobs.enforcing import transaction_on
from jobs.executing import sweep_all, worker_name
from jobs.models import WorkerHeartbeat
from jobs.working import in_hand

logger = logging.getLogger(__name__)
KEPT_SECONDS = 14 * 24 * 3600
DOING_CHARACTERS = 255


@dataclass(frozen=True)
class Chore:
    """Something that every consumer does again and again; `seconds` is asked anew each time."""

    seconds: Callable[[], float]
    verb: Callable[[], object]


_chores: dict[str, Chore] = {}


def register_chore(name: str, seconds: Callable[[], float], verb: Callable[[], object]) -> None:
    """Let consumers do `verb` every so many seconds, and when they start."""
    _chores[name] = Chore(seconds, verb)


def doing_now() -> str:
    """What this process has in hand, in few words; a name may hold anything, and is shown on a page."""
    words = "; ".join(each.described() for each in in_hand())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)[:DOING_CHARACTERS]


def say_alive() -> None:
    """Note this process as alive; the first time, note who it is."""
    rows = WorkerHeartbeat.objects.using(EXECUTOR)
    with transaction_on("live"):
        seen = {"last_seen_at": Now(), "stopped_at": None, "doing": doing_now()}
        if rows.filter(pk=worker_name()).update(**seen) == 0:
            rows.create(worker_id=worker_name(), hostname=socket.gethostname()[:255], pid=os.getpid())


def note_the_dead() -> int:
    """A consumer that was killed could not say so; its successor on the same machine does. Return how many."""
    rows = WorkerHeartbeat.objects.using(EXECUTOR)
    others = rows.filter(hostname=socket.gethostname()[:255], stopped_at=None).exclude(pk=worker_name())
    dead = [key for key, pid in others.values_list("pk", "pid") if pid is not None and not _is_alive(pid)]
    with transaction_on("live"):
        return rows.filter(pk__in=dead).update(stopped_at=Now(), doing="")


def forget_old() -> None:
    """Policy's: who was alive weeks ago is in nobody's way but the table's."""
    WorkerHeartbeat.objects.filter(last_seen_at__lt=SecondsFromNow(-KEPT_SECONDS)).delete()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's process, but alive
    return True


def say_stopped() -> None:
    with transaction_on("live"):
        rows = WorkerHeartbeat.objects.using(EXECUTOR).filter(pk=worker_name())
        rows.update(stopped_at=Now(), last_seen_at=Now(), doing="")


class Caretaker:
    """Runs beside the workers of one consumer."""

    def __init__(self) -> None:
        self._done = Event()
        self._threads = [Thread(target=self._run, name="caretaker", daemon=True)]
        self._threads += [
            Thread(target=self._repeat, args=(name, chore), name=name, daemon=True) for name, chore in _chores.items()
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._done.set()
        until = time.monotonic() + settings.STOP_SECONDS
        for thread in self._threads:
            thread.join(timeout=max(until - time.monotonic(), 0))

    def _run(self) -> None:
        swept_at = float("-inf")
        self._try(note_the_dead)
        self._try(forget_old)
        while not self._done.is_set():
            self._try(say_alive)
            if time.monotonic() - swept_at >= settings.SWEEP_SECONDS and self._try(sweep_all):
                swept_at = time.monotonic()
            self._done.wait(min(settings.HEARTBEAT_SECONDS, settings.SWEEP_SECONDS))
        self._try(say_stopped)
        connections.close_all()

    def _repeat(self, name: str, chore: Chore) -> None:
        """A chore that fails is told of and done again at its next time."""
        while not self._done.is_set():
            try:
                self._try(chore.verb)
            except Exception:
                logger.exception("The chore %r failed", name)
            self._done.wait(chore.seconds())
        connections.close_all()

    def _try(self, verb: Callable[[], object]) -> bool:
        """Do it; a database that is away is waited for, not died of."""
        try:
            verb()
        except (DatabaseError, InterfaceError) as error:
            logger.warning("The database can't be reached: %s", error)
            connections.close_all()
            return False
        return True
