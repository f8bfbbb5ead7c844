"""What the frame of every page shows: the rooms, and what runs now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.translation import gettext, gettext_lazy, ngettext

from accounts.models import Role, User
from jobs.models import Job
from jobs.showing import share_of


@dataclass(frozen=True)
class Room:
    """A line of the sidebar. On narrow screens it is in the bottom bar or under "More"."""

    label: Any
    icon: str
    view: str
    needs: Role = Role.VIEWER
    in_bar: bool = False


ROOMS = (
    Room(gettext_lazy("Duplicates"), "duplicates", "duplicates:list", in_bar=True),
    Room(gettext_lazy("Folders"), "folders", "folders:list"),
    Room(gettext_lazy("Keep rules"), "rules", "rules:list"),
    Room(gettext_lazy("Plans"), "plans", "plans:list", in_bar=True),
    Room(gettext_lazy("Libraries"), "libraries", "libraries:list", in_bar=True),
    Room(gettext_lazy("Queue"), "queue", "queue:show"),
    Room(gettext_lazy("Jobs"), "jobs", "jobs:list", in_bar=True),
    Room(gettext_lazy("Workers"), "workers", "jobs:workers"),
    Room(gettext_lazy("Maintenance"), "maintenance", "maintenance:show"),
    Room(gettext_lazy("Logbook"), "logbook", "logbook:list"),
    Room(gettext_lazy("API tokens"), "key", "accounts:tokens"),
    Room(gettext_lazy("People"), "people", "accounts:people", needs=Role.ADMIN),
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


class RunningNow:
    """The pill in the header; it asks the database only on pages that show it."""

    @property
    def address(self) -> str:
        return f"{reverse('jobs:list')}?status={Job.Status.RUNNING}"

    @cached_property
    def _first_two(self) -> list[Job]:
        return list(Job.objects.current().defer("payload")[:2])

    @cached_property
    def count(self) -> int:
        return Job.objects.current().count() if len(self._first_two) > 1 else len(self._first_two)

    @property
    def words(self) -> str:
        if not self.count:
            return gettext("Nothing runs")
        if self.count > 1:
            return ngettext("%(count)s job runs", "%(count)s jobs run", self.count) % {"count": self.count}
        job = self._first_two[0]
        share = share_of(job)
        label = gettext("Plan") if job.kind == Job.Kind.DELETE and job.dry_run else Job.Kind(job.kind).label
        return label if share is None else f"{label} {share // 10} %"


def frame(request: HttpRequest) -> dict[str, Any]:
    """The context of every page. A stranger's page has no rooms."""
    user = getattr(request, "user", None)
    rooms = _rooms(user, request.path) if isinstance(user, User) else []
    return {
        "rooms": rooms,
        "is_in_more": any(room.is_current and not room.is_in_bar for room in rooms),
        "running_now": RunningNow(),
    }


def _rooms(user: User, path: str) -> list[Line]:
    allowed = [(room, reverse(room.view)) for room in ROOMS if user.may(room.needs)]
    # Of nested addresses the longest one is where we are: /jobs/workers/ is not /jobs/.
    here = max((address for _, address in allowed if path.startswith(address)), key=len, default="")
    return [Line(str(room.label), room.icon, address, room.in_bar, address == here) for room, address in allowed]
