"""Finding files of the trash, the newest first, in statements of bounded work."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from django.db import connections

from database.routing import POLICY
from trash.filtering import TrashFilter

#: Files that one statement looks through, at first and at the most.
FIRST_WINDOW = 1_000
LARGEST_WINDOW = 20_000
_FROM = "FROM trash_items i JOIN plan_files p ON p.id = i.plan_file_id"


@dataclass(frozen=True)
class Found:
    keys: list[int]
    #: What comes before this key is the next page; None where nothing does.
    next_before: int | None
    #: Time was up before the page was full: going on may still find some.
    is_short: bool = False


class Search:
    """One filter. What lies there and what is just being taken out are walked by the index of the status, each alone:
    together they would have to be sorted."""

    def __init__(self, filter: TrashFilter, using: str = POLICY) -> None:
        self.using = using
        self.conditions, self.values = filter.conditions()

    def find(self, before: int | None, size: int, until: float) -> Found:
        """Up to `size` of them with a key below `before`; `until` is a moment of `time.monotonic`."""
        keys, looked_to = self._lying(before, size + 1, until)
        keys += [key for key in self._leaving(before, size + 1) if looked_to is None or key >= looked_to]
        keys.sort(reverse=True)
        if len(keys) > size:
            return Found(keys[:size], keys[size - 1])
        return Found(keys, looked_to, looked_to is not None)

    def count(self, until: float) -> tuple[int, bool]:
        """How many lie there, and whether all of them were looked at."""
        before: int | None = None
        found, window = 0, FIRST_WINDOW
        while True:
            end = self._end_of_window(before, window)
            where, values = self._between(before, end)
            found += int(self._ask(f"SELECT COUNT(*) {_FROM} WHERE i.status = 'trashed'{where}", values)[0][0])
            if end is None or time.monotonic() > until:
                return found, end is None
            before, window = end, min(4 * window, LARGEST_WINDOW)

    def _lying(self, before: int | None, most: int, until: float) -> tuple[list[int], int | None]:
        """Keys, and down to which one all were looked at; None where there are no others."""
        found: list[int] = []
        window = max(FIRST_WINDOW, 2 * most)
        while True:
            end = self._end_of_window(before, window) if self.conditions else None
            found += self._keys("i.status = 'trashed'", before, end, most - len(found))
            if end is None or len(found) >= most:
                return found, None
            if time.monotonic() > until:
                return found, end
            before, window = end, min(4 * window, LARGEST_WINDOW)

    def _leaving(self, before: int | None, most: int) -> list[int]:
        """Those of a batch at the most."""
        return self._keys("i.status IN ('undoing', 'emptying')", before, None, most)

    def _keys(self, status: str, before: int | None, end: int | None, most: int) -> list[int]:
        where, values = self._between(before, end)
        rows = self._ask(f"SELECT i.id {_FROM} WHERE {status}{where} ORDER BY i.id DESC LIMIT {most}", values)
        return [int(key) for (key,) in rows]

    def _between(self, before: int | None, end: int | None) -> tuple[str, list[Any]]:
        parts = [("i.id < %s", before), ("i.id >= %s", end)]
        said = [part for part, key in parts if key is not None]
        keys = [key for _part, key in parts if key is not None]
        if self.conditions:
            said.append(self.conditions)
        return "".join(f" AND {part}" for part in said), [*keys, *self.values]

    def _end_of_window(self, before: int | None, window: int) -> int | None:
        """The smallest key of those that are looked through next; None where there are fewer."""
        rows = self._ask(
            f"SELECT id FROM trash_items WHERE status = 'trashed'{'' if before is None else ' AND id < %s'}"
            f" ORDER BY id DESC LIMIT 1 OFFSET {window - 1}",
            [] if before is None else [before],
        )
        return int(rows[0][0]) if rows else None

    def _ask(self, sql: str, values: list[Any]) -> list[tuple[Any, ...]]:
        with connections[self.using].cursor() as cursor:
            cursor.execute(sql, values)
            return list(cursor.fetchall())
