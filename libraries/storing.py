"""How a scan writes what it saw: whole batches, by statements that both databases take at full speed.

Every call that writes to the index happens inside a fenced transaction of the executor. What readers found comes as
pages of a database (`libraries.unit_pages`), whose rows SQLite copies as they are: a first scan writes each row once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, connections, transaction

from database.many_rows import insert_together, savepoint
from database.objects import without_idle_triggers
from database.portions import portions
from database.routing import EXECUTOR
from jobs.enforcing import borrowed
from libraries.id_set import IdSet
from libraries.unit_pages import SEEN_COLUMNS, TABLE, SeenRow, database_of, rows_of

_SEEN = "path, size_bytes, mtime_ns, ctime_ns, inode, device, nlink, digest"
#: What was seen, in the order in which it came; and what is new of it, in the order in which it is inserted.
_TABLES = ("seen_batch", "new_batch")

_COLUMNS = (
    "library_id, relative_path, size_bytes, mtime_ns, ctime_ns, inode, device, nlink, is_missing, needs_hash,"
    " last_seen_scan_id, hash_algorithm, content_hash, hashed_size_bytes, hashed_mtime_ns, hashed_at,"
    " hash_error_count, created_at, updated_at"
)
_OVERWRITE = ", ".join(
    f"{column} = excluded.{column}" for column in _COLUMNS.replace(" ", "").split(",")[2:] if column != "created_at"
)
_RESET = (
    "needs_hash = {true}, hash_algorithm = NULL, content_hash = NULL, hashed_size_bytes = NULL, hashed_mtime_ns = NULL,"
    " hashed_at = NULL, hash_error_count = 0, hash_last_error = NULL, hash_last_error_at = NULL,"
    " hash_retry_after = NULL, hash_claim_token = NULL, hash_claimed_at = NULL, sample_hash = NULL"
)
_INHERITED = (
    "hash_algorithm", "content_hash", "hashed_at", "sample_hash", "hashed_size_bytes", "hashed_mtime_ns", "needs_hash",
)  # fmt: skip
_IS_SAME = (
    "f.size_bytes = s.size_bytes AND f.mtime_ns = s.mtime_ns AND f.ctime_ns = s.ctime_ns AND f.inode = s.inode"
    " AND f.device = s.device AND f.nlink = s.nlink AND f.is_missing = {false}"
)
#: Nearly every row is as it was: so that those cost next to nothing, the first question is answered by one number for
#: each row, the id where it is the same and the negative number of the row where it is not.
_COMPARE = """
SELECT CASE WHEN {is_same} THEN f.id ELSE -s.{order} END
  FROM seen_batch s LEFT JOIN library_files f ON f.library_id = {library} AND {same_path}"""
_DIFFERENT = """
SELECT s.{order}, f.id, f.size_bytes <> s.size_bytes OR f.mtime_ns <> s.mtime_ns
                        OR COALESCE(f.ctime_ns, s.ctime_ns) <> s.ctime_ns
  FROM seen_batch s LEFT JOIN library_files f ON f.library_id = {library} AND {same_path}
 WHERE s.{order} IN ({numbers})"""
#: New rows from which on setting triggers aside saves more than it costs.
WORTH_IT = 2_000
#: New rows of one statement on SQLite.
STATEMENT_ROWS = 2_500
#: How many rows are asked about at a time.
_NUMBERS = 10_000


@dataclass(frozen=True)
class Stamp:
    """Whose rows are written, and by which session."""

    library_id: int
    session_id: int
    algorithm: str


class Store:
    """The statements for one scan."""

    def __init__(self, stamp: Stamp) -> None:
        self.stamp = stamp
        self.connection = connections[EXECUTOR]
        self.is_sqlite = self.connection.vendor == "sqlite"
        self.false, self.true = ("0", "1") if self.is_sqlite else ("false", "true")
        self._number = "rowid" if self.is_sqlite else "number"
        self._filled = 0

    # --- What was seen ------------------------------------------------------------------------------------
    def clear(self) -> None:
        """Begin a batch."""
        columns = SEEN_COLUMNS
        if not self.is_sqlite:
            columns = f"{columns.replace('blob', 'bytea')}, number bigint GENERATED ALWAYS AS IDENTITY"
        for table in _TABLES:
            self._run(f"CREATE TEMP TABLE IF NOT EXISTS {table} ({columns})")
            self._empty(table)

    def add(self, units: Sequence[bytes]) -> None:
        """Put files into this batch. It needs no transaction and takes no lock, so that it can be done while readers
        are waited for."""
        if not self.is_sqlite:
            insert_together(self.connection, f"seen_batch ({_SEEN})", list(rows_of(units)))
            return
        for pages in units:
            with borrowed(self.connection, database_of(pages)) as lent:
                self._run(f"INSERT INTO seen_batch SELECT * FROM {lent}.{TABLE}")

    def seen(self, numbers: Sequence[int]) -> list[SeenRow]:
        """Files of this batch by their numbers, in the order of these."""
        found: dict[int, SeenRow] = {}
        for some in portions(numbers, _NUMBERS):
            asked = f"SELECT {self._number}, {_SEEN} FROM seen_batch WHERE {self._number} IN ({_list(some)})"
            found |= {number: tuple(row) for number, *row in self._run(asked)}
        return [found[number] for number in numbers]

    # --- New files ----------------------------------------------------------------------------------------
    def insert(self, rows: Sequence[SeenRow]) -> None:
        """Rows of files that the index doesn't know yet, with their digests where they have one."""
        if rows:
            self._empty("new_batch")
            with savepoint(self.connection) if self.is_sqlite else nullcontext():
                insert_together(self.connection, f"new_batch ({_SEEN})", sorted(rows, key=_digest))
            self._filled = len(rows)
            self.insert_filled()

    def fill(self, count: int) -> None:
        """Make all `count` files of this batch new ones, in the order of their digests: each page of the digests' index
        is written once in a batch, and fetched once where not all of it is in memory. That takes half the time."""
        self._empty("new_batch")
        self._run(f"INSERT INTO new_batch ({_SEEN}) SELECT {_SEEN} FROM seen_batch ORDER BY digest")
        self._empty("seen_batch")
        self._filled = count

    def _empty(self, table: str) -> None:
        self._run(f"DELETE FROM temp.{table}" if self.is_sqlite else f"TRUNCATE pg_temp.{table} RESTART IDENTITY")

    def insert_filled(self) -> int:
        """The batch that was filled, of files of which nothing is known yet; how many they are."""
        into = f"INSERT INTO library_files ({_COLUMNS}) SELECT {self._values()} FROM new_batch s"
        with self._quick_insert():
            try:
                with self._own_transaction():
                    for some in self._portions():
                        self._run(into + some)
            except IntegrityError:
                self._run(self._overwriting())
        return self._filled

    def _overwriting(self) -> str:
        """Somebody else stored one of these paths meanwhile, or a folder that changed while it was listed named it
        twice: what was seen last counts, and what was inserted before the statement that failed is written once more.
        This statement takes a third more time, so it is kept for these cases."""
        path, each = "relative_path", "new_batch"
        if not self.is_sqlite:
            # It writes no row twice in one statement. The batch is in the order of digests: the ctime tells which
            # of two looks at a path was the last one, and where it doesn't, they differ in nothing that counts.
            path = "dedupfs_path_digest(relative_path)"
            each = "(SELECT DISTINCT ON (path) * FROM new_batch ORDER BY path, ctime_ns DESC, number DESC)"
        in_turn = " ORDER BY s.ctime_ns, s.rowid" if self.is_sqlite else ""
        return (
            f"INSERT INTO library_files ({_COLUMNS}) SELECT {self._values()} FROM {each} s WHERE true{in_turn}"
            f" ON CONFLICT (library_id, {path}) DO UPDATE SET {_OVERWRITE}"
        )

    def _portions(self) -> list[str]:
        """For each statement, which rows. Not one for each row, since SQLite keeps its sequence of ids up to date with
        each statement; and not one for all, since it remembers all pages that a statement changes until its end."""
        if not self.is_sqlite:
            return [""]
        starts = range(0, self._filled, STATEMENT_ROWS)
        return [f" WHERE s.rowid > {start} AND s.rowid <= {start + STATEMENT_ROWS}" for start in starts]

    def _own_transaction(self) -> AbstractContextManager[None]:
        """PostgreSQL goes on after an error only from a savepoint; SQLite would remember every page since then."""
        return nullcontext() if self.is_sqlite else transaction.atomic(using=EXECUTOR)

    def _quick_insert(self) -> AbstractContextManager[None]:
        """Every other connection reads the schema anew after a trigger was set aside: it has to be worth that."""
        is_worth_it = self._filled >= WORTH_IT
        return without_idle_triggers(self.connection, "library_files") if is_worth_it else nullcontext()

    def _values(self) -> str:
        """The columns of a new row, from `new_batch`; the constants are our own."""
        path, size, mtime, ctime, inode, device, links, digest = (f"s.{name}" for name in _SEEN.split(", "))
        now = self._now()

        def where_hashed(value: str) -> str:
            return f"CASE WHEN {digest} IS NULL THEN NULL ELSE {value} END"

        return ", ".join([
            str(self.stamp.library_id), path, size, mtime, ctime, inode, device, links,
            self.false, f"{digest} IS NULL", str(self.stamp.session_id),
            where_hashed(f"'{self.stamp.algorithm}'"), digest, where_hashed(size), where_hashed(mtime),
            where_hashed(now), "0", now, now,
        ])  # fmt: skip

    # --- Files that may be known --------------------------------------------------------------------------
    def compare(self, seen: IdSet) -> list[tuple[int, int | None, bool]]:
        """Note what was added and is as it was in `seen`. For each other, by its number: the id it is known by, if it
        is, and whether its content may be another."""
        if not self.is_sqlite:
            # Without figures the planner takes the new table for a large one and reads the whole index.
            self._run("ANALYZE pg_temp.seen_batch")
        numbers = seen.update(self._ask(_COMPARE))
        different: list[tuple[int, int | None, bool]] = []
        for some in portions(numbers, _NUMBERS):
            different += self._ask(_DIFFERENT, numbers=_list(some))
        return different

    def _ask(self, sql: str, **more: str) -> Any:
        same_path = "f.relative_path = s.path"
        if not self.is_sqlite:
            same_path += " AND dedupfs_path_digest(f.relative_path) = dedupfs_path_digest(s.path)"
        asked = sql.format(
            order=self._number,
            library=self.stamp.library_id,
            same_path=same_path,
            is_same=_IS_SAME.format(false=self.false),
            **more,
        )
        return self.connection.connection.execute(asked) if self.is_sqlite else self._run(asked)

    def place(self, moved: Sequence[tuple[int, SeenRow]]) -> None:
        """Rows whose content is as it was and whose place, links or presence is not."""
        self._many(
            "UPDATE library_files SET ctime_ns = {}, inode = {}, device = {}, nlink = {},"
            f" is_missing = {self.false}, last_seen_scan_id = {self.stamp.session_id}, updated_at = {self._now()}"
            " WHERE id = {}",
            [(row[3], row[4], row[5], row[6], key) for key, row in moved],
        )

    def change(self, changed: Sequence[tuple[int, SeenRow]]) -> None:
        """Rows whose content may be another: what was known of it is forgotten, small ones bring their new digest."""
        self._many(
            f"UPDATE library_files SET {_RESET.format(true=self.true)},"
            " size_bytes = {}, mtime_ns = {}, ctime_ns = {}, inode = {}, device = {}, nlink = {},"
            f" is_missing = {self.false}, last_seen_scan_id = {self.stamp.session_id}, updated_at = {self._now()}"
            " WHERE id = {}",
            [(*row[1:7], key) for key, row in changed],
        )
        # A digest that was made for a change of the algorithm is of the old content.
        self._many("DELETE FROM rehashes WHERE file_id = {}", [(key,) for key, _ in changed])
        now = self._now()
        self._many(
            f"UPDATE library_files SET needs_hash = {self.false}, hash_algorithm = '{self.stamp.algorithm}',"
            " content_hash = {}, hashed_size_bytes = size_bytes, hashed_mtime_ns = mtime_ns,"
            f" hashed_at = {now} WHERE id = {{}}",
            [(row[7], key) for key, row in changed if row[7] is not None],
        )

    # --- Files that are gone ------------------------------------------------------------------------------
    def lose(self, ids: Sequence[int]) -> None:
        """Rows whose files are gone; their digests stay, in case they come back."""
        if ids:
            self._run(
                f"UPDATE library_files SET is_missing = {self.true}, hash_claim_token = NULL, hash_claimed_at = NULL,"
                f" last_seen_scan_id = {self.stamp.session_id}, updated_at = {self._now()}"
                f" WHERE id IN ({', '.join(map(str, ids))})"
            )

    def inherit(self, pairs: Sequence[tuple[int, int]]) -> None:
        """(old, new): a file that moved inside the library brings along what is known of its content. A new one stands
        in one pair only."""
        if pairs:
            given = ", ".join(f"{name} = o.{name}" for name in _INHERITED)
            self._run(
                f"UPDATE library_files AS n SET {given} FROM (VALUES {', '.join(map(str, pairs))}) AS pair"
                " JOIN library_files o ON o.id = pair.column1 WHERE n.id = pair.column2"
            )

    # --- The databases' ways ------------------------------------------------------------------------------
    def _now(self) -> str:
        """The database's time as a constant: asked once for a batch, not once for each row."""
        if not self.is_sqlite:
            return "statement_timestamp()"
        ((now,),) = self.connection.connection.execute("SELECT STRFTIME('%Y-%m-%d %H:%M:%f', 'now')")
        return f"'{now}'"

    def _many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if not rows:
            return
        if self.is_sqlite:
            self.connection.connection.executemany(sql.format(*["?"] * sql.count("{}")), rows)
            return
        with self.connection.cursor() as cursor:
            cursor.executemany(sql.format(*["%s"] * sql.count("{}")), rows)

    def _run(self, sql: str) -> list[Any]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall() if cursor.description else []


def _digest(row: SeenRow) -> bytes:
    return row[7] or b""


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
