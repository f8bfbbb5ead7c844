"""Which thumbnails nobody needs any more: policy looks through them, a portion with each sweep.

A thumbnail is needed while its file is there with the content it was made of, and while its group is a group. What is
not needed waits for DEDUPFS_THUMBNAIL_CLEANUP_HOURS: a disk or a group may come back. If it does, the clean-up is
withdrawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django.db.models import CharField, Value
from django.db.models.functions import Cast, Concat, Now

from database.clock import SecondsFromNow
from thumbnails.cleaning import CLEANABLE, living_groups, schedule_new
from thumbnails.keys import COLUMNS, FILE, group_of_file, is_of_now
from thumbnails.models import Thumbnail, ThumbnailCleanupJob, ThumbnailQuerySet

#: So many rows are looked at with each sweep.
PORTION = 1000
#: What was cleaned up is in the logbook; its row is kept this long.
KEPT_SECONDS = 7 * 24 * 3600
#: How far the last portion went, in this process.
_thumbnails_after = _jobs_after = 0


def tidy() -> None:
    """The next portion of everything; it starts again when it has come to the end."""
    global _thumbnails_after, _jobs_after
    _thumbnails_after = forsake(_thumbnails_after)
    _jobs_after = withdraw(_jobs_after)
    forget_old()


def knows_groups() -> bool:
    """Whether it is known just now which groups there are."""
    return living_groups([group_of_file(0)]) is not None


def tidy_all() -> None:
    """All of it at once."""
    after = 0
    while after := forsake(after):
        pass
    while after := withdraw(after):
        pass


def needless() -> Iterator[Thumbnail]:
    """Every thumbnail that nobody needs; nothing is scheduled."""
    after = 0
    while rows := _portion(after, PORTION):
        dead = _dead_groups(rows)
        yield from (row for row in rows if is_stale(row) or row.group_key in dead)
        after = rows[-1].pk


def forsake(after: int = 0, portion: int = PORTION) -> int:
    """Schedule the clean-up of what nobody needs among the next rows; return where to go on, 0 at the end."""
    rows = _portion(after, portion)
    stale = [row for row in rows if is_stale(row)]
    # A stale picture leaves its group, which may live on; so does one whose maker knew of no group.
    _leave_group({*stale, *(row for row in rows if not row.group_key or row.group_key.startswith(FILE))})
    schedule_new(sorted(_dead_groups(rows) | {group_of_file(row.file_id) for row in stale}))
    return rows[-1].pk if len(rows) == portion else 0


def _portion(after: int, portion: int) -> list[Thumbnail]:
    rows = Thumbnail.objects.filter(pk__gt=after, status__in=CLEANABLE)
    return list(_with_files(rows).order_by("pk")[:portion])


def _dead_groups(rows: list[Thumbnail]) -> set[str]:
    groups = sorted({row.group_key for row in rows if row.group_key and not row.group_key.startswith(FILE)})
    living = living_groups(groups)
    return set() if living is None else set(groups) - living


def is_stale(row: Thumbnail) -> bool:
    """Whether its file is gone or has another content by now."""
    return row.file.is_missing or not is_of_now(row)


def withdraw(after: int = 0, portion: int = PORTION) -> int:
    """Take back clean-ups that are not due yet and no longer wanted; return where to go on, 0 at the end."""
    waiting = ThumbnailCleanupJob.objects.filter(status="pending", execute_after__gt=Now())
    keys = dict(waiting.filter(pk__gt=after).order_by("pk").values_list("group_key", "pk")[:portion])
    of_files = [key for key in keys if key.startswith(FILE)]
    rows = _with_files(Thumbnail.objects.filter(group_key__in=of_files))
    wanted = living_groups([key for key in keys if not key.startswith(FILE)]) or set()
    wanted |= set(of_files) - {row.group_key or "" for row in rows if is_stale(row)}
    if wanted:
        waiting.filter(pk__in=[keys[key] for key in wanted]).delete()
    return max(keys.values()) if len(keys) == portion else 0


def forget_old() -> None:
    ended = ThumbnailCleanupJob.objects.filter(status__in=("completed", "failed"))
    old = ended.filter(finished_at__lt=SecondsFromNow(-KEPT_SECONDS))
    keys = list(old.order_by("pk").values_list("pk", flat=True)[:PORTION])
    if keys:
        old.filter(pk__in=keys).delete()


def _with_files(rows: ThumbnailQuerySet) -> ThumbnailQuerySet:
    of_file = (f"file__{column}" for column in (*COLUMNS, "is_missing"))
    return rows.select_related("file").only("thumb_key", "group_key", "max_dimension", "format", *of_file)


def _leave_group(rows: Iterable[Thumbnail]) -> None:
    keys = [row.pk for row in rows if row.group_key != group_of_file(row.file_id)]
    if keys:
        alone = Concat(Value(FILE), Cast("file_id", CharField()))
        found = Thumbnail.objects.filter(pk__in=keys, status__in=CLEANABLE)
        found.update(group_key=alone, updated_at=Now())
