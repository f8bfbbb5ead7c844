"""What lies in a trash, as far as the database is concerned: plans that were carried out, without a file anywhere."""

from __future__ import annotations

from typing import Any

from django.db.models.functions import Now

from database.clock import SecondsFromNow
from duplicates.models import Action, Plan, PlanFile
from libraries.models import LibraryFile
from trash.models import Act, TrashItem
from trash.path_keys import path_key

DAY = 86_400


def carried_out(plan: Plan, *, actor: str = "ada", days_ago: int = 0, **fields: Any) -> Act:
    """Everything that goes by the plan lies in the trash now; `fields` are those of the act."""
    files = list(PlanFile.objects.filter(plan=plan, role="remove", is_out=False).order_by("pk"))
    begin(plan)
    size = sum(file.size_bytes for file in files)
    then = SecondsFromNow(-days_ago * DAY)
    act = Act.objects.create(
        plan=plan,
        authorised_by=actor,
        status="running",
        authorised_at=then,
        file_count=len(files),
        total_bytes=size,
        done_count=len(files),
        bytes_done=size,
        trashed_count=len(files),
        trashed_bytes=size,
        **fields,
    )
    TrashItem.objects.bulk_create([
        TrashItem(
            act=act,
            plan_file=file,
            status="trashed",
            library_id=file.library_id,
            path_key=path_key(file.relative_path),
            acted_at=then,
        )
        for file in files
    ])  # fmt: skip
    moved = [file.file_id for file in files if file.action != Action.HARDLINK]
    LibraryFile.objects.filter(pk__in=moved).update(is_missing=True)
    Act.objects.filter(pk=act.pk).update(status="completed", finished_at=then)
    Plan.objects.filter(pk=plan.pk).update(status="done")
    act.refresh_from_db()
    return act


def begin(plan: Plan) -> None:
    Plan.objects.filter(pk=plan.pk).update(status="authorised")


def item_at(path: str) -> TrashItem:
    return TrashItem.objects.select_related("plan_file", "act").get(plan_file__relative_path=path)


def left(item: TrashItem, verb: str = "undo", *, actor: str = "otto") -> Act:
    """It left the trash: put back, or removed for good."""
    act = Act.objects.create(
        verb=verb, selection={"items": [item.pk]}, authorised_by=actor, status="running", file_count=1, done_count=1
    )
    through, end = ("undoing", "undone") if verb == "undo" else ("emptying", "emptied")
    rows = TrashItem.objects.filter(pk=item.pk)
    rows.update(status=through, left_by=act)
    rows.update(status=end, left_at=Now())
    Act.objects.filter(pk=act.pk).update(status="completed", finished_at=Now())
    if verb == "undo":
        LibraryFile.objects.filter(pk=item.plan_file.file_id).update(is_missing=False)
    act.refresh_from_db()
    return act


def stayed(item: TrashItem, code: str, reason: str, verb: str = "undo", *, actor: str = "otto") -> Act:
    """It was to leave and could not."""
    act = Act.objects.create(
        verb=verb, selection={"items": [item.pk]}, authorised_by=actor, status="running", file_count=1, skipped_count=1
    )
    rows = TrashItem.objects.filter(pk=item.pk)
    rows.update(status="undoing" if verb == "undo" else "emptying", left_by=act)
    rows.update(status="trashed", reason_code=code, reason=reason, is_last_copy=code == "LAST_COPY")
    Act.objects.filter(pk=act.pk).update(status="completed", finished_at=Now())
    act.refresh_from_db()
    return act
