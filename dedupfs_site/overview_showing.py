"""What the overview shows, read in a fixed number of statements, each over an index, a summary or few rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from django.db.models import Case, Count, Exists, IntegerField, OuterRef, Q, Value, When
from django.db.models.functions import Now
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from accounts.models import User
from database.clock import SecondsFromNow
from dedupfs_site import at_work
from dedupfs_site.daily_charts import Bars, Line, Share, draw_line, last_days, shares, stack
from dedupfs_site.models import DailySample
from dedupfs_site.needs_you import Seen, read_needs
from dedupfs_site.safe_space import SafeSpace, read_safe
from duplicates import listing
from frame.slow_figures import kept_or_counted
from jobs.models import Job, WorkerHeartbeat
from libraries.models import LibraryRoot
from libraries.names import to_display
from libraries.showing import ShownLibrary, read_libraries
from trash import space
from trash.models import Act
from trash.showing import PAUSED, ShownAct

DAYS = 30
#: Libraries that have a piece of the bar of their own; the others share one.
PIECES = 6
MOST_ACTS = 20
#: A figure of a sample is good to begin with for so long.
SAMPLE_SECONDS = 3600
#: How long an open page may wait for what can be won to be added up.
TOTALS_SECONDS = 0.3
#: Outcomes, from the ground of a bar up.
OUTCOMES = ("completed", "cancelled", "failed")


# --- What can be won --------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ToWin:
    """What could come back: counted now, or as it was when it was last counted."""

    bytes: int | None = None
    is_exact: bool = True
    group_count: int = 0
    #: When that was, where it was not now.
    as_of: datetime | None = None
    is_counted: bool = False
    safe: SafeSpace | None = None

    @property
    def is_read(self) -> bool:
        """Whether any library was scanned: before that nothing is known of equal files. Asked only where there are
        none."""
        return LibraryRoot.objects.kept().filter(last_scanned_at__isnull=False).exists()


def count_to_win() -> ToWin:
    totals = listing.totals(listing.Filter(), seconds=TOTALS_SECONDS)
    return ToWin(totals.reclaimable_bytes, totals.is_exact, totals.groups, is_counted=True, safe=read_safe())


def _last_known(samples: Sequence[DailySample], now: datetime) -> ToWin:
    """To begin with: adding up all groups may take a moment, and a page shouldn't wait for it."""
    last = samples[-1] if samples else None
    if last is None or (now - last.updated_at).total_seconds() > SAMPLE_SECONDS:
        return ToWin()
    return ToWin(last.reclaimable_bytes, as_of=last.updated_at)


# --- By library -------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Piece:
    """A library's part of what is indexed; the last one may stand for several."""

    number: int
    name: str
    address: str
    file_count: int
    total_bytes: int
    share: Share


def _pieces(libraries: Sequence[ShownLibrary]) -> tuple[list[Piece], int]:
    """The largest first, and how many libraries the last piece stands for."""
    largest = sorted(libraries, key=lambda row: -row.state.total_bytes)
    named = largest if len(largest) <= PIECES else largest[: PIECES - 1]
    rest = largest[len(named) :]
    rows = [
        (to_display(row.library.name), reverse("libraries:detail", args=[row.library.pk]), [row]) for row in named
    ] + ([("", reverse("libraries:list"), rest)] if rest else [])
    sizes = [sum(row.state.total_bytes for row in some) for _name, _address, some in rows]
    pieces = [
        Piece(number, name, address, sum(row.state.file_count for row in some), size, share)
        for number, ((name, address, some), size, share) in enumerate(zip(rows, sizes, shares(sizes), strict=False))
    ]
    return pieces, len(rest)


