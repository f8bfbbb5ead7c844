"""Looks how large SQLite's write-ahead log is: remembers it, and asks for a checkpoint when it has outgrown its limit.

A checkpoint leaves the file as large as it was unless it truncates; SQLite then fills it anew from its beginning. So a
file that is large but has not grown since the last checkpoint is no reason for another one.
"""

from __future__ import annotations

import logging

from django.conf import settings
from django.db import transaction
from django.db.models import Min, Q, Subquery
from django.utils.translation import gettext as _

from database.clock import SecondsFromNow
from jobs.errors import Refused
from jobs.models import WalMaintenanceJob, WalSize
from jobs.wal_deciding import (
    AUTOMATIC,
    last_completed,
    request_checkpoint,
    seconds_to_wait,
    strongest_allowed,
    wal_bytes,
)

logger = logging.getLogger(__name__)
#: How often each consumer looks; all of them together remember no more than one figure in it.
EVERY_SECONDS = 60
#: A little less: whoever comes second is a moment early now and then.
APART_SECONDS = 55
KEPT_SECONDS = 7 * 24 * 3600


def look() -> WalMaintenanceJob | None:
    """Remember the size; return the row that was asked for, if any."""
    size = wal_bytes()
    if size is None:
        return None
    remember(size)
    return _ask(size) if has_outgrown(size) else None


def remember(size: int) -> bool:
    """Store one figure unless somebody did so just now, and forget those that are too old to be shown."""
    if WalSize.objects.filter(seen_at__gt=SecondsFromNow(-APART_SECONDS)).exists():
        return False
    with transaction.atomic():
        # Asked again now that nobody else can write.
        if WalSize.objects.filter(seen_at__gt=SecondsFromNow(-APART_SECONDS)).exists():
            return False
        WalSize.objects.create(bytes_size=size)
        WalSize.objects.filter(seen_at__lt=SecondsFromNow(-KEPT_SECONDS)).delete()
    return True


def has_outgrown(size: int) -> bool:
    """Whether to ask for a checkpoint: nobody did lately, none is on its way, and the last one did not settle it."""
    if not settings.WAL_BYTES or size <= settings.WAL_BYTES or seconds_to_wait():
        return False
    lately = Q(requested_by=AUTOMATIC, created_at__gt=SecondsFromNow(-settings.WAL_INTERVAL_SECONDS))
    if WalMaintenanceJob.objects.filter(lately | Q(status__in=("pending", "running", "retryable"))).exists():
        return False
    if not last_completed().exists():
        return True
    since = WalSize.objects.filter(seen_at__gt=Subquery(last_completed().values("finished_at")[:1]))
    least: int | None = since.aggregate(least=Min("bytes_size"))["least"]
    return least is not None and size > least


def _ask(size: int) -> WalMaintenanceJob | None:
    mode = strongest_allowed()
    if mode is None:
        return None
    reason = _("The log has grown to %(size)d MB, past the limit of %(limit)d MB.")
    try:
        return request_checkpoint(
            mode, by=AUTOMATIC, reason=reason % {"size": size >> 20, "limit": settings.WAL_BYTES >> 20}
        )
    except Refused as refusal:
        logger.info("No checkpoint is asked for: %s", refusal)
        return None
