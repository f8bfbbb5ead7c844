"""Groups of equal files over HTTP, as the protocol writes them, and what an operator may say about one."""

# Ninja gives every operation its request, needed or not.
# ruff: noqa: ARG001

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from ninja.errors import HttpError
from pydantic import Field, StringConstraints

from accounts.guarding import ApiRequest, needs
from accounts.models import Role
from duplicates import ignoring, listing
from duplicates.facts import Digest
from duplicates.filtering import EXTENSION_CHARACTERS, LARGEST, PATH_CHARACTERS, BadFilter, Filter
from duplicates.listing import BadCursor, BadGroupKey, parse_group_key
from duplicates.members import files_after
from duplicates.models import DuplicateGroup, IgnoredGroup, group_key
from jobs.api import Asked, problems
from jobs.api_paging import key_of
from libraries.models import LibraryFile
from libraries.names import to_display

PAGE_SIZE = 100
LARGEST_PAGE = 1000

router = Router(tags=["duplicates"])


class GroupOut(Schema):
    """Present files of equal content."""

    group_key: str
    hash_algorithm: str
    content_hash_hex: str
    file_count: int = Field(description="Every name counts, hard links too.")
    total_size_bytes: int
    duplicate_waste_bytes: int = Field(description="The total less one copy.")
    sample_file_id: int
    size_bytes: int = Field(description="Of one copy.")
    inode_count: int = Field(description="Hard links of one file count once.")
    reclaimable_bytes: int = Field(
        description="What would really come back: hard links, backups and protected places are taken into account."
    )
    is_ignored: bool


class GroupPageOut(Schema):
    items: list[GroupOut]
    next_cursor: str | None = Field(
        description="`cursor` for the next page; null on the last one. With a filter that few groups match a page may "
        "be shorter than `limit`, or empty, before the last one."
    )


class GroupQuery(Schema):
    limit: int = Field(PAGE_SIZE, ge=1, le=LARGEST_PAGE)
    cursor: str | None = Field(None, description="`next_cursor` of the page before, in the same order.")
    order: Literal["copies", "reclaimable", "newest", "size"] = "copies"
    library: int | None = Field(None, ge=0, le=LARGEST, description="Groups with a file in this library,")
    folder: str = Field(
        "", max_length=PATH_CHARACTERS, description="and below this folder of it, as `relative_path_raw` is written."
    )
    extension: str = Field("", max_length=EXTENSION_CHARACTERS, description="Of any of its files; `jpg` finds `.JPG`.")
    media: Literal["", "image", "video", "audio", "document", "archive"] = ""
    least_bytes: int = Field(0, ge=0, le=LARGEST, description="Of one copy.")
    spans: bool = Field(False, description="Only groups with files in more than one library.")
    copy_in: int | None = Field(None, ge=0, le=LARGEST, description="Only groups with a file in this library as well.")
    ignored: Literal["no", "only", "all"] = "all"

    def filter(self) -> Filter:
        said = self.model_dump(exclude={"limit", "cursor", "order", "spans"}, exclude_none=True)
        return Filter.parse({**{name: str(value) for name, value in said.items()}, "spans": str(int(self.spans))})


class FileOut(Schema):
    file_id: int
    library_id: int
    library_name: str
    relative_path: str = Field(description="For people: bytes that are no text are written `\\xe9`.")
    relative_path_raw: str = Field(description="As it is stored: such bytes are characters U+F780 to U+F7FF.")
    size_bytes: int
    mtime_ns: int
    hashed_at: datetime | None


class FilePageOut(Schema):
    items: list[FileOut]
    next_cursor: str | None = Field(description="`cursor` for the next page; null on the last one.")


class FileQuery(Schema):
    limit: int = Field(PAGE_SIZE, ge=1, le=LARGEST_PAGE)
    cursor: str | None = Field(None, description="`next_cursor` of the page before.")


class Note(Asked):
    """What a caller sends. Unknown fields are refused."""

    note: Annotated[str, StringConstraints(strip_whitespace=True, max_length=ignoring.NOTE_CHARACTERS)] = ""


class IgnoredOut(Schema):
    group_key: str
    note: str
    ignored_by: str
    ignored_at: datetime


