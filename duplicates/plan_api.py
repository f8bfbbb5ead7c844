"""Plans over HTTP: make one, read it, read its files."""

# Ninja gives every operation its request, needed or not.
# ruff: noqa: ARG001

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from ninja.errors import HttpError
from pydantic import ConfigDict, Field, StringConstraints

from accounts.guarding import ApiRequest, needs
from accounts.models import Role
from duplicates import planning
from duplicates.choosing import LastCopy
from duplicates.models import Action, Plan, PlanFile, RuleSet, group_key
from duplicates.plan_words import described
from jobs.api import Asked, problems
from jobs.api_paging import PageAsked, key_of, newest_page
from libraries.names import to_display

router = Router(tags=["plans"])


class WarningOut(Schema):
    """What a person should know before anything is done, in figures and in words."""

    model_config = ConfigDict(extra="allow")

    code: str
    words: str


class PlanOut(Schema):
    """A plan and what it amounts to, less what a person took out."""

    id: int
    status: Plan.Status
    job_id: str | None
    job_status: str | None
    progress: float | None = Field(description="Of the planning, 0 to 1.")
    error_message: str | None
    action: Action
    rule_set: str
    rules: list[dict[str, Any]]
    filter: str
    group_keys: list[str]
    removes_empty_folders: bool
    links_despite_metadata: bool
    created_by: str
    created_at: datetime
    updated_at: datetime
    group_count: int
    keep_count: int
    remove_count: int
    remove_bytes: int
    freed_bytes: int = Field(description="What would really come back: hard links of files that stay free nothing.")
    untouched_count: int
    left_out: dict[str, int]
    warnings: list[WarningOut]


class PlanPage(Schema):
    items: list[PlanOut]
    next_cursor: str | None = Field(description="`cursor` for the next page; null on the last one.")


class PlanFileOut(Schema):
    """One file of a plan, as it was when the plan was made."""

    id: int
    group_key: str
    role: PlanFile.Role
    action: Action | None
    taken_out: bool
    file_id: int
    library_id: int
    relative_path: str = Field(description="For people: bytes that are no text are written `\\xe9`.")
    relative_path_raw: str = Field(description="As it is stored: such bytes are characters U+F780 to U+F7FF.")
    size_bytes: int
    mtime_ns: int
    inode: int | None
    device: int | None
    nlink: int | None
    keeper_id: int | None = Field(description="The row of this plan that stays, for one that goes.")
    reason: str


class PlanFilePage(Schema):
    items: list[PlanFileOut]
    next_cursor: str | None = Field(description="`cursor` for the next page; null on the last one.")


class FilesAsked(PageAsked):
    role: PlanFile.Role | None = None


Key = Annotated[str, StringConstraints(max_length=200)]


class NewPlan(Asked):
    """Rules by the name of their set or as they are, or choices by hand, or both."""

    action: Action = Action.TRASH
    rule_set: Annotated[str, StringConstraints(max_length=100)] = ""
    rules: list[dict[str, Any]] = Field(default_factory=list, max_length=100)
    filter: str = Field("", description="Which groups: a query string as the list of groups has it.", max_length=16384)
    group_keys: list[Key] = Field(default_factory=list, max_length=planning.MOST_KEYS)
    choices: dict[str, Literal["keep", "remove"]] = Field(
        default_factory=dict, description="By hand: a file's id → keep or remove.", max_length=planning.MOST_CHOICES
    )
    removes_empty_folders: bool = Field(False, description="Folders that are empty afterwards go as well.")
    links_despite_metadata: bool = Field(
        False,
        description="With `hardlink`: also where owner, mode or attributes differ; those of the copy are lost.",
    )


def _find(plan_id: int) -> Plan:
    plan = Plan.objects.select_related("job").filter(pk=plan_id).first()
    if plan is None:
        raise HttpError(404, f"There is no plan {plan_id}.")
    return plan


