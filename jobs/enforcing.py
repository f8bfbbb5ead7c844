"""Makes the database itself refuse what an executor may not write (`jobs.whitelist`).

SQLite asks an authorizer while it prepares a statement. A prepared statement is not asked again, so every change of
path sets a new authorizer: that makes SQLite prepare its cached statements anew. PostgreSQL has a role with column
grants, which the executor's connection assumes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

from django.conf import settings
from django.db import DatabaseError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from database.durable import wait_for_disk
from database.objects import DatabaseObject, expected
from database.routing import EXECUTOR
from jobs.whitelist import APPEND_ONLY, KEPT_BY_TRIGGERS, RULES

_ALWAYS = frozenset({
    sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE,
    sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT,
    # A worker's own scratch tables live in its connection and die with it.
    sqlite3.SQLITE_CREATE_TEMP_TABLE, sqlite3.SQLITE_CREATE_TEMP_INDEX, sqlite3.SQLITE_DROP_TEMP_TABLE,
    sqlite3.SQLITE_DROP_TEMP_INDEX,
})  # fmt: skip
_READ_PRAGMAS = frozenset({"table_info", "table_xinfo", "foreign_key_list", "index_list", "index_info", "page_count"})
_SCHEMA = frozenset({"sqlite_master", "sqlite_schema"})
#: The path that inserts many rows may set the idle triggers of its table aside
#: (`database.objects.without_idle_triggers`).
FILLING = "scan"
_SET_ASIDE = frozenset({sqlite3.SQLITE_DROP_TRIGGER, sqlite3.SQLITE_CREATE_TRIGGER})
#: Paths whose transactions are on the disk when they are committed.
DURABLE = frozenset({"act"})
#: The path of a connection that nobody has put on one: it may read, and append to the logbook.
NO_PATH = ""
#: The path each executor connection is on.
_paths: WeakKeyDictionary[BaseDatabaseWrapper, str] = WeakKeyDictionary()


def guard_new_connection(*, connection: BaseDatabaseWrapper, **_: Any) -> None:
    """`connection_created`: an executor's SQLite connection starts with the narrowest path."""
    if connection.alias == EXECUTOR and connection.vendor == "sqlite":
        _forbid_deleting_unfinished(connection.connection)
        # SQLite makes the table of this function when it is first used, by statements that no path allows.
        connection.connection.execute("SELECT 1 FROM json_each('[]')")
        _switch(connection, NO_PATH)


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Let this thread's executor connection write what `path` may write, and only inside the block."""
    connection = connections[EXECUTOR]
    if connection.vendor != "sqlite":
        yield
        return
    connection.ensure_connection()
    before = _paths.get(connection, NO_PATH)
    with _durable(connection, path):
        _switch(connection, path)
        try:
            yield
        finally:
            if connection.connection is not None:
                _switch(connection, before)


@contextmanager
def transaction_on(path: str) -> Iterator[None]:
    """One short write transaction of an executor, on one path.

    A connection that broke since the last one is replaced first: a database that was away for a moment costs no work.
    """
    connections[EXECUTOR].close_if_unusable_or_obsolete()
    with writing(path), transaction.atomic(using=EXECUTOR):
        if path in DURABLE:
            wait_for_disk(connections[EXECUTOR])
        yield


@contextmanager
def borrowed(connection: BaseDatabaseWrapper, database: bytes) -> Iterator[str]:
    """Lets this SQLite connection read a database that its own process made, under the name that is given. No path lets
    it attach one by itself. Not inside a transaction, where SQLite attaches nothing."""
    with _unguarded(connection) as raw:
        raw.execute("ATTACH ':memory:' AS borrowed")
    try:
        with _unguarded(connection) as raw:
            raw.deserialize(database, name="borrowed")
        yield "borrowed"
    finally:
        with _unguarded(connection) as raw:
            raw.execute("DETACH borrowed")


@contextmanager
def _durable(connection: BaseDatabaseWrapper, path: str) -> Iterator[None]:
    """What records an act on people's files outlives a power cut; for all else the last commits may be lost in one.
    Inside a transaction this would be ignored."""
    if path not in DURABLE:
        yield
        return
    if connection.in_atomic_block:
        raise RuntimeError(f"the path {path} needs a transaction of its own")
    _set_synchronous(connection, "FULL")
    try:
        yield
    finally:
        if connection.connection is not None:
            _set_synchronous(connection, "NORMAL")


def _set_synchronous(connection: BaseDatabaseWrapper, mode: str) -> None:
    with _unguarded(connection) as raw:
        raw.execute(f"PRAGMA synchronous={mode}")


@contextmanager
def _unguarded(connection: BaseDatabaseWrapper) -> Iterator[sqlite3.Connection]:
    """For the few statements of this module that no path allows."""
    connection.connection.set_authorizer(None)
    try:
        yield connection.connection
    finally:
        _switch(connection, _paths.get(connection, NO_PATH))


