"""Finding the groups of a filter in an order, in statements of bounded work."""

from __future__ import annotations

import time
from functools import cached_property
from typing import Any

from django.db import connections

from duplicates.cursors import Anchor, Order
from duplicates.filtering import Filter, Sql
from duplicates.models import DuplicateGroup
from libraries.path_order import between, bounds_of

#: Groups that one statement looks through, at first and at the most.
FIRST_WINDOW = 1_000
LARGEST_WINDOW = 20_000
#: Up to so many files, or ignored groups, it is quicker to begin with them than with the groups.
MOST_DIGESTS = 20_000

_COLUMNS = ", ".join(f"g.{field.column}" for field in DuplicateGroup._meta.concrete_fields)
_OF_FILES = "SELECT DISTINCT hash_algorithm, content_hash FROM library_files"
_IN_A_GROUP = "content_hash IS NOT NULL AND NOT is_missing AND NOT needs_hash"
#: Groups, their files, the bytes that would come back.
Sums = tuple[int, int, int]


class Search:
    """One filter in one order, on one connection."""

    def __init__(self, filter: Filter, order: Order, using: str) -> None:
        self.filter = filter
        self.order = order
        self.using = using
        self.vendor = connections[using].vendor
        self.conditions, self.values = filter.conditions(self.vendor)
        self._by = ", ".join(f"g.{column}" for column in order.columns)
        self._marks = ", ".join(["%s"] * len(order.columns))

    def find(self, after: Anchor | None, size: int, until: float | None) -> tuple[list[DuplicateGroup], Anchor | None]:
        """Up to `size` groups behind `after`, and the place to go on from: None where the list ends.

        `until` is a moment of `time.monotonic`, after which no further statement begins.
        """
        if not self.conditions or self._few is not None:
            return self._cut(self._fetch(after, None, size + 1), size, None)
        found: list[DuplicateGroup] = []
        window = max(FIRST_WINDOW, 2 * size)
        while True:
            end = self._end_of_window(after, window)
            found += self._fetch(after, end, size + 1 - len(found))
            is_late = until is not None and time.monotonic() > until
            if end is None or len(found) > size or is_late:
                return self._cut(found, size, end)
            after, window = end, min(4 * window, LARGEST_WINDOW)

    def add_up(self, until: float) -> tuple[Sums, bool]:
        """What the matching groups amount to, and whether all of them were looked at."""
        if not self.filter.needs_files or self._few is not None:
            return self._sum("", []), True
        sums: Sums = (0, 0, 0)
        after = 0
        while True:
            last = self._ask(
                f"SELECT id FROM duplicate_groups WHERE id > %s ORDER BY id LIMIT 1 OFFSET {LARGEST_WINDOW - 1}",
                [after],
            )
            bounds = "g.id > %s AND g.id <= %s" if last else "g.id > %s"
            some = self._sum(bounds, [after, *(last[0] if last else ())])
            sums = (sums[0] + some[0], sums[1] + some[1], sums[2] + some[2])
            if not last:
                return sums, True
            if time.monotonic() > until:
                return sums, False
            after = last[0][0]

    # --- Statements ---------------------------------------------------------------------------------------
    def _cut(
        self, found: list[DuplicateGroup], size: int, end: Anchor | None
    ) -> tuple[list[DuplicateGroup], Anchor | None]:
        if len(found) > size:
            return found[:size], self.order.place_of(found[size - 1])
        return found, end

    def _fetch(self, after: Anchor | None, end: Anchor | None, count: int) -> list[DuplicateGroup]:
        source, values = self._source
        parts = []
        if after is not None:
            parts.append(f"({self._by}) > ({self._marks})")
        if end is not None:
            parts.append(f"({self._by}) <= ({self._marks})")
        if self.conditions:
            parts.append(self.conditions)
        where = f"WHERE {' AND '.join(parts)}" if parts else ""
        sql = f"SELECT {_COLUMNS} FROM {source} {where} ORDER BY {self._by} LIMIT {count}"
        parameters = [*values, *(after or ()), *(end or ()), *self.values]
        return list(DuplicateGroup.objects.using(self.using).raw(sql, parameters))

    def _end_of_window(self, after: Anchor | None, window: int) -> Anchor | None:
        """The place of the last group of those that are looked through next; None where there are fewer."""
        where = f"WHERE ({self._by}) > ({self._marks})" if after is not None else ""
        rows = self._ask(
            f"SELECT {self._by} FROM duplicate_groups g {where} ORDER BY {self._by} LIMIT 1 OFFSET {window - 1}",
            list(after or ()),
        )
        return tuple(bytes(value) if isinstance(value, memoryview) else value for value in rows[0]) if rows else None

    def _sum(self, bounds: str, values: list[Any]) -> Sums:
        source, source_values = self._source
        where = " AND ".join(filter(None, [bounds, self.conditions]))
        sql = f"SELECT COUNT(*), SUM(g.file_count), SUM(g.reclaimable_bytes) FROM {source}"
        rows = self._ask(f"{sql} WHERE {where}" if where else sql, [*source_values, *values, *self.values])
        groups, files, reclaimable = (int(each or 0) for each in rows[0])
        return groups, files, reclaimable

    # --- From the other end -------------------------------------------------------------------------------
    @property
    def _source(self) -> Sql:
        if self._few is None:
            return "duplicate_groups g", []
        digests, values = self._few
        # SQLite would otherwise begin with the groups all the same.
        join = "CROSS JOIN" if self.vendor == "sqlite" else "JOIN"
        return (
            f"({digests}) d {join} duplicate_groups g"
            " ON g.hash_algorithm = d.hash_algorithm AND g.content_hash = d.content_hash",
            values,
        )

    @cached_property
    def _few(self) -> Sql | None:
        """The digests that can match at all, where they are quickly told; None where they are too many."""
        if self.filter.ignored == "only" and self._are_few("FROM ignored_groups", []):
            return "SELECT hash_algorithm, content_hash FROM ignored_groups", []
        if self.filter.folder and self.filter.library is not None:
            below, values = between(self.filter.library, *bounds_of(self.filter.folder), self.vendor)
            if self._are_few(f"FROM library_files WHERE {below}", values):
                return f"{_OF_FILES} WHERE {below} AND {_IN_A_GROUP}", values
        return None

    def _are_few(self, source: str, values: list[Any]) -> bool:
        rows = self._ask(f"SELECT COUNT(*) FROM (SELECT 1 {source} LIMIT {MOST_DIGESTS + 1}) first", values)
        return bool(rows[0][0] <= MOST_DIGESTS)

    def _ask(self, sql: str, parameters: list[Any]) -> list[Any]:
        with connections[self.using].cursor() as cursor:
            cursor.execute(sql, parameters)
            return list(cursor.fetchall())
