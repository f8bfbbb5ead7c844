"""Files of the trash as its page shows them, from the database alone: a page never touches a library's disk."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connections
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from database.routing import POLICY
from duplicates.facts import Place, read_places
from duplicates.models import Action
from duplicates.plan_words import library_name
from duplicates.showing import media_of
from libraries.errors import Refused
from libraries.names import to_display
from libraries.templatetags.names import short
from thumbnails.showing import Picture, pictures
from trash.choosing_items import MOST_ITEMS
from trash.filtering import IS_LAST, TrashFilter
from trash.history import address_of
from trash.models import TrashItem
from trash.searching import Search
from trash.showing import reason_words

#: How long a page may look for what a filter means.
PATIENCE_SECONDS = 1.0
#: Letters of a name where it is only read out.
CALLED_LETTERS = 60
#: The same for a selection that somebody asked for.
SELECTION_SECONDS = 10.0
DONE_WORDS = {
    Action.TRASH: gettext_noop("moved"),
    Action.HARDLINK: gettext_noop("replaced by a link"),
}
LEAVING_WORDS = {
    TrashItem.Status.UNDOING: gettext_noop("being put back"),
    TrashItem.Status.EMPTYING: gettext_noop("being removed for good"),
}


@dataclass(frozen=True)
class ShownTrash:
    """A row of the list."""

    item: TrashItem
    now: datetime
    library: str
    picture: Picture | None
    #: No other copy of its content is known.
    is_last: bool
    #: When `empty_trash` may take it by itself; None where nobody said so.
    until: datetime | None

    @property
    def path(self) -> str:
        return str(self.item.plan_file.relative_path)

    @property
    def whole_path(self) -> str:
        return to_display(self.path)

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def called(self) -> str:
        """A short name, for what is only read out."""
        return short(self.name, CALLED_LETTERS)

    @property
    def key(self) -> str:
        """Its number as addresses and forms have it: no language's commas."""
        return str(self.item.pk)

    @property
    def plan_number(self) -> str:
        return str(self.item.plan_file.plan_id)

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def media(self) -> str:
        return media_of(self.path)

    @property
    def is_link(self) -> bool:
        return self.item.plan_file.action == Action.HARDLINK

    @property
    def done_words(self) -> str:
        return _(DONE_WORDS[Action.HARDLINK if self.is_link else Action.TRASH])

    @property
    def leaving_words(self) -> str:
        """What is done to it at this moment, if anything is."""
        words = LEAVING_WORDS.get(TrashItem.Status(self.item.status))
        return _(words) if words else ""

    @property
    def can_leave(self) -> bool:
        return self.item.status == TrashItem.Status.TRASHED

    @property
    def history_address(self) -> str:
        return address_of(self.item.library_id, self.path)

    @property
    def reason(self) -> str:
        """Why it stays there, where it was to leave."""
        item = self.item
        return to_display(item.reason) or (reason_words(item.reason_code) if item.reason_code else "")

    @property
    def keeper(self) -> str:
        """The path of the file it went for."""
        keeper = self.item.plan_file.keeper
        return to_display(keeper.relative_path) if keeper else ""


@dataclass(frozen=True)
class TrashPage:
    rows: list[ShownTrash]
    next_before: int | None
    is_short: bool


def page(filter: TrashFilter, before: int | None, size: int, empty_after_days: int | None) -> TrashPage:
    """The newest `size` files with a key below `before`."""
    found = Search(filter).find(before, size, time.monotonic() + PATIENCE_SECONDS)
    return TrashPage(_shown(found.keys, empty_after_days), found.next_before, found.is_short)


def selection_of(filter: TrashFilter) -> dict[str, Any]:
    """All that a filter means, as a selection: where there is no word for it, by the numbers of the newest of them."""
    said = filter.selection()
    if said is not None:
        return said
    found = Search(filter).find(None, MOST_ITEMS, time.monotonic() + SELECTION_SECONDS)
    if not found.keys:
        raise Refused(_("Nothing in the trash is like that any more."))
    return {"items": found.keys}


def _shown(keys: Sequence[int], empty_after_days: int | None) -> list[ShownTrash]:
    if not keys:
        return []
    rows = TrashItem.objects.filter(pk__in=keys).select_related("plan_file", "plan_file__keeper").annotate(now=Now())
    items = sorted(rows, key=lambda row: -row.pk)
    places, last, seen = read_places(), _without_copy(keys), _pictures(items)
    return [_row(item, places, item.pk in last, seen.get(item.pk), empty_after_days) for item in items]


def _row(item: Any, places: dict[int, Place], is_last: bool, picture: Picture | None, days: int | None) -> ShownTrash:
    until = item.acted_at + timedelta(days=days) if days and item.acted_at else None
    return ShownTrash(item, item.now, library_name(item.library_id, places), picture, is_last, until)


def _pictures(items: Sequence[TrashItem]) -> dict[int, Picture]:
    """Best of the one that stayed: of a file in the trash none can be made any more."""
    files = {}
    for item in items:
        both = [] if item.is_stray else [item.plan_file.keeper, item.plan_file]
        files[item.pk] = [(each.file_id, each.relative_path) for each in both if each is not None]
    return pictures(files)


def _without_copy(keys: Sequence[int]) -> set[int]:
    marks = ", ".join(["%s"] * len(keys))
    sql = f"SELECT i.id FROM trash_items i JOIN plan_files p ON p.id = i.plan_file_id WHERE i.id IN ({marks})"
    with connections[POLICY].cursor() as cursor:
        cursor.execute(f"{sql} AND {IS_LAST}", list(keys))
        return {int(key) for (key,) in cursor.fetchall()}
