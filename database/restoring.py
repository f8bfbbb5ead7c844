"""Putting a backup in the place of the database: never over a live one, never without keeping the old one."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.recorder import MigrationRecorder

from database import after_restore, postgres_tools, sqlite_files
from database.backing_up import timestamp
from database.crash_points import reach
from database.errors import FileInUse, RestoreRefused
from database.history import write_event, write_event_into
from database.holding import DRAFT, Held, alone_with, forget_unfinished, holders, kept_name, swap
from database.liveness import alive_within_seconds
from database.migrating import migrate_file, refuse_newer
from database.protocol import TABLES
from database.routing import POLICY
from database.state_lock import StateHeld, hold_state

CRASH_POINT = "restore"


@dataclass(frozen=True)
class Restored:
    backup: Path
    #: Where the database before the restore is; None where there was none.
    kept_as: Path | None
    #: Migrations that the backup had not had.
    migrated: tuple[str, ...]


def restore_database(backup: Path) -> Restored:
    """Replace the database by `backup`, all of it or nothing."""
    backup = backup.absolute()
    if not backup.is_file():
        raise RestoreRefused(f"{backup} is no file")
    connection = connections[POLICY]
    try:
        with hold_state(Path(settings.STATE_ROOT)):
            if connection.vendor != "sqlite":
                restored = _restore_postgresql(connection, backup)
            else:
                connections.close_all()
                restored = _restore_sqlite(backup, Path(str(connection.settings_dict["NAME"])))
            after_restore.forget_files(Path(settings.STATE_ROOT))
            return restored
    except StateHeld as error:
        raise RestoreRefused(f"DedupFS is running (process {error.holder}); stop it first") from None
    except OSError as error:
        raise RestoreRefused(f"nothing was restored: {error}") from None
    except sqlite3.Error as error:
        raise RestoreRefused(f"nothing was restored: {sqlite_files.explain(error)}") from None


# --- SQLite -----------------------------------------------------------------------------------------------


def _restore_sqlite(backup: Path, database: Path) -> Restored:
    if not sqlite_files.looks_like_sqlite(backup):
        raise RestoreRefused(f"{backup} is no SQLite database; this installation keeps its data in {database}")
    if database.exists() and database.samefile(backup):
        raise RestoreRefused(f"{backup} is the database itself")
    before = _check_backup(backup)
    with _set_aside(database) as place, sqlite_files.draft_beside(database, DRAFT) as draft:
        _copy(backup, draft)
        reach(CRASH_POINT)
        migrate_file(draft)
        reach(CRASH_POINT)
        after = _finish_draft(draft, backup)
        kept = place.put(draft)
    return Restored(backup, kept, _names(after - before))


def _names(migrations: set[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(f"{app}.{name}" for app, name in sorted(migrations))


def _check_backup(backup: Path) -> set[tuple[str, str]]:
    """Refuse what is damaged, foreign or newer; return the migrations that the backup has had."""
    try:
        with closing(sqlite_files.open_backup(backup)) as connection:
            problem = sqlite_files.damage(connection)
            applied = sqlite_files.applied_migrations(connection)
            tables = set(sqlite_files.tables(connection))
    except sqlite3.Error as error:
        raise RestoreRefused(f"{backup} can't be restored: {sqlite_files.explain(error)}") from None
    if problem:
        raise RestoreRefused(f"{backup} is damaged: {problem}")
    if not applied:
        advice = "; if an earlier implementation made it, use `manage.py adopt`" if tables & set(TABLES) else ""
        raise RestoreRefused(f"{backup} is not a backup of DedupFS{advice}")
    refuse_newer(applied, str(backup))
    return applied


def _copy(backup: Path, draft: Path) -> None:
    with closing(sqlite_files.open_backup(backup)) as source, closing(sqlite_files.connect(draft)) as target:
        source.execute("BEGIN")
        needed, free = sqlite_files.size_of_database(source), sqlite_files.free_bytes(draft.parent)
        if free < needed:
            raise RestoreRefused(f"{draft.parent}: the disk is full; {needed:,} bytes are needed, {free:,} are free")
        sqlite_files.copy_snapshot(source, target)


def _finish_draft(draft: Path, backup: Path) -> set[tuple[str, str]]:
    """Write into the new database that it was restored; leave it as one file."""
    with closing(sqlite_files.connect(draft)) as connection:
        connection.execute("PRAGMA synchronous=FULL")
        for statement in after_restore.statements():
            connection.execute(statement)
        write_event_into(connection, "restored", {"backup": backup.name})
        connection.execute("PRAGMA journal_mode=DELETE").fetchone()
        if problem := sqlite_files.damage(connection):
            raise RestoreRefused(f"the copy of {backup} is damaged: {problem}")
        return sqlite_files.applied_migrations(connection)


@dataclass(frozen=True)
class _Place:
    """Where the restored file goes; `held` is the database that is there now, if it is one."""

    database: Path
    held: Held | None

    def put(self, draft: Path) -> Path | None:
        kept = kept_name(self.database, f"restore-{timestamp()}")
        if self.held is not None:
            swap(self.held, draft, kept, crash_point=CRASH_POINT)
            return kept
        # Nothing there, or nothing that SQLite can read. A log left alone must not meet the new file either.
        for companion in sqlite_files.companions(self.database):
            companion.rename(kept.with_name(kept.name + companion.name.removeprefix(self.database.name)))
        reach(CRASH_POINT)
        had_file = self.database.exists()
        if had_file:
            os.link(self.database, kept)
        sqlite_files.sync_file(draft)
        draft.replace(self.database)
        sqlite_files.sync_folder(self.database.parent)
        return kept if had_file else None


@contextmanager
def _set_aside(database: Path) -> Iterator[_Place]:
    """Hold the current database alone, if it is one, and see that no consumer works with it."""
    if database.exists() and sqlite_files.is_readable(database):
        with alone_with(database) as held:
            _refuse_consumers(held.connection)
            sqlite_files.remove_old_drafts(database, DRAFT)
            forget_unfinished(database)
            yield _Place(database, held)
    else:
        if database.exists() and (others := holders(database)):
            raise FileInUse(f"{database} is open in {', '.join(others)}; stop that, then try again")
        sqlite_files.remove_old_drafts(database, DRAFT)
        yield _Place(database, None)


def _refuse_consumers(connection: sqlite3.Connection) -> None:
    if "worker_heartbeats" not in sqlite_files.tables(connection):
        return
    within = alive_within_seconds()
    alive = connection.execute(
        "SELECT worker_id, CAST((julianday('now') - julianday(last_seen_at)) * 86400 AS INTEGER) AS age"
        " FROM worker_heartbeats WHERE stopped_at IS NULL AND age <= ?",
        [within],
    ).fetchall()
    if alive:
        worker, age = alive[0]
        raise RestoreRefused(
            f"the consumer {worker} was alive {age} s ago; stop it first (if it was killed, wait {within - age + 1} s)"
        )


# --- PostgreSQL -------------------------------------------------------------------------------------------


def _restore_postgresql(connection: BaseDatabaseWrapper, backup: Path) -> Restored:
    if not postgres_tools.looks_like_dump(backup):
        raise RestoreRefused(f"{backup} is no dump of PostgreSQL, where this installation keeps its data")
    before = _check_dump(backup)
    _require_empty(connection)
    parameters = connection.get_connection_params()
    connections.close_all()
    postgres_tools.restore(backup, parameters)
    # Puts triggers, indexes and grants in place, too.
    call_command("migrate", database=POLICY, interactive=False, verbosity=0)
    with connection.cursor() as cursor:
        for statement in after_restore.statements():
            cursor.execute(statement)
    write_event(connection, "restored", {"backup": backup.name})
    after = set(MigrationRecorder(connection).applied_migrations())
    return Restored(backup, None, _names(after - before))


def _check_dump(backup: Path) -> set[tuple[str, str]]:
    postgres_tools.read_through(backup)
    applied = postgres_tools.dumped_migrations(backup)
    if not applied:
        raise RestoreRefused(f"{backup} is not a backup of DedupFS")
    refuse_newer(applied, str(backup))
    return applied


def _require_empty(connection: BaseDatabaseWrapper) -> None:
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)
    if tables:
        name = connection.settings_dict["NAME"]
        raise RestoreRefused(
            f"the database {name} isn't empty, and nothing is restored over what is there: make a new one"
            f" (createdb {name}_restored), name it in DATABASE_URL and run restore again"
        )
