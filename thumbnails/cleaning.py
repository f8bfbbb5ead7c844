"""Removing the thumbnails of a group: asked for by policy, carried out by an executor.

Only rows that are `ready` or `failed` go, and of files only pictures below the thumbnail root. The picture goes first,
its row after it: whoever dies in between leaves a row without a picture, which the next try takes away, and which makes
its picture anew if somebody asks for it before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now

from database.clock import SecondsFromNow
from database.crash_points import reach
from database.routing import EXECUTOR
from jobs.doorbell import ring
from jobs.executing import Outcome, Queue, register_queue
from jobs.working import Work
from libraries.reading import reason_of
from logbook.models import write_event
from thumbnails import store
from thumbnails.keys import place_of
from thumbnails.models import Thumbnail, ThumbnailCleanupJob
from thumbnails.opening import REJECTED

logger = logging.getLogger(__name__)
QUEUE = "thumbnail_cleanup"
FAILED = "THUMB_CLEANUP_FAILED"
CLEANABLE = (Thumbnail.Status.READY, Thumbnail.Status.FAILED)
#: So many pictures and rows at a time.
BATCH = 200
_RESTING = ("pending", "completed", "failed")
_living: list[Callable[[Sequence[str]], set[str] | None]] = []


def register() -> None:
    register_queue(Queue(QUEUE, ThumbnailCleanupJob.objects.all, lambda _job: clean, failure=_failure))


# --- Policy -----------------------------------------------------------------------------------------------
def register_living_groups(verb: Callable[[Sequence[str]], set[str] | None]) -> None:
    """Let a room above tell which of some group keys are groups of equal files now; this room knows none. It answers
    None while it does not know."""
    _living.append(verb)


def living_groups(group_keys: Sequence[str]) -> set[str] | None:
    """Those of the keys that somebody needs; None while that is not known. Where there is nobody to tell, all are."""
    if not _living or not group_keys:
        return set(group_keys)
    living: set[str] = set()
    for verb in _living:
        found = verb(group_keys)
        if found is None:
            return None
        living |= found
    return living


def schedule(group_key: str, after_seconds: float | None = None, *, actor: str | None = None) -> ThumbnailCleanupJob:
    """Have a group's thumbnails removed, in so many seconds or after DEDUPFS_THUMBNAIL_CLEANUP_HOURS.

    Asking again sets the one row of that key anew; one that runs is left to run.
    """
    seconds = settings.THUMBNAIL_CLEANUP_HOURS * 3600 if after_seconds is None else after_seconds
    fresh: dict[str, Any] = {"execute_after": SecondsFromNow(seconds), "updated_at": Now()}
    cleared = {"status": "pending", "error_code": None, "error_message": None, "finished_at": None}
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO thumbnail_cleanup_jobs (group_key) VALUES (%s) ON CONFLICT DO NOTHING", [group_key]
            )
        rows = ThumbnailCleanupJob.objects.filter(group_key=group_key)
        rows.filter(status__in=_RESTING).update(**fresh, **cleared)
        job = rows.get()
        if actor is not None:
            write_event("thumbnail_cleanup_jobs", str(job.pk), "requested", actor=actor, seconds=seconds)
        if seconds <= 0:
            ring(QUEUE)
    return job


def schedule_new(group_keys: Sequence[str]) -> int:
    """The same for many, but what waits already keeps its time. Return how many wait now that did not."""
    if not group_keys:
        return 0
    later = SecondsFromNow(settings.THUMBNAIL_CLEANUP_HOURS * 3600)
    with transaction.atomic():
        known = ThumbnailCleanupJob.objects.filter(group_key__in=group_keys)
        there = set(known.values_list("group_key", flat=True))
        again = known.filter(status__in=("completed", "failed")).update(
            status="pending", execute_after=later, error_code=None, error_message=None, finished_at=None,
            updated_at=Now(),
        )  # fmt: skip
        new = [ThumbnailCleanupJob(group_key=key, execute_after=later) for key in group_keys if key not in there]
        ThumbnailCleanupJob.objects.bulk_create(new, ignore_conflicts=True)
    return again + len(new)


# --- An executor ------------------------------------------------------------------------------------------
def clean(work: Work[ThumbnailCleanupJob]) -> Outcome:
    group = Thumbnail.objects.using(EXECUTOR).filter(group_key=work.row.group_key, status__in=CLEANABLE)
    after, outside = 0, 0
    error: OSError | None = None
    while rows := list(group.filter(pk__gt=after).order_by("pk")[:BATCH]):
        work.check()
        work.advance(doing=work.row.group_key)
        removal = remove_pictures(rows)
        with work.fenced("cleanup"):
            remove_rows(removal.gone)
        reach("cleanup_rows_removed")
        after, outside, error = rows[-1].pk, outside + removal.outside, error or removal.error
    if error is not None:
        return Outcome("failed", FAILED, f"A picture can't be removed: {reason_of(error)}")
    if outside:
        return Outcome(
            code=REJECTED, message=f"{outside} rows named no place in the thumbnail root; only the rows were removed."
        )
    return Outcome()


@dataclass
class Removal:
    """What became of some pictures: the rows that are left without one, and the first error of the others."""

    gone: list[Thumbnail] = field(default_factory=list)
    #: Of how many the place is none of ours: there is nothing to remove.
    outside: int = 0
    error: OSError | None = None


def remove_pictures(rows: Sequence[Thumbnail]) -> Removal:
    """Remove the pictures of these rows. One that can't be removed keeps no other from going."""
    removal = Removal()
    for row in rows:
        try:
            store.remove(place_of(row))
        except store.OutsideRoot:
            logger.warning("Thumbnail %s: nothing is removed at %r", row.pk, place_of(row))
            removal.outside += 1
        except OSError as error:
            logger.warning("The picture of thumbnail %s can't be removed: %s", row.pk, reason_of(error))
            removal.error = removal.error or error
            continue
        removal.gone.append(row)
        reach("cleanup_picture_removed")
    return removal


def remove_rows(rows: Sequence[Thumbnail]) -> int:
    """Delete these rows, as far as they are still `ready` or `failed`; on the path "cleanup". Return how many."""
    if not rows:
        return 0
    found = Thumbnail.objects.using(EXECUTOR).filter(pk__in=[row.pk for row in rows], status__in=CLEANABLE)
    return int(found._raw_delete(EXECUTOR))


def _failure(_row: Any, error: Exception) -> Outcome:
    return Outcome("failed", FAILED, f"{type(error).__name__}: {error}")
