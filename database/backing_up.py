"""A consistent copy of the database while everything runs, checked before it gets its name."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from database import postgres_tools, sqlite_files
from database.crash_points import reach
from database.errors import BackupFailed, DatabaseRoomError
from database.routing import POLICY

DRAFT = ".dedupfs-part"
#: A draft that is neither locked nor younger than this was left by a killed backup.
ABANDONED_SECONDS = 60
ENDINGS = {"sqlite": ".sqlite3", "postgresql": ".dump"}


@dataclass(frozen=True)
class Backup:
    path: Path
    size_bytes: int
    #: Rows by table; empty for PostgreSQL, where a dump is checked by reading it through.
    rows: dict[str, int]
    #: References that point nowhere, as they do in the database itself.
    dangling: int = 0


def back_up(target: Path | None = None, *, label: str = "dedupfs") -> Backup:
    """Write a backup. `target` is a file that doesn't exist yet, or a folder."""
    connection = connections[POLICY]
    path = _choose(target, f"{label}-{timestamp()}{ENDINGS[connection.vendor]}")
    try:
        return _write(connection, path)
    except OSError as error:
        raise BackupFailed(f"{path}: no backup could be written there ({error.strerror})") from None
    except sqlite3.Error as error:
        raise BackupFailed(f"{path}: no backup could be made: {sqlite_files.explain(error)}") from None


def timestamp() -> str:
    """The time in a file's name: UTC, sortable, without characters that a shell minds."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")


def backups_folder() -> Path:
    return Path(settings.STATE_ROOT) / "backups"


def _choose(target: Path | None, name: str) -> Path:
    """The file to write; a second one within the same second gets a number."""
    if target is not None and not target.is_dir():
        return target.absolute()
    folder = backups_folder() if target is None else target.absolute()
    path = folder / name
    number = 1
    while path.exists():
        number += 1
        path = folder / f"{Path(name).stem}-{number}{Path(name).suffix}"
    return path


def _write(connection: BaseDatabaseWrapper, path: Path) -> Backup:
    if path.exists():
        raise _taken(path)
    if path.parent == backups_folder():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove_abandoned_drafts(path.parent)
    with sqlite_files.draft_beside(path, DRAFT) as draft:
        # The lock tells other backups that this draft is being written; it dies with this process.
        with draft.open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            rows, dangling = _copy(connection, draft)
            reach("backup")
            try:
                sqlite_files.publish(draft, path)
            except FileExistsError:
                raise _taken(path) from None
        return Backup(path, path.stat().st_size, rows, dangling)


def _taken(path: Path) -> BackupFailed:
    return BackupFailed(f"{path} exists already; a backup never overwrites a file")


def _remove_abandoned_drafts(folder: Path) -> None:
    """A killed backup can't clean up after itself; the next one does."""
    for draft in folder.glob(f".*{DRAFT}"):
        with suppress(FileNotFoundError, BlockingIOError), draft.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - os.fstat(file.fileno()).st_mtime > ABANDONED_SECONDS:
                sqlite_files.remove_with_companions(draft)


def _copy(connection: BaseDatabaseWrapper, draft: Path) -> tuple[dict[str, int], int]:
    if connection.vendor == "sqlite":
        return _copy_sqlite(Path(str(connection.settings_dict["NAME"])), draft)
    _dump_postgresql(connection, draft)
    return {}, 0


def _copy_sqlite(database: Path, draft: Path) -> tuple[dict[str, int], int]:
    if not database.exists():
        raise BackupFailed(f"{database} doesn't exist; there is nothing to back up")
    with closing(sqlite_files.connect(database)) as source, closing(sqlite_files.connect(draft)) as copy:
        source.execute("BEGIN")
        before = sqlite_files.contents(source)
        _require_room(draft.parent, sqlite_files.size_of_database(source))
        sqlite_files.copy_snapshot(source, copy)
        reach("backup")
        after = sqlite_files.contents(copy)
        if problem := sqlite_files.damage(copy):
            raise BackupFailed(
                f"{database} is damaged ({problem}); run `manage.py doctor` and restore an earlier backup"
            )
    if before != after:
        raise BackupFailed(f"the copy of {database} doesn't hold what the database holds; try again")
    return after.rows, after.dangling


def _require_room(folder: Path, needed: int) -> None:
    free = sqlite_files.free_bytes(folder)
    if free < needed:
        raise BackupFailed(f"{folder}: the disk is full; a backup needs {needed:,} bytes and {free:,} are free")


def _dump_postgresql(connection: BaseDatabaseWrapper, draft: Path) -> None:
    try:
        postgres_tools.dump(draft, connection.get_connection_params())
        reach("backup")
        with connection.cursor() as cursor:
            wanted = set(connection.introspection.table_names(cursor))
        missing = wanted - postgres_tools.dumped_tables(draft)
        postgres_tools.read_through(draft)
    except DatabaseRoomError as error:
        raise BackupFailed(str(error)) from None
    if missing:
        raise BackupFailed(f"the dump lacks the rows of {', '.join(sorted(missing))}")
    draft.chmod(0o600)