# --- Reading ----------------------------------------------------------------------------------------------
@router.get("/groups", response={200: GroupPageOut, **problems(401, 403, 422)}, summary="List groups of equal files")
@needs(Role.VIEWER)
def list_groups(request: HttpRequest, asked: Query[GroupQuery]) -> GroupPageOut:
    """Without a filter every group is listed, as the protocol says: those of empty files and the ignored ones too,
    which pages leave out. All that has changed is counted first."""
    try:
        page = listing.page(asked.filter(), asked.order, asked.cursor, asked.limit)
    except BadCursor as error:
        raise HttpError(422, f"cursor: {error}") from None
    except BadFilter as error:
        raise HttpError(422, str(error)) from None
    ignored = ignoring.ignored_among((group.hash_algorithm, bytes(group.content_hash)) for group in page.groups)
    return GroupPageOut(items=[_group(group, ignored) for group in page.groups], next_cursor=page.next_cursor)


@router.get(
    "/groups/{group_key}/files",
    response={200: FilePageOut, **problems(401, 403, 422)},
    summary="List the files of a group",
)
@needs(Role.VIEWER)
def list_files(request: HttpRequest, group_key: str, asked: Query[FileQuery]) -> FilePageOut:
    """In the order of their ids. A content that no present file has is an empty list."""
    digest = _digest(group_key)
    found = files_after(digest, key_of(asked.cursor) or 0, asked.limit + 1)
    files = found[: asked.limit]
    next_cursor = str(files[-1].pk) if len(found) > asked.limit else None
    return FilePageOut(items=[_file(file) for file in files], next_cursor=next_cursor)


def _group(group: DuplicateGroup, ignored: set[Digest]) -> GroupOut:
    digest = bytes(group.content_hash)
    columns: dict[str, Any] = {name: getattr(group, name) for name in _COLUMNS}
    return GroupOut(
        **columns,
        group_key=group.key,
        content_hash_hex=digest.hex(),
        duplicate_waste_bytes=group.total_size_bytes - group.size_bytes,
        is_ignored=(group.hash_algorithm, digest) in ignored,
    )


_COLUMNS = (
    "hash_algorithm", "file_count", "total_size_bytes", "sample_file_id", "size_bytes", "inode_count",
    "reclaimable_bytes",
)  # fmt: skip


def _file(file: LibraryFile) -> FileOut:
    return FileOut(
        file_id=file.pk,
        library_id=file.library_id,
        library_name=file.library.name,
        relative_path=to_display(file.relative_path),
        relative_path_raw=file.relative_path,
        size_bytes=file.size_bytes,
        mtime_ns=file.mtime_ns,
        hashed_at=file.hashed_at,
    )


def _digest(text: str) -> Digest:
    try:
        return parse_group_key(text)
    except BadGroupKey as error:
        raise HttpError(422, f"group_key: {error}") from None


# --- Deciding ---------------------------------------------------------------------------------------------
@router.post(
    "/groups/{group_key}/ignore",
    response={200: IgnoredOut, **problems(401, 403, 413, 422)},
    summary="Say that a group is no duplicate problem",
)
@needs(Role.OPERATOR)
def ignore_group(request: ApiRequest, group_key: str, asked: Note | None = None) -> IgnoredOut:
    """It is remembered by its content, also where no file has that any more or yet."""
    _digest(group_key)
    return _ignored(ignoring.ignore(group_key, actor=request.auth.name, note=asked.note if asked else ""))


@router.delete(
    "/groups/{group_key}/ignore",
    response={204: None, **problems(401, 403, 422)},
    summary="Take that back",
)
@needs(Role.OPERATOR)
def stop_ignoring_group(request: ApiRequest, group_key: str) -> Status[None]:
    """204 also where it was not ignored."""
    _digest(group_key)
    ignoring.stop_ignoring(group_key, actor=request.auth.name)
    return Status(204, None)


def _ignored(row: IgnoredGroup) -> IgnoredOut:
    return IgnoredOut(
        group_key=group_key(row.hash_algorithm, bytes(row.content_hash)),
        note=row.note,
        ignored_by=row.ignored_by,
        ignored_at=row.ignored_at,
    )
