"""Pages of groups, at any depth for the same price, and what a filter amounts to.

A page begins where its cursor says, by one comparison of row values with the columns of an index: nothing is sorted and
nothing is skipped. A filter that few groups match could still have a page look through millions of rows. So one
statement looks through a bounded number of groups, and a page goes on with the next ones until it is full, the list
ends, or its time is up; then it is short, and its cursor says where to go on looking.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

from django.utils.translation import gettext as _

from database.routing import POLICY
from duplicates import summary
from duplicates.cursors import ORDERS, BadCursor, BadGroupKey, Order, parse_group_key
from duplicates.filtering import BadFilter, Filter
from duplicates.models import DuplicateGroup
from duplicates.searching import Search
from frame.slow_figures import kept_or_counted

__all__ = [
    "ORDERS", "BadCursor", "BadFilter", "BadGroupKey", "Filter", "GroupPage", "Totals", "every", "one", "page",
    "parse_group_key", "totals",
]  # fmt: skip

#: Groups that `every` reads at a time.
PAGE = 500
#: How long a page may look for matching groups where its caller has set no limit.
LONGEST_SEARCH_SECONDS = 10.0
#: How long totals may be looked for where files have to be asked.
TOTALS_SECONDS = 2.0


@dataclass(frozen=True)
class GroupPage:
    groups: list[DuplicateGroup]
    #: For the next page; None on the last one.
    next_cursor: str | None
    #: Whether everything that changed is counted. If not, somebody counts on, and the page may be behind.
    is_complete: bool
    #: Time was up before the page was full: going on from `next_cursor` may still find some.
    is_short: bool = False


@dataclass(frozen=True)
class Totals:
    groups: int
    files: int
    reclaimable_bytes: int
    #: If not, there is at least this much: time was up before all groups were looked at.
    is_exact: bool


def page(
    filter: Filter, order: str, cursor: str | None, size: int, using: str = POLICY, seconds: float | None = None
) -> GroupPage:
    """One page of groups. With `seconds` it neither counts nor looks much longer than that.

    Raises `BadCursor` for a cursor that is not of this order, and `BadFilter` for an order that there is not.
    """
    chosen = find_order(order)
    after = None if cursor is None else chosen.place(cursor)
    is_complete = summary.bring_up_to_date(using, seconds)
    until = time.monotonic() + (LONGEST_SEARCH_SECONDS if seconds is None else seconds)
    groups, ended_at = Search(filter, chosen, using).find(after, size, until)
    next_cursor = None if ended_at is None else chosen.cursor(ended_at)
    return GroupPage(groups, next_cursor, is_complete, next_cursor is not None and len(groups) < size)


def every(
    filter: Filter, order: str = "reclaimable", using: str = POLICY, after: str | None = None
) -> Iterator[tuple[list[DuplicateGroup], str | None]]:
    """All groups, page by page, each with the cursor to go on from; None with the last page, which may be empty.

    No transaction is held open. A group that is there all the time and does not change comes exactly once.
    """
    chosen = find_order(order)
    place = None if after is None else chosen.place(after)
    search = Search(filter, chosen, using)
    while True:
        summary.bring_up_to_date(using)
        groups, place = search.find(place, PAGE, None)
        yield groups, None if place is None else chosen.cursor(place)
        if place is None:
            return


def one(group_key: str, using: str = POLICY, seconds: float | None = None) -> DuplicateGroup | None:
    """The group of that key; None where no two present files have that content. Raises `BadGroupKey`."""
    algorithm, digest = parse_group_key(group_key)
    summary.bring_up_to_date(using, seconds)
    groups = DuplicateGroup.objects.using(using).filter(hash_algorithm=algorithm, content_hash=digest)
    return groups.order_by().first()


def totals(filter: Filter, using: str = POLICY, seconds: float = TOTALS_SECONDS) -> Totals:
    """What all groups of a filter amount to: exact where the groups' own rows say it, else as far as time allows."""
    key = f"duplicates-totals-{hashlib.sha256(filter.query().encode()).hexdigest()}"
    return kept_or_counted(key, lambda: _add_up(filter, using, seconds))


def _add_up(filter: Filter, using: str, seconds: float) -> Totals:
    is_complete = summary.bring_up_to_date(using, seconds)
    (groups, files, reclaimable), is_all = Search(filter, ORDERS["copies"], using).add_up(time.monotonic() + seconds)
    return Totals(groups, files, reclaimable, is_complete and is_all)


def find_order(name: str) -> Order:
    if name not in ORDERS:
        words = {"orders": ", ".join(ORDERS), "name": name[:80]}
        raise BadFilter(_("Groups are ordered by %(orders)s, not by “%(name)s”.") % words)
    return ORDERS[name]
