"""Space, told honestly: what could be won, what lies in trashes and takes its space still, what really came back."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, Sum

from database.routing import POLICY
from duplicates import listing
from duplicates.models import Action
from frame.slow_figures import kept_or_counted
from trash.filtering import TrashFilter
from trash.models import Act
from trash.searching import Search

#: How long a page may wait for figures that are counted; then they say "at least".
PATIENCE_SECONDS = 0.3


@dataclass(frozen=True)
class Space:
    """The three figures that people mix up."""

    #: If one copy of each group stayed; of nothing that lies in a trash.
    reclaimable_bytes: int
    is_reclaimable_exact: bool
    #: The sizes of the files that lie in a trash: none of it is free yet.
    trashed_bytes: int
    trashed_count: int
    #: By how much the filesystems had more room after removing for good than before.
    freed_bytes: int


@dataclass(frozen=True)
class LastCopies:
    count: int
    #: If not, there are at least so many: time was up before all of them were looked at.
    is_exact: bool


def read_space(using: str = POLICY, seconds: float = PATIENCE_SECONDS) -> Space:
    totals = listing.totals(listing.Filter(), using, seconds)
    size, count = in_trash(using)
    return Space(totals.reclaimable_bytes, totals.is_exact, size, count, freed_bytes(using))


def in_trash(using: str = POLICY) -> tuple[int, int]:
    """Bytes and files, from the acts: each knows what it put there and is there still."""
    sums = Act.objects.using(using).aggregate(size=Sum("trashed_bytes"), count=Sum("trashed_count"))
    return int(sums["size"] or 0), int(sums["count"] or 0)


def freed_bytes(using: str = POLICY) -> int:
    """What removing for good has brought, as the filesystems told it."""
    removing = Q(verb=Act.Verb.EMPTY) | Q(verb=Act.Verb.ACT, plan__action=Action.DELETE)
    spaces = Act.objects.using(using).filter(removing).values_list("space", flat=True)
    return sum(gained(space) for space in spaces.iterator())


def gained(space: Any) -> int:
    """What others wrote meanwhile is in it; where they wrote more than was removed, nothing came back."""
    if not isinstance(space, dict):
        return 0
    return sum(max(int(after) - int(before), 0) for before, after in space.values())


def last_copies(using: str = POLICY, seconds: float = PATIENCE_SECONDS) -> LastCopies:
    """How many files in trashes have a content that the index knows nowhere else. What is put there or taken out shows
    at once; what scans find, after a minute at the most."""
    search = Search(TrashFilter(last=True), using)
    key = "trash-last-copies-{}-{}".format(*in_trash(using))
    return kept_or_counted(key, lambda: LastCopies(*search.count(time.monotonic() + seconds)), is_keyed=True)
