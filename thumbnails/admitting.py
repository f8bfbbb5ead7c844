"""Asking for thumbnails: one row for each key, up to so many that wait or run, however many ask at the same moment.

Whoever asks for what is there already only reads. The rest is one conditional INSERT for all of a batch: how many rows
are free is counted by the same statement. SQLite has one writer at a time; on PostgreSQL two statements would count
the same free rows, so there an advisory lock lets one after the other in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import BooleanField, Case, F, OuterRef, Q, Subquery, Value, When
from django.db.models.functions import Now

from database.portions import portions
from jobs.doorbell import ring
from libraries.models import LibraryFile
from thumbnails.errors import ThumbnailsError
from thumbnails.formats import media_of
from thumbnails.keys import COLUMNS, DIMENSION, FORMAT, VERSION, group_of_file, is_of_now, relpath_of, thumb_key
from thumbnails.models import Thumbnail

QUEUE = "thumbnails"
ACTIVE = (Thumbnail.Status.PENDING, Thumbnail.Status.RUNNING)
UNSUPPORTED = "unsupported"
SOURCE_MISSING = "THUMB_SOURCE_MISSING"
SOURCE_MISSING_MESSAGE = "The file was not there when its library was last scanned."
SOURCE_GONE_MESSAGE = "The file is not in the index any more."
#: So many keys go into one statement.
BATCH = 500
_COLUMNS = (
    "thumb_key", "file_id", "group_key", "media_type", "format", "max_dimension", "version", "source_size_bytes",
    "source_mtime_ns", "output_relpath",
)  # fmt: skip
_TYPES = ("text", "bigint", "text", "text", "text", "integer", "integer", "bigint", "bigint", "text")
_ROW = f"({', '.join(f'CAST(%s AS {each})' for each in _TYPES)})"
_LARGER = {"sqlite": "MAX", "postgresql": "GREATEST"}


@dataclass(frozen=True)
class Asked:
    """What there is of a thumbnail that somebody asked for. `status` is the row's, or `unsupported`."""

    key: str
    status: str
    width: int | None = None
    height: int | None = None
    error_code: str | None = None
    error_message: str | None = None
    retry_after: datetime | None = None

    @classmethod
    def of(cls, row: Thumbnail) -> Asked:
        return cls(row.thumb_key, row.status, row.width, row.height, row.error_code, row.error_message, row.retry_after)

    @classmethod
    def missing(cls, key: str, message: str) -> Asked:
        return cls(key, Thumbnail.Status.FAILED, error_code=SOURCE_MISSING, error_message=message)


class QueueFull(ThumbnailsError):
    """As many thumbnails wait as may; `asked` tells of those that are there or were still let in."""

    def __init__(self, asked: dict[int, Asked]) -> None:
        super().__init__(f"{settings.THUMBNAIL_CAPACITY:,} thumbnails wait already. Ask again in a while.")
        self.asked = asked


def request(
    files: Sequence[LibraryFile],
    *,
    group_keys: Mapping[int, str] | None = None,
    max_dimension: int = DIMENSION,
    format: str = FORMAT,
) -> dict[int, Asked]:
    """Ask for thumbnails of `files`, by file id. Raises `QueueFull` where not all could be let in."""
    asked: dict[int, Asked] = {}
    wishes = list(_wishes(files, group_keys or {}, max_dimension, format, asked))
    for some in portions(wishes, BATCH):
        _ask(some, asked)
    _refuse_rest([wish for wish in wishes if wish.file.pk not in asked], asked)
    return asked


def ready(file_ids: Iterable[int], max_dimension: int = DIMENSION, format: str = FORMAT) -> dict[int, Thumbnail]:
    """The thumbnails that can be shown at once, by file id; never one of what the file was before it changed."""
    # A file has few of them. Asked for the status as well, SQLite would go through all that are ready.
    rows = Thumbnail.objects.filter(file_id__in=list(file_ids)).select_related("file").defer(*_DEFERRED)
    wanted = (Thumbnail.Status.READY, max_dimension, format)
    found = (row for row in rows if (row.status, row.max_dimension, row.format) == wanted)
    return {row.file_id: row for row in found if is_of_now(row)}


