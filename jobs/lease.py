"""Leases, for every table that has them: claim, renew, finish, release, recover.

A claim is fenced by its `worker_id`, fresh for each claim. Every write of a holder names it and asks that the row still
runs and the lease still lives; zero rows changed means that somebody else moved the row, and the holder stops. Right on
both databases by compare-and-swap alone: row locks only make PostgreSQL quicker.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

from django.conf import settings
from django.db import IntegrityError, connections, models, transaction
from django.db.models import Case, Expression, F, Q, Value, When
from django.db.models.functions import Greatest, Now
from django.db.models.sql import Query, UpdateQuery

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
            # Nearly always there is none, and it is cheaper to ask than an UPDATE that finds nothing.
            return self.using(EXECUTOR)._recover() if _has_stale(self.model) else 0

    def claim(self, worker: str, *, seconds: float | None = None, fence: str | None = None) -> Lease[M] | None:
        """Take the oldest due row, or return None where nothing is due."""
        worker_id = fence or f"{worker[:90]}:{uuid.uuid4().hex}"
        rows = self.using(EXECUTOR)
        skip_locked = connections[EXECUTOR].vendor == "postgresql"
        for _ in range(CLAIM_TRIES):
            with transaction.atomic(using=EXECUTOR):
                rows._claim_alone()
                if _has_stale(rows.model):
                    with writing("recover"):
                        _all(rows.model)._recover()
                with writing("claim"):
                    key = rows._oldest_due(skip_locked=skip_locked)
                    row = None if key is None else rows._take(key, worker_id, seconds)
                if row is not None:
                    return Lease(rows.model, row, worker_id)
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

    def _take(self, key: Any, worker_id: str, seconds: float | None) -> M | None:
        statement = _claim_statement(self.model, settings.LEASE_SECONDS if seconds is None else seconds)
        taken = _all(self.model).raw(statement.sql, statement.filled({_KEY: key, "worker_id": worker_id}))
        try:
            with transaction.atomic(using=EXECUTOR, savepoint=False):
                return next(iter(taken), None)
        except IntegrityError:
            # Only one row of this table may run, and another one got there first. The transaction is rolled back, and
            # what it recovered is recovered again when the claim looks again.
            return None

    def _recover(self) -> int:
        rules = self.model.lease_rules
        return self.stale().update(
            status=rules.recovered,
            **_NO_LEASE,
            error_message=_unless_marked(LEASE_EXPIRED_MESSAGE, "error_message"),
            error_code=_unless_marked(LEASE_EXPIRED, "error_code"),
            updated_at=_NOW,
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


_NOW = Now()
_NO_LEASE: dict[str, Any] = {"worker_id": None, "worker_heartbeat_at": None, "lease_expires_at": None}


def _lease_until(seconds: float | None) -> dict[str, Any]:
    return {
        "worker_heartbeat_at": _NOW,
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
                    "finished_at": _NOW,
                    "worker_heartbeat_at": _NOW,
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
        return _held(self.model, self.row.pk, self.worker_id)

    def _write(self, values: Mapping[str, Any]) -> None:
        given = {name: value for name, value in values.items() if not hasattr(value, "resolve_expression")}
        sets = tuple((name, None if name in given else value) for name, value in values.items())
        statement = _write_statement(self.model, sets)
        with connections[EXECUTOR].cursor() as cursor:
            cursor.execute(statement.sql, statement.filled({**given, _KEY: self.row.pk, _FENCE: self.worker_id}))
            if cursor.rowcount == 0:
                raise LeaseLost(self._lost())

    def _lost(self) -> str:
        return f"{self.model._meta.db_table} {self.row.pk}: the claim {self.worker_id} no longer holds"


# --- Statements -------------------------------------------------------------------------------------------
# Django takes several times as long to compose one of these as the database to run it. So each is composed once, with
# places for what differs from row to row.
_KEY, _FENCE = "the row's key", "the fence"  # no column is called so


@dataclass(frozen=True)
class _Place:
    """Where a value goes, among a statement's parameters."""

    name: str
    column: models.Field[Any, Any]


class _Given(Expression):
    """A value that is given when the statement runs."""

    def __init__(self, model: type[LeasedModel], column: str, name: str | None = None) -> None:
        super().__init__()
        self.place = _Place(name or column, cast("models.Field[Any, Any]", model._meta.get_field(column)))

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        return "%s", (self.place,)


@dataclass(frozen=True)
class _Statement:
    sql: str
    parameters: tuple[Any, ...]

    def filled(self, given: Mapping[str, Any]) -> list[Any]:
        connection = connections[EXECUTOR]
        return [
            each.column.get_db_prep_save(given[each.name], connection) if isinstance(each, _Place) else each
            for each in self.parameters
        ]


def _all(model: type[M]) -> LeasedQuerySet[M]:
    return cast("LeasedQuerySet[M]", model._default_manager.using(EXECUTOR))


def _held(model: type[M], key: Any, worker_id: Any) -> LeasedQuerySet[M]:
    return _all(model).filter(pk=key, status=RUNNING, worker_id=worker_id, lease_expires_at__gt=_NOW)


def _has_stale(model: type[M]) -> bool:
    statement = _stale_statement(model)
    with connections[EXECUTOR].cursor() as cursor:
        cursor.execute(statement.sql, statement.parameters)
        return bool(cursor.fetchall())


@cache
def _stale_statement(model: type[M]) -> _Statement:
    return _composed(_all(model).stale().query.exists())


@lru_cache(256)
def _claim_statement(model: type[M], seconds: float) -> _Statement:
    """Takes a row and returns it as it is then, unless another was quicker."""
    rules = model.lease_rules
    values: dict[str, Any] = {"status": RUNNING, "worker_id": _Given(model, "worker_id"), **_lease_until(seconds)}
    values |= dict.fromkeys(rules.claim_sets, _NOW) | dict.fromkeys(rules.claim_clears)
    free = _all(model).filter(pk=_given_key(model), status__in=rules.claimable)
    statement = _composed_update(free, values)
    return replace(statement, sql=f"{statement.sql} RETURNING *")


@lru_cache(256)
def _write_statement(model: type[M], sets: tuple[tuple[str, Any], ...]) -> _Statement:
    """Writes about a row while the claim holds. A column without an expression gets a given value."""
    values = {name: _Given(model, name) if expression is None else expression for name, expression in sets}
    return _composed_update(_held(model, _given_key(model), _Given(model, "worker_id", _FENCE)), values)


def _given_key(model: type[M]) -> _Given:
    return _Given(model, model._meta.pk.name, _KEY)


def _composed_update(rows: LeasedQuerySet[M], values: Mapping[str, Any]) -> _Statement:
    query: Any = rows.query.chain(UpdateQuery)
    query.add_update_values({**values, "updated_at": _NOW})
    return _composed(query)


def _composed(query: Query) -> _Statement:
    sql, parameters = query.get_compiler(EXECUTOR).as_sql()
    return _Statement(sql, tuple(parameters))
