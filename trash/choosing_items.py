"""Which files of the trash: a selection is a small JSON object with exactly one key, kept with the act it was made for.

{"items": [7, 8]}             these
{"plan": 12}                  what a plan put there
{"folder": [3, "2019/a"]}     what came from that folder of a library, and from below it ("" is all of it)
{"older_than_days": 30}       what has lain there for so long
{"all": true}                 everything
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import Left
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from database.clock import SecondsFromNow
from database.routing import POLICY
from libraries.errors import Refused
from libraries.names import PATH_CHARACTERS, to_display
from trash.models import TrashItem

#: More than a person marks; whoever means more names a plan, a folder, or everything.
MOST_ITEMS = 10_000
MOST_DAYS = 36_500
LARGEST = 2**63 - 1
_DAY_SECONDS = 86_400


class Standing(NamedTuple):
    """How the chosen files stand."""

    #: In a trash.
    files: int
    size_bytes: int
    #: Just being moved, put back or removed: whoever does it may yet leave them in the trash.
    in_hand: int


def checked(selection: Any) -> dict[str, Any]:
    """The selection in its one written form. Raises `Refused` with what is wrong."""
    if not isinstance(selection, Mapping) or len(selection) != 1 or next(iter(selection)) not in _CHECKS:
        known = ", ".join(sorted(_CHECKS))
        raise Refused(_("Say which files of the trash are meant, by exactly one of: %(known)s.") % {"known": known})
    ((name, value),) = selection.items()
    return {name: _CHECKS[name](value)}


def lying(selection: Mapping[str, Any], using: str = POLICY) -> QuerySet[TrashItem]:
    """The chosen files that are in a trash now, and that nobody takes out at this moment."""
    return chosen(selection, using).filter(status=TrashItem.Status.TRASHED)


def chosen(selection: Mapping[str, Any], using: str = POLICY) -> QuerySet[TrashItem]:
    """Every row the selection means, whatever became of it."""
    ((name, value),) = checked(selection).items()
    return _FILTERS[name](TrashItem.objects.using(using), value)


def figures(rows: QuerySet[TrashItem]) -> tuple[int, int]:
    """How many files, and how many bytes they have."""
    found = rows.aggregate(files=Count("pk"), size=Sum("plan_file__size_bytes"))
    return int(found["files"]), int(found["size"] or 0)


def standing(selection: Mapping[str, Any], using: str = POLICY) -> Standing:
    """In one look: by two a file that comes back to the trash in between would be in neither."""
    lies, in_hand = Q(status=TrashItem.Status.TRASHED), Q(status__in=TrashItem.OPEN)
    found = (
        chosen(selection, using)
        .filter(lies | in_hand)
        .aggregate(
            files=Count("pk", filter=lies),
            size=Sum("plan_file__size_bytes", filter=lies),
            in_hand=Count("pk", filter=in_hand),
        )
    )
    return Standing(int(found["files"]), int(found["size"] or 0), int(found["in_hand"]))


def deleted_for_good(selection: Mapping[str, Any], using: str = POLICY) -> int:
    """How many of the chosen can never come back: removed for good, or emptied. Not what somebody had taken out."""
    gone = Q(status=TrashItem.Status.DELETED) | Q(status=TrashItem.Status.EMPTIED, reason_code="")
    return chosen(selection, using).filter(gone).count()


def described(selection: Mapping[str, Any]) -> str:
    """In words, for pages and the command line."""
    ((name, value),) = checked(selection).items()
    if name == "items":
        count = len(value)
        return ngettext("%(count)s chosen file", "%(count)s chosen files", count) % {"count": f"{count:,}"}
    if name == "plan":
        return _("the files of plan %(plan)s") % {"plan": value}
    if name == "folder":
        return _("the files from %(folder)s") % {"folder": to_display(value[1]) or _("the whole library")}
    if name == "older_than_days":
        return ngettext(
            "what has been in the trash for more than %(count)s day",
            "what has been in the trash for more than %(count)s days",
            value,
        ) % {"count": f"{value:,}"}
    return _("everything in the trash")


# --- What may stand there -----------------------------------------------------------------------------------
def _is_key(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= LARGEST


def _items(value: Any) -> list[int]:
    if not isinstance(value, list) or not value or not all(map(_is_key, value)):
        raise Refused(_("Files of the trash are chosen by their numbers, and at least one of them."))
    if len(value) > MOST_ITEMS:
        raise Refused(
            _("Choose at most %(most)s files, or a plan, a folder, or everything.") % {"most": f"{MOST_ITEMS:,}"}
        )
    return sorted(set(value))


def _plan(value: Any) -> int:
    if not _is_key(value):
        raise Refused(_("A plan is chosen by its number."))
    return int(value)


def _folder(value: Any) -> list[Any]:
    if not isinstance(value, (list, tuple)) or len(value) != 2 or not _is_key(value[0]):
        raise Refused(_("A folder is chosen by its library's number and its path below that library."))
    library, folder = value
    if not isinstance(folder, str) or len(folder) > PATH_CHARACTERS or "\0" in folder:
        raise Refused(_("A folder is a path below its library, as it is listed."))
    steps = [step for step in folder.split("/") if step]
    if any(step in (".", "..") for step in steps):
        raise Refused(_("Write the folder without “..”."))
    return [library, "/".join(steps)]


def _days(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_DAYS:
        raise Refused(_("Say after how many days, as a whole number."))
    return value


def _all(value: Any) -> bool:
    if value is not True:
        raise Refused(_("Say “all”: true, or which files are meant."))
    return True


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "items": _items,
    "plan": _plan,
    "folder": _folder,
    "older_than_days": _days,
    "all": _all,
}


# --- What is meant ------------------------------------------------------------------------------------------
def _of_folder(rows: QuerySet[TrashItem], value: list[Any]) -> QuerySet[TrashItem]:
    library, folder = value
    rows = rows.filter(library_id=library)
    if not folder:
        return rows
    # No LIKE: SQLite's takes upper and lower case for the same.
    rows = rows.alias(head=Left("plan_file__folder", len(folder) + 1))
    return rows.filter(Q(plan_file__folder=folder) | Q(head=f"{folder}/"))


_FILTERS: dict[str, Callable[[QuerySet[TrashItem], Any], QuerySet[TrashItem]]] = {
    "items": lambda rows, value: rows.filter(pk__in=value),
    "plan": lambda rows, value: rows.filter(act__plan_id=value),
    "folder": _of_folder,
    "older_than_days": lambda rows, value: rows.filter(acted_at__lte=SecondsFromNow(-value * _DAY_SECONDS)),
    "all": lambda rows, _value: rows,
}