_DEFERRED = tuple(
    f"file__{field.name}" for field in LibraryFile._meta.concrete_fields if field.name not in COLUMNS
)  # fmt: skip


def repair(thumbnail: Thumbnail) -> bool:
    """Have a picture made again whose file is gone from the disk. False where the queue is full, where it is not ready,
    or where its source is another by now: that has a picture of its own."""
    with _alone():
        row = Thumbnail.objects.filter(pk=thumbnail.pk, status=Thumbnail.Status.READY).select_related("file").first()
        if row is None or not is_of_now(row):
            return False
        # A source that changes in this moment is not of this version, and will not be rendered.
        source = {"source_size_bytes": row.file.size_bytes, "source_mtime_ns": row.file.mtime_ns}
        moved = _put_back(Thumbnail.objects.filter(pk=row.pk, status=Thumbnail.Status.READY), **source)
        _ring(moved)
    return moved == 1


# --- A batch ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Wish:
    key: str
    file: LibraryFile
    group_key: str
    media_type: str
    max_dimension: int
    format: str

    @property
    def values(self) -> tuple[Any, ...]:
        file = self.file
        return (
            self.key, file.pk, self.group_key, self.media_type, self.format, self.max_dimension, VERSION,
            file.size_bytes, file.mtime_ns, relpath_of(self.key, self.format),
        )  # fmt: skip


def _wishes(
    files: Sequence[LibraryFile],
    group_keys: Mapping[int, str],
    max_dimension: int,
    format: str,
    asked: dict[int, Asked],
) -> Iterator[Wish]:
    """Each file once; what can't be shown here is answered at once."""
    for file in {file.pk: file for file in files}.values():
        key = thumb_key(file, max_dimension, format)
        media_type = media_of(file.relative_path)
        if media_type is None:
            asked[file.pk] = Asked(key, UNSUPPORTED)
        else:
            group_key = group_keys.get(file.pk) or group_of_file(file.pk)
            yield Wish(key, file, group_key, media_type, max_dimension, format)


def _ask(wishes: Sequence[Wish], asked: dict[int, Asked]) -> None:
    rows = _rows(wishes)
    missing = [wish for wish in wishes if wish.key not in rows and not wish.file.is_missing]
    again = [row.pk for row in rows.values() if row.is_due_again]
    if missing or again:
        try:
            _let_in(missing, again)
        except IntegrityError:  # a file's row went in this moment: then it is left out
            _let_in(missing, again)
        rows = _rows(wishes)
    _join_groups(wishes, rows)
    for wish in wishes:
        row = rows.get(wish.key)
        if row is not None and not row.is_due_again:
            asked[wish.file.pk] = Asked.of(row)
        elif row is None and wish.file.is_missing:
            asked[wish.file.pk] = Asked.missing(wish.key, SOURCE_MISSING_MESSAGE)


def _refuse_rest(wishes: Sequence[Wish], asked: dict[int, Asked]) -> None:
    """What was not let in: a file whose row went meanwhile is missing; for any other there was no room."""
    if not wishes:
        return
    there = set(LibraryFile.objects.filter(pk__in=[wish.file.pk for wish in wishes]).values_list("pk", flat=True))
    gone = [wish for wish in wishes if wish.file.pk not in there]
    asked |= {wish.file.pk: Asked.missing(wish.key, SOURCE_GONE_MESSAGE) for wish in gone}
    if there:
        raise QueueFull(asked)


