"""What the page of the first steps shows: how far the newest library is, and the first groups. Read in a fixed number
of statements; nothing here touches a library's disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from dedupfs_site.first_run import is_demo
from duplicates import listing
from duplicates.listing import Filter
from duplicates.showing import ShownGroup, as_shown
from jobs.models import WorkerHeartbeat
from libraries import queueing
from libraries.models import LibraryRoot, ScanSession
from libraries.showing import ShownLibrary, ShownSlot, read_hash_state, read_libraries, read_slot

FIRST_GROUPS = 5
#: A page shows what is counted by then; the rest is counted by whoever comes next.
PATIENCE_SECONDS = 1.0


@dataclass(frozen=True)
class Step:
    """One of the four. `state` is "done", "now" or "later"."""

    label: Promise
    state: str


@dataclass(frozen=True)
class Hint:
    """One of the tour; `view` is where it leads."""

    title: Promise
    words: Promise
    view: str
    label: Promise


HINTS = (
    Hint(
        gettext_lazy("A group is one content"),
        gettext_lazy(
            "Its files are listed together because every byte of them was read and is the same. Names and dates do not "
            "count. Open a group to see its copies side by side."
        ),
        "duplicates:list",
        gettext_lazy("See all groups"),
    ),
    Hint(
        gettext_lazy("Rules say which copy stays"),
        gettext_lazy(
            "Write them once: prefer this library, the shorter path, the older file. For every copy that would go they "
            "tell why. The last copy of anything always stays."
        ),
        "rules:list",
        gettext_lazy("Look at the keep rules"),
    ),
    Hint(
        gettext_lazy("A plan comes before anything happens"),
        gettext_lazy(
            "It lists every file that stays and every file that goes. Nothing is touched until an admin has read and "
            "authorised it; each file is proved again first, and what is moved to the trash can be put back."
        ),
        "plans:list",
        gettext_lazy("Go to the plans"),
    ),
)


@dataclass(frozen=True)
class Progress:
    """How far the library that the page is about has come."""

    row: ShownLibrary
    slot: ShownSlot | None
    last_scan: ScanSession | None
    hash_waits: bool
    is_hash_paused: bool

    @property
    def is_hashing(self) -> bool:
        return self.slot is not None and not self.slot.is_scan

    @property
    def phase(self) -> str:
        """What is being done about it, or came of it."""
        if self.row.scan is not None:
            return "scan"
        if self.row.request is not None:
            return "wait"
        if self.is_hashing or self.hash_waits:
            return "hash"
        if self.last_scan is not None and self.last_scan.status == ScanSession.Status.FAILED:
            return "failed"
        return "done" if self.is_scanned else "idle"

    @property
    def is_scanned(self) -> bool:
        return self.row.library.last_scanned_at is not None

    @property
    def is_live(self) -> bool:
        return self.phase in ("scan", "wait", "hash")


def read_steps() -> dict[str, Any]:
    """All that can change while the page is open."""
    rows = read_libraries(LibraryRoot.objects.kept())
    demo = next((row for row in rows if is_demo(row.library)), None)
    own = max((row for row in rows if row is not demo), key=lambda row: row.library.pk, default=None)
    hostnames = dict(WorkerHeartbeat.objects.alive().values_list("worker_id", "hostname"))
    progress = _progress(own or demo, hostnames)
    page = listing.page(Filter(), "reclaimable", None, FIRST_GROUPS, seconds=PATIENCE_SECONDS)
    groups = as_shown(page.groups)
    # A demo that nobody has scanned is no step that was taken.
    is_begun = progress is not None and (own is not None or progress.is_live or progress.is_scanned)
    return {
        "own": own,
        "demo": demo,
        "progress": progress if is_begun else None,
        "steps": _steps(progress if is_begun else None, groups),
        "groups": groups,
        "has_more": page.next_cursor is not None,
        "won_bytes": sum(row.group.reclaimable_bytes for row in groups),
        "has_consumer": bool(hostnames),
        "is_live": progress is not None and progress.is_live,
    }


def _progress(row: ShownLibrary | None, hostnames: dict[str, str]) -> Progress | None:
    if row is None:
        return None
    last_scan = ScanSession.objects.filter(library=row.library).order_by("-id").first()
    is_paused = read_hash_state().is_paused
    return Progress(row, read_slot(hostnames), last_scan, queueing.hashing_waits(), is_paused)


def _steps(progress: Progress | None, groups: list[ShownGroup]) -> list[Step]:
    labels = (
        gettext_lazy("Choose a folder"),
        gettext_lazy("Scan it"),
        gettext_lazy("Read what may be the same"),
        gettext_lazy("First duplicates"),
    )
    phase = "" if progress is None else progress.phase
    found = "done" if groups else "later"
    states = {
        "": ["now", "later", "later", "later"],
        "hash": ["done", "done", "now", found],
        "done": ["done", "done", "done", "done"],
    }.get(phase, ["done", "now", "later", found])
    return [Step(label, state) for label, state in zip(labels, states, strict=True)]
