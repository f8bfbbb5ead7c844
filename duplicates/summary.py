"""The summary of the groups, right whenever it is read.

Triggers note which digests have to be counted anew (`duplicates.objects`), whoever wrote the files; `bring_up_to_date`
counts them before anybody reads. Executors do it too, so that little is left to do for a reader. What is counted anew
is recounted from the files: nothing is added to or subtracted from an older figure, so no error can pile up.

What would come back (`reclaimable_bytes`) is reckoned by inodes. An inode can be freed if every name of it is in the
index, in a normal library and in no protected folder. One copy stays: a protected one, or one that can't be freed
anyway, or else one of those that could be. A backup is no reason to remove the original: its copies are neither
freed nor do they count as the one that stays.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from django.db import connections, transaction

from database.crash_points import reach
from database.routing import EXECUTOR, POLICY
from duplicates.models import Summary
from jobs.enforcing import transaction_on
from libraries.models import LibraryRoot

#: Digests, or files, that are looked at in one transaction: it holds the write lock for about a tenth of a second.
MOST = 20_000
#: Where more than this share of the index is new, counting everything is quicker than counting what is new.
RECOUNT_SHARE = 4

_TOUCHED = "CREATE TEMP TABLE IF NOT EXISTS touched_digests (hash_algorithm varchar(16), content_hash {blob})"
_COUNTED = """CREATE TEMP TABLE IF NOT EXISTS counted_digests (hash_algorithm varchar(16), content_hash {blob},
 size_bytes bigint, names bigint, total bigint, newest_ns bigint, sample bigint, first_library bigint,
 last_library bigint, libraries text, free bigint, stays bigint, is_simple boolean)"""
#: The files of the touched digests. By a LEFT JOIN: for any other SQLite may read the whole index for a Bloom filter.
_FILES = """touched_digests t LEFT JOIN library_files f
    ON f.hash_algorithm = t.hash_algorithm AND f.content_hash = t.content_hash AND f.content_hash IS NOT NULL
   AND NOT f.is_missing AND NOT f.needs_hash"""
#: One row for each digest. It is the whole truth where every file has one name; not where the links are unknown, or
#: where so many files are spread over libraries that the list of them would be long.
_COUNT = """
INSERT INTO counted_digests
SELECT t.hash_algorithm, t.content_hash, MIN(f.size_bytes), COUNT(f.id), SUM(f.size_bytes), MAX(f.mtime_ns), MIN(f.id),
       MIN(f.library_id), MAX(f.library_id), {libraries},
       SUM(CASE WHEN {is_normal} THEN 1 ELSE 0 END), SUM(CASE WHEN {is_protected} THEN 1 ELSE 0 END),
       MAX(COALESCE(f.nlink, 2)) <= 1 AND (COUNT(f.id) <= {few} OR MIN(f.library_id) = MAX(f.library_id))
  FROM {files} GROUP BY {each} HAVING COUNT(f.id) > 1"""
_STORE_SIMPLE = """
INSERT INTO duplicate_groups (hash_algorithm, content_hash, size_bytes, file_count, total_size_bytes, inode_count,
                              reclaimable_bytes, newest_ns, sample_file_id, library_ids, spans_libraries)
SELECT hash_algorithm, content_hash, size_bytes, names, total, names,
       size_bytes * CASE WHEN stays > 0 OR free = 0 THEN free ELSE free - 1 END, newest_ns, sample,
       ',' || CASE WHEN first_library = last_library THEN CAST(first_library AS text) ELSE libraries END || ',',
       first_library <> last_library
  FROM counted_digests WHERE is_simple"""
#: One row for each inode of a digest, then one for each digest.
_STORE_LINKED = """
INSERT INTO duplicate_groups (hash_algorithm, content_hash, size_bytes, file_count, total_size_bytes, inode_count,
                              reclaimable_bytes, newest_ns, sample_file_id, library_ids, spans_libraries)
