"""Making one thumbnail: what an executor does with a row of the queue.

The source is only read. What was read is charged once, when it has been read, and the row waits until it is paid: while
it waits it holds its place, so that nobody else reads instead.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import connections

from database.clock import SecondsFromNow
from database.crash_points import reach
from database.routing import EXECUTOR
from jobs import stopping
from jobs.budgets import charge
from jobs.doorbell import ring
from jobs.executing import Outcome, Queue, register_queue
from jobs.working import Work, in_hand
from libraries.names import to_bytes, to_display
from libraries.reading import reason_of
from thumbnails import store
from thumbnails.admitting import QUEUE, room
from thumbnails.keys import place_of
from thumbnails.models import Thumbnail, ThumbnailQuerySet
from thumbnails.opening import REJECTED, UNREADABLE, SourceError, opened_source

BUCKET = "thumbnail_io_global"
FAILED = "THUMB_GENERATION_FAILED"
RETRY_SECONDS, MOST_RETRY_SECONDS = 30, 1800
_WAIT_SECONDS = 0.5
_WHERE_IT_LIES = """SELECT root_path, relative_path FROM library_files JOIN library_roots
    ON library_roots.id = library_files.library_id WHERE library_files.id = %s"""


def register() -> None:
    register_queue(Queue(QUEUE, claimable, lambda _row: render_one, failure=_failure, tend=tend))


class Waiting(ThumbnailQuerySet):
    """The queue, with a quicker way to its oldest row: one look into the index for each media type, instead of a sort
    of all that waits."""

    def _oldest_due(self, *, skip_locked: bool) -> Any:
        if self.query.where:
            return super()._oldest_due(skip_locked=skip_locked)
        limits = settings.THUMBNAIL_CONCURRENCY
        parts = " UNION ALL ".join([_OLDEST] * len(limits))
        parameters = [value for kind, limit in limits.items() for value in (kind, kind, limit)]
        with connections[EXECUTOR].cursor() as cursor:
            cursor.execute(f"SELECT id FROM ({parts}) AS oldest ORDER BY created_at, id LIMIT 1", parameters)
            found = cursor.fetchall()
        return found[0][0] if found else None


_OLDEST = """SELECT * FROM (SELECT id, created_at FROM thumbnails WHERE status = 'pending' AND media_type = %s
    AND (SELECT COUNT(*) FROM thumbnails WHERE status = 'running' AND media_type = %s) < %s
    ORDER BY created_at, id LIMIT 1) AS one"""


def claimable() -> ThumbnailQuerySet:
    """Every row, unless all threads but one of this consumer render already: scans and the rest must get their turn."""
    busy = sum(isinstance(work.row, Thumbnail) for work in in_hand())
    rows = Waiting(Thumbnail)
    return rows if busy < max(settings.CONSUMER_WORKERS - 1, 1) else rows.none()


def tend() -> None:
    """The sweep rings once; let as many threads look as may render at the same time."""
    waiting = Thumbnail.objects.filter(status=Thumbnail.Status.PENDING).order_by()[: room()].count()
    for _ in range(waiting - 1):
        ring(QUEUE)


def retry_seconds(errors: int) -> int:
    """How long a row that failed so many times waits before it may be tried again."""
    return int(min(RETRY_SECONDS * 2 ** min(errors - 1, 16), MOST_RETRY_SECONDS))


@dataclass
class Bill:
    """What was read of the source, however the rendering ends."""

    bytes_read: int = 0


def render_one(work: Work[Thumbnail]) -> Outcome:
    bill = Bill()
    try:
        outcome = _render(work, bill)
    except BaseException:  # given back, or lost: that is no reason to wait, but it was read
        charge(BUCKET, bill.bytes_read, settings.THUMBNAIL_IO_BYTES)
        raise
    _pay(work, bill)
    return outcome


def _render(work: Work[Thumbnail], bill: Bill) -> Outcome:
    from thumbnails.render_pool import RenderError, render  # what decodes pictures is loaded by consumers only

    row = work.row
    try:
        with _opened(work) as source:
            reach("thumb_opened")
            made = render(
                source,
                media_type=row.media_type,
                format=row.format,
                max_dimension=row.max_dimension,
                advance=lambda: _go_on(work),
            )
            bill.bytes_read = made.bytes_read
        reach("thumb_rendered")
        work.check_lost()
        store.save(place_of(row), made.data)
        reach("thumb_saved")
    except SourceError as error:
        return _failed(row, error.code, error.message)
    except RenderError as error:
        bill.bytes_read = error.bytes_read
        return _failed(row, error.code, error.message)
    except store.OutsideRoot as error:
        return _failed(row, REJECTED, str(error))
    except OSError as error:
        return _failed(row, FAILED, f"The picture can't be stored: {reason_of(error)}")
    columns = {"width": made.width, "height": made.height, "bytes_size": len(made.data)}
    return Outcome("ready", columns={**columns, "error_count": 0, "retry_after": None})


def _opened(work: Work[Thumbnail]) -> AbstractContextManager[int]:
    row = work.row
    with connections[EXECUTOR].cursor() as cursor:
        cursor.execute(_WHERE_IT_LIES, [row.file_id])
        found = cursor.fetchall()
    if not found:
        raise SourceError(UNREADABLE, "The file is not in the index any more.")
    ((root, path),) = found
    work.advance(doing=to_display(path))
    return opened_source(
        to_bytes(root),
        to_bytes(path),
        version=(row.source_size_bytes, row.source_mtime_ns),
        seconds=settings.THUMBNAIL_SECONDS[row.media_type],
        check=work.check,
    )


def _go_on(work: Work[Thumbnail]) -> None:
    """The renderer works: that is progress. Raises where its work is no longer wanted."""
    work.advance()
    work.check()


def _pay(work: Work[Thumbnail], bill: Bill) -> None:
    """Charge what was read and wait until it is paid; a consumer that stops doesn't, since the work is done."""
    until = time.monotonic() + charge(BUCKET, bill.bytes_read, settings.THUMBNAIL_IO_BYTES)
    while (left := until - time.monotonic()) > 0 and not stopping.is_requested():
        work.advance()
        work.check_lost()
        time.sleep(min(left, _WAIT_SECONDS))


def _failed(row: Thumbnail, code: str, message: str) -> Outcome:
    errors = row.error_count + 1
    columns = {"error_count": errors, "retry_after": SecondsFromNow(retry_seconds(errors))}
    return Outcome("failed", code, message, columns)


def _failure(row: Any, error: Exception) -> Outcome:
    return _failed(row, FAILED, f"{type(error).__name__}: {error}")
