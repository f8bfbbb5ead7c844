"""What people change in a plan that is ready: take files or folders out, put them back, swap a keeper, discard it.

Each verb writes rows, totals, folders, warnings and a logbook event in one transaction, under the plan's row lock. What
may never be, the database refuses by itself (`duplicates.objects`); here it is refused in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from django.db import transaction
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from database.routing import POLICY
from duplicates import plan_folders, plan_storing, plan_warnings
from duplicates.facts import Digest, Place, read_places
from duplicates.models import Plan, PlanFile, PlanFolder
from duplicates.plan_making import young_after_ns
from duplicates.plan_storing import FolderKey, Loss
from jobs import deciding
from jobs.errors import Refused as JobRefused
from jobs.models import Job
from libraries.errors import NotThere, Refused
from libraries.models import LibraryRoot
from libraries.names import to_display
from logbook.models import write_event

DISCARDABLE = tuple(status for status, after in Plan.MOVES.items() if "discarded" in after)
#: Items that one form may name.
MOST_ITEMS = 1_000


# --- Files and folders ------------------------------------------------------------------------------------
def take_out(plan_id: int, item_ids: Sequence[int], *, actor: str) -> None:
    """Let nothing be done to these files; they stay in the list."""
    _set_out(plan_id, item_ids, actor, is_out=True)


def put_back(plan_id: int, item_ids: Sequence[int], *, actor: str) -> None:
    """Let files that were taken out go after all."""
    _set_out(plan_id, item_ids, actor, is_out=False)


def take_folder_out(plan_id: int, folder_id: int, *, actor: str) -> int:
    """Take out every file right inside a folder; return how many."""
    return _set_folder_out(plan_id, folder_id, actor, is_out=True)


def put_folder_back(plan_id: int, folder_id: int, *, actor: str) -> int:
    return _set_folder_out(plan_id, folder_id, actor, is_out=False)


def _set_out(plan_id: int, item_ids: Sequence[int], actor: str, *, is_out: bool) -> None:
    if len(item_ids) > MOST_ITEMS:
        raise Refused(_("That are too many files at once; take out their folder instead."))
    with _changing(plan_id) as plan:
        items = list(PlanFile.objects.filter(plan=plan, pk__in=item_ids).order_by("pk"))
        if len(items) != len(set(item_ids)):
            raise NotThere(_("There is no such file in this plan."))
        if any(item.role != PlanFile.Role.REMOVE for item in items):
            raise Refused(_("This file stays: there is nothing to take out."))
        changed = [item for item in items if item.is_out != is_out]
        _recount(plan, _digests(changed), lambda: _mark(changed, is_out=is_out))
        _tell(plan, "taken_out" if is_out else "put_back", actor, changed)


def _mark(items: list[PlanFile], *, is_out: bool) -> None:
    PlanFile.objects.filter(pk__in=[item.pk for item in items]).update(is_out=is_out)
    _change_folders(items, -1 if is_out else 1)


def _set_folder_out(plan_id: int, folder_id: int, actor: str, *, is_out: bool) -> int:
    with _changing(plan_id) as plan:
        row = PlanFolder.objects.filter(plan=plan, pk=folder_id).first()
        if row is None:
            raise NotThere(_("There is no such folder in this plan."))
        victims = PlanFile.objects.filter(
            plan=plan, library_id=row.library_id, role=PlanFile.Role.REMOVE, folder=row.folder
        )
        changed = victims.filter(is_out=not is_out).update(is_out=is_out)
        going = [] if is_out else list(victims.values_list("size_bytes", flat=True))
        PlanFolder.objects.filter(pk=row.pk).update(remove_count=len(going), remove_bytes=sum(going))
        # A folder may hold files of any number of groups: the whole is counted anew.
        plan_storing.set_totals(plan.pk, plan_storing.totals_of(plan.pk, POLICY), POLICY)
        _warn_anew(plan)
        word = "folder_taken_out" if is_out else "folder_put_back"
        write_event("plans", str(plan.pk), word, actor=actor, folder=to_display(row.folder), files=changed)
    return changed


# --- The keeper -------------------------------------------------------------------------------------------
def swap_keeper(plan_id: int, item_id: int, *, actor: str) -> None:
    """Let a file that would go stay, and the one that it would go for go instead of it."""
    with _changing(plan_id) as plan:
        chosen = PlanFile.objects.filter(plan=plan, pk=item_id).select_related("keeper").first()
        if chosen is None:
            raise NotThere(_("There is no such file in this plan."))
        before = chosen.keeper
        if before is None:
            raise Refused(_("This file stays already."))
        if reason := _why_it_stays(plan, before, read_places()):
            raise Refused(reason)
        _recount(plan, _digests([chosen]), lambda: _swap(plan, chosen, before))
        _tell(plan, "keeper_swapped", actor, [chosen])


def _swap(plan: Plan, chosen: PlanFile, before: PlanFile) -> None:
    """In an order in which every row has its keeper at every moment: the database would refuse any other."""
    if not chosen.is_out:
        _change_folders([chosen], -1)
    stays = _("Chosen by hand instead of %(path)s.") % {"path": to_display(before.relative_path)}
    goes = _("By hand %(path)s was chosen to stay instead.") % {"path": to_display(chosen.relative_path)}
    rows = PlanFile.objects.filter(plan=plan)
    rows.filter(pk=chosen.pk).update(role="keep", keeper=None, action=None, is_out=False, reason=stays)
    rows.filter(keeper=before).update(keeper=chosen)
    rows.filter(pk=before.pk).update(role="remove", keeper=chosen, action=plan.action, reason=goes)
    _change_folders([before], 1)


def _why_it_stays(plan: Plan, item: PlanFile, places: dict[int, Place]) -> str:
    """Why this file may not go, whoever asks; empty where it may."""
    place, words = places.get(item.library_id), {"path": to_display(item.relative_path)}
    if place is None:
        return _("%(path)s stays: its library is not there any more.") % words
    if place.protects(item.relative_path):
        return _("%(path)s stays: it lies in a protected place. Take the other one out instead.") % words
    if place.role == LibraryRoot.Role.BACKUP:
        return _("%(path)s stays: it lies in a backup library. Take the other one out instead.") % words
    if place.is_young(max(item.mtime_ns, item.ctime_ns or 0), young_after_ns(plan)):
        return _("%(path)s stays: it was changed a short time ago and may still be written.") % words
    return ""


# --- The whole --------------------------------------------------------------------------------------------
def discard(plan_id: int, *, actor: str) -> Plan:
    """Give a plan up; one that is still being made stops."""
    plan = find(plan_id)
    with transaction.atomic():
        # First the job, then the plan: its executor locks them in the same order.
        if plan.job_id is not None and plan.status == Plan.Status.PLANNING:
            _cancel(plan.job_id, actor)
        changed = Plan.objects.filter(pk=plan_id, status__in=DISCARDABLE).update(
            status=Plan.Status.DISCARDED, updated_at=Now()
        )
        if not changed:
            raise Refused(_kept_words(find(plan_id)))
        write_event("plans", str(plan_id), "discarded", actor=actor)
    return find(plan_id)


def _kept_words(plan: Plan) -> str:
    """Why it can't be given up."""
    if plan.status == Plan.Status.AUTHORISED:
        return _("This plan is authorised. Stop it first, then discard it.")
    if plan.status == Plan.Status.DONE:
        return _("This plan was carried out: it stays as the record of that.")
    return _("This plan was discarded before.")


