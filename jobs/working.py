"""A claimed row while a handler works on it: its progress, and the thread that keeps its lease.

The lease is renewed only while the handler makes progress. A read that hangs on a dead disk makes none, so after
`STALL_SECONDS` the lease runs out, the row is recovered elsewhere, and the file that hung is named.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import Any, Generic, TypeVar

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connections, transaction

from database.routing import EXECUTOR
from jobs import stopping
from jobs.errors import LeaseLost
from jobs.lease import Lease, LeasedModel
from logbook.models import write_event

logger = logging.getLogger(__name__)
M = TypeVar("M", bound=LeasedModel)
#: How often work that tells how far it is writes that into its row.
TELL_SECONDS = 1.0
#: What this process works on now, in the order it was taken.
_in_hand: dict[int, Work[Any]] = {}


class Work(Generic[M]):
    """What a handler gets: the row, a way to tell how far it is, and a way to learn that it must stop."""

    def __init__(self, lease: Lease[M]) -> None:
        self.lease = lease
        self.row = lease.row
        self.processed: int | None = None
        self.total: int | None = None
        self.doing = ""
        #: Its outcome is written now: whoever does that tells of a claim that was lost, and a claim that ended is none.
        self.is_ending = False
        self._lost = Event()
        self._lock = Lock()
        self._moved_at = self._renewed_at = time.monotonic()

    def advance(self, processed: int | None = None, total: int | None = None, *, doing: str | None = None) -> None:
        """Tell how far the work is. Calling it is progress: bytes read count as much as rows written."""
        with self._lock:
            self._moved_at = time.monotonic()
            self.processed = self.processed if processed is None else processed
            self.total = self.total if total is None else total
            self.doing = self.doing if doing is None else doing

    def check(self) -> None:
        """Call between batches: raises where the claim is lost or the consumer is stopping."""
        self.check_lost()
        stopping.check()

    def check_lost(self) -> None:
        if self._lost.is_set() or self.seconds_left <= 0:
            raise LeaseLost(f"the claim {self.lease.worker_id} was lost")

    @contextmanager
    def fenced(self, path: str) -> Iterator[None]:
        """A write transaction that can only commit while this claim holds."""
        with self.lease.fenced(path):
            yield

    @property
    def seconds_left(self) -> float:
        """How long the lease lives, as far as this process knows."""
        return settings.LEASE_SECONDS - (time.monotonic() - self._renewed_at)

    @property
    def is_stalled(self) -> bool:
        return time.monotonic() - self._moved_at > settings.STALL_SECONDS

    def renew(self) -> None:
        asked_at = time.monotonic()
        self.lease.renew(self.processed, self.total)
        self._renewed_at = asked_at

    def tell(self) -> None:
        """Call after each batch: writes about once a second how far the work is, so that a page can show it. The thread
        that keeps the lease does so far too seldom."""
        if time.monotonic() - self._renewed_at >= TELL_SECONDS:
            self.renew()

    def lose(self) -> None:
        self._lost.set()

    def described(self) -> str:
        """In few words, for the page of the workers."""
        what = getattr(self.row, "kind", None) or self.lease.model._meta.verbose_name
        return f"{what}: {self.doing}" if self.doing else str(what)


def in_hand() -> list[Work[Any]]:
    return list(_in_hand.values())


@contextmanager
def kept_alive(work: Work[M]) -> Iterator[None]:
    """Renew the lease in the background until the block ends."""
    done = Event()
    thread = Thread(target=_keep, args=(work, done), name=f"lease {work.lease.worker_id[-8:]}", daemon=True)
    _in_hand[id(work)] = work
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        del _in_hand[id(work)]


def _keep(work: Work[M], done: Event) -> None:
    interval = settings.LEASE_SECONDS / 3
    try:
        while not done.wait(interval):
            if work.is_stalled:
                _tell_of_stall(work)
                return
            interval = _renew_once(work)
    except LeaseLost as error:
        if not work.is_ending:
            logger.warning("%s", error)
        work.lose()
    finally:
        connections.close_all()


def _renew_once(work: Work[M]) -> float:
    """Renew; return the seconds until the next try."""
    try:
        work.renew()
    except (DatabaseError, InterfaceError) as error:
        if work.seconds_left <= 0:
            raise LeaseLost(f"the database could not be reached before the lease ran out: {error}") from None
        logger.warning("The lease %s could not be renewed yet: %s", work.lease.worker_id, error)
        connections.close_all()
        return min(settings.LEASE_SECONDS / 10, 1.0)
    return settings.LEASE_SECONDS / 3


def _tell_of_stall(work: Work[M]) -> None:
    """No progress for too long: stop renewing, and name what hangs."""
    work.lose()
    table = work.lease.model._meta.db_table
    logger.error("%s %s makes no progress at %r; its lease will run out", table, work.row.pk, work.doing)
    with transaction.atomic(using=EXECUTOR):
        write_event(
            table,
            str(work.row.pk),
            "stalled",
            actor=work.lease.worker_id,
            using=EXECUTOR,
            doing=work.doing,
            seconds=settings.STALL_SECONDS,
        )
