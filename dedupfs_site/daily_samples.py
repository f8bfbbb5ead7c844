"""One row of figures a day, so that the overview can show how they went. Consumers take them, again and again through
the day: what a day's row says at its end is what stays.
"""

from __future__ import annotations

from datetime import date
from typing import Any

from django.db.models import Sum
from django.db.models.functions import Now
from django.utils import timezone

from database.clock import SecondsFromNow
from dedupfs_site.models import DailySample
from duplicates import listing
from libraries.models import LibraryState
from trash import space

#: How often each consumer comes by; all of them together take figures about once in it.
EVERY_SECONDS = 300
#: A little less: whoever comes second is a moment early now and then.
APART_SECONDS = 285


def note_today() -> bool:
    """Take today's figures unless somebody did so just now; whether this call did."""
    today = timezone.localdate(timezone=timezone.get_default_timezone())
    if not _begin(today) and not _is_my_turn(today):
        return False
    DailySample.objects.filter(day=today).update(**read_figures(), updated_at=Now())
    return True


def read_figures() -> dict[str, Any]:
    """The columns of this moment. What can't be told at once is left out: then the figure before it stands."""
    index = LibraryState.objects.filter(library__removing_at__isnull=True)
    sums = index.aggregate(files=Sum("file_count"), size=Sum("total_bytes"))
    figures = {
        "file_count": int(sums["files"] or 0),
        "total_bytes": int(sums["size"] or 0),
        "trashed_bytes": space.in_trash()[0],
        "freed_bytes": space.freed_bytes(),
    }
    totals = listing.totals(listing.Filter())
    # While groups are being counted anew there is less than there is: that would be a dip that never was.
    return figures | ({"reclaimable_bytes": totals.reclaimable_bytes} if totals.is_exact else {})


def _begin(today: date) -> bool:
    """Make the day's row, from the figure of the day before where that has to stand; whether this call made it."""
    if DailySample.objects.filter(day=today).exists():
        return False
    before = DailySample.objects.filter(day__lt=today).order_by("-day").values_list("reclaimable_bytes", flat=True)
    _row, is_mine = DailySample.objects.get_or_create(day=today, defaults={"reclaimable_bytes": before.first() or 0})
    return is_mine


def _is_my_turn(today: date) -> bool:
    """Whoever moves the time on takes the figures; the others find that it is too early."""
    rows = DailySample.objects.filter(day=today, updated_at__lt=SecondsFromNow(-APART_SECONDS))
    return rows.update(updated_at=Now()) == 1
