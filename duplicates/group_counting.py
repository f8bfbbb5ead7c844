"""How digests are counted: from the rows of their files to rows of `duplicate_groups`, by statements over many at once.

`touched_digests` says which ones to count, `counted_digests` is what came of it: only those that several present files
have. Rows of groups are changed in place, and only where they differ, so that a group keeps its id as long as it lives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connections

from duplicates.facts import Digest
from libraries.models import LibraryRoot

_DIGESTS = "CREATE TEMP TABLE IF NOT EXISTS {table} (hash_algorithm varchar(16), content_hash {blob})"
_FIGURES = (
    "size_bytes", "file_count", "total_size_bytes", "inode_count", "reclaimable_bytes", "newest_ns", "sample_file_id",
    "library_ids", "spans_libraries",
)  # fmt: skip
_COLUMNS = f"hash_algorithm, content_hash, {', '.join(_FIGURES)}"
_COUNTED = """CREATE TEMP TABLE IF NOT EXISTS counted_digests (
  hash_algorithm varchar(16), content_hash {blob}, size_bytes bigint, file_count bigint, total_size_bytes bigint,
  inode_count bigint, reclaimable_bytes bigint, newest_ns bigint, sample_file_id bigint, library_ids text,
  spans_libraries boolean, is_simple boolean, PRIMARY KEY (hash_algorithm, content_hash)) {without_rowid}"""
_SAME = "{0}.hash_algorithm = {1}.hash_algorithm AND {0}.content_hash = {1}.content_hash"
_IS_PRESENT = "f.content_hash IS NOT NULL AND NOT f.is_missing AND NOT f.needs_hash"
#: The files of some digests. By a LEFT JOIN: for any other SQLite may read the whole index for a Bloom filter.
_THEIR_FILES = f"t LEFT JOIN library_files f ON {_SAME.format('f', 't')} AND {_IS_PRESENT}"
#: Most digests are one present file's, or nobody's: the index alone says which, without a look at the files' rows.
_HAS_SEVERAL = (
    f"(SELECT COUNT(*) FROM (SELECT 1 FROM library_files f WHERE {_SAME.format('f', 't')} AND {_IS_PRESENT} LIMIT 2)"
    " two) > 1"
)
#: One row for each digest. It is the whole truth where every file has one name; not where the links are unknown, or
#: where so many files are spread over libraries that the list of them would be long.
_COUNT = f"""
INSERT INTO counted_digests ({_COLUMNS}, is_simple)
SELECT t.hash_algorithm, t.content_hash, MIN(f.size_bytes), COUNT(f.id), SUM(f.size_bytes), COUNT(f.id),
       MIN(f.size_bytes) * {{reclaimable}}, MAX(f.mtime_ns), MIN(f.id), {{libraries}},
       MIN(f.library_id) <> MAX(f.library_id),
       MAX(COALESCE(f.nlink, 2)) <= 1 AND (COUNT(f.id) <= {{few}} OR MIN(f.library_id) = MAX(f.library_id))
  FROM touched_digests {_THEIR_FILES} {{where}} GROUP BY {{each}} HAVING COUNT(f.id) > 1"""
#: One row for each inode of a digest, then one for each digest.
_COUNT_LINKED = f"""
INSERT INTO counted_digests ({_COLUMNS}, is_simple)
SELECT hash_algorithm, content_hash, MIN(size_bytes), SUM(names), SUM(total), COUNT(*),
       MIN(size_bytes) * CASE WHEN SUM(stays) > 0 OR SUM(is_free) = 0 THEN SUM(is_free) ELSE SUM(is_free) - 1 END,
       MAX(newest_ns), MIN(sample), ',' || {{all_libraries}} || ',', MIN(first_library) <> MAX(last_library), {{true}}
  FROM (SELECT hash_algorithm, content_hash, MIN(size_bytes) AS size_bytes, COUNT(*) AS names,
               SUM(size_bytes) AS total, MAX(mtime_ns) AS newest_ns, MIN(id) AS sample,
               MIN(library_id) AS first_library, MAX(library_id) AS last_library, {{libraries}} AS libraries,
               CASE WHEN SUM(is_normal) = COUNT(*) AND COUNT(*) >= MAX(links) THEN 1 ELSE 0 END AS is_free,
               CASE WHEN SUM(is_protected) > 0
                      OR (SUM(is_normal) > 0 AND NOT (SUM(is_normal) = COUNT(*) AND COUNT(*) >= MAX(links)))
                    THEN 1 ELSE 0 END AS stays
          FROM (SELECT f.hash_algorithm, f.content_hash, f.id, f.library_id, f.size_bytes, f.mtime_ns,
                       COALESCE(f.nlink, 1) AS links,
                       CASE WHEN f.inode IS NULL OR f.device IS NULL OR f.nlink = 1 THEN -1 ELSE f.device END AS device,
                       CASE WHEN f.inode IS NULL OR f.device IS NULL OR f.nlink = 1 THEN f.id ELSE f.inode END AS inode,
                       CASE WHEN {{is_protected}} THEN 1 ELSE 0 END AS is_protected,
                       CASE WHEN {{is_normal}} THEN 1 ELSE 0 END AS is_normal
                  FROM linked_digests {_THEIR_FILES}) files
         GROUP BY hash_algorithm, content_hash, device, inode) inodes
 GROUP BY hash_algorithm, content_hash"""
_STORE = f"INTO duplicate_groups ({_COLUMNS}) SELECT {_COLUMNS} FROM counted_digests"
_OVERWRITE = " WHERE true ON CONFLICT (hash_algorithm, content_hash) DO UPDATE SET {values} WHERE {differs}"
_IS_NOT_COUNTED = "NOT EXISTS (SELECT 1 FROM counted_digests c WHERE {same})"
#: A list of libraries may name one several times, as long as it is short.
FEW = 50


class GroupCounter:
    """The scratch tables and the statements of one connection."""

    def __init__(self, using: str) -> None:
        self.using = using
        self.connection = connections[using]
        self.is_sqlite = self.connection.vendor == "sqlite"

    # --- What to count ------------------------------------------------------------------------------------
    def clear(self) -> None:
        blob = "blob" if self.is_sqlite else "bytea"
        for table in ("touched_digests", "linked_digests"):
            self.do(_DIGESTS.format(table=table, blob=blob))
            self.do(f"DELETE FROM {table}")
        self.do(_COUNTED.format(blob=blob, without_rowid="WITHOUT ROWID" if self.is_sqlite else ""))
        self.do("DELETE FROM counted_digests")

    def touched(self) -> int:
        count: int = self.ask("SELECT COUNT(*) FROM touched_digests")[0][0]
        return count

    # --- Counting -----------------------------------------------------------------------------------------
    def count(self, *, is_known_several: bool) -> None:
        """Count the touched digests. Where the index has said already that several rows have them, say so."""
        self._analyze("touched_digests")
        places = _Places(self.using, larger="MAX" if self.is_sqlite else "GREATEST")
        self.do(
            _COUNT.format(
                reclaimable=places.reclaimable,
                libraries=places.libraries(self._joined("f.library_id")),
                few=FEW,
                where="" if is_known_several else f"WHERE {_HAS_SEVERAL}",
                each="t.rowid" if self.is_sqlite else "t.hash_algorithm, t.content_hash",
            ),
            places.parameters,
        )
        if self.ask("SELECT 1 FROM counted_digests WHERE NOT is_simple LIMIT 1"):
            self._count_linked(places)

    def _count_linked(self, places: _Places) -> None:
        """Those of which some file has several names are counted anew, by inodes."""
        self.do(
            "INSERT INTO linked_digests SELECT hash_algorithm, content_hash FROM counted_digests WHERE NOT is_simple"
        )
        self.do("DELETE FROM counted_digests WHERE NOT is_simple")
        self._analyze("linked_digests")
        self.do(
            _COUNT_LINKED.format(
                is_protected=places.is_protected,
                is_normal=places.is_normal,
                libraries=self._joined("DISTINCT library_id"),
                all_libraries=self._joined("DISTINCT libraries"),
                true="1" if self.is_sqlite else "true",
            ),
            places.parameters,
        )

    def _joined(self, what: str) -> str:
        if self.is_sqlite:
            return f"GROUP_CONCAT({what})"
        distinct, _, column = what.rpartition(" ")
        return f"STRING_AGG({distinct} ({column})::text, ',')"

    def _analyze(self, table: str) -> None:
        """PostgreSQL takes a table without figures for a large one."""
        if not self.is_sqlite:
            self.do(f"ANALYZE {table}")

    # --- Storing ------------------------------------------------------------------------------------------
    def forget_touched(self) -> None:
        """Take away the groups of touched digests that were not counted: they are no groups any more."""
        self.do(
            "DELETE FROM duplicate_groups WHERE id IN (SELECT g.id FROM touched_digests t"
            f" LEFT JOIN duplicate_groups g ON {_SAME.format('g', 't')}"
            f" WHERE {_IS_NOT_COUNTED.format(same=_SAME.format('c', 't'))})"
        )

    def forget_between(self, after: Digest, until: Digest | None) -> None:
        """The same for all groups after a digest and up to another."""
        where, parameters = between(after, until)
        gone = _IS_NOT_COUNTED.format(same=_SAME.format("c", "duplicate_groups"))
        self.do(f"DELETE FROM duplicate_groups WHERE {where} AND {gone}", parameters)

    def has_groups_between(self, after: Digest, until: Digest | None) -> bool:
        where, parameters = between(after, until)
        return bool(self.ask(f"SELECT 1 FROM duplicate_groups WHERE {where} LIMIT 1", parameters))

    def store(self, *, is_all_new: bool = False) -> None:
        """Write what was counted. Where no group of them is stored yet a shorter statement does, a third quicker."""
        if is_all_new:
            # Whatever fails fails the whole transaction: SQLite need not remember each page as it was before.
            self.do(f"INSERT {'OR FAIL ' if self.is_sqlite else ''}{_STORE}")
            return
        values = ", ".join(f"{name} = excluded.{name}" for name in _FIGURES)
        differs = " OR ".join(f"duplicate_groups.{name} <> excluded.{name}" for name in _FIGURES)
        self.do(f"INSERT {_STORE}" + _OVERWRITE.format(values=values, differs=differs))

    # --- The database -------------------------------------------------------------------------------------
    def do(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, list(parameters))

    def ask(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, list(parameters))
            return list(cursor.fetchall())


def between(after: Digest, until: Digest | None) -> tuple[str, list[Any]]:
    """The condition for digests after one and, where another is given, up to that."""
    where = "(hash_algorithm, content_hash) > (%s, %s)"
    if until is None:
        return where, [*after]
    return f"{where} AND (hash_algorithm, content_hash) <= (%s, %s)", [*after, *until]


class _Places:
    """Where a file `f` is protected, and where it may go; as short as the libraries there are allow."""

    def __init__(self, using: str, larger: str) -> None:
        self._larger = larger
        roles = list(LibraryRoot.objects.using(using).values_list("id", "role", "protected_folders"))
        self._only = roles[0][0] if len(roles) == 1 else None
        backups = [key for key, role, _ in roles if role == LibraryRoot.Role.BACKUP]
        protected = [key for key, role, _ in roles if role == LibraryRoot.Role.PROTECTED]
        folders = [
            (key, f"{folder}/")
            for key, role, text in roles
            if role == LibraryRoot.Role.NORMAL
            for folder in text.split("\n")
            if folder
        ]
        places = [f"f.library_id IN ({_list(protected)})"] if protected else []
        places += ["(f.library_id = %s AND SUBSTR(f.relative_path, 1, %s) = %s)"] * len(folders)
        once: list[Any] = [part for key, folder in folders for part in (key, len(folder), folder)]
        #: The conditions stand twice in each statement.
        self.parameters = [*once, *once]
        self.is_protected = f"({' OR '.join(places)})" if places else "1 = 0"
        is_backup = f"f.library_id IN ({_list(backups)})" if backups else "1 = 0"
        self.is_normal = f"NOT {is_backup} AND NOT {self.is_protected}"
        self._is_all_normal = not backups and not places

    @property
    def reclaimable(self) -> str:
        """How many copies would go, for a digest whose files have one name each."""
        if self._is_all_normal:
            return "(COUNT(f.id) - 1)"
        free = f"SUM(CASE WHEN {self.is_normal} THEN 1 ELSE 0 END)"
        stays = f"MAX(CASE WHEN {self.is_protected} THEN 1 ELSE 0 END)"
        return f"{self._larger}(0, {free} - 1 + {stays})"

    def libraries(self, joined: str) -> str:
        if self._only is not None:
            return f"',{self._only},'"
        one, is_one = "CAST(MIN(f.library_id) AS text)", "MIN(f.library_id) = MAX(f.library_id)"
        return f"',' || CASE WHEN {is_one} THEN {one} ELSE {joined} END || ','"


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
