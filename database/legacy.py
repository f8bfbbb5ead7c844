"""A table as an earlier implementation left it, and which of its rows can't stand side by side any longer."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from database import normalising, sqlite_files
from database.errors import AdoptionRefused
from database.normalising import Normaliser, Unusable
from database.sqlite_files import quoted
from database.tallying import Recovered

SURPLUS_RUNNING = "MIGRATION_MUTEX_RECOVERY"
SURPLUS_PENDING = "MIGRATION_ACTIVE_RECOVERY"
#: Tables in which at most one row may wait or run; in `jobs` that goes for two kinds.
SINGLE_ACTIVE = ("jobs", "wal_maintenance_jobs")
SLOT_KINDS = ("scan", "hash")
EARLIEST = datetime.min.replace(tzinfo=UTC)
LATEST = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class OldTable:
    """One of the protocol's tables in the old file. Names are found whatever their case."""

    source: sqlite3.Connection
    table: str
    actual: str
    columns: dict[str, str]

    @classmethod
    def find(cls, source: sqlite3.Connection, table: str) -> OldTable | None:
        actual = next((name for name in sqlite_files.tables(source) if name.lower() == table), None)
        if actual is None:
            return None
        rows = source.execute(f"PRAGMA table_xinfo({quoted(actual)})").fetchall()
        return cls(source, table, actual, {row[1].lower(): row[1] for row in rows})

    def column(self, name: str) -> str:
        """The column in SQL; NULL where the table doesn't have it."""
        return quoted(self.columns[name]) if name in self.columns else "NULL"

    def count(self) -> int:
        return sqlite_files.count(self.source, self.actual)

    def select(self, *expressions: str) -> sqlite3.Cursor:
        return self.source.execute(f"SELECT {', '.join(expressions)} FROM {quoted(self.actual)}")

    def moment(self, key: Any, column: str, value: Any) -> datetime | None:
        found: datetime | None = self.normalised(normalising.moment, key, column, value)
        return found

    def normalised(self, normalise: Normaliser, key: Any, column: str, value: Any) -> Any:
        try:
            return normalise(value)
        except Unusable as error:
            raise refusal(self.table, key, column, value, error) from None


def refusal(table: str, key: Any, column: str, value: Any, error: Unusable) -> AdoptionRefused:
    shown = repr(value) if len(repr(value)) <= 80 else repr(value)[:80] + "…"
    return AdoptionRefused(f"{table} {key}: column {column} holds {shown}, which is {error}; nothing was changed")


def surplus_active(old: OldTable) -> list[Recovered]:
    """All active rows but one: running before pending, then the oldest, then the smallest id stays."""
    active = sorted(_active(old))
    return [
        Recovered(
            old.table,
            str(key),
            "pending" if is_waiting else "running",
            SURPLUS_PENDING if is_waiting else SURPLUS_RUNNING,
            str(active[0][2]),
        )
        for is_waiting, _, key in active[1:]
    ]


def _active(old: OldTable) -> Iterator[tuple[bool, datetime, Any]]:
    rows = old.select(old.column("id"), old.column("kind"), old.column("status"), old.column("created_at"))
    for key, kind, status, created_at in rows:
        word = str(status).strip().lower()
        if word not in ("pending", "running"):
            continue
        created = old.moment(key, "created_at", created_at) or LATEST
        if old.table != "jobs":
            yield word == "pending", created, key
        elif str(kind).strip().lower() in SLOT_KINDS:
            yield word == "pending", created, old.normalised(normalising.job_id, key, "id", key)


def superseded_files(old: OldTable) -> set[Any]:
    """Rows of `library_files` that share library and path with one that was updated more recently."""
    path = f"CAST({old.column('relative_path')} AS TEXT)"
    library = old.column("library_id")
    twins = old.source.execute(
        f"SELECT library, path, id, updated FROM (SELECT {library} AS library, {path} AS path,"
        f" {old.column('id')} AS id, {old.column('updated_at')} AS updated,"
        f" COUNT(*) OVER (PARTITION BY {library}, {path}) AS twins FROM {quoted(old.actual)})"
        " WHERE twins > 1 ORDER BY library, path"
    )
    superseded: set[Any] = set()
    for _, group in groupby(twins, key=lambda row: (row[0], row[1])):
        ranked = sorted((old.moment(key, "updated_at", at) or EARLIEST, key) for _, _, key, at in group)
        superseded.update(key for _, key in ranked[:-1])
    return superseded