class _Authorizer:
    """Answers SQLite's questions for one path."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.triggers = {each.name for each in expected("sqlite") if each.kind == "TRIGGER"}
        self.idle = {(each.name, each.table) for each in expected("sqlite") if each.is_idle and path == FILLING}

    def __call__(
        self, action: int, first: str | None, second: str | None, schema: str | None, trigger: str | None
    ) -> int:
        if action in _ALWAYS or self._allows(action, first or "", second or "", schema, trigger):
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY

    def _allows(self, action: int, first: str, second: str, schema: str | None, trigger: str | None) -> bool:
        if schema == "temp":
            return True
        if action == sqlite3.SQLITE_PRAGMA:
            return self._allows_pragma(first, second)
        if trigger in self.triggers and first in KEPT_BY_TRIGGERS:
            return True
        if self.idle and (first in _SCHEMA or action in _SET_ASIDE):
            # SQLite lets nobody write into its schema by other means than a statement that defines something.
            return first in _SCHEMA or (first, second) in self.idle
        if action == sqlite3.SQLITE_INSERT:
            return first in APPEND_ONLY or (self._on(first) and RULES[first].lets_insert(self.path))
        if action == sqlite3.SQLITE_UPDATE:
            return self._on(first) and (second == "updated_at" or second in RULES[first].paths[self.path])
        if action == sqlite3.SQLITE_DELETE:
            return first in RULES and self.path in RULES[first].deletes_on
        return False

    def _on(self, table: str) -> bool:
        return table in RULES and self.path in RULES[table].paths

    def _allows_pragma(self, name: str, argument: str) -> bool:
        return name in _READ_PRAGMAS or (name == "wal_checkpoint" and self.path in RULES["wal_maintenance_jobs"].paths)


@cache
def _authorizer(path: str) -> _Authorizer:
    """The same for every connection: each room has registered its triggers before anybody connects."""
    return _Authorizer(path)


def _switch(connection: BaseDatabaseWrapper, path: str) -> None:
    connection.connection.set_authorizer(_authorizer(path))
    _paths[connection] = path


def _forbid_deleting_unfinished(raw: sqlite3.Connection) -> None:
    """A temporary trigger belongs to this connection alone: policy may still delete, an executor may not."""
    tables = {name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for table, rules in RULES.items():
        if rules.deletable and table in tables:
            raw.execute(
                f"CREATE TEMP TRIGGER executor_keeps_{table} BEFORE DELETE ON main.{table}"
                f" WHEN OLD.status NOT IN ({_quoted(rules.deletable)})"
                f" BEGIN SELECT RAISE(ABORT, 'executor: {table} not finished'); END"
            )


def _quoted(words: frozenset[str]) -> str:
    return ", ".join(f"'{word}'" for word in sorted(words))


# --- PostgreSQL -------------------------------------------------------------------------------------------


def deletion_guards() -> list[DatabaseObject]:
    """On PostgreSQL the same rule is a trigger that looks at who deletes."""
    objects = []
    for table, rules in RULES.items():
        if not rules.deletable:
            continue
        name = f"executor_keeps_{table}"
        function = f"""CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
  IF current_user = '{settings.EXECUTOR_ROLE}' AND OLD.status NOT IN ({_quoted(rules.deletable)}) THEN
    RAISE EXCEPTION 'executor: {table} not finished' USING ERRCODE = 'insufficient_privilege';
  END IF;
  RETURN OLD;
END $body$"""
        trigger = f"CREATE TRIGGER {name}_trigger BEFORE DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION {name}()"
        objects.append(DatabaseObject("postgresql", "FUNCTION", name, function))
        objects.append(DatabaseObject("postgresql", "TRIGGER", f"{name}_trigger", trigger, table))
    return objects


def grant_whitelist(connection: BaseDatabaseWrapper) -> None:
    """Make the role if it is missing and give it exactly the whitelist."""
    role = connection.ops.quote_name(settings.EXECUTOR_ROLE)
    with connection.cursor() as cursor:
        _make_role(connection, role)
        cursor.execute("SELECT current_schema()")
        (schema,) = cursor.fetchone()
        cursor.execute(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = %s", [schema]
        )
        columns: dict[str, set[str]] = {}
        for table, column in cursor.fetchall():
            columns.setdefault(table, set()).add(column)
        space = connection.ops.quote_name(schema)
        cursor.execute(f"GRANT USAGE ON SCHEMA {space} TO {role}")
        cursor.execute(f"REVOKE ALL ON ALL TABLES IN SCHEMA {space} FROM {role}")
        cursor.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {space} TO {role}")
        cursor.execute(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {space} TO {role}")
        for table in APPEND_ONLY:
            cursor.execute(f"GRANT INSERT ON {table} TO {role}")
        for table, rules in RULES.items():
            if table not in columns:
                continue
            writable = ", ".join(sorted(rules.updatable & columns[table]))
            if writable:
                cursor.execute(f"GRANT UPDATE ({writable}) ON {table} TO {role}")
            if rules.may_insert:
                cursor.execute(f"GRANT INSERT ON {table} TO {role}")
            if rules.deletes_on:
                cursor.execute(f"GRANT DELETE ON {table} TO {role}")


def _make_role(connection: BaseDatabaseWrapper, role: str) -> None:
    """Roles belong to the whole cluster: another database's migrate may make it at the same moment."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [settings.EXECUTOR_ROLE])
        if cursor.fetchone() is None:
            try:
                with transaction.atomic(using=connection.alias):
                    cursor.execute(f"CREATE ROLE {role} NOLOGIN")
            except DatabaseError:
                cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [settings.EXECUTOR_ROLE])
                if cursor.fetchone() is None:
                    raise
        cursor.execute("SELECT pg_has_role(current_user, %s, 'MEMBER')", [settings.EXECUTOR_ROLE])
        if not cursor.fetchone()[0]:
            cursor.execute(f"GRANT {role} TO CURRENT_USER")
