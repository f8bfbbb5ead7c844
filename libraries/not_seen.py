"""The rows that a complete walk did not see, on a scratch table: there may be as many of them as the library has files,
and which of them only moved is asked of the whole index at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from django.db import connections, transaction

from database.many_rows import savepoint
from database.routing import EXECUTOR
from libraries.reading import SMALL_BYTES
from libraries.storing import Stamp

#: By inode, size and time is how a file is looked for elsewhere; an inode may be unknown.
_TABLE = """CREATE TEMP TABLE IF NOT EXISTS not_seen (
  id bigint PRIMARY KEY, inode bigint, size_bytes bigint NOT NULL, mtime_ns bigint NOT NULL, device bigint,
  needs_hash boolean NOT NULL, is_left_out boolean NOT NULL, is_moved boolean NOT NULL,
  UNIQUE (inode, size_bytes, mtime_ns, id))"""
#: The same file under two names: a rename changes neither inode nor size nor time. A row that this very scan wrote may
#: have another device than before, since those numbers change with a restart; one that it left as it was may not, since
#: another disk can have a file of that number, size and time.
_SAME_FILE = """g.inode = n.inode AND g.size_bytes = n.size_bytes AND g.mtime_ns = n.mtime_ns AND g.id <> n.id
         AND (n.last_seen_scan_id = {session} OR g.device = n.device)"""
#: One row for each new name, however many old ones there are: a file with a hundred links has a hundred of both. It
#: inherits from one whose content is known, if there is any. The sign keeps SQLite from an index that would lead it
#: through the whole library for each page.
_ELSEWHERE = f"""
SELECT n.id, n.inode, n.size_bytes, n.mtime_ns, n.device, n.last_seen_scan_id = {{session}},
       CASE WHEN n.needs_hash AND n.size_bytes > {SMALL_BYTES} THEN
       (SELECT g.id FROM not_seen g WHERE {_SAME_FILE} ORDER BY g.needs_hash, g.id LIMIT 1) END
  FROM library_files n
 WHERE +n.library_id = {{library}} AND n.id > %s AND n.id <= %s AND NOT n.is_missing
   AND EXISTS (SELECT 1 FROM not_seen g WHERE {_SAME_FILE})
 ORDER BY n.id"""
_MOVE = """
UPDATE not_seen SET is_moved = {true}
 WHERE inode = %s AND size_bytes = %s AND mtime_ns = %s AND (device = %s OR {true} = %s) AND NOT is_moved"""
_COUNT = """
SELECT COALESCE(SUM(CASE WHEN is_left_out THEN 0 ELSE 1 END), 0) FROM not_seen WHERE NOT is_moved"""
_IDS = "SELECT id FROM not_seen WHERE id > %s AND is_moved = %s ORDER BY id LIMIT %s"


class NotSeenRow(NamedTuple):
    id: int
    inode: int | None
    size_bytes: int
    mtime_ns: int
    device: int | None
    needs_hash: bool
    #: The library's own rules leave it out by now.
    is_left_out: bool


class Elsewhere(NamedTuple):
    """A present row with the file of some that were not seen."""

    id: int
    inode: int
    size_bytes: int
    mtime_ns: int
    device: int | None
    is_of_this_scan: bool
    #: The one whose digest and sample it should have; None where it needs none.
    heir_of: int | None


class NotSeen:
    """The scratch table of one connection."""

    def __init__(self, stamp: Stamp) -> None:
        self.stamp = stamp
        self.connection = connections[EXECUTOR]
        self.is_sqlite = self.connection.vendor == "sqlite"

    # --- Filling ------------------------------------------------------------------------------------------
    def clear(self) -> None:
        self._ask(_TABLE)
        self._ask("DELETE FROM temp.not_seen" if self.is_sqlite else "TRUNCATE pg_temp.not_seen")

    def add(self, rows: Sequence[NotSeenRow]) -> None:
        columns = ", ".join([*NotSeenRow._fields, "is_moved"])
        if self.is_sqlite:
            marks = ", ".join(["%s"] * len(NotSeenRow._fields))
            self._many(f"INSERT INTO temp.not_seen ({columns}) VALUES ({marks}, 0)", rows)
            return
        with self.connection.cursor() as cursor, cursor.copy(f"COPY pg_temp.not_seen ({columns}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row((*row, False))

    def count_anew(self) -> None:
        """Much was written. PostgreSQL's planner has figures of a scratch table only where it is told to count."""
        if not self.is_sqlite:
            self._ask("ANALYZE pg_temp.not_seen")

    # --- What moved ---------------------------------------------------------------------------------------
    def elsewhere(self, after: int, until: int) -> list[Elsewhere]:
        """Rows with ids after one and up to another that have the file of some that were not seen."""
        session, library = self.stamp.session_id, self.stamp.library_id
        rows = self._ask(_ELSEWHERE.format(session=session, library=library), [after, until])
        return [Elsewhere._make((*row[:5], bool(row[5]), row[6])) for row in rows]

    def move(self, found: Sequence[Elsewhere]) -> int:
        """Note that those whose files these rows have did but move; return how many it was new of."""
        true = "1" if self.is_sqlite else "true"
        return self._many(_MOVE.format(true=true), [(*each[1:5], each.is_of_this_scan) for each in found])

    # --- What came of it ----------------------------------------------------------------------------------
    def gone(self) -> int:
        """How many neither moved nor are left out by the library's own rules."""
        ((count,),) = self._ask(_COUNT)
        return int(count)

    def ids(self, portion: int, *, is_moved: bool) -> Iterator[list[int]]:
        """Those that moved or those that did not, so many at a time."""
        last = 0
        while ids := [key for (key,) in self._ask(_IDS, [last, is_moved, portion])]:
            yield ids
            last = ids[-1]

    # --- The databases' ways ------------------------------------------------------------------------------
    def _many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> int:
        """How many rows were written by a statement that is run once for each of `rows`."""
        if not rows:
            return 0
        together = savepoint(self.connection) if self.is_sqlite else transaction.atomic(using=EXECUTOR)
        with together, self.connection.cursor() as cursor:
            cursor.executemany(sql, rows)
            return int(cursor.rowcount)

    def _ask(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchall() if cursor.description else []
