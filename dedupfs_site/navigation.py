"""What the frame of every page shows: the rooms, and what runs now."""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext_lazy

from accounts.models import Role, User
from dedupfs_site.running_now import RunningNow


@dataclass(frozen=True)
class Room:
    """A line of the sidebar, or one that it has only while one is `within` another. On narrow screens it is in the
    bottom bar, by its shorter name, or under "More"."""

    label: Any
    icon: str
    view: str
    needs: Role = Role.VIEWER
    within: str = ""
    in_bar: bool = False
    short: Any = ""


HOME = "home"
ROOMS = (
    Room(gettext_lazy("Overview"), "overview", HOME, in_bar=True),
    Room(gettext_lazy("Duplicates"), "duplicates", "duplicates:list", in_bar=True),
    Room(gettext_lazy("Folders"), "folders", "folders:list", within="duplicates:list"),
    Room(gettext_lazy("Keep rules"), "rules", "rules:list", within="duplicates:list"),
    Room(gettext_lazy("Plans & trash"), "plans", "plans:list", in_bar=True, short=gettext_lazy("Plans")),
    Room(gettext_lazy("Trash"), "delete", "trash:list", within="plans:list"),
    Room(gettext_lazy("Libraries"), "libraries", "libraries:list"),
    Room(gettext_lazy("Queue"), "queue", "queue:show", within="libraries:list"),
    Room(gettext_lazy("Jobs"), "jobs", "jobs:list", in_bar=True),
    Room(gettext_lazy("Workers"), "workers", "jobs:workers", within="jobs:list"),
    Room(gettext_lazy("Maintenance"), "maintenance", "maintenance:show"),
    Room(gettext_lazy("Logbook"), "logbook", "logbook:list"),
    Room(gettext_lazy("Settings"), "settings", "settings:show", needs=Role.ADMIN),
    Room(gettext_lazy("People"), "people", "accounts:people", needs=Role.ADMIN, within="settings:show"),
    Room(gettext_lazy("API tokens"), "key", "accounts:tokens", within="settings:show"),
    Room(gettext_lazy("Django admin"), "tables", "admin:index", needs=Role.OPERATOR, within="settings:show"),
)


@dataclass(frozen=True)
class Line:
    """A room as one page shows it."""

    label: str
    short: str
    icon: str
    address: str
    is_in_bar: bool
    is_current: bool
    #: Below another room; that has to be open for it to be in the sidebar.
    is_inner: bool
    is_in_sidebar: bool
    #: Whether one is in it or in one of its inner rooms.
    is_open: bool


def frame(request: HttpRequest) -> dict[str, Any]:
    """The context of every page. A stranger's page has no rooms."""
    user = getattr(request, "user", None)
    rooms = _rooms(user, request.path) if isinstance(user, User) else []
    return {
        "rooms": rooms,
        "is_in_more": any(room.is_current and not room.is_in_bar for room in rooms),
        "running_now": RunningNow(request),
    }


def _rooms(user: User, path: str) -> list[Line]:
    allowed = [(room, reverse(room.view)) for room in ROOMS if user.may(room.needs)]
    # Of nested addresses the longest one is where we are: /jobs/workers/ is not /jobs/. Everything is below home.
    found = [(len(at), room) for room, at in allowed if path == at or (room.view != HOME and path.startswith(at))]
    here = max(found, key=itemgetter(0))[1] if found else None
    outer = {room.view for room, _ in allowed if not room.within}
    open_room = here and (here.within if here.within in outer else here.view)
    return [
        Line(
            label=str(room.label),
            short=str(room.short or room.label),
            icon=room.icon,
            address=address,
            is_in_bar=room.in_bar,
            is_current=room is here,
            is_inner=room.within in outer,
            is_in_sidebar=room.within not in outer or room.within == open_room,
            is_open=room.view == open_room,
        )
        for room, address in allowed
    ]
