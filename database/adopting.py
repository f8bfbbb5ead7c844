"""Takes over a SQLite file that an earlier implementation of the protocol made.

A fresh file gets this schema and the old file's rows, normalised; it is checked, and only then takes
the old one's name. Until that one rename the old file is what it was, so a kill at any point costs nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from django.db import connections

from database import sqlite_files
from database.copying import Copier, decode
from database.crash_points import reach
from database.errors import AdoptionRefused, FileInUse
from database.history import write_event_into
from database.holding import DRAFT, Held, alone_with, forget_unfinished, kept_name, swap
from database.migrating import migrate_file
from database.objects import expected
from database.protocol import TABLES
from database.tallying import Tally

CRASH_POINT = "adopt"
#: A fresh file with indexes and history needs more room than the old one.
ROOM_FACTOR = 2


@dataclass(frozen=True)
class Adoption:
    path: Path
    #: Where the old file is; None where there was nothing to adopt.
    kept_as: Path | None
    tally: Tally

    @property
    def was_adopted_before(self) -> bool:
        return self.kept_as is None

    def as_dict(self) -> dict[str, Any]:
        kept = str(self.kept_as) if self.kept_as else None
        return {
            "path": str(self.path),
            "adopted": not self.was_adopted_before,
            "kept_as": kept,
            **asdict(self.tally),
        }


def adopt_database(path: Path, report: Callable[[str], None] = lambda _: None) -> Adoption:
    """Adopt the file at `path`; a file that is DedupFS's own already is left as it is, byte for byte."""
    path = path.resolve()
    connections.close_all()
    try:
        if _is_ours(path):
            return Adoption(path, None, Tally())
        with alone_with(path) as held:
            forget_unfinished(path)
            sqlite_files.remove_old_drafts(path, DRAFT)
            return _adopt(held, report)
    except (FileInUse, OSError) as error:
        raise AdoptionRefused(f"nothing was adopted: {error}") from None
    except sqlite3.Error as error:
        raise AdoptionRefused(f"{path} can't be adopted: {sqlite_files.explain(error)}") from None


def _is_ours(path: Path) -> bool:
    """Reads only. Refuses what holds none of the protocol's tables."""
    if not path.is_file():
        raise AdoptionRefused(f"{path} is no file")
    if not sqlite_files.looks_like_sqlite(path):
        raise AdoptionRefused(f"{path} is no SQLite database")
    with closing(sqlite_files.connect(path)) as connection:
        is_ours = any(app == "jobs" for app, _ in sqlite_files.applied_migrations(connection))
        tables = {name.lower() for name in sqlite_files.tables(connection)}
    if not is_ours and not tables & set(TABLES):
        raise AdoptionRefused(f"{path} holds none of the tables {', '.join(TABLES)}; is it the right file?")
    return is_ours


def _adopt(held: Held, report: Callable[[str], None]) -> Adoption:
    _require_room(held)
    if problem := sqlite_files.damage(held.connection):
        raise AdoptionRefused(f"{held.path} is damaged: {problem}")
    kept = kept_name(held.path, "adoption")
    reach(CRASH_POINT)
    with sqlite_files.draft_beside(held.path, DRAFT) as draft:
        migrate_file(draft)
        reach(CRASH_POINT)
        tally = _fill(draft, held, kept, report)
        reach(CRASH_POINT)
        swap(held, draft, kept, crash_point=CRASH_POINT)
    return Adoption(held.path, kept, tally)


def _require_room(held: Held) -> None:
    needed = ROOM_FACTOR * sqlite_files.size_of_database(held.connection)
    free = sqlite_files.free_bytes(held.path.parent)
    if free < needed:
        raise AdoptionRefused(
            f"{held.path.parent}: the disk is too full; {needed:,} bytes are needed, {free:,} are free"
        )


def _fill(draft: Path, held: Held, kept: Path, report: Callable[[str], None]) -> Tally:
    held.connection.text_factory = decode
    with closing(sqlite_files.connect(draft)) as target:
        # The draft is worth nothing until it is complete, and is made durable as a whole then.
        target.execute("PRAGMA journal_mode=MEMORY").fetchone()
        target.execute("PRAGMA synchronous=OFF")
        target.execute("PRAGMA cache_size=-65536")
        tally = Copier(held.connection, target, report).copy()
        _write_history(target, held.path, kept, tally)
        _check(target, tally)
        target.execute("PRAGMA journal_mode=DELETE").fetchone()
    return tally


def _write_history(target: sqlite3.Connection, path: Path, kept: Path, tally: Tally) -> None:
    target.execute("BEGIN")
    for each in tally.recovered:
        detail = {"was": each.was, "error_code": each.error_code, "kept_active": each.kept_active}
        write_event_into(target, "recovered", {**detail, "by": "adopt"}, (each.table, each.id, each.table))
    detail = {"file": path.name, "kept_as": kept.name, **asdict(tally)}
    write_event_into(target, "adopted", {**detail, "recovered": len(tally.recovered)})
    target.execute("COMMIT")


def _check(target: sqlite3.Connection, tally: Tally) -> None:
    """The last look before the file takes its place."""
    for table, found in tally.found.items():
        there, left_out = sqlite_files.count(target, table), tally.rows_left_out(table)
        if there != tally.copied[table] or there + left_out != found:
            raise AdoptionRefused(f"{table}: of {found:,} rows {there:,} arrived and {left_out:,} were left out")
    if problem := sqlite_files.damage(target):
        raise AdoptionRefused(f"the new file is damaged: {problem}")
    dangling = target.execute("PRAGMA foreign_key_check").fetchall()
    if dangling:
        raise AdoptionRefused(
            f"{len(dangling):,} references point nowhere, the first in {dangling[0][0]} {dangling[0][1]}"
        )
    present = dict(target.execute("SELECT name, sql FROM sqlite_master").fetchall())
    missing = [each.name for each in expected("sqlite") if present.get(each.name) != each.create]
    if missing:
        raise AdoptionRefused(f"the new file lacks {', '.join(missing)}")
