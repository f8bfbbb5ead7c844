"""The scratch tables of a search for folders that share content, in the executor's own connection.

On SQLite they live in memory, so they hold numbers instead of paths and their size is bounded: a folder is known by a
number made from its path (no lookup is needed to find it), and of the pairs the largest are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from django.db import connections

from database.many_rows import savepoint
from database.portions import portions
from database.routing import EXECUTOR

#: Pairs that are kept at a time; where there are more, those that share least go.
MOST_PAIRS = 300_000
#: Numbers on the way up from folders that are remembered.
MOST_REMEMBERED = 400_000
#: Folders that are asked about in one statement.
MOST_ASKED = 500

_FOLDERS = """CREATE TEMP TABLE overlap_folders (
  id {number} PRIMARY KEY, parent_id bigint, name text NOT NULL, files bigint NOT NULL, bytes bigint NOT NULL)"""
#: `depth` is that of both folders together, `room` how often both may be lifted to their parents before one of them
#: holds the other. `low_bytes` are those of the files in `low` that `high` has too, as far as folders of equal names
#: tell: never too many. `state` is 0 for nothing known yet, 1 for a pair that is kept, 2 for one that a kept pair above
#: it covers.
_PAIRS = """CREATE TEMP TABLE overlap_pairs (
  low bigint NOT NULL, high bigint NOT NULL, depth bigint NOT NULL, room bigint NOT NULL, bytes bigint NOT NULL,
  low_bytes bigint NOT NULL, high_bytes bigint NOT NULL, state smallint NOT NULL DEFAULT 0,
  PRIMARY KEY (low, high)){without_rowid}"""

_ADD_FOLDER = """INSERT INTO overlap_folders (id, parent_id, name, files, bytes) VALUES ({marks})
ON CONFLICT (id) DO UPDATE SET files = overlap_folders.files + excluded.files,
  bytes = overlap_folders.bytes + excluded.bytes"""
_PAIR_COLUMNS = "low, high, depth, room, bytes, low_bytes, high_bytes"
_MERGE_PAIR = """ON CONFLICT (low, high) DO UPDATE SET bytes = overlap_pairs.bytes + excluded.bytes,
  low_bytes = overlap_pairs.low_bytes + excluded.low_bytes,
  high_bytes = overlap_pairs.high_bytes + excluded.high_bytes"""
_ADD_PAIR = f"INSERT INTO overlap_pairs ({_PAIR_COLUMNS}) VALUES ({{marks}}) {_MERGE_PAIR}"
#: What the folders `x` in A and B share, A and B share.
_LIFT = f"""INSERT INTO overlap_pairs ({_PAIR_COLUMNS})
SELECT {{least}}(a, b), {{greatest}}(a, b), depth - 2, room - 1, SUM(bytes),
       SUM(CASE WHEN a < b THEN low_bytes ELSE high_bytes END), SUM(CASE WHEN a < b THEN high_bytes ELSE low_bytes END)
  FROM (SELECT l.parent_id AS a, h.parent_id AS b, p.depth, p.room, p.bytes, p.low_bytes, p.high_bytes
          FROM overlap_pairs p JOIN overlap_folders l ON l.id = p.low JOIN overlap_folders h ON h.id = p.high
         WHERE p.depth = %s AND p.room > 0 AND l.name = h.name) lifted
 WHERE 1 = 1 GROUP BY 1, 2, 3, 4 {_MERGE_PAIR}"""
_COVER = """UPDATE overlap_pairs SET state = 2 WHERE depth = %s AND state = 0 AND room > 0 AND EXISTS (
  SELECT 1 FROM overlap_folders l, overlap_folders h, overlap_pairs above
   WHERE l.id = overlap_pairs.low AND h.id = overlap_pairs.high AND l.name = h.name
     AND above.low = {least}(l.parent_id, h.parent_id) AND above.high = {greatest}(l.parent_id, h.parent_id)
     AND above.state IN (1, 2))"""
_KEEP = """UPDATE overlap_pairs SET state = 1 WHERE depth = %s AND state = 0 AND EXISTS (
  SELECT 1 FROM overlap_folders l, overlap_folders h WHERE l.id = overlap_pairs.low AND h.id = overlap_pairs.high
     AND CASE WHEN l.bytes <= h.bytes THEN overlap_pairs.low_bytes * 2 >= l.bytes
              ELSE overlap_pairs.high_bytes * 2 >= h.bytes END)"""


class Folder(NamedTuple):
    parent_id: int | None
    name: str
    files: int
    bytes: int


def folder_id(library_id: int, path: str) -> int:
    """The number of a folder: 64 bits of its digest. Among a million folders two would meet once in forty million
    searches, and then they would only be reported together."""
    digest = blake2b(f"{library_id}/{path}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)


class Numbers:
    """The numbers of folders with those of all that they lie in. What was asked lately is remembered."""

    def __init__(self) -> None:
        self._chains: dict[tuple[int, str], tuple[int, ...]] = {}
        self._remembered = 0

    def chain(self, library_id: int, path: str) -> tuple[int, ...]:
        """The folder's own number first, the library's root last."""
        missing: list[str] = []
        at = path
        while (chain := self._chains.get((library_id, at))) is None:
            missing.append(at)
            if not at:
                chain = ()
                break
            at = at.rpartition("/")[0]
        for each in reversed(missing):
            chain = (folder_id(library_id, each), *chain)
            self._remember((library_id, each), chain)
        return chain

    def _remember(self, key: tuple[int, str], chain: tuple[int, ...]) -> None:
        self._remembered += len(chain)
        if self._remembered > MOST_REMEMBERED:
            self._chains.clear()
            self._remembered = len(chain)
        self._chains[key] = chain


class Tables:
    """The two tables, empty at first."""

    def __init__(self) -> None:
        self.connection = connections[EXECUTOR]
        self.is_sqlite = self.connection.vendor == "sqlite"
        least, greatest = ("MIN", "MAX") if self.is_sqlite else ("LEAST", "GREATEST")
        self._words = {"least": least, "greatest": greatest}
        self._pairs = 0
        #: Pairs that were let go since there were too many.
        self.dropped = 0
        self.drop()
        # Only by this name SQLite takes it as the number of the row itself, and needs no index for it.
        self._do(_FOLDERS.format(number="integer" if self.is_sqlite else "bigint"))
        self._do(_PAIRS.format(without_rowid=" WITHOUT ROWID" if self.is_sqlite else ""))

    def drop(self) -> None:
        """Also what a search that failed in this process has left."""
        schema = "temp" if self.is_sqlite else "pg_temp"
        for table in ("overlap_folders", "overlap_pairs"):
            self._do(f"DROP TABLE IF EXISTS {schema}.{table}")

    # --- Filling ------------------------------------------------------------------------------------------
    def add_folders(self, rows: Sequence[tuple[int, int | None, str, int, int]]) -> None:
        self._many(_ADD_FOLDER, rows, 5)

    def add_pairs(self, rows: Sequence[tuple[int, ...]]) -> None:
        """Rows of `_PAIR_COLUMNS`."""
        self._many(_ADD_PAIR, rows, 7)
        self._pairs += len(rows)
        self._let_go_of_least()

    def _let_go_of_least(self) -> None:
        if self._pairs <= MOST_PAIRS:
            return
        self._pairs = self._ask("SELECT COUNT(*) FROM overlap_pairs")[0][0]
        if self._pairs > MOST_PAIRS:
            surplus = self._pairs - MOST_PAIRS // 2
            self._do(
                "DELETE FROM overlap_pairs WHERE (low, high) IN"
                f" (SELECT low, high FROM overlap_pairs ORDER BY bytes LIMIT {surplus})"
            )
            self._pairs -= surplus
            self.dropped += surplus

    # --- Lifting and choosing -----------------------------------------------------------------------------
    def index(self) -> None:
        """Everything is in: now it is asked about by depth."""
        name = "temp.overlap_pairs_depth" if self.is_sqlite else "overlap_pairs_depth"
        self._do(f"CREATE INDEX {name} ON overlap_pairs (depth)")
        if not self.is_sqlite:
            self._do("ANALYZE overlap_folders")
            self._do("ANALYZE overlap_pairs")

    def depths(self) -> list[int]:
        """Every depth there is, the smallest first."""
        return [depth for (depth,) in self._ask("SELECT DISTINCT depth FROM overlap_pairs ORDER BY depth")]

    def lift(self, depth: int) -> None:
        """Give the parents of equally named folders what those share."""
        before = self._ask("SELECT COUNT(*) FROM overlap_pairs WHERE depth = %s", [depth - 2])[0][0]
        self._do(_LIFT.format(**self._words), [depth])
        self._pairs += self._ask("SELECT COUNT(*) FROM overlap_pairs WHERE depth = %s", [depth - 2])[0][0] - before
        self._let_go_of_least()

    def choose(self, depth: int) -> None:
        """Keep the pairs of that depth that share most of what the smaller one holds and that no pair above covers."""
        self._do(_COVER.format(**self._words), [depth])
        self._do(_KEEP, [depth])

    def chosen(self, most: int) -> list[tuple[int, int]]:
        rows = self._ask(
            f"SELECT low, high FROM overlap_pairs WHERE state = 1 AND bytes > 0 ORDER BY bytes DESC, low LIMIT {most}"
        )
        return [(low, high) for low, high in rows]

    # --- Folders ------------------------------------------------------------------------------------------
    def folders(self, wanted: Iterable[int]) -> dict[int, Folder]:
        """These folders and all that they lie in."""
        found: dict[int, Folder] = {}
        left = set(wanted)
        while left:
            asked = list(left)
            for some in portions(asked, MOST_ASKED):
                numbers = ", ".join(map(str, some))
                rows = self._ask(
                    f"SELECT id, parent_id, name, files, bytes FROM overlap_folders WHERE id IN ({numbers})"
                )
                found.update({row[0]: Folder(*row[1:]) for row in rows})
            parents = {found[key].parent_id for key in asked if key in found}
            left = {key for key in parents if key is not None and key not in found}
        return found

    # --- The databases' ways ------------------------------------------------------------------------------
    def _many(self, sql: str, rows: Sequence[tuple[Any, ...]], columns: int) -> None:
        if not rows:
            return
        sign = "?" if self.is_sqlite else "%s"
        sql = sql.format(marks=", ".join([sign] * columns))
        if self.is_sqlite:
            with savepoint(self.connection):
                self.connection.connection.executemany(sql, rows)
            return
        with self.connection.cursor() as cursor:
            cursor.executemany(sql, rows)

    def _do(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, list(parameters))

    def _ask(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, list(parameters))
            return list(cursor.fetchall())
