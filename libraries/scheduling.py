"""When libraries are scanned by themselves: every so many minutes, or by a cron expression in the configured zone.

A library holds the time of its next scan (`next_scan_at`). Consumers look for those whose time has come with each
sweep; whoever moves that time on asks for the scan, so it is asked for once. Times that passed while nothing ran are
one scan, not many.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from libraries import queueing
from libraries.errors import LibrariesError, Refused
from libraries.models import LibraryQuerySet, LibraryRoot, ScanRequest

logger = logging.getLogger(__name__)
LONGEST_MINUTES = 366 * 24 * 60
FIELDS = gettext_noop("minute, hour, day of the month, month, day of the week")
#: Who asks, as the logbook's actor.
ACTOR = "schedule"
#: Libraries whose schedule is followed.
FOLLOWED = (Q(scan_interval_minutes__gt=0) | ~Q(scan_cron="")) & Q(is_paused=False, removing_at__isnull=True)


def check(interval_minutes: int, cron: str) -> None:
    """Refuse what is no schedule, and say what is wrong with it."""
    if interval_minutes > 0 and cron.strip():
        raise Refused(_("A schedule is an interval or a cron expression, not both: leave one of them empty."))
    if interval_minutes > LONGEST_MINUTES:
        words = _("An interval has at most %(most)d minutes (a year); %(count)d are too many.")
        raise Refused(words % {"most": LONGEST_MINUTES, "count": interval_minutes})
    if cron.strip():
        _next_by_cron(cron, datetime(2024, 1, 1, tzinfo=UTC))


def next_run(interval_minutes: int, cron: str, after: datetime) -> datetime | None:
    """The first time of a schedule after `after`; None where there is no schedule.

    An interval is time that really passes, also across a change of the clock. A cron expression follows the clock on
    the wall: a time that the clock skips comes right after, one that it shows twice counts once.
    """
    if cron.strip():
        return _next_by_cron(cron, after)
    if interval_minutes > 0:
        return after.astimezone(UTC) + timedelta(minutes=interval_minutes)
    return None


def plan(library: LibraryRoot) -> datetime | None:
    """Set when a library is scanned next, counted from now; a paused one is not."""
    library.next_scan_at = None
    if not library.is_paused and library.removing_at is None:
        library.next_scan_at = next_run(library.scan_interval_minutes, library.scan_cron, _now(library))
    LibraryRoot.objects.filter(pk=library.pk).update(next_scan_at=library.next_scan_at, updated_at=Now())
    return library.next_scan_at


def tick() -> int:
    """Ask for the scans whose time has come; return for how many this call did."""
    _plan_anew()
    due = list(_scheduled().filter(next_scan_at__lte=Now()).order_by("next_scan_at", "id"))
    return sum(_ask(library) for library in due)


def _ask(library: LibraryRoot) -> bool:
    try:
        following = _following(library)
        with transaction.atomic():
            # Whoever moves the time on asks; the others find that it is not due any more.
            mine = _scheduled().filter(pk=library.pk, next_scan_at__lte=Now()).filter(**_schedule_of(library))
            if not mine.update(next_scan_at=following, updated_at=Now()):
                return False
            queueing.submit(library.pk, ScanRequest.Priority.NORMAL, actor=ACTOR)
    except LibrariesError as error:
        logger.warning("The scheduled scan of %s was not asked for: %s", library.name, error)
        return False
    return True


def _following(library: LibraryRoot) -> datetime | None:
    """The next time that has not passed. An interval goes on from its last time, not from when somebody looked."""
    now, planned = _now(library), library.next_scan_at
    if planned is None or library.scan_cron.strip():
        return next_run(library.scan_interval_minutes, library.scan_cron, now)
    interval = timedelta(minutes=library.scan_interval_minutes)
    return planned + interval * ((now - planned) // interval + 1)


def _plan_anew() -> None:
    """Whatever was written by hand or by others: a schedule has a next time, and nothing else has one."""
    unfollowed = LibraryRoot.objects.filter(~FOLLOWED, next_scan_at__isnull=False)
    if unfollowed.exists():
        unfollowed.update(next_scan_at=None, updated_at=Now())
    for library in _scheduled().filter(next_scan_at__isnull=True):
        try:
            following = next_run(library.scan_interval_minutes, library.scan_cron, _now(library))
        except Refused as error:
            logger.warning("The library %s has no schedule that could be followed: %s", library.name, error)
            continue
        unplanned = _scheduled().filter(pk=library.pk, next_scan_at__isnull=True).filter(**_schedule_of(library))
        unplanned.update(next_scan_at=following, updated_at=Now())


def _scheduled() -> LibraryQuerySet:
    return LibraryRoot.objects.filter(FOLLOWED)


def _schedule_of(library: LibraryRoot) -> dict[str, object]:
    return {"scan_interval_minutes": library.scan_interval_minutes, "scan_cron": library.scan_cron}


def _next_by_cron(cron: str, after: datetime) -> datetime:
    fields = cron.split()
    said = {"cron": repr(cron), "fields": _(FIELDS)}
    if len(fields) != 5:
        words = _("The cron expression %(cron)s has %(count)d fields; it needs five: %(fields)s.")
        raise Refused(words % {**said, "count": len(fields)})
    start = after.astimezone(UTC)
    try:
        # Times of one zone are compared by what their clocks show, and in autumn that is not enough.
        moments = (moment.astimezone(UTC) for moment in CronSim(cron, start.astimezone(ZoneInfo(settings.TIME_ZONE))))
        following = next((moment for moment in moments if moment > start), None)
    except CronSimError as error:
        words = _("The cron expression %(cron)s can't be understood: %(error)s. Its fields are %(fields)s.")
        raise Refused(words % {**said, "error": error}) from None
    if following is None:
        raise Refused(_("The cron expression %(cron)s names a time that never comes.") % said)
    return following


def _now(library: LibraryRoot) -> datetime:
    """The database's time: the one clock of all processes."""
    return LibraryRoot.objects.filter(pk=library.pk).values_list(Now(), flat=True).first() or datetime.now(UTC)
