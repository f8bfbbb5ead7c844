"""Triggers, hand-made indexes, functions and grants: what migrations can't keep.

Django remakes a SQLite table to alter it, and that drops its triggers and raw indexes without a word; where a trigger
of another table writes into it, SQLite refuses. So these objects are not in migrations: each room registers what it
needs, triggers of SQLite make room for a migration, everything is put (back) in place after every migrate, and `doctor`
compares the database with the list.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from database.routing import POLICY


@dataclass(frozen=True)
class DatabaseObject:
    """One object in one kind of database; `create` is its whole definition, in statements that can run again.

    `kind` is the word `DROP` takes. On PostgreSQL a trigger is dropped from its `table`. `then` is a statement to run
    whenever it was put in place: something may have happened while it was not there. A trigger that `is_idle` has
    nothing to do for rows that are inserted with a new id.
    """

    vendor: str
    kind: str
    name: str
    create: str
    table: str = ""
    then: str = ""
    is_idle: bool = False

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.create.encode()).hexdigest()[:32]

    @property
    def drop(self) -> str:
        if self.vendor == "postgresql" and self.kind == "TRIGGER":
            return f'DROP TRIGGER IF EXISTS "{self.name}" ON "{self.table}"'
        return f'DROP {self.kind} IF EXISTS "{self.name}"'


@dataclass(frozen=True)
class Drift:
    """An expected object that is missing or not as the code defines it."""

    name: str
    problem: str


_registered: list[DatabaseObject] = []
_grants: list[Callable[[BaseDatabaseWrapper], None]] = []


def register(*objects: DatabaseObject) -> None:
    """Declare objects; a room calls this once, when Django starts."""
    for each in objects:
        if each not in _registered:
            _registered.append(each)


def register_grants(grant: Callable[[BaseDatabaseWrapper], None]) -> None:
    """Declare a function that puts PostgreSQL grants in place; it must be able to run again."""
    if grant not in _grants:
        _grants.append(grant)


def expected(vendor: str) -> list[DatabaseObject]:
    return [each for each in _registered if each.vendor == vendor]


def drift(connection: BaseDatabaseWrapper) -> list[Drift]:
    """List what differs between the database and the code."""
    present = _present(connection)
    problems = []
    for each in expected(connection.vendor):
        if each.name not in present:
            problems.append(Drift(each.name, "missing"))
        elif present[each.name] != each.digest:
            problems.append(Drift(each.name, "differs from this version's definition"))
    return problems


def install(connection: BaseDatabaseWrapper) -> list[Drift]:
    """Put every object that is missing or different in place, in one transaction; return what was mended."""
    with transaction.atomic(using=connection.alias):
        mended = drift(connection)
        names = {each.name for each in mended}
        wanted = [each for each in expected(connection.vendor) if each.name in names]
        with connection.cursor() as cursor:
            for each in reversed(wanted):
                # A function that others stand on is replaced in place by its own definition.
                if each.kind != "FUNCTION":
                    cursor.execute(each.drop)
            for each in wanted:
                cursor.execute(each.create)
                _remember(connection, cursor, each)
                if each.then:
                    cursor.execute(each.then)
        if connection.vendor == "postgresql":
            for grant in _grants:
                grant(connection)
    return mended


@contextmanager
def without_idle_triggers(connection: BaseDatabaseWrapper, table: str) -> Iterator[None]:
    """Inside the caller's transaction, around an INSERT of many new rows: for any trigger, idle or not, SQLite copies
    them all into a table of its own first. Nobody else ever sees `table` without them, and a crash puts them back."""
    idle = [each for each in expected(connection.vendor) if each.is_idle and each.table == table]
    with connection.cursor() as cursor:
        for each in idle:
            cursor.execute(each.drop)
        yield
        for each in idle:
            cursor.execute(each.create)


def make_room_before_migrate(*, using: str, plan: Sequence[Any], **_: Any) -> None:
    """Where it ends half-way, the next migrate goes on, and puts them back as well."""
    connection = connections[using]
    if using != POLICY or connection.vendor != "sqlite" or not plan:
        return
    with transaction.atomic(using=using), connection.cursor() as cursor:
        for each in expected("sqlite"):
            if each.kind == "TRIGGER":
                cursor.execute(each.drop)


def install_after_migrate(*, using: str, **_: Any) -> None:
    if using == POLICY:
        install(connections[using])


def _remember(connection: BaseDatabaseWrapper, cursor: Any, each: DatabaseObject) -> None:
    """PostgreSQL rewrites definitions, so the digest of ours is kept as the object's comment."""
    if connection.vendor != "postgresql":
        return
    target = f'"{each.name}"'
    if each.kind == "TRIGGER":
        target += f' ON "{each.table}"'
    cursor.execute(f"COMMENT ON {each.kind} {target} IS '{each.digest}'")


def _present(connection: BaseDatabaseWrapper) -> dict[str, str]:
    """Map the name of each object in the database to the digest of its definition."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("SELECT name, sql FROM sqlite_master WHERE type IN ('trigger', 'index') AND sql IS NOT NULL")
            return {name: hashlib.sha256(sql.encode()).hexdigest()[:32] for name, sql in cursor.fetchall()}
        cursor.execute(
            """
            SELECT tgname, obj_description(oid, 'pg_trigger') FROM pg_trigger WHERE NOT tgisinternal
            UNION ALL
            SELECT proname, obj_description(oid, 'pg_proc') FROM pg_proc
             WHERE pronamespace = current_schema()::regnamespace
            UNION ALL
            SELECT relname, obj_description(oid, 'pg_class') FROM pg_class
             WHERE relkind = 'i' AND relnamespace = current_schema()::regnamespace
            """
        )
        return {name: comment or "" for name, comment in cursor.fetchall()}
