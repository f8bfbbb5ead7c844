"""Copies an old database's rows into a file with this version's schema: normalised, in batches."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from database import normalising, sqlite_files
from database.crash_points import reach
from database.errors import AdoptionRefused
from database.legacy import SINGLE_ACTIVE, OldTable, refusal, superseded_files, surplus_active
from database.normalising import Normaliser, Unusable
from database.protocol import TABLES
from database.sqlite_files import quoted
from database.tallying import Recovered, Tally

Row = dict[str, Any]
BATCH = 1000
LEASE = ("worker_id", "worker_heartbeat_at", "lease_expires_at")
#: A column that no default may stand in for, although the schema has one.
NEEDED = "status"


@dataclass(frozen=True)
class Column:
    """One column of this version's schema."""

    name: str
    declared_type: str
    is_nullable: bool
    default: str | None

    @property
    def placeholder(self) -> str:
        """What was NULL or absent becomes the default."""
        return "?" if self.default is None else f"COALESCE(?, {self.default})"

    @property
    def is_needed(self) -> bool:
        return self.name == NEEDED or not (self.is_nullable or self.default)

    def normaliser(self, table: str) -> Normaliser:
        return normalising.normaliser(table, self.name, self.declared_type, is_nullable=self.is_nullable)


def schema_of(connection: sqlite3.Connection, table: str) -> list[Column]:
    rows = connection.execute(f"PRAGMA table_info({quoted(table)})").fetchall()
    return [Column(name, kind, not (required or key), default) for _, name, kind, required, default, key in rows]


def decode(raw: bytes) -> str:
    """SQLite doesn't check that text is UTF-8; what isn't must not stop the reading."""
    return raw.decode("utf-8", "surrogateescape")


