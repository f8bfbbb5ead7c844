"""Acting on files over HTTP: authorise, watch, stop, pause, undo, empty."""

# Ninja gives every operation its request, needed or not.
# ruff: noqa: ARG001

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import AwareDatetime, BeforeValidator, Field, StrictInt, StringConstraints, model_validator

from accounts.guarding import ApiRequest, needs
from accounts.models import Role
from duplicates.models import group_key
from jobs.api import Asked, problems, whole
from jobs.api_paging import LARGEST_KEY, PageAsked, key_of, newest_page
from libraries.names import to_display
from trash import authorising
from trash.act_results import items_of, page_after
from trash.choosing_items import MOST_DAYS, MOST_ITEMS
from trash.models import Act, TrashItem

router = Router(tags=["acting"])

# Written out: enums of other tables have the same name in the API's description.
VerbWord = Literal["act", "undo", "empty"]
ActStatus = Literal["authorised", "running", "completed", "cancelled", "failed", "void"]
ItemStatus = Literal["intended", "skipped", "trashed", "deleted", "undoing", "undone", "emptying", "emptied"]
Count = Annotated[StrictInt, Field(ge=0, le=LARGEST_KEY), BeforeValidator(whole)]
Key = Annotated[StrictInt, Field(ge=1, le=LARGEST_KEY), BeforeValidator(whole)]
Days = Annotated[StrictInt, Field(ge=0, le=MOST_DAYS), BeforeValidator(whole)]


# --- What is answered -------------------------------------------------------------------------------------
class ActOut(Schema):
    """One authorised piece of work on files, and how far it is."""

    id: int
    verb: VerbWord
    status: ActStatus
    plan_id: int | None
    job_id: str | None
    selection: dict[str, Any] = Field(description="Which files of the trash, for undo and empty.")
    authorised_by: str
    authorised_at: datetime
    starts_at: datetime = Field(description="Until then it can be stopped before anything was done.")
    is_paused: bool
    file_count: int
    total_bytes: int
    done_count: int
    skipped_count: int
    bytes_done: int
    busy_seconds: float
    trashed_count: int = Field(description="What it put into a trash and is still there.")
    trashed_bytes: int
    space: dict[str, list[int]] = Field(description="Filesystem → free bytes before and after.")
    proof_sha256: str
    note: str
    finished_at: datetime | None


class ActPage(Schema):
    items: list[ActOut]
    next_cursor: str | None = Field(description="`cursor` for the next page; null on the last one.")


class ItemOut(Schema):
    """What became of one file."""

    id: int
    act_id: int
    plan_id: int
    plan_file_id: int
    status: ItemStatus
    reason_code: str
    reason: str
    action: str | None
    group_key: str
    library_id: int
    relative_path: str = Field(description="For people: bytes that are no text are written `\\xe9`.")
    relative_path_raw: str = Field(description="As it is stored: such bytes are characters U+F780 to U+F7FF.")
    size_bytes: int
    is_stray: bool = Field(description="Another version than the plan's lies in the trash, saved in the last moment.")
    trash_folder: str
    acted_at: datetime | None
    left_by_id: int | None
    left_at: datetime | None
    is_last_copy: bool


class ItemPage(Schema):
    items: list[ItemOut]
    next_cursor: str | None = Field(description="`cursor` for the next page; null on the last one.")


# --- What is asked ----------------------------------------------------------------------------------------
class ActsAsked(PageAsked):
    plan_id: int | None = Field(None, ge=1, le=LARGEST_KEY)
    status: ActStatus | None = None
    verb: VerbWord | None = None


class ItemsAsked(PageAsked):
    status: ItemStatus | None = None


class Authorising(Asked):
    files: Count = Field(description="The plan's `remove_count`, as a person has read it.")
    updated_at: AwareDatetime | None = Field(
        None, description="The plan's `updated_at` as it was read: a plan that changed since is refused."
    )


class Which(Asked):
    """Files of the trash, by exactly one of these."""

    items: list[Key] | None = Field(None, min_length=1, max_length=MOST_ITEMS)
    plan: Key | None = None
    folder: tuple[Key, Annotated[str, StringConstraints(max_length=4096)]] | None = Field(
        None, description="A library's id and a folder below it, as `relative_path_raw` writes it."
    )
    older_than_days: Days | None = None
    all: Literal[True] | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Which:
        if len(self.selection()) != 1:
            raise ValueError("say which files by exactly one of items, plan, folder, older_than_days, all")
        return self

    def selection(self) -> dict[str, Any]:
        said = {name: getattr(self, name) for name in ("items", "plan", "folder", "older_than_days", "all")}
        found = {name: value for name, value in said.items() if value is not None}
        if "folder" in found:
            found["folder"] = list(found["folder"])
        return found


class Emptying(Which):
    files: Count = Field(description="How many files that are, as a person has read it.")


# --- Authorising ------------------------------------------------------------------------------------------
@router.post(
    "/plans/{int:plan_id}/authorise",
    response={201: ActOut, **problems(401, 403, 404, 409, 413, 422)},
    summary="Let a plan be carried out",
)
@needs(Role.ADMIN, authorises=True)
def authorise_plan(request: ApiRequest, plan_id: int, asked: Authorising) -> Status[ActOut]:
    """A token needs the right to authorise beside the role admin. 409 says why it is refused."""
    seen = "" if asked.updated_at is None else authorising.version_at(asked.updated_at)
    act = authorising.authorise(plan_id, asked.files, actor=request.auth.name, seen=seen)
    return Status(201, _shown(act))


