"""Bringing a database up to this code, never the other way round, and never without a backup."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from django.conf import settings
from django.core.management import call_command
from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from database.backing_up import back_up
from database.errors import MigrationFailed, NewerDatabase, NotOurDatabase
from database.objects import install
from database.protocol import TABLES
from database.routing import POLICY

Report = Callable[[str], None]
#: Applications that an earlier version had; their migrations in a database don't make it newer than the code.
RETIRED_APPS: frozenset[str] = frozenset()


def refuse_newer_database() -> None:
    """Raise `NewerDatabase` where the database has had migrations that this code doesn't know."""
    applied = MigrationRecorder(connections[POLICY]).applied_migrations()
    refuse_newer(applied, "the database")


def refuse_newer(applied: Iterable[tuple[str, str]], what: str) -> None:
    unknown = unknown_migrations(applied)
    if unknown:
        raise NewerDatabase(
            f"{what} is newer than this version of DedupFS (it has {', '.join(unknown)});"
            " start the newer version, or restore a backup made before the upgrade"
        )


def unknown_migrations(applied: Iterable[tuple[str, str]]) -> list[str]:
    """Those of `applied` that this code has neither as a file nor as part of a squashed one."""
    loader = MigrationLoader(None)
    known = set(loader.disk_migrations)
    for migration in loader.disk_migrations.values():
        known.update(migration.replaces)
    return sorted(f"{app}.{name}" for app, name in set(applied) - known if app not in RETIRED_APPS)


def pending_migrations(connection: BaseDatabaseWrapper) -> list[str]:
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return [f"{migration.app_label}.{migration.name}" for migration, _ in plan]


def migrate_with_backup(report: Report) -> None:
    """Apply what is pending, after a backup unless the database is fresh; put triggers back in place."""
    connection = connections[POLICY]
    with _one_at_a_time(connection):
        refuse_newer_database()
        pending = pending_migrations(connection)
        if pending:
            _migrate(connection, pending, report)
        else:
            for mended in install(connection):
                report(f"Put {mended.name} back in place ({mended.problem}).")


def _migrate(connection: BaseDatabaseWrapper, pending: list[str], report: Report) -> None:
    if _holds_something(connection):
        report(f"Backing up before {len(pending)} migrations.")
        report(f"The backup is {back_up(label='before-migrate').path}")
    call_command("migrate", database=POLICY, interactive=False, stdout=_Lines(report), no_color=True)


@contextmanager
def _one_at_a_time(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Several machines may start on one PostgreSQL at once. A SQLite file has one machine, and `up` its lock."""
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(hashtext('dedupfs migrate'))")
    try:
        yield
    finally:
        # A connection that was lost has lost its lock, too.
        with suppress(Error), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(hashtext('dedupfs migrate'))")


def migrate_file(path: Path) -> None:
    """Bring a SQLite file to this code's schema, triggers and indexes included.

    In a process of its own: the connections of this one stay on the database they are on.
    """
    environment = {
        **os.environ,
        "DATABASE_URL": f"sqlite:///{quote(str(path))}",
        "DJANGO_SETTINGS_MODULE": settings.SETTINGS_MODULE,
    }
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "migrate", "--no-input", "--verbosity=0"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines() or ["it gave no reason"]
        raise MigrationFailed(f"{path} could not be migrated: {reason[-1]}")


def _holds_something(connection: BaseDatabaseWrapper) -> bool:
    with connection.cursor() as cursor:
        tables = set(connection.introspection.table_names(cursor))
    if MigrationRecorder.Migration._meta.db_table in tables:
        return True
    if tables & set(TABLES):
        raise NotOurDatabase(
            "the database was made by an earlier implementation; run `manage.py adopt` with its file first"
        )
    return bool(tables)


class _Lines(io.TextIOBase):
    """A stream that hands on whole lines: `migrate` writes a name first and "OK" when it is done."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.begun = ""

    def write(self, text: str) -> int:
        *lines, self.begun = (self.begun + text).split("\n")
        for line in lines:
            if line.strip():
                self.report(line.rstrip())
        return len(text)
