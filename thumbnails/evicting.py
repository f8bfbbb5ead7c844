"""The size of the cache: when all pictures together are too large, those go that nobody has looked at for longest."""

from __future__ import annotations

from django.conf import settings
from django.db.models import Sum

from database.crash_points import reach
from database.routing import EXECUTOR
from jobs import stopping
from jobs.enforcing import transaction_on
from thumbnails import orphans, store
from thumbnails.cleaning import remove_pictures, remove_rows
from thumbnails.models import Thumbnail

BATCH = 200
#: One turn ends after so many batches; the next one goes on.
MOST_BATCHES = 25


def cache_bytes() -> int:
    """What all pictures take. Pages ask too, and have no business with an executor's connection."""
    rows = Thumbnail.objects.filter(status=Thumbnail.Status.READY)
    return rows.aggregate(total=Sum("bytes_size"))["total"] or 0


def evict() -> int:
    """Remove pictures until the rest fits; return how many went."""
    limit, evicted = settings.THUMBNAIL_CACHE_BYTES, 0
    if limit <= 0:
        return 0
    surplus, stuck = cache_bytes() - limit, set[int]()
    for _ in range(MOST_BATCHES):
        if surplus <= 0 or stopping.is_requested():
            break
        rows = _unused_longest(surplus, stuck)
        if not rows:
            break
        gone = remove_pictures(rows).gone
        with transaction_on("cleanup"):
            evicted += remove_rows(gone)
        reach("evicted")
        surplus -= sum(row.bytes_size or 0 for row in gone)
        stuck |= {row.pk for row in rows} - {row.pk for row in gone}
    return evicted


def evict_all() -> int:
    """The same, turn after turn, for a command."""
    evicted = 0
    while some := evict():
        evicted += some
    return evicted


def _unused_longest(surplus: int, but: set[int]) -> list[Thumbnail]:
    """The next few, no more than take up the surplus."""
    rows = Thumbnail.objects.using(EXECUTOR).filter(status=Thumbnail.Status.READY).exclude(pk__in=but)
    chosen, freed = [], 0
    for row in rows.order_by("last_used_at", "pk")[:BATCH]:
        if freed >= surplus:
            break
        chosen.append(row)
        freed += row.bytes_size or 0
    return chosen


def keep_small() -> None:
    """A consumer's chore: hold the limit, and remove what lies there for nobody. One on this machine does it."""
    with store.alone() as is_alone:
        if is_alone:
            evict()
            orphans.remove_some()