def _shown(plan: Plan) -> PlanOut:
    columns = {name: getattr(plan, name) for name in _COLUMNS}
    job = plan.job
    return PlanOut(
        **columns,
        rule_set=plan.rule_set_name,
        job_status=job.status if job else None,
        progress=job.progress if job else None,
        error_message=job.error_message if job else None,
        warnings=[WarningOut(**{**each, "words": _words(each)}) for each in plan.warnings],
    )


def _words(warning: dict[str, Any]) -> str:
    found = described(warning)
    return f"{found.title}. {found.text}".strip() if found else ""


_COLUMNS = (
    "id", "status", "job_id", "action", "rules", "filter", "group_keys", "removes_empty_folders",
    "links_despite_metadata", "created_by", "created_at", "updated_at",
    "group_count", "keep_count", "remove_count", "remove_bytes", "freed_bytes", "untouched_count", "left_out",
)  # fmt: skip


@router.get("", response={200: PlanPage, **problems(401, 403, 422)}, summary="List the plans, newest first")
@needs(Role.VIEWER)
def list_plans(request: HttpRequest, asked: Query[PageAsked]) -> PlanPage:
    page, next_cursor = newest_page(Plan.objects.select_related("job"), asked)
    return PlanPage(items=[_shown(plan) for plan in page], next_cursor=next_cursor)


@router.post("", response={201: PlanOut, **problems(401, 403, 404, 409, 413, 422)}, summary="Make a plan")
@needs(Role.OPERATOR)
def make_plan(request: ApiRequest, asked: NewPlan) -> Status[PlanOut]:
    """It is made in the background, by a dry run; no file is touched. 409 says what of it can't be used."""
    if asked.rule_set and asked.rules:
        raise HttpError(422, "Name a rule set or write rules, not both.")
    rules, name = asked.rules, ""
    if asked.rule_set:
        found = RuleSet.objects.filter(name=asked.rule_set).first()
        if found is None:
            raise HttpError(404, f"There is no rule set {asked.rule_set!r}.")
        rules, name = found.rules, found.name
    try:
        plan = planning.make_plan(
            actor=request.auth.name,
            action=asked.action,
            rules=rules,
            rule_set_name=name,
            filter=asked.filter,
            group_keys=asked.group_keys,
            choices=asked.choices,
            removes_empty_folders=asked.removes_empty_folders,
            links_despite_metadata=asked.links_despite_metadata,
        )
    except LastCopy as refusal:
        raise HttpError(422, f"choices: {refusal}") from None
    return Status(201, _shown(_find(plan.pk)))


@router.get("/{int:plan_id}", response={200: PlanOut, **problems(401, 403, 404)}, summary="Read one plan")
@needs(Role.VIEWER)
def get_plan(request: HttpRequest, plan_id: int) -> PlanOut:
    return _shown(_find(plan_id))


@router.get(
    "/{int:plan_id}/files",
    response={200: PlanFilePage, **problems(401, 403, 404, 422)},
    summary="List a plan's files",
)
@needs(Role.VIEWER)
def list_plan_files(request: HttpRequest, plan_id: int, asked: Query[FilesAsked]) -> PlanFilePage:
    """Files of one content stand together. While the plan is made, as far as it is."""
    rows = PlanFile.objects.filter(plan=_find(plan_id), pk__gt=key_of(asked.cursor) or 0).order_by("pk")
    if asked.role is not None:
        rows = rows.filter(role=asked.role)
    found = list(rows[: asked.limit + 1])
    page = found[: asked.limit]
    return PlanFilePage(
        items=[_file(item) for item in page], next_cursor=str(page[-1].pk) if len(found) > asked.limit else None
    )


def _file(item: PlanFile) -> PlanFileOut:
    columns = {name: getattr(item, name) for name in _FILE_COLUMNS}
    return PlanFileOut(
        **columns,
        group_key=group_key(item.hash_algorithm, bytes(item.content_hash)),
        taken_out=item.is_out,
        relative_path=to_display(item.relative_path),
        relative_path_raw=item.relative_path,
        reason=to_display(item.reason),
    )


_FILE_COLUMNS = (
    "id", "role", "action", "file_id", "library_id", "size_bytes", "mtime_ns", "inode", "device", "nlink", "keeper_id",
)  # fmt: skip
