"""Libraries over HTTP: what is known of them, and the verbs that add, change, pause and remove them."""

# Ninja gives every operation its request, needed or not.
# ruff: noqa: ARG001

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from ninja.errors import HttpError
from pydantic import BeforeValidator, Field, StrictBool, StrictInt, StringConstraints

from accounts.guarding import ApiRequest, needs
from accounts.models import Role
from jobs.api import Asked, problems, whole
from libraries import adding, changing, removing
from libraries.models import LibraryFile, LibraryRoot, LibraryState, ScanError
from libraries.names import to_display

PAGE_SIZE = 100
LARGEST_PAGE = 1000
LARGEST = 2**63 - 1

router = Router(tags=["libraries"])


Name = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=changing.NAME_CHARACTERS, pattern=r"\S")
]
Size = Annotated[StrictInt, Field(ge=0, le=LARGEST), BeforeValidator(whole)]
Lines = Annotated[list[Annotated[str, StringConstraints(max_length=4096)]], Field(max_length=1000)]


class Choices(Asked):
    """What may be chosen of a library; what is left out stays as it is."""

    role: LibraryRoot.Role | None = None
    exclude_patterns: Lines | None = Field(None, description="What is left out; replaces the list there is.")
    protected_folders: Lines | None = Field(None, description="Paths below the root in which nothing is acted on.")
    min_size_bytes: Size | None = None
    hash_everything: StrictBool | None = None
    takes_young: StrictBool | None = Field(None, description="Plans may take files however lately they changed.")
    read_bytes_per_second: Size | None = Field(None, description="0 is no limit.")
    scan_interval_minutes: Size | None = Field(None, description="0 is no interval; gives a cron expression up.")
    scan_cron: Annotated[str, StringConstraints(max_length=changing.CRON_CHARACTERS)] | None = Field(
        None, description="In the configured time zone; gives an interval up."
    )

    def chosen(self) -> dict[str, Any]:
        return {key: value for key, value in self.model_dump(exclude_unset=True).items() if value is not None}


class NewLibrary(Choices):
    name: Name
    path: Annotated[str, StringConstraints(min_length=1, max_length=4096)] = Field(
        description="An absolute path on the server, below one of its libraries' roots."
    )


class ChangedLibrary(Choices):
    name: Name | None = None


class LibraryOut(Schema):
    """A library, what was last found of its disk, and what stands in the index."""

    id: int
    name: str
    root_path: str = Field(description="For people: bytes that are no text are written `\\xe9`.")
    root_path_raw: str = Field(description="As it is stored: such bytes are characters U+F780 to U+F7FF.")
    role: LibraryRoot.Role
    is_paused: bool
    exclude_patterns: list[str]
    protected_folders: list[str]
    min_size_bytes: int
    hash_everything: bool
    takes_young: bool
    read_bytes_per_second: int
    scan_interval_minutes: int
    scan_cron: str
    next_scan_at: datetime | None
    last_scanned_at: datetime | None
    created_at: datetime
    updated_at: datetime
    mount: LibraryState.Mount
    mount_note: str
    checked_at: datetime | None
    is_writable: bool | None
    findings_only: bool = Field(description="It can't be written to: duplicates are shown, nothing can be done.")
    file_count: int
    total_bytes: int
    missing_count: int
    error_count: int
    gone_count: int = Field(description="Files that a scan did not find, too many to be believed without a person.")


class LibraryList(Schema):
    items: list[LibraryOut]


class ErrorOut(Schema):
    """A path that could not be read: by a scan (folders too), or by a hash job."""

    source: str = Field(description="`scan` or `hash`")
    relative_path: str
    relative_path_raw: str
    is_folder: bool
    reason: str
    happened_at: datetime | None
    tries: int = Field(description="How often a hash job has tried; 0 for a scan's.")
    retry_after: datetime | None


class ErrorPage(Schema):
    items: list[ErrorOut]
    next_cursor: str | None = Field(description="`cursor` for the next page; null on the last one.")


class ErrorFilter(Schema):
    limit: int = Field(PAGE_SIZE, ge=1, le=LARGEST_PAGE)
    cursor: str | None = Field(None, description="`next_cursor` of the page before.")


def find(library_id: int) -> LibraryRoot:
    library = LibraryRoot.objects.kept().select_related("state").filter(pk=library_id).first()
    if library is None:
        raise HttpError(404, f"There is no library {library_id}.")
    return library


def shown(library: LibraryRoot) -> LibraryOut:
    """A library without a state, as foreign tools make them, is one of which nothing is known yet."""
    state: LibraryState | None = getattr(library, "state", None)
    known: dict[str, Any] = {name: getattr(state, name, nothing) for name, nothing in _STATE.items()}
    columns: dict[str, Any] = {name: getattr(library, name) for name in _COLUMNS}
    return LibraryOut(
        **columns,
        **known,
        root_path=to_display(library.root_path),
        root_path_raw=library.root_path,
        exclude_patterns=_lines(library.exclude_patterns),
        protected_folders=_lines(library.protected_folders),
        findings_only=known["is_writable"] is False,
    )


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line]


_STATE = {
    "mount": "unknown", "mount_note": "", "checked_at": None, "is_writable": None, "file_count": 0, "total_bytes": 0,
    "missing_count": 0, "error_count": 0, "gone_count": 0,
}  # fmt: skip
_COLUMNS = (
    "id", "name", "role", "is_paused", "min_size_bytes", "hash_everything", "takes_young", "read_bytes_per_second",
    "scan_interval_minutes", "scan_cron", "next_scan_at", "last_scanned_at", "created_at", "updated_at",
)  # fmt: skip


