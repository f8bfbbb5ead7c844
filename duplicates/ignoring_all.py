"""Ignoring all that a filter matches, in short transactions and for a bounded time, and taking that back.

What was ignored in one go is known by its rows: those of one person between two keys. So it can be undone without
touching what was ignored before, and going on with it makes the same batch longer.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.utils.translation import gettext as _

from duplicates import listing
from duplicates.facts import Digest
from duplicates.filtering import Filter
from duplicates.ignoring import ITEM, checked_note, ignored_among
from duplicates.listing import GroupPage
from duplicates.models import DuplicateGroup, IgnoredGroup, group_key
from jobs.errors import Refused
from logbook.models import LogbookEvent, LogbookItem

#: Groups of one transaction, which takes some hundredths of a second.
PAGE = 500
#: How long somebody waits for the answer; what is not done by then goes on with the next press.
SECONDS = 5.0
#: A page has at least this long, so that every press gets somewhere.
LEAST_SECONDS = 0.5
#: Nothing in it changes while groups drop out of what the filter matches.
ORDER = "size"


@dataclass(frozen=True)
class Batch:
    """What was ignored in one go: the rows of one person after one key, up to another."""

    after: int
    upto: int
    count: int
    #: If not, time was up and more groups may match: those from `cursor` on.
    is_all: bool = True
    cursor: str | None = None


def ignore_matching(
    filter: Filter,
    *,
    actor: str,
    note: str = "",
    after: int | None = None,
    cursor: str | None = None,
    seconds: float | None = None,
) -> Batch:
    """Ignore every group that matches; with `after` and `cursor` of an earlier batch, what that one had no time for.

    Raises `Refused` for no filter at all and for a note that can't be kept, and `BadCursor`.
    """
    wanted, note = _not_ignored(filter), checked_note(note)
    if not is_narrow(filter):
        raise Refused(_("Set a filter first: to ignore every group there is would leave an empty list."))
    start = _last_key() if after is None else after
    is_all = False
    for page in _pages(wanted, seconds, cursor):
        _ignore(_digests(page.groups), actor, note)
        is_all, cursor = page.is_complete and page.next_cursor is None, page.next_cursor
    rows = _batch(start, _last_key(), actor)
    return Batch(start, rows.aggregate(last=Max("pk"))["last"] or start, rows.count(), is_all, cursor)


def is_narrow(filter: Filter) -> bool:
    """Whether it asks for less than everything."""
    return _not_ignored(filter) != Filter()


def _not_ignored(filter: Filter) -> Filter:
    return replace(filter, ignored=Filter().ignored)


def undo(batch: Batch, *, actor: str, seconds: float | None = None) -> Batch:
    """List again what that batch has ignored; what is left of it where time was up."""
    until = _until(seconds)
    rows = _batch(batch.after, batch.upto, actor).order_by("pk")
    while found := list(rows[:PAGE]):
        _stop(_digests(found), actor)
        if time.monotonic() >= until:
            break
    left = rows.count()
    return replace(batch, count=left, is_all=left == 0)


def list_again(filter: Filter, *, actor: str, seconds: float | None = None) -> tuple[int, bool]:
    """Stop ignoring every group that matches: how many, and whether that was all."""
    count, is_all = 0, False
    for page in _pages(replace(filter, ignored="only"), seconds):
        count += _stop(_digests(page.groups), actor)
        is_all = page.is_complete and page.next_cursor is None
    return count, is_all


def _pages(filter: Filter, seconds: float | None, cursor: str | None = None) -> Iterator[GroupPage]:
    """What matches, page by page until time is up."""
    until = _until(seconds)
    while True:
        page = listing.page(filter, ORDER, cursor, PAGE, seconds=max(until - time.monotonic(), LEAST_SECONDS))
        yield page
        cursor = page.next_cursor
        if cursor is None or time.monotonic() >= until:
            return


def _until(seconds: float | None) -> float:
    return time.monotonic() + (SECONDS if seconds is None else seconds)


def _digests(rows: Iterable[DuplicateGroup | IgnoredGroup]) -> list[Digest]:
    return [(row.hash_algorithm, bytes(row.content_hash)) for row in rows]


def _last_key() -> int:
    return IgnoredGroup.objects.aggregate(last=Max("pk"))["last"] or 0


def _batch(after: int, upto: int, actor: str) -> Any:
    return IgnoredGroup.objects.filter(pk__gt=after, pk__lte=upto, ignored_by=actor)


# --- A page of them ---------------------------------------------------------------------------------------
def _ignore(digests: Sequence[Digest], actor: str, note: str) -> None:
    with transaction.atomic():
        known = ignored_among(digests)
        new = [digest for digest in digests if digest not in known]
        IgnoredGroup.objects.bulk_create(
            (
                IgnoredGroup(hash_algorithm=algorithm, content_hash=content_hash, note=note, ignored_by=actor)
                for algorithm, content_hash in new
            ),
            ignore_conflicts=True,
        )
        _write("ignored", new, actor, {"note": note} if note else {})


def _stop(digests: Sequence[Digest], actor: str) -> int:
    with transaction.atomic():
        known = ignored_among(digests)
        for algorithm in {algorithm for algorithm, _hash in known}:
            hashes = [content_hash for each, content_hash in known if each == algorithm]
            IgnoredGroup.objects.filter(hash_algorithm=algorithm, content_hash__in=hashes).delete()
        _write("no longer ignored", list(known), actor, {})
    return len(known)


def _write(event: str, digests: Sequence[Digest], actor: str, payload: dict[str, str]) -> None:
    """What `write_event` does for each of them, in a few statements for all."""
    keys = [group_key(*digest) for digest in digests]
    LogbookItem.objects.bulk_create(
        (LogbookItem(item_type=ITEM, subject_id=key, title=key) for key in keys), ignore_conflicts=True
    )
    items = LogbookItem.objects.filter(item_type=ITEM, subject_id__in=keys).order_by("pk")
    LogbookEvent.objects.bulk_create(
        LogbookEvent(item=item, item_type=ITEM, event_type=event, actor=actor, payload_json=payload) for item in items
    )
