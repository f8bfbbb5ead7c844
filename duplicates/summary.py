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
from contextlib import AbstractContextManager

from django.db import transaction

from database.crash_points import reach
from database.routing import EXECUTOR, POLICY
from duplicates.facts import Digest
from duplicates.group_counting import GroupCounter, between
from duplicates.models import Summary
from jobs.enforcing import transaction_on

#: Digests, or files, that are looked at in one transaction: it holds the write lock for about a tenth of a second.
MOST = 10_000
#: Files that a recount walks past at the most in one transaction, looking for those that share their content.
MOST_WALKED = 200_000
#: Where more than this share of the index is new, counting everything is quicker than counting what is new.
RECOUNT_SHARE = 4
#: Before every digest.
_START: Digest = ("", b"")
#: The digests that noted files had, and those they have now.
_TAKE = """
INSERT INTO touched_digests
SELECT c.hash_algorithm, c.content_hash FROM {notes}
 WHERE c.content_hash IS NOT NULL AND c.hash_algorithm IS NOT NULL {until}
 UNION
SELECT f.hash_algorithm, f.content_hash FROM {notes} {join} library_files f ON f.id = c.file_id
 WHERE f.content_hash IS NOT NULL AND f.hash_algorithm IS NOT NULL {until}"""


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
        counting.alone()
        counting.begin_recount()
    bring_up_to_date(using)


class _Counting:
    """One connection's way of counting."""

    def __init__(self, using: str) -> None:
        self.using = using
        self.groups = GroupCounter(using)
        self.is_sqlite = self.groups.is_sqlite
        self._do, self._ask = self.groups.do, self.groups.ask
        self._walk_end: Digest | None = _START

    def transaction(self) -> AbstractContextManager[None]:
        return transaction_on("count") if self.using == EXECUTOR else transaction.atomic(using=self.using)

    def is_behind(self) -> bool:
        state = Summary.objects.using(self.using).filter(pk=1).values_list("is_stale", "counted_file_id").first()
        if state is None or state[0] or self._ask("SELECT 1 FROM duplicate_changes LIMIT 1"):
            return True
        return self.is_sqlite and self._last_file() > state[1]

    def step(self) -> None:
        """Count one portion, in one transaction."""
        with self.transaction():
            self.alone()
            state = self._state()
            if not state.is_stale and self._is_mostly_new(state):
                self.begin_recount()
                state = self._state()
            if state.is_stale:
                self._recount_some(state)
            else:
                self._count_changed(state)

    def _state(self) -> Summary:
        """Held until the end of the transaction: a role that changes meanwhile has its say after this portion."""
        summaries = Summary.objects.using(self.using)
        return summaries.select_for_update().filter(pk=1).first() or summaries.create(
            pk=1, is_stale=True, counted_file_id=0
        )

    def alone(self) -> None:
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
            self._walk_end = _START
        after = (state.recounted_algorithm, bytes(state.recounted_hash)) if state.recounted_hash else _START
        self.groups.clear()
        end = self._end_of_walk(after)
        where, parameters = between(after, end)
        self._do(
            "INSERT INTO touched_digests SELECT hash_algorithm, content_hash FROM library_files"
            f" WHERE content_hash IS NOT NULL AND {where}"
            " GROUP BY hash_algorithm, content_hash HAVING COUNT(*) > 1"
            f" ORDER BY hash_algorithm, content_hash LIMIT {MOST}",
            parameters,
        )
        until = self._last_touched() if self.groups.touched() == MOST else end
        self.groups.count(is_known_several=True)
        is_all_new = not self.groups.has_groups_between(after, until)
        if not is_all_new:
            self.groups.forget_between(after, until)
        self.groups.store(is_all_new=is_all_new)
        if until:
            self._do("UPDATE duplicate_summary SET recounted_algorithm = %s, recounted_hash = %s", until)
        else:
            false = "0" if self.is_sqlite else "false"
            self._do(
                f"UPDATE duplicate_summary SET is_stale = {false}, recounted_algorithm = '', recounted_hash = NULL,"
                f" updated_at = {self._now}"
            )

    def _end_of_walk(self, after: Digest) -> Digest | None:
        """Up to which digest to look now; None where few are left. It is looked for once for several portions."""
        if self._walk_end is not None and self._walk_end <= after:
            self._walk_end = self._next_end(after)
        return self._walk_end

    def _next_end(self, after: Digest) -> Digest | None:
        where, parameters = between(after, None)
        rows = self._ask(
            f"SELECT hash_algorithm, content_hash FROM library_files WHERE content_hash IS NOT NULL AND {where}"
            f" ORDER BY hash_algorithm, content_hash LIMIT 1 OFFSET {MOST_WALKED}",
            parameters,
        )
        return (rows[0][0], bytes(rows[0][1])) if rows else None

    def _last_touched(self) -> Digest:
        ((algorithm, digest),) = self._ask(
            "SELECT hash_algorithm, content_hash FROM touched_digests"
            " ORDER BY hash_algorithm DESC, content_hash DESC LIMIT 1"
        )
        return algorithm, bytes(digest)

    # --- What changed -------------------------------------------------------------------------------------
    def _count_changed(self, state: Summary) -> None:
        self.groups.clear()
        (until,) = self._ask(f"SELECT MAX(id) FROM (SELECT id FROM duplicate_changes ORDER BY id LIMIT {MOST}) first")[
            0
        ]
        if until is not None and self.is_sqlite:
            self._do(_TAKE.format(notes="duplicate_changes c", join="CROSS JOIN", until="AND c.id <= %s"), [until] * 2)
            self._do("DELETE FROM duplicate_changes WHERE id <= %s", [until])
        elif until is not None:
            # A note with a smaller id may be committed any moment: only what is seen is taken away.
            self._do(
                "WITH gone AS (DELETE FROM duplicate_changes WHERE id <= %s"
                " RETURNING file_id, hash_algorithm, content_hash) "
                + _TAKE.format(notes="gone c", join="JOIN", until=""),
                [until],
            )
        if self.is_sqlite and self.groups.touched() < MOST:
            self._take_new_files(state)
        self.groups.count(is_known_several=False)
        self.groups.forget_touched()
        self.groups.store()

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

    # --- The databases' ways ------------------------------------------------------------------------------
    @property
    def _true(self) -> str:
        return "1" if self.is_sqlite else "true"

    @property
    def _now(self) -> str:
        return "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'now')" if self.is_sqlite else "STATEMENT_TIMESTAMP()"

    def _last_file(self) -> int:
        return self._ask("SELECT MAX(id) FROM library_files")[0][0] or 0