@router.post(
    "/trash/empty",
    response={201: ActOut, **problems(401, 403, 404, 409, 413, 422)},
    summary="Let files of the trash be removed for good",
)
@needs(Role.ADMIN, authorises=True)
def empty_trash(request: ApiRequest, asked: Emptying) -> Status[ActOut]:
    """A token needs the right to authorise beside the role admin. 409 says why it is refused."""
    act = authorising.authorise_emptying(asked.selection(), asked.files, actor=request.auth.name)
    return Status(201, _shown(act))


@router.post(
    "/trash/undo",
    response={201: ActOut, **problems(401, 403, 404, 409, 413, 422)},
    summary="Bring files back from the trash",
)
@needs(Role.OPERATOR)
def undo_trash(request: ApiRequest, asked: Which) -> Status[ActOut]:
    """Nothing is overwritten: a file whose place is taken stays in the trash."""
    return Status(201, _shown(authorising.ask_undo(asked.selection(), actor=request.auth.name)))


# --- What was authorised ----------------------------------------------------------------------------------
@router.get("/acts", response={200: ActPage, **problems(401, 403, 422)}, summary="List the acts, newest first")
@needs(Role.VIEWER)
def list_acts(request: HttpRequest, asked: Query[ActsAsked]) -> ActPage:
    wanted = {name: getattr(asked, name) for name in ("plan_id", "status", "verb") if getattr(asked, name) is not None}
    page, next_cursor = newest_page(Act.objects.filter(**wanted), asked)
    return ActPage(items=[_shown(act) for act in page], next_cursor=next_cursor)


@router.get("/acts/{int:act_id}", response={200: ActOut, **problems(401, 403, 404)}, summary="Read one act")
@needs(Role.VIEWER)
def get_act(request: HttpRequest, act_id: int) -> ActOut:
    return _shown(authorising.find(act_id))


@router.post(
    "/acts/{int:act_id}/stop",
    response={200: ActOut, **problems(401, 403, 404, 409)},
    summary="Stop an act before it begins, or cancel it between two files",
)
@needs(Role.ADMIN)
def stop_act(request: ApiRequest, act_id: int) -> ActOut:
    return _shown(authorising.stop(act_id, actor=request.auth.name))


@router.post(
    "/acts/{int:act_id}/pause",
    response={200: ActOut, **problems(401, 403, 404, 409)},
    summary="Let an act rest after the files in hand",
)
@needs(Role.ADMIN)
def pause_act(request: ApiRequest, act_id: int) -> ActOut:
    return _shown(authorising.pause(act_id, actor=request.auth.name))


@router.post(
    "/acts/{int:act_id}/resume",
    response={200: ActOut, **problems(401, 403, 404, 409)},
    summary="Let a paused act go on",
)
@needs(Role.ADMIN, authorises=True)
def resume_act(request: ApiRequest, act_id: int) -> ActOut:
    """A token needs the right to authorise, as for beginning."""
    return _shown(authorising.resume(act_id, actor=request.auth.name))


# --- Files ------------------------------------------------------------------------------------------------
@router.get(
    "/acts/{int:act_id}/items",
    response={200: ItemPage, **problems(401, 403, 404, 422)},
    summary="List what became of an act's files",
)
@needs(Role.VIEWER)
def list_act_items(request: HttpRequest, act_id: int, asked: Query[ItemsAsked]) -> ItemPage:
    """In the order of the plan; while it runs, as far as it is."""
    rows: QuerySet[TrashItem] = items_of(authorising.find(act_id))
    if asked.status is not None:
        rows = rows.filter(status=asked.status)
    page, after = page_after(rows, key_of(asked.cursor) or 0, asked.limit)
    return ItemPage(items=[_item(item) for item in page], next_cursor=None if after is None else str(after))


@router.get(
    "/trash/items",
    response={200: ItemPage, **problems(401, 403, 422)},
    summary="List what lies in the trash, newest first",
)
@needs(Role.VIEWER)
def list_trash_items(request: HttpRequest, asked: Query[PageAsked]) -> ItemPage:
    rows = TrashItem.objects.filter(status=TrashItem.Status.TRASHED).select_related("plan_file")
    page, next_cursor = newest_page(rows, asked)
    return ItemPage(items=[_item(item) for item in page], next_cursor=next_cursor)


# --- What every one needs ---------------------------------------------------------------------------------
def _shown(act: Act) -> ActOut:
    return ActOut(**{name: getattr(act, name) for name in _COLUMNS}, note=to_display(act.note))


_COLUMNS = (
    "id", "verb", "status", "plan_id", "job_id", "selection", "authorised_by", "authorised_at", "starts_at",
    "is_paused", "file_count", "total_bytes", "done_count", "skipped_count", "bytes_done", "busy_seconds",
    "trashed_count", "trashed_bytes", "space", "proof_sha256", "finished_at",
)  # fmt: skip


def _item(item: TrashItem) -> ItemOut:
    file = item.plan_file
    return ItemOut(
        **{name: getattr(item, name) for name in _ITEM_COLUMNS},
        reason=to_display(item.reason),
        plan_id=file.plan_id,
        action=file.action,
        group_key=group_key(file.hash_algorithm, bytes(file.content_hash)),
        relative_path=to_display(file.relative_path),
        relative_path_raw=file.relative_path,
        size_bytes=item.size_bytes,
        is_stray=item.is_stray,
        trash_folder=to_display(item.trash_folder),
    )


_ITEM_COLUMNS = (
    "id", "act_id", "plan_file_id", "status", "reason_code", "library_id", "acted_at", "left_by_id", "left_at",
    "is_last_copy",
)  # fmt: skip
