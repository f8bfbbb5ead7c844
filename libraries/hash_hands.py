"""Whose hands hash: the owner of the hash job, or another consumer that helps.

Both write under the same two fences: the file is in their own claim, and the job still runs under the same lease.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from django.db.models import QuerySet

from database.routing import EXECUTOR
from jobs import stopping
from jobs.enforcing import transaction_on
from jobs.errors import GivesWay, LeaseLost
from jobs.executing import GAVE_WAY, PAUSED
from jobs.models import Job
from jobs.working import Work
from libraries.hash_claims import Claims
from libraries.models import HashState
from libraries.queueing import goes_before_hashing


class Hands(Protocol):
    job_id: str
    claims: Claims
    #: Whether its time counts as the job's.
    is_owner: bool

    def fenced(self) -> AbstractContextManager[None]:
        """A write transaction that can only commit while the job runs under the same lease."""
        ...

    def check(self) -> None:
        """Cheap, asked all the time: raises where this consumer must stop at once."""
        ...

    def asked_to_leave(self) -> GivesWay | None:
        """Asks the database, about once a second: why this consumer should end after what it has in hand."""
        ...

    def advance(self, doing: str | None = None) -> None:
        """There was progress."""
        ...

    def show(self, doing: str) -> None:
        """What is in hand; that alone is no progress."""
        ...

    def tell(self, processed: int, total: int) -> None:
        """How far the job is."""
        ...


class Owner:
    """The consumer that has claimed the job."""

    is_owner = True

    def __init__(self, work: Work[Job]) -> None:
        self.work = work
        self.job_id = work.row.pk
        self.claims = Claims.under(work.lease.worker_id)

    def fenced(self) -> AbstractContextManager[None]:
        return self.work.fenced("hash")

    def check(self) -> None:
        self.work.check()

    def asked_to_leave(self) -> GivesWay | None:
        if is_paused():
            return paused()
        if goes_before_hashing():
            return GivesWay(GAVE_WAY, "It made room for a scan that somebody asked for, and goes on afterwards.")
        return None

    def advance(self, doing: str | None = None) -> None:
        self.work.advance(doing=doing)

    def show(self, doing: str) -> None:
        self.work.doing = doing

    def tell(self, processed: int, total: int) -> None:
        self.work.advance(processed, total)
        self.work.renew()


class Helper:
    """A consumer that shares the files of a job that another one has claimed."""

    is_owner = False

    def __init__(self, job_id: str, worker_id: str) -> None:
        self.job_id, self.worker_id = job_id, worker_id
        self.claims = Claims.under(worker_id)

    @contextmanager
    def fenced(self) -> Iterator[None]:
        with transaction_on("hash"):
            if self._held().select_for_update().values_list("pk", flat=True).first() is None:
                raise LeaseLost(f"jobs {self.job_id}: the lease under which this consumer helped is gone")
            yield

    def check(self) -> None:
        stopping.check()

    def asked_to_leave(self) -> GivesWay | None:
        return (
            None
            if self._held().exists() and not is_paused()
            else GivesWay(GAVE_WAY, "The job is not running any more.")
        )

    def _held(self) -> QuerySet[Job]:
        return Job.objects.using(EXECUTOR).filter(pk=self.job_id, status="running", worker_id=self.worker_id)

    def advance(self, doing: str | None = None) -> None:
        pass

    def show(self, doing: str) -> None:
        pass

    def tell(self, processed: int, total: int) -> None:
        pass


def paused() -> GivesWay:
    return GivesWay(PAUSED, "Hashing is paused; it goes on when somebody resumes it.")


def is_paused() -> bool:
    return HashState.objects.using(EXECUTOR).filter(pk=1, is_paused=True).exists()