# --- The page ---------------------------------------------------------------------------------------------
def read_overview(user: User, now: datetime, *, counts: bool) -> dict[str, Any]:
    """All of the page but its charts of days. `counts` adds up what can be won; else it is what is known already."""
    libraries = read_libraries(LibraryRoot.objects.kept())
    acts = _acts()
    alive = WorkerHeartbeat.objects.alive().count()
    queue = _queue()
    # A paused one waits for a person.
    living = [each for each in acts if each.is_live and each.phase != PAUSED]
    runs = at_work.read_runs(user, libraries, living)
    is_slot_taken = any(run.icon in ("scan", "hash") for run in runs)
    waiting = queue["pending"] + queue["retryable"]
    waiting += sum(row.request is not None and row.request.request.job_id is None for row in libraries)
    trashed_bytes, trashed_count = space.in_trash()
    pieces, rest_count = _pieces(libraries)
    samples = list(DailySample.objects.order_by("-day")[:DAYS])[::-1]
    return {
        "now": now,
        "libraries": libraries,
        "file_count": sum(row.state.file_count for row in libraries),
        "total_bytes": sum(row.state.total_bytes for row in libraries),
        "last_scanned_at": max(
            (row.library.last_scanned_at for row in libraries if row.library.last_scanned_at), default=None
        ),
        "pieces": pieces,
        "rest_count": rest_count,
        "win": count_to_win() if counts else _last_known(samples, now),
        "trashed_bytes": trashed_bytes,
        "trashed_count": trashed_count,
        "freed_bytes": space.freed_bytes(),
        "needs": read_needs(Seen(libraries, acts, alive, is_slot_taken, now)),
        "runs": runs,
        "more_runs": max(queue["running"] - sum(run.is_running for run in runs), 0),
        "running_count": queue["running"],
        "waiting_count": waiting,
        "alive_count": alive,
        "is_live": bool(runs or waiting),
        "every": _every(is_running=any(run.is_running for run in runs), is_waiting=bool(runs or waiting)),
        "first_address": _first_steps(),
        "samples": samples,
    }


def _every(*, is_running: bool, is_waiting: bool) -> str:
    """How often an open page asks again."""
    if is_running:
        return "3s"
    return "10s" if is_waiting else "60s"


def _acts() -> list[ShownAct]:
    """Those that live, and those of the last days that came to nothing and that nothing has followed."""
    later = Act.objects.filter(plan=OuterRef("plan"), pk__gt=OuterRef("pk"))
    left = ~Exists(later) & ~Q(plan__status="discarded") & Q(finished_at__gt=SecondsFromNow(-DAYS * 86400))
    fates = Q(status__in=Act.LIVING) | Q(status__in=(Act.Status.FAILED, Act.Status.VOID)) & left
    rows = Act.objects.filter(fates).select_related("job", "plan").annotate(now=Now())
    large = ("choices", "group_keys", "rules", "warnings")
    rows = rows.defer("selection", "job__payload", *(f"plan__{name}" for name in large))
    return [ShownAct(act, act.now) for act in rows.order_by("-id")[:MOST_ACTS]]


def _queue() -> dict[str, int]:
    rows = Job.objects.filter(status__in=Job.UNFINISHED).order_by().values_list("status").annotate(Count("pk"))
    return {status.value: 0 for status in Job.UNFINISHED} | dict(rows)


def _first_steps() -> str:
    try:
        return reverse("first_steps:show")
    except NoReverseMatch:
        return reverse("libraries:add")


# --- Thirty days ------------------------------------------------------------------------------------------
def read_charts(samples: Sequence[DailySample], now: datetime, *, is_fresh: bool) -> dict[str, Bars | Line | None]:
    """`is_fresh` where something has just ended: then no count is good that was kept."""
    days = last_days(timezone.localdate(now, timezone.get_default_timezone()), DAYS)
    return {
        "activity": stack(days, _jobs_by_day(days, is_fresh=is_fresh), OUTCOMES),
        "reclaimable": draw_line(days, {sample.day: sample.reclaimable_bytes for sample in samples}),
    }


def _jobs_by_day(days: list[date], *, is_fresh: bool) -> dict[date, dict[str, int]]:
    def count() -> dict[date, dict[str, int]]:
        found: dict[date, dict[str, int]] = {}
        for number, status, jobs in _counted(days):
            found.setdefault(days[number], {})[status] = jobs
        return found

    return kept_or_counted(f"overview-activity-{days[0]}", count, is_fresh=is_fresh)


def _counted(days: list[date]) -> Any:
    """Jobs by the day on which they were asked for, and by how they ended: from an index alone. Days are told apart by
    their first moments, since a database would ask Python about each row for the day it is in the configured zone."""
    begins = [_begin_of(day) for day in days]
    latest_first = [(number, begin) for number, begin in enumerate(begins)][::-1]
    number = Case(
        *(When(created_at__gte=begin, then=Value(number)) for number, begin in latest_first),
        output_field=IntegerField(),
    )
    ended = Job.objects.filter(status__in=OUTCOMES, created_at__gte=begins[0], created_at__lt=begins[-1] + timedelta(2))
    return ended.order_by().annotate(number=number).values_list("number", "status").annotate(Count("pk"))


def _begin_of(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=timezone.get_default_timezone())