SELECT hash_algorithm, content_hash, MIN(size_bytes), SUM(names), SUM(total), COUNT(*),
       MIN(size_bytes) * CASE WHEN SUM(stays) > 0 OR SUM(is_free) = 0 THEN SUM(is_free) ELSE SUM(is_free) - 1 END,
       MAX(newest_ns), MIN(sample), ',' || {all_libraries} || ',', MIN(first_library) <> MAX(last_library)
  FROM (SELECT hash_algorithm, content_hash, MIN(size_bytes) AS size_bytes, COUNT(*) AS names,
               SUM(size_bytes) AS total, MAX(mtime_ns) AS newest_ns, MIN(id) AS sample,
               MIN(library_id) AS first_library, MAX(library_id) AS last_library, {libraries} AS libraries,
               CASE WHEN SUM(is_normal) = COUNT(*) AND COUNT(*) >= MAX(links) THEN 1 ELSE 0 END AS is_free,
               CASE WHEN SUM(is_protected) > 0
                      OR (SUM(is_normal) > 0 AND NOT (SUM(is_normal) = COUNT(*) AND COUNT(*) >= MAX(links)))
                    THEN 1 ELSE 0 END AS stays
          FROM (SELECT f.hash_algorithm, f.content_hash, f.id, f.library_id, f.size_bytes, f.mtime_ns,
                       COALESCE(f.nlink, 1) AS links,
                       CASE WHEN f.inode IS NULL OR f.device IS NULL OR f.nlink = 1 THEN -1 ELSE f.device END AS device,
                       CASE WHEN f.inode IS NULL OR f.device IS NULL OR f.nlink = 1 THEN f.id ELSE f.inode END AS inode,
                       CASE WHEN {is_protected} THEN 1 ELSE 0 END AS is_protected,
                       CASE WHEN {is_normal} THEN 1 ELSE 0 END AS is_normal
                  FROM {files}) files
         GROUP BY hash_algorithm, content_hash, device, inode) inodes
 GROUP BY hash_algorithm, content_hash"""
#: A list of libraries may name one several times, as long as it is short.
FEW = 50


def bring_up_to_date(using: str = POLICY, seconds: float | None = None) -> bool:
    """Count what has changed; whether all of it is counted. With a limit of time the rest is left for another."""
    counting = _Counting(using)
    until = None if seconds is None else time.monotonic() + seconds
    while counting.is_behind():
        if until is not None and time.monotonic() > until:
            return False
        counting.step()
        reach("groups_counted")
    return True


def bring_up_to_date_as_executor() -> None:
    bring_up_to_date(EXECUTOR)


def recount(using: str = POLICY) -> None:
    """Have everything counted anew, whatever the notes say."""
    counting = _Counting(using)
    with counting.transaction():
        counting.begin_recount()
    bring_up_to_date(using)


class _Counting:
    """One connection's way of counting."""

    def __init__(self, using: str) -> None:
        self.using = using
        self.connection = connections[using]
        self.is_sqlite = self.connection.vendor == "sqlite"

    def transaction(self) -> AbstractContextManager[None]:
        return transaction_on("count") if self.using == EXECUTOR else self._by_policy()

    @contextmanager
    def _by_policy(self) -> Iterator[None]:
        with transaction.atomic(using=self.using):
            yield

    def is_behind(self) -> bool:
        state = Summary.objects.using(self.using).filter(pk=1).values_list("is_stale", "counted_file_id").first()
        if state is None or state[0] or self._ask("SELECT 1 FROM duplicate_changes LIMIT 1"):
            return True
        return self.is_sqlite and self._last_file() > state[1]

    def step(self) -> None:
        """Count one portion, in one transaction."""
        with self.transaction():
            self._alone()
            state = self._state()
            if not state.is_stale and self._is_mostly_new(state):
                self.begin_recount()
                state = self._state()
            if state.is_stale:
                self._recount_some(state)
            else:
                self._count_changed(state)

    def _state(self) -> Summary:
        summaries = Summary.objects.using(self.using)
        return summaries.filter(pk=1).first() or summaries.create(pk=1, is_stale=True, counted_file_id=0)

    def _alone(self) -> None:
        """One counts at a time, or an older count might overwrite a newer one. SQLite has one writer anyway."""
        if not self.is_sqlite:
            self._do("SELECT pg_advisory_xact_lock(hashtext('count duplicate groups'))")

    def _is_mostly_new(self, state: Summary) -> bool:
        if not self.is_sqlite:
            return False
        last = self._last_file()
        return last - state.counted_file_id > MOST and (last - state.counted_file_id) * RECOUNT_SHARE > last

    # --- Everything ---------------------------------------------------------------------------------------
    def begin_recount(self) -> None:
        """From now on changes are noted for the digests behind the recount as well as for those ahead of it."""
        self._state()
        self._do(
            f"UPDATE duplicate_summary SET is_stale = {self._true}, recounted_algorithm = '', recounted_hash = NULL"
        )

    def _recount_some(self, state: Summary) -> None:
        if state.recounted_hash is None:
            # What is noted so far is counted on the way; what comes later is noted, and counted at the end.
            self._do("DELETE FROM duplicate_changes")
            self._do("UPDATE duplicate_summary SET counted_file_id = %s", [self._last_file()])
        after = (state.recounted_algorithm, bytes(state.recounted_hash or b""))
        self._clear_touched()
        self._do(
            "INSERT INTO touched_digests SELECT hash_algorithm, content_hash FROM library_files"
            " WHERE content_hash IS NOT NULL AND (hash_algorithm, content_hash) > (%s, %s)"
            f" GROUP BY hash_algorithm, content_hash HAVING COUNT(*) > 1"
            f" ORDER BY hash_algorithm, content_hash LIMIT {MOST}",
            after,
        )
        last = self._ask(
            "SELECT hash_algorithm, content_hash FROM touched_digests"
            " ORDER BY hash_algorithm DESC, content_hash DESC LIMIT 1"
        )
        until = "" if self._touched() < MOST else "AND (hash_algorithm, content_hash) <= (%s, %s)"
        self._do(
            f"DELETE FROM duplicate_groups WHERE (hash_algorithm, content_hash) > (%s, %s) {until}",
            [*after, *(last[0] if until else ())],
        )
        self._count_touched()
        if until:
            self._do("UPDATE duplicate_summary SET recounted_algorithm = %s, recounted_hash = %s", list(last[0]))
        else:
            false = "0" if self.is_sqlite else "false"
            self._do(
                f"UPDATE duplicate_summary SET is_stale = {false}, recounted_algorithm = '', recounted_hash = NULL,"
                f" updated_at = {self._now}"
            )

    # --- What changed -------------------------------------------------------------------------------------
    def _count_changed(self, state: Summary) -> None:
        self._clear_touched()
        notes = self._ask(f"SELECT MAX(id) FROM (SELECT id FROM duplicate_changes ORDER BY id LIMIT {MOST}) first")
        until = notes[0][0]
        digests = "SELECT DISTINCT hash_algorithm, content_hash FROM"
        if until is not None and self.is_sqlite:
            self._do(f"INSERT INTO touched_digests {digests} duplicate_changes WHERE id <= %s", [until])
            self._do("DELETE FROM duplicate_changes WHERE id <= %s", [until])
        elif until is not None:
            # A note with a smaller id may be committed any moment: only what is seen is taken away.
            self._do(
                "WITH gone AS (DELETE FROM duplicate_changes WHERE id <= %s RETURNING hash_algorithm, content_hash)"
                f" INSERT INTO touched_digests {digests} gone",
                [until],
            )
        if self.is_sqlite and self._touched() < MOST:
            self._take_new_files(state)
        self._analyze("touched_digests")
        self._do(
            "DELETE FROM duplicate_groups WHERE id IN (SELECT g.id FROM touched_digests t LEFT JOIN duplicate_groups g"
            " ON g.hash_algorithm = t.hash_algorithm AND g.content_hash = t.content_hash)"
        )
        # Most of them are one file's, or nobody's, by now: the index alone says which.
        self._do(
            "DELETE FROM touched_digests WHERE 1 >= (SELECT COUNT(*) FROM (SELECT 1 FROM library_files f"
            " WHERE f.hash_algorithm = touched_digests.hash_algorithm AND f.content_hash = touched_digests.content_hash"
            " AND f.content_hash IS NOT NULL LIMIT 2) two)"
        )
        self._count_touched()

    def _take_new_files(self, state: Summary) -> None:
        until = min(self._last_file(), state.counted_file_id + MOST)
        # A digest that was noted as well must not be counted twice.
        self._do(
            "INSERT INTO touched_digests SELECT DISTINCT hash_algorithm, content_hash FROM library_files"
            " WHERE id > %s AND id <= %s AND content_hash IS NOT NULL AND hash_algorithm IS NOT NULL"
            " EXCEPT SELECT hash_algorithm, content_hash FROM touched_digests",
            [state.counted_file_id, until],
        )
        self._do(f"UPDATE duplicate_summary SET counted_file_id = %s, updated_at = {self._now}", [until])

    # --- Counting -----------------------------------------------------------------------------------------
    def _clear_touched(self) -> None:
        self._do(_TOUCHED.format(blob=self._blob))
        self._do("DELETE FROM touched_digests")

    def _touched(self) -> int:
        count: int = self._ask("SELECT COUNT(*) FROM touched_digests")[0][0]
        return count

    def _count_touched(self) -> None:
        """Count the touched digests, and store those that several files have."""
        self._analyze("touched_digests")
        is_protected, is_normal, parameters = self._conditions()
        join = "GROUP_CONCAT({})" if self.is_sqlite else "STRING_AGG(({})::text, ',')"
        same = {"files": _FILES, "is_protected": is_protected, "is_normal": is_normal}
        self._do(_COUNTED.format(blob=self._blob))
        self._do("DELETE FROM counted_digests")
        self._do(
            _COUNT.format(
                **same,
                libraries=join.format("f.library_id"),
                few=FEW,
                each="t.rowid" if self.is_sqlite else "t.hash_algorithm, t.content_hash",
            ),
            parameters,
        )
        self._do(_STORE_SIMPLE)
        if not self._ask("SELECT 1 FROM counted_digests WHERE NOT is_simple LIMIT 1"):
            return
        self._do("DELETE FROM touched_digests")
        self._do(
            "INSERT INTO touched_digests SELECT hash_algorithm, content_hash FROM counted_digests WHERE NOT is_simple"
        )
        self._analyze("touched_digests")
        once = "GROUP_CONCAT(DISTINCT {})" if self.is_sqlite else "STRING_AGG(DISTINCT ({})::text, ',')"
        self._do(
            _STORE_LINKED.format(**same, libraries=once.format("library_id"), all_libraries=once.format("libraries")),
            parameters,
        )

    def _analyze(self, table: str) -> None:
        """PostgreSQL takes a table without figures for a large one."""
        if not self.is_sqlite:
            self._do(f"ANALYZE {table}")

    def _conditions(self) -> tuple[str, str, list[Any]]:
        """Whether a file `f` is in a protected place, and whether it is in a place where files may go."""
        roles = list(LibraryRoot.objects.using(self.using).values_list("id", "role", "protected_folders"))
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
        parameters: list[Any] = [part for key, folder in folders for part in (key, len(folder), folder)]
        is_protected = f"({' OR '.join(places)})" if places else "1 = 0"
        is_backup = f"f.library_id IN ({_list(backups)})" if backups else "1 = 0"
        return is_protected, f"NOT {is_backup} AND NOT {is_protected}", [*parameters, *parameters]

    # --- The databases' ways ------------------------------------------------------------------------------
    @property
    def _blob(self) -> str:
        return "blob" if self.is_sqlite else "bytea"

    @property
    def _true(self) -> str:
        return "1" if self.is_sqlite else "true"

    @property
    def _now(self) -> str:
        return "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'now')" if self.is_sqlite else "STATEMENT_TIMESTAMP()"

    def _last_file(self) -> int:
        return self._ask("SELECT MAX(id) FROM library_files")[0][0] or 0

    def _do(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, list(parameters))

    def _ask(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, list(parameters))
            return list(cursor.fetchall())


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
