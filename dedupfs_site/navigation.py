"""What the frame of every page shows: the rooms, and what runs now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext_lazy

from accounts.models import Role, User
from dedupfs_site.running_now import RunningNow


@dataclass(frozen=True)
class Room:
    """A line of the sidebar. On narrow screens it is in the bottom bar or under "More"."""

    label: Any
    icon: str
    view: str
    needs: Role = Role.VIEWER
    in_bar: bool = False


HOME = "home"
ROOMS = (
    Room(gettext_lazy("Overview"), "overview", HOME, in_bar=True),
    Room(gettext_lazy("Duplicates"), "duplicates", "duplicates:list", in_bar=True),
    Room(gettext_lazy("Folders"), "folders", "folders:list"),
    Room(gettext_lazy("Keep rules"), "rules", "rules:list"),
    Room(gettext_lazy("Plans"), "plans", "plans:list", in_bar=True),
    Room(gettext_lazy("Trash"), "delete", "trash:list"),
    Room(gettext_lazy("Libraries"), "libraries", "libraries:list"),
    Room(gettext_lazy("Queue"), "queue", "queue:show"),
    Room(gettext_lazy("Jobs"), "jobs", "jobs:list", in_bar=True),
    Room(gettext_lazy("Workers"), "workers", "jobs:workers"),
    Room(gettext_lazy("Maintenance"), "maintenance", "maintenance:show"),
    Room(gettext_lazy("Logbook"), "logbook", "logbook:list"),
    Room(gettext_lazy("API tokens"), "key", "accounts:tokens"),
    Room(gettext_lazy("People"), "people", "accounts:people", needs=Role.ADMIN),
    Room(gettext_lazy("Settings"), "settings", "settings:show", needs=Role.ADMIN),
    Room(gettext_lazy("Django admin"), "tables", "admin:index", needs=Role.OPERATOR),
)


@dataclass(frozen=True)
class Line:
    """A room as one page shows it."""

    label: str
    icon: str
    address: str
    is_in_bar: bool
    is_current: bool


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
    found = [
        address for room, address in allowed if path == address or (room.view != HOME and path.startswith(address))
    ]
    here = max(found, key=len, default="")
    return [Line(str(room.label), room.icon, address, room.in_bar, address == here) for room, address in allowed]
