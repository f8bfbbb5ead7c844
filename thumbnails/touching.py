"""Noting which pictures are looked at: the cache lets go of the others first.

A note is worth little: it is never waited for. Where somebody else writes just now, the next look notes it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.db import OperationalError, connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from database.clock import SecondsFromNow
from thumbnails.models import Thumbnail

logger = logging.getLogger(__name__)
#: A look at a picture is noted at most so often: a page of them must not write each time.
TOUCH_SECONDS = 3600
#: PostgreSQL gives a lock that somebody holds no shorter time than this.
_LOCK_MILLISECONDS = 10


def touch(shown: Iterable[Thumbnail]) -> int:
    """Note that somebody looks at these thumbnails; return for how many that was noted."""
    # The statement decides by the database's own clock; this saves most of the statements.
    old = timezone.now() - timedelta(seconds=TOUCH_SECONDS)
    keys = [row.pk for row in shown if row.last_used_at < old]
    if not keys:
        return 0
    try:
        with _without_waiting():
            rows = Thumbnail.objects.filter(pk__in=keys, last_used_at__lt=SecondsFromNow(-TOUCH_SECONDS))
            return rows.update(last_used_at=Now())
    except OperationalError as error:
        logger.info("That %d pictures are looked at is not noted: %s", len(keys), error)
        return 0


@contextmanager
def _without_waiting() -> Iterator[None]:
    """A transaction that fails at once where somebody else holds what it needs."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            with transaction.atomic():
                cursor.execute(f"SET LOCAL lock_timeout = {_LOCK_MILLISECONDS}")
                yield
            return
        (patience,) = cursor.execute("PRAGMA busy_timeout").fetchone()
        cursor.execute("PRAGMA busy_timeout = 0")
        try:
            with transaction.atomic():
                yield
        finally:
            cursor.execute(f"PRAGMA busy_timeout = {int(patience)}")
