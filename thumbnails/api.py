"""Thumbnails over HTTP, as the protocol writes them."""

# Ninja gives every operation its request, needed or not.
# ruff: noqa: ARG001

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from django.http import HttpRequest, HttpResponseBase
from ninja import Router, Schema, Status
from ninja.errors import HttpError
from pydantic import BeforeValidator, Field, StrictInt, StringConstraints

from accounts.guarding import ApiRequest, needs
from accounts.models import Role
from jobs.api import LARGEST_COUNT, Asked, problems, whole
from libraries.models import LibraryFile
from thumbnails import admitting, cleaning, measuring, serving
from thumbnails.keys import DIMENSION, FILE, GROUP_KEY, is_key
from thumbnails.models import Thumbnail, ThumbnailCleanupJob

router = Router(tags=["thumbnails"])
SMALLEST, LARGEST = 16, 2048


class ThumbnailOut(Schema):
    """One row of `thumbnails`. Times are UTC."""

    thumb_key: str
    file_id: int
    group_key: str | None
    status: Thumbnail.Status
    media_type: Thumbnail.MediaType
    format: Thumbnail.Format
    max_dimension: int
    version: int
    source_size_bytes: int
    source_mtime_ns: int
    width: int | None
    height: int | None
    bytes_size: int | None
    error_code: str | None
    error_message: str | None
    error_count: int
    retry_after: datetime | None = Field(description="A failed one is tried again when it is asked for after this.")
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class NewThumbnail(Asked):
    file_id: Annotated[StrictInt, Field(ge=1, le=LARGEST_COUNT), BeforeValidator(whole)]
    group_key: Annotated[str, StringConstraints(pattern=GROUP_KEY)] | None = Field(
        None,
        description="The group it is looked at in: when that is no more, the thumbnail goes with it. `file:…` is none.",
    )
    max_dimension: Annotated[StrictInt, Field(ge=SMALLEST, le=LARGEST), BeforeValidator(whole)] = Field(
        DIMENSION, description="Of the longer side; a smaller picture is not enlarged."
    )
    format: Thumbnail.Format = Thumbnail.Format.WEBP


class CleanupOut(Schema):
    """One row of `thumbnail_cleanup_jobs`. Times are UTC."""

    id: int
    group_key: str
    status: ThumbnailCleanupJob.Status
    execute_after: datetime
    error_code: str | None
    error_message: str | None
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None


class NewCleanup(Asked):
    group_key: Annotated[str, StringConstraints(pattern=GROUP_KEY)]


class FiguresOut(Schema):
    """Ages are in seconds, and 0 where nothing waits."""

    queue_depth: int = Field(description="Thumbnails that wait or are rendered.")
    queue_capacity: int
    thumbnails: dict[str, int] = Field(description="By status.")
    running: dict[str, int] = Field(description="By media type.")
    concurrency: dict[str, int] = Field(description="How many of each media type may run.")
    oldest_pending_seconds: float
    retry_due: int = Field(description="Failed ones that would be tried again if somebody asked now.")
    retry_waiting: int
    cache_bytes: int
    cache_limit_bytes: int = Field(description="0 is no limit.")
    cleanups: dict[str, int] = Field(description="By status.")
    cleanup_due: int
    cleanup_lag_seconds: float = Field(description="How long the oldest clean-up has been due.")


@router.post(
    "/request",
    response={202: ThumbnailOut, **problems(401, 403, 404, 409, 413, 422, 429)},
    summary="Ask for a thumbnail",
)
@needs(Role.VIEWER)
def request_thumbnail(request: HttpRequest, asked: NewThumbnail) -> Status[Thumbnail]:
    """Answers at once, with the row that is there or a new one that waits. 429 where as many wait as may; 409 for a
    file that is missing; 422 for one of a format that is not decoded here."""
    file = LibraryFile.objects.filter(pk=asked.file_id).first()
    if file is None:
        raise HttpError(404, f"There is no file {asked.file_id}.")
    group_key = (asked.group_key or "").strip().lower()
    groups = {} if group_key.startswith(FILE) or not group_key else {file.pk: group_key}
    try:
        found = admitting.request(
            [file], group_keys=groups, max_dimension=asked.max_dimension, format=asked.format.value
        )[file.pk]
    except admitting.QueueFull as error:
        raise HttpError(429, str(error)) from None
    if found.status == admitting.UNSUPPORTED:
        raise HttpError(422, "file_id: no picture can be made of a file with this name here.")
    row = Thumbnail.objects.filter(thumb_key=found.key).first()
    if row is None:
        raise HttpError(409, found.error_message or "The file is gone.")
    return Status(202, row)


@router.get("/metrics", response={200: FiguresOut, **problems(401, 403)}, summary="The queues in figures")
@needs(Role.VIEWER)
def thumbnail_metrics(request: HttpRequest) -> measuring.Figures:
    return measuring.measure()


@router.post(
    "/cleanup/group",
    response={202: CleanupOut, **problems(401, 403, 413, 422)},
    summary="Have the thumbnails of a group removed",
)
@needs(Role.OPERATOR)
def clean_up_group(request: ApiRequest, asked: NewCleanup) -> Status[ThumbnailCleanupJob]:
    """At once, or as soon as none of them waits or is rendered. They are made again when somebody asks for them."""
    return Status(202, cleaning.schedule(asked.group_key.strip().lower(), 0, actor=request.auth.name))


@router.get("/{thumb_key}", response={200: ThumbnailOut, **problems(401, 403, 404)}, summary="Read one thumbnail's row")
@needs(Role.VIEWER)
def get_thumbnail(request: HttpRequest, thumb_key: str) -> Thumbnail:
    return _find(thumb_key)


@router.get(
    "/{thumb_key}/content",
    response={200: bytes, 202: bytes, 304: None, 503: bytes, **problems(401, 403, 404)},
    summary="The picture itself",
)
@needs(Role.VIEWER)
def get_content(request: HttpRequest, thumb_key: str) -> HttpResponseBase:
    """WebP or JPEG. 202 with a placeholder while it is made; one that is gone from the disk is made again. 503 with a
    placeholder while the disk of the thumbnails can't be read."""
    row = _find(thumb_key)
    if row.status == Thumbnail.Status.FAILED:
        raise HttpError(404, row.error_message or f"It could not be made: {row.error_code}.")
    return serving.answer(request, row)


def _find(thumb_key: str) -> Thumbnail:
    row = Thumbnail.objects.filter(thumb_key=thumb_key).first() if is_key(thumb_key) else None
    if row is None:
        raise HttpError(404, f"There is no thumbnail {thumb_key[:80]!r}.")
    return row
