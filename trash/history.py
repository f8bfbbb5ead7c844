"""What ever happened to a file: every plan that named its path, every act on it, and how each ended, in time order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlencode

from django.db import connections
from django.db.models import Count, F, Func, Q, Value
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from database.routing import POLICY
from duplicates.facts import Place, read_places
from duplicates.models import Action, Plan, PlanFile
from duplicates.plan_words import ACTION_WORDS, library_name
from frame.templatetags.human import count_words
from libraries.models import LibraryFile
from libraries.names import to_display
from trash.models import Act, TrashItem
from trash.path_keys import path_key

__all__ = ["History", "Moment", "address_of", "path_key", "read_history"]

#: Each of these plans is asked by its index whether it names the file; those whose acts touched it are found anyway.
LATEST_PLANS = 1_000
#: More than this has happened to no file; a page stays a page all the same.
MOST_ITEMS = 200
_LATER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Moment:
    """Something that happened, in words, with the look of its state."""

    at: datetime | None
    state: str
    icon: str
    words: str
    #: Why, as the plan or the act said it.
    reason: str = ""
    code: str = ""
    plan_id: int | None = None
    #: The other file that it was about, with the way to its own history.
    other: str = ""
    other_address: str = ""


@dataclass(frozen=True)
class History:
    moments: list[Moment] = field(default_factory=list)
    #: Where it lies in the trash now, so that it can be undone.
    in_trash: TrashItem | None = None
    #: What the index knows of that path.
    indexed: LibraryFile | None = None


def address_of(library_id: int, path: str) -> str:
    """`path` as the index stores it; the address holds it to the last byte."""
    return f"{reverse('trash:history')}?{urlencode({'library': library_id, 'path': path})}"


def read_history(library_id: int, path: str) -> History:
    """In a fixed number of queries, each by an index."""
    indexed = _indexed(library_id, path)
    items = _items(library_id, path)
    files = _plan_files(library_id, path, items, indexed)
    places = read_places()
    moments = [moment for item in items for moment in _of_item(item)]
    moments += [moment for each in files for moment in _of_plan(each, places)]
    moments += list(_unreached(files, items))
    # What was only now and has no time of its own comes last.
    moments.sort(key=lambda moment: moment.at or _LATER)
    in_trash = next((item for item in items if item.status == TrashItem.Status.TRASHED), None)
    return History(moments, in_trash, indexed)


# --- Reading ----------------------------------------------------------------------------------------------
def _indexed(library_id: int, path: str) -> LibraryFile | None:
    rows = LibraryFile.objects.filter(library_id=library_id, relative_path=path)
    if connections[POLICY].vendor == "postgresql":
        # Paths are too long for its index, which has their digests (`libraries.objects`).
        rows = rows.alias(digest=Func(F("relative_path"), function="dedupfs_path_digest"))
        rows = rows.filter(digest=Func(Value(path), function="dedupfs_path_digest"))
    return rows.order_by().first()


def _items(library_id: int, path: str) -> list[TrashItem]:
    rows = TrashItem.objects.filter(library_id=library_id, path_key=path_key(path))
    found = rows.select_related("act", "left_by", "plan_file").order_by("-pk")[:MOST_ITEMS]
    # Two paths with one key are next to impossible, and would be told apart here.
    return [item for item in found if item.plan_file.relative_path == path]


def _plan_files(library_id: int, path: str, items: Sequence[TrashItem], indexed: LibraryFile | None) -> list[PlanFile]:
    known = {item.plan_file.file_id for item in items} | ({indexed.pk} if indexed else set())
    keys = {item.plan_file_id for item in items}
    if known:
        latest = list(Plan.objects.order_by("-pk").values_list("pk", flat=True)[:LATEST_PLANS])
        keys |= set(PlanFile.objects.filter(plan_id__in=latest, file_id__in=known).values_list("pk", flat=True))
    rows = PlanFile.objects.filter(pk__in=keys, library_id=library_id, relative_path=path)
    goes_for_it = Count("victims", filter=Q(victims__is_out=False))
    return list(rows.select_related("plan", "keeper").annotate(victim_count=goes_for_it).order_by("pk"))


# --- In words ---------------------------------------------------------------------------------------------
def _of_plan(file: PlanFile, places: dict[int, Place]) -> Iterator[Moment]:
    plan, words = file.plan, {"plan": file.plan_id, "by": file.plan.created_by or _("somebody")}
    if file.role == PlanFile.Role.KEEP:
        count = file.victim_count  # type: ignore[attr-defined]
        told = ngettext(
            "Plan %(plan)s by %(by)s: it stays, and %(count)s copy goes.",
            "Plan %(plan)s by %(by)s: it stays, and %(count)s copies go.",
            count,
        )
        yield Moment(
            plan.created_at, "ok", "done", told % {**words, "count": count_words(count)}, file.reason, plan_id=plan.pk
        )
        return
    if file.is_out:
        told, state = _("Plan %(plan)s by %(by)s: it would have gone, and was taken out by hand.") % words, "quiet"
    else:
        told = _("Plan %(plan)s by %(by)s: it goes (%(action)s).") % {**words, "action": _action(file)}
        state = "attention"
    keeper = file.keeper
    other = f"{library_name(keeper.library_id, places)}: {to_display(keeper.relative_path)}" if keeper else ""
    address = address_of(keeper.library_id, keeper.relative_path) if keeper else ""
    yield Moment(
        plan.created_at, state, "plans", told, file.reason, plan_id=plan.pk, other=other, other_address=address
    )


def _action(file: PlanFile) -> str:
    return str(ACTION_WORDS.get(file.action or "", file.action)).lower()


def _of_item(item: TrashItem) -> Iterator[Moment]:
    act = item.act
    yield _authorised(act)
    yield _outcome(item)
    if item.left_by is not None:
        yield from _left(item, item.left_by)
    elif item.status == TrashItem.Status.UNDONE:
        words = _("Put back where it was, by the manifest that lay beside it.")
        yield Moment(item.left_at, "ok", "again", words, item.reason, item.reason_code)
    elif item.status == TrashItem.Status.TRASHED and item.reason:
        yield Moment(None, "attention", "attention", _("It stays in the trash."), item.reason, item.reason_code)


def _authorised(act: Act) -> Moment:
    words = _("Plan %(plan)s was authorised by %(by)s.") % {"plan": act.plan_id, "by": act.authorised_by}
    return Moment(act.authorised_at, "quiet", "user", words)


def _outcome(item: TrashItem) -> Moment:
    """What carrying out the plan did to it. A file that left the trash again was in it first."""
    at = item.acted_at or item.act.finished_at or item.act.authorised_at
    if item.status == TrashItem.Status.SKIPPED:
        words = _("Left as it was: it could not be proved, or may not be touched.")
        return Moment(at, "quiet", "cancelled", words, item.reason, item.reason_code)
    if item.status == TrashItem.Status.DELETED:
        return Moment(at, "danger", "delete", _("Deleted for good."))
    if item.status == TrashItem.Status.INTENDED:
        words = _("About to be acted on. If that was cut off, the next run finds out what became of it.")
        return Moment(at, "running", "running", words)
    if item.is_stray:
        words = _("Another version of it, saved in the last moment, came into the trash and could not go back.")
    elif item.plan_file.action == Action.HARDLINK:
        words = _("Replaced by a link to the file that stays; its own bytes went to the trash.")
    else:
        words = _("Moved to the trash.")
    return Moment(at, "attention", "delete", words)


def _left(item: TrashItem, act: Act) -> Iterator[Moment]:
    """Undoing or emptying: who asked, and what came of it."""
    is_undo = act.verb == Act.Verb.UNDO
    asked = _("Undoing was asked for by %(by)s.") if is_undo else _("Emptying was authorised by %(by)s.")
    yield Moment(act.authorised_at, "quiet", "user", asked % {"by": act.authorised_by})
    at = item.left_at or act.finished_at
    if item.status == TrashItem.Status.UNDONE:
        yield Moment(at, "ok", "again", _("Put back where it was."), item.reason, item.reason_code)
    elif item.status == TrashItem.Status.EMPTIED and item.reason_code:
        words = _("It was not in the trash any more when it was to be emptied.")
        yield Moment(at, "attention", "attention", words, item.reason, item.reason_code)
    elif item.status == TrashItem.Status.EMPTIED:
        yield Moment(at, "danger", "delete", _("Removed from the trash for good."))
    elif item.status == TrashItem.Status.TRASHED:
        words = _("It could not be put back and stays in the trash.") if is_undo else _("It stays in the trash.")
        yield Moment(at, "attention", "attention", words, item.reason, item.reason_code)
    else:
        words = _("It is being put back.") if is_undo else _("It is being removed for good.")
        yield Moment(None, "running", "running", words)


def _unreached(files: Sequence[PlanFile], items: Sequence[TrashItem]) -> Iterator[Moment]:
    """Acts that were authorised for a plan in which it goes, and did not come to it, or have not yet."""
    going = {file.plan_id for file in files if file.role == PlanFile.Role.REMOVE and not file.is_out}
    met = {item.act_id for item in items}
    for act in Act.objects.filter(plan_id__in=going, verb=Act.Verb.ACT).exclude(pk__in=met):
        yield _authorised(act)
        if not act.is_living:
            words = _("It ended before it came to this file.")
            yield Moment(act.finished_at, "quiet", "cancelled", words, act.note)