class Copier:
    """Carries all rows from `source` to `target`."""

    def __init__(self, source: sqlite3.Connection, target: sqlite3.Connection, report: Callable[[str], None]) -> None:
        self.source, self.target, self.report = source, target, report
        self.tally = Tally()
        self.now: str = target.execute("SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')").fetchone()[0]
        self.surplus: dict[tuple[str, str], Recovered] = {}
        self.superseded: set[Any] = set()
        #: Libraries and sessions are few and asked for once per file.
        self.has_parent = cache(self.has_row)

    def copy(self) -> Tally:
        tables = sqlite_files.tables(self.source)
        self.tally.unknown_tables = [name for name in tables if name.lower() not in TABLES]
        for table in TABLES:
            old = OldTable.find(self.source, table)
            if old is not None:
                self._copy_table(old)
        return self.tally

    def _copy_table(self, old: OldTable) -> None:
        columns = schema_of(self.target, old.table)
        self._judge_columns(old, columns)
        self._choose(old)
        self.tally.found[old.table] = old.count()
        self.tally.copied[old.table] = 0
        self.target.execute("BEGIN")
        for batch in self._batches(old, columns):
            self._insert(old.table, columns, batch)
            self.tally.copied[old.table] += len(batch)
            reach("adopt")
        self.target.execute("COMMIT")
        self.report(f"{old.table}: {self.tally.copied[old.table]:,} of {self.tally.found[old.table]:,} rows")

    def _judge_columns(self, old: OldTable, columns: list[Column]) -> None:
        lacking = [column.name for column in columns if column.is_needed and column.name not in old.columns]
        if lacking:
            raise AdoptionRefused(
                f"table {old.table} has no column {', '.join(lacking)}, and no default can stand in for it"
            )
        known = {column.name for column in columns}
        unknown = sorted(name for low, name in old.columns.items() if low not in known)
        if unknown:
            self.tally.unknown_columns[old.table] = unknown

    def _choose(self, old: OldTable) -> None:
        if old.table in SINGLE_ACTIVE:
            self.tally.recovered += (surplus := surplus_active(old))
            self.surplus |= {(each.table, each.id): each for each in surplus}
        if old.table == "library_files":
            self.superseded = superseded_files(old)

    # --- Reading ------------------------------------------------------------------------------------------

    def _batches(self, old: OldTable, columns: list[Column]) -> Iterator[list[tuple[Any, ...]]]:
        shared = [column for column in columns if column.name in old.columns]
        steps = [(column.name, column.normaliser(old.table)) for column in shared]
        key_at = next(at for at, column in enumerate(shared) if column.name in ("id", "bucket_key"))
        cursor = old.select(*(old.column(column.name) for column in shared))
        while raws := cursor.fetchmany(BATCH):
            rows = (self._row(old.table, raw[key_at], steps, raw) for raw in raws)
            yield [tuple(row.get(column.name) for column in columns) for row in rows if row is not None]

    def _row(self, table: str, key: Any, steps: list[tuple[str, Normaliser]], raw: tuple[Any, ...]) -> Row | None:
        row: Row = {}
        for (name, normalise), value in zip(steps, raw, strict=True):
            try:
                row[name] = normalise(value)
            except Unusable as error:
                if name != "relative_path":
                    raise refusal(table, key, name, value, error) from None
                self.tally.leave_out(table, key, f"its path is {error}; the next scan finds it again")
                return None
        return row if self._judge(table, row) else None

    def _judge(self, table: str, row: Row) -> bool:
        """Mend what depends on several columns or on other rows; say whether the row is taken over."""
        if table == "library_files":
            return self._judge_file(row)
        if table == "thumbnails" and not self.has_row("library_files", row["file_id"]):
            self.tally.leave_out(table, row["id"], "its file isn't there")
            return False
        surplus = self.surplus.get((table, str(row.get("id"))))
        if surplus is not None:
            self._give_way(row, surplus)
        return True

    def has_row(self, table: str, key: Any) -> bool:
        return self.target.execute(f"SELECT 1 FROM {table} WHERE id = ?", [key]).fetchone() is not None

    def _give_way(self, row: Row, surplus: Recovered) -> None:
        row.update(dict.fromkeys(LEASE))
        row.update(status="retryable", finished_at=None, updated_at=self.now)
        row.update(error_code=surplus.error_code, error_message=surplus.message)

    def _judge_file(self, row: Row) -> bool:
        if row["id"] in self.superseded:
            self.tally.leave_out("library_files", row["id"], "a more recent row has its library and path")
            return False
        if not self.has_parent("library_roots", row["library_id"]):
            self.tally.leave_out("library_files", row["id"], "its library isn't there")
            return False
        session = row.get("last_seen_scan_id")
        if session is not None and not self.has_parent("scan_sessions", session):
            row["last_seen_scan_id"] = None
            self.tally.change("library_files", row["id"], "the scan that last saw it isn't there; forgotten")
        self._judge_digest(row)
        return True

    def _judge_digest(self, row: Row) -> None:
        """A digest counts only together with its algorithm; whatever lacks one of them is hashed again."""
        told = None
        try:
            told, row["content_hash"] = normalising.digest(row.get("content_hash"))
        except Unusable as error:
            row["content_hash"] = None
            self.tally.change("library_files", row["id"], f"its content hash is {error}; to be hashed again")
        row["hash_algorithm"] = row.get("hash_algorithm") or told
        has_digest = row["content_hash"] is not None
        if has_digest and row["hash_algorithm"] is None:
            self.tally.change("library_files", row["id"], "its content hash has no algorithm; to be hashed again")
        if not has_digest or row["hash_algorithm"] is None:
            row["needs_hash"] = 1
        elif row.get("needs_hash") is None:
            row["needs_hash"] = 0

    # --- Writing ------------------------------------------------------------------------------------------

    def _insert(self, table: str, columns: list[Column], rows: list[tuple[Any, ...]]) -> None:
        names = ", ".join(quoted(column.name) for column in columns)
        values = ", ".join(column.placeholder for column in columns)
        insert = f"INSERT INTO {table} ({names}) VALUES ({values})"
        self.target.execute("SAVEPOINT batch")
        try:
            self.target.executemany(insert, rows)
        except sqlite3.IntegrityError:
            self.target.execute("ROLLBACK TO batch")
            self._name_the_culprit(table, columns, insert, rows)
        self.target.execute("RELEASE batch")

    def _name_the_culprit(self, table: str, columns: list[Column], insert: str, rows: list[tuple[Any, ...]]) -> None:
        """A batch was refused: find the row, for the person who has to mend it."""
        key_at = next(at for at, column in enumerate(columns) if column.name in ("id", "bucket_key"))
        for row in rows:
            try:
                self.target.execute(insert, row)
            except sqlite3.IntegrityError as error:
                raise AdoptionRefused(f"{table} {row[key_at]} can't be taken over: {error}") from None