def _rows(wishes: Sequence[Wish]) -> dict[str, Any]:
    """The rows of these keys. `is_due_again`: it failed, and may be tried again by now."""
    failed = Q(status=Thumbnail.Status.FAILED)
    is_due = Case(When(failed & _is_due(), then=Value(True)), default=Value(False), output_field=BooleanField())
    rows = Thumbnail.objects.filter(thumb_key__in=[wish.key for wish in wishes])
    found = rows.annotate(is_due_again=is_due).only(
        "thumb_key", "status", "group_key", "width", "height", "error_code", "error_message", "retry_after"
    )
    return {row.thumb_key: row for row in found}


def _is_due() -> Q:
    return Q(retry_after__isnull=True) | Q(retry_after__lte=Now())


def _let_in(wishes: Sequence[Wish], again: list[int]) -> None:
    with _alone():
        moved = _insert(wishes)
        failed = Thumbnail.objects.filter(_is_due(), pk__in=again, status=Thumbnail.Status.FAILED)
        moved += _put_back(failed)
        _ring(moved)


def _insert(wishes: Sequence[Wish]) -> int:
    """As many new rows as there is room for; return how many."""
    if not wishes:
        return 0
    names = ", ".join(_COLUMNS)
    sql = f"""INSERT INTO thumbnails ({names})
        WITH wanted ({names}) AS (VALUES {", ".join([_ROW] * len(wishes))}) SELECT {names} FROM wanted
        WHERE NOT EXISTS (SELECT 1 FROM thumbnails there WHERE there.thumb_key = wanted.thumb_key)
          AND EXISTS (SELECT 1 FROM library_files file WHERE file.id = wanted.file_id)
        LIMIT {_LARGER[connection.vendor]}(0, %s - (
            SELECT COUNT(*) FROM thumbnails active WHERE active.status IN ('pending', 'running')))
        ON CONFLICT DO NOTHING"""
    values = [value for wish in wishes for value in wish.values]
    with connection.cursor() as cursor:
        cursor.execute(sql, [*values, settings.THUMBNAIL_CAPACITY])
        return max(int(cursor.rowcount), 0)


def _put_back(rows: Any, **source: Any) -> int:
    """Let rows wait again, as many as there is room for, to be made of `source`, or of what the file is now."""
    room = settings.THUMBNAIL_CAPACITY - Thumbnail.objects.filter(status__in=ACTIVE).count()
    keys = list(rows.order_by("created_at", "pk").values_list("pk", flat=True)[: max(room, 0)])
    if not keys:
        return 0
    file = LibraryFile.objects.filter(pk=OuterRef("file_id"))
    made_of = source or {
        "source_size_bytes": Subquery(file.values("size_bytes")),
        "source_mtime_ns": Subquery(file.values("mtime_ns")),
    }
    waiting = rows.model.objects.filter(pk__in=keys, status__in=("ready", "failed"))
    return int(waiting.update(status=Thumbnail.Status.PENDING, finished_at=None, updated_at=Now(), **made_of))


def _join_groups(wishes: Sequence[Wish], rows: dict[str, Any]) -> None:
    """A picture that belonged to no group, or to one that is no more, belongs to the one it is looked at in."""
    for wish in wishes:
        row = rows.get(wish.key)
        alone = group_of_file(wish.file.pk)
        if row is not None and wish.group_key != alone and row.group_key != wish.group_key:
            Thumbnail.objects.filter(pk=row.pk).filter(Q(group_key=alone) | Q(group_key__isnull=True)).update(
                group_key=wish.group_key, updated_at=F("updated_at")
            )


@contextmanager
def _alone() -> Iterator[None]:
    """A transaction in which nobody else lets rows in."""
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(hashtext('admit thumbnails'))")
        yield


def _ring(count: int) -> None:
    """Once for each row that may be rendered at the same time: a consumer's thread works on one after the other."""
    for _ in range(min(count, room())):
        ring(QUEUE)


def room() -> int:
    """How many thumbnails may be rendered at the same time."""
    return sum(settings.THUMBNAIL_CONCURRENCY.values())