def _cancel(job_id: str, actor: str) -> None:
    if Job.objects.filter(pk=job_id, status__in=deciding.CANCELLABLE).exists():
        with suppress(JobRefused):  # it may have ended a moment ago
            deciding.cancel(job_id, actor=actor, reason="its plan was discarded")


def find(plan_id: int) -> Plan:
    plan = Plan.objects.select_related("job").filter(pk=plan_id).first()
    if plan is None:
        raise NotThere(_("There is no such plan."))
    return plan


# --- What every change needs ------------------------------------------------------------------------------
@contextmanager
def _changing(plan_id: int) -> Iterator[Plan]:
    """One change at a time, of a plan that is ready."""
    with transaction.atomic():
        plan = Plan.objects.select_for_update().filter(pk=plan_id).first()
        if plan is None:
            raise NotThere(_("There is no such plan."))
        if plan.status != Plan.Status.READY:
            raise Refused(
                _("Only a plan that is ready can be changed; this one is %(status)s.") % {"status": plan.status}
            )
        yield plan


def _recount(plan: Plan, digests: Sequence[Digest], change: Callable[[], None]) -> None:
    """Change rows of these contents; what they amounted to is exchanged for what they amount to now."""
    before = plan_storing.totals_of(plan.pk, POLICY, digests)
    change()
    after = plan_storing.totals_of(plan.pk, POLICY, digests)
    whole = plan_storing.Totals(
        plan.group_count, plan.keep_count, plan.remove_count, plan.remove_bytes, plan.freed_bytes
    )
    plan_storing.set_totals(plan.pk, whole.plus(before, -1).plus(after), POLICY)
    _warn_anew(plan)


def _warn_anew(plan: Plan) -> None:
    plan.refresh_from_db()
    Plan.objects.filter(pk=plan.pk).update(warnings=plan_warnings.work_out_anew(plan, POLICY))


def _change_folders(items: Iterable[PlanFile], sign: int) -> None:
    for item in items:
        key: FolderKey = (item.library_id, item.folder)
        if not plan_storing.change_folder(item.plan_id, key, sign, sign * item.size_bytes):
            inside = plan_folders.look_into([key], POLICY)[key]
            loss = Loss(sign, sign * item.size_bytes)
            plan_storing.add_folders(item.plan, [(key, loss, inside.files)], POLICY)


def _digests(items: Iterable[PlanFile]) -> list[Digest]:
    return list(dict.fromkeys((item.hash_algorithm, bytes(item.content_hash)) for item in items))


def _tell(plan: Plan, word: str, actor: str, items: list[PlanFile]) -> None:
    about: dict[str, Any] = {"files": len(items)}
    if items:
        about["first"] = to_display(items[0].relative_path)
    write_event("plans", str(plan.pk), word, actor=actor, **about)