# --- Reading ----------------------------------------------------------------------------------------------
@router.get("", response={200: LibraryList, **problems(401, 403)}, summary="List the libraries by name")
@needs(Role.VIEWER)
def list_libraries(request: HttpRequest) -> LibraryList:
    """All of them but those that are being removed. No disk is touched: this is what consumers last found."""
    libraries = LibraryRoot.objects.kept().select_related("state").order_by("name")
    return LibraryList(items=[shown(library) for library in libraries])


@router.post("", response={201: LibraryOut, **problems(401, 403, 409, 413, 422)}, summary="Add a library")
@needs(Role.ADMIN)
def add_library(request: ApiRequest, asked: NewLibrary) -> Status[LibraryOut]:
    """409 where the folder can't be read, lies outside the roots, or shares files with a library there is."""
    choices = asked.chosen()
    name, path = choices.pop("name"), choices.pop("path")
    library = adding.add(name, path, actor=request.auth.name, **choices)
    return Status(201, shown(find(library.pk)))


@router.get("/{int:library_id}", response={200: LibraryOut, **problems(401, 403, 404)}, summary="Read one library")
@needs(Role.VIEWER)
def get_library(request: HttpRequest, library_id: int) -> LibraryOut:
    return shown(find(library_id))


@router.get(
    "/{int:library_id}/errors",
    response={200: ErrorPage, **problems(401, 403, 404, 422)},
    summary="List what could not be read",
)
@needs(Role.VIEWER)
def list_errors(request: HttpRequest, library_id: int, asked: Query[ErrorFilter]) -> ErrorPage:
    """First the paths that the last scan could not read, then the files that could not be hashed."""
    library = find(library_id)
    source, after = _parse_cursor(asked.cursor)
    rows: list[tuple[str, ErrorOut]] = []
    if source == "scan":
        rows = _scan_errors(library, after, asked.limit + 1)
        after = 0
    if len(rows) <= asked.limit:
        rows += _hash_errors(library, after, asked.limit + 1 - len(rows))
    page = rows[: asked.limit]
    return ErrorPage(items=[item for _, item in page], next_cursor=page[-1][0] if len(rows) > asked.limit else None)


def _parse_cursor(cursor: str | None) -> tuple[str, int]:
    if cursor is None:
        return "scan", 0
    source, _, key = cursor.partition("-")
    if source not in ("scan", "hash") or not (key.isascii() and key.isdecimal()) or int(key) > LARGEST:
        raise HttpError(422, f"cursor: {cursor[:80]!r} is not a cursor of this list")
    return source, int(key)


def _scan_errors(library: LibraryRoot, after: int, limit: int) -> list[tuple[str, ErrorOut]]:
    found = ScanError.objects.filter(library=library, pk__gt=after).order_by("pk")[:limit]
    return [
        (f"scan-{each.pk}", _error(each, each.reason, is_folder=each.is_folder, at=each.created_at)) for each in found
    ]


def _hash_errors(library: LibraryRoot, after: int, limit: int) -> list[tuple[str, ErrorOut]]:
    failed = LibraryFile.objects.filter(library=library, hash_error_count__gt=0, is_missing=False, pk__gt=after)
    return [
        (
            f"hash-{each.pk}",
            _error(
                each,
                each.hash_last_error or "",
                source="hash",
                at=each.hash_last_error_at,
                tries=each.hash_error_count,
                retry_after=each.hash_retry_after,
            ),
        )
        for each in failed.order_by("pk")[:limit]
    ]


def _error(
    row: ScanError | LibraryFile,
    reason: str,
    *,
    at: datetime | None,
    source: str = "scan",
    is_folder: bool = False,
    tries: int = 0,
    retry_after: datetime | None = None,
) -> ErrorOut:
    return ErrorOut(
        source=source,
        relative_path=to_display(row.relative_path),
        relative_path_raw=row.relative_path,
        is_folder=is_folder,
        reason=to_display(reason),
        happened_at=at,
        tries=tries,
        retry_after=retry_after,
    )


# --- Deciding ---------------------------------------------------------------------------------------------
@router.patch(
    "/{int:library_id}",
    response={200: LibraryOut, **problems(401, 403, 404, 409, 413, 422)},
    summary="Change a library's name or choices",
)
@needs(Role.ADMIN)
def change_library(request: ApiRequest, library_id: int, asked: ChangedLibrary) -> LibraryOut:
    find(library_id)
    changing.change(library_id, actor=request.auth.name, **asked.chosen())
    return shown(find(library_id))


@router.delete(
    "/{int:library_id}",
    response={202: None, **problems(401, 403, 404, 409, 422)},
    summary="Remove a library: its rows, never its files",
)
@needs(Role.ADMIN)
def remove_library(request: ApiRequest, library_id: int, even_if_unseen: bool = False) -> Status[None]:
    """Its rows go in the background; its name and folder are free at once.

    409 while files of it are acted on, while its trash holds anything, or where its disk is away; `even_if_unseen`
    removes it in the last case.
    """
    find(library_id)
    removing.remove(library_id, actor=request.auth.name, even_if_unseen=even_if_unseen)
    return Status(202, None)


@router.post(
    "/{int:library_id}/pause",
    response={200: LibraryOut, **problems(401, 403, 404)},
    summary="Keep a library from being scanned",
)
@needs(Role.OPERATOR)
def pause_library(request: ApiRequest, library_id: int) -> LibraryOut:
    find(library_id)
    changing.pause(library_id, actor=request.auth.name)
    return shown(find(library_id))


@router.post(
    "/{int:library_id}/resume",
    response={200: LibraryOut, **problems(401, 403, 404)},
    summary="Let a paused library be scanned again",
)
@needs(Role.OPERATOR)
def resume_library(request: ApiRequest, library_id: int) -> LibraryOut:
    find(library_id)
    changing.resume(library_id, actor=request.auth.name)
    return shown(find(library_id))
