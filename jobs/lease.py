"""Leases, for every table that has them: claim, renew, finish, release, recover.

A claim is fenced by its `worker_id`, fresh for each claim. Every write of a holder names it and asks that the row still
runs and the lease still lives; zero rows changed means that somebody else moved the row, and the holder stops. Right on
both databases by compare-and-swap alone: row locks only make PostgreSQL quicker.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Self, TypeVar

from django.conf import settings
from django.db import IntegrityError, connections, models, transaction
from django.db.models import Case, F, Q, Value, When
from django.db.models.functions import Greatest, Now

from database.clock import SecondsFromNow
from database.routing import EXECUTOR
from jobs.enforcing import transaction_on, writing
from jobs.errors import JobsError, LeaseLost

RUNNING = "running"
#: A claim that is beaten looks again; so often in a row means that something else is wrong.
CLAIM_TRIES = 1000
LEASE_EXPIRED = "LEASE_EXPIRED"
LEASE_EXPIRED_MESSAGE = "The lease ran out: its worker stopped, hung or lost the database."
WORKER_STOPPED = "WORKER_STOPPED"
WORKER_STOPPED_MESSAGE = "Its worker was stopped and gave it back."


@dataclass(frozen=True)
class LeaseRules:
    """What differs from table to table."""

    claimable: tuple[str, ...]
    #: Where a row goes when its lease is lost or given back.
    recovered: str
    outcomes: frozenset[str]
    claim_sets: tuple[str, ...] = ()
    claim_clears: tuple[str, ...] = ()
    recover_extra: Mapping[str, Any] = field(default_factory=dict)
    #: Whether a row that was given back carries the reason; elsewhere it just waits again.
    tells_release: bool = False
    #: processed, total and share, where the table has them.
    progress: tuple[str, str, str] | None = None
    finish_paths: Mapping[str, str] = field(default_factory=dict)
    #: A claim that depends on other rows must not race on PostgreSQL.
    serial_claims: bool = False


class LeasedModel(models.Model):
    """A row that one worker at a time may hold."""

    lease_rules: ClassVar[LeaseRules]

    worker_id = models.CharField(max_length=128, null=True, blank=True)  # noqa: DJ001
    worker_heartbeat_at = models.DateTimeField(null=True, blank=True)
    lease_expires_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True


M = TypeVar("M", bound=LeasedModel)


class LeasedQuerySet(models.QuerySet[M]):
    def due(self) -> Self:
        """Rows that may be claimed now; each table says which."""
        raise NotImplementedError

    def stale(self) -> Self:
        return self.filter(status=RUNNING).filter(Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lte=Now()))

    def recover(self) -> int:
        """Take back every row whose lease ran out; return how many."""
        with transaction_on("recover"):
            return self.using(EXECUTOR)._recover()

    def claim(self, worker: str, *, seconds: float | None = None, fence: str | None = None) -> Lease[M] | None:
        """Take the oldest due row, or return None where nothing is due."""
        worker_id = fence or f"{worker[:90]}:{uuid.uuid4().hex}"
        rows = self.using(EXECUTOR)
        skip_locked = connections[EXECUTOR].vendor == "postgresql"
        for _ in range(CLAIM_TRIES):
            with transaction.atomic(using=EXECUTOR):
                rows._claim_alone()
                with writing("recover"):
                    rows.model._default_manager.using(EXECUTOR)._recover()  # type: ignore[attr-defined]
                with writing("claim"):
                    key = rows._oldest_due(skip_locked=skip_locked)
                    if key is not None and rows._take(key, worker_id, seconds):
                        return Lease(rows.model, rows.model._default_manager.using(EXECUTOR).get(pk=key), worker_id)
            if key is None and not skip_locked:
                return None
            # Nothing that isn't locked is due, or another was quicker. Look again without skipping: a racing claim
            # may still give its row up.
            skip_locked = False
        raise JobsError(f"{rows.model._meta.db_table} {key} is due but can't be claimed")

    def _claim_alone(self) -> None:
        if self.model.lease_rules.serial_claims and connections[EXECUTOR].vendor == "postgresql":
            with connections[EXECUTOR].cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"claim {self.model._meta.db_table}"])

    def _oldest_due(self, *, skip_locked: bool) -> Any:
        due = self.due().order_by("created_at", "pk").values_list("pk", flat=True)
        if skip_locked:
            due = due.select_for_update(skip_locked=True, of=("self",))
        return due.first()

    def _take(self, key: Any, worker_id: str, seconds: float | None) -> bool:
        rules = self.model.lease_rules
        values: dict[str, Any] = {name: Now() for name in rules.claim_sets}
        values |= dict.fromkeys(rules.claim_clears)
        still = self.model._default_manager.using(EXECUTOR).filter(pk=key, status__in=rules.claimable)
        try:
            with transaction.atomic(using=EXECUTOR):
                taken = still.update(
                    status=RUNNING, worker_id=worker_id, updated_at=Now(), **_lease_until(seconds), **values
                )
        except IntegrityError:
            return False  # only one row of this table may run, and another one got there first
        return taken == 1

    def _recover(self) -> int:
        if not self.stale().exists():
            return 0  # nearly always so, and cheaper to ask than an UPDATE that finds nothing
        rules = self.model.lease_rules
        return self.stale().update(
            status=rules.recovered,
            **_NO_LEASE,
            error_message=_unless_marked(LEASE_EXPIRED_MESSAGE, "error_message"),
            error_code=_unless_marked(LEASE_EXPIRED, "error_code"),
            updated_at=Now(),
            **rules.recover_extra,
        )


def _unless_marked(text: str, column: str) -> Case:
    """`text`, unless the row tells of an error already."""
    unmarked = Q(error_code__isnull=True) | Q(error_code="")
    return Case(When(unmarked, then=Value(text)), default=F(column), output_field=models.TextField())


def _unless_lost(column: str) -> Case:
    """What the row tells, unless that is of a lease that ran out before."""
    lost = When(error_code=LEASE_EXPIRED, then=Value(None))
    return Case(lost, default=F(column), output_field=models.TextField())


_NO_LEASE: dict[str, Any] = {"worker_id": None, "worker_heartbeat_at": None, "lease_expires_at": None}


def _lease_until(seconds: float | None) -> dict[str, Any]:
    return {
        "worker_heartbeat_at": Now(),
        "lease_expires_at": SecondsFromNow(settings.LEASE_SECONDS if seconds is None else seconds),
    }


@dataclass(frozen=True)
class Lease(Generic[M]):
    """A claim in hand: the row as it was when claimed, and the id that fences every write about it."""

    model: type[M]
    row: M
    worker_id: str

    @classmethod
    def of(cls, model: type[M], key: Any, worker_id: str) -> Lease[M]:
        """The claim that a worker elsewhere says it holds; each write finds out whether it does."""
        return cls(model, model(pk=key), worker_id)

    def renew(self, processed: int | None = None, total: int | None = None, *, seconds: float | None = None) -> None:
        """Prolong the lease and report progress, which never goes backwards."""
        values = _lease_until(seconds)
        columns = self.model.lease_rules.progress
        if columns and processed is not None:
            values[columns[0]] = Greatest(F(columns[0]), Value(processed))
            if total is not None:
                values[columns[1]] = total
                share = min(processed / total, 1.0) if total > 0 else 0.0
                values[columns[2]] = Greatest(F(columns[2]), Value(share))
        with transaction_on("heartbeat"):
            self._write(values)

    def finish(self, status: str, *, code: str | None = None, message: str | None = None, **columns: Any) -> None:
        """Give the row its outcome."""
        rules = self.model.lease_rules
        if status not in rules.outcomes:
            raise ValueError(f"{self.model._meta.db_table} can't finish as {status}")
        if rules.progress and status == "completed":
            columns[rules.progress[2]] = 1.0
        with transaction_on(rules.finish_paths.get(status, "finish")):
            self._write(
                {
                    "status": status,
                    "error_code": code,
                    "error_message": message,
                    "finished_at": Now(),
                    "worker_heartbeat_at": Now(),
                    "lease_expires_at": None,
                    **columns,
                }
            )

    def release(self, code: str = WORKER_STOPPED, message: str = WORKER_STOPPED_MESSAGE) -> None:
        """Give the row back at once, so that nobody has to wait for the lease to run out."""
        rules = self.model.lease_rules
        values = {"status": rules.recovered, **_NO_LEASE}
        if rules.tells_release:
            values |= {"error_code": code, "error_message": message}
        else:
            # What was lost once and is given back in order now was not lost again (`jobs.recovery_counting`).
            values |= {"error_message": _unless_lost("error_message"), "error_code": _unless_lost("error_code")}
        with transaction_on("release"):
            self._write(values)

    @contextmanager
    def fenced(self, path: str) -> Iterator[None]:
        """A write transaction that can only commit while this claim holds."""
        with transaction_on(path):
            # On PostgreSQL the lock keeps a cancel waiting until the batch is in; SQLite has one writer anyway.
            if self._held().select_for_update().values_list("pk", flat=True).first() is None:
                raise LeaseLost(self._lost())
            yield

    def _held(self) -> models.QuerySet[M]:
        return self.model._default_manager.using(EXECUTOR).filter(
            pk=self.row.pk, status=RUNNING, worker_id=self.worker_id, lease_expires_at__gt=Now()
        )

    def _write(self, values: Mapping[str, Any]) -> None:
        if self._held().update(updated_at=Now(), **values) == 0:
            raise LeaseLost(self._lost())

    def _lost(self) -> str:
        return f"{self.model._meta.db_table} {self.row.pk}: the claim {self.worker_id} no longer holds"
