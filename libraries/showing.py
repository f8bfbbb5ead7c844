"""Libraries, scans and hash jobs as pages show them, worked out from rows and the database's time.

Nothing here touches a library's disk: what a page says of it, an executor has written down before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Max, OuterRef, QuerySet, Subquery
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from frame.templatetags.human import duration_words
from jobs.models import Job
from jobs.showing import ShownJob
from libraries.models import HashRun, HashState, LibraryQuerySet, LibraryRoot, LibraryState, ScanRequest, ScanSession

#: Before this share is done, "how long still" would be a guess.
ENOUGH_TO_TELL = 20
#: What still runs is never shown as whole: the last total is a measure, not a promise.
ALMOST = 990
#: Over less time than this a rate says nothing.
SHORTEST_SECONDS = 1.0
ROLE_WORDS = {
    "normal": gettext_lazy("Normal"),
    "protected": gettext_lazy("Protected"),
    "backup": gettext_lazy("Backup"),
}
PHASE_WORDS = {
    "sampling": gettext_lazy("taking samples"),
    "hashing": gettext_lazy("reading whole files"),
    "rehashing": gettext_lazy("reading anew for the other algorithm"),
}


# --- How far and how fast ---------------------------------------------------------------------------------
@dataclass(frozen=True)
class Pace:
    """How far something is that counts files and bytes; a total of 0 says that nobody knows it."""

    files_done: int
    files_total: int
    bytes_done: int
    bytes_total: int
    #: For how long it has been at it.
    seconds: float
    #: How much an earlier try of the same request had seen: what was shown is not taken back.
    files_before: int = 0
    bytes_before: int = 0
    #: The share that was shown before it was known how much is left.
    share_held: int = 0
    #: Whether time goes with bytes (reading) or with files (walking).
    is_by_bytes: bool = False
    has_ended: bool = False

    @property
    def files_shown(self) -> int:
        return max(self.files_done, self.files_before)

    @property
    def bytes_shown(self) -> int:
        return max(self.bytes_done, self.bytes_before)

    @property
    def share(self) -> int | None:
        """How much is done, in thousandths. It only grows while the counts do, and never claims the end."""
        if self.has_ended:
            return 1000
        done, total = self._measure
        if not self.is_by_bytes:
            done = max(done, self.files_before)
        if total <= 0:
            return self.share_held or None
        return max(min(max(done, 0) * 1000 // total, ALMOST), self.share_held)

    @property
    def percent(self) -> int | None:
        return None if self.share is None else self.share // 10

    @property
    def bytes_per_second(self) -> int | None:
        return self._rate(self.bytes_done)

    @property
    def files_per_second(self) -> int | None:
        return self._rate(self.files_done)

    @property
    def left(self) -> timedelta | None:
        done, total = self._measure
        if self.share is None or self.share >= ALMOST or self.seconds < SHORTEST_SECONDS:
            return None
        if done * 1000 < total * ENOUGH_TO_TELL:
            return None
        return timedelta(seconds=self.seconds * (total - done) / done)

    @property
    def _measure(self) -> tuple[int, int]:
        if self.is_by_bytes and self.bytes_total > 0:
            return self.bytes_done, self.bytes_total
        return self.files_done, self.files_total

    def _rate(self, amount: int) -> int | None:
        return round(amount / self.seconds) if amount > 0 and self.seconds >= SHORTEST_SECONDS else None


def scan_pace(session: ScanSession, state: LibraryState, request: ScanRequest | None = None) -> Pace:
    """A walk measures itself by what the last complete one saw."""
    end = session.finished_at or session.updated_at
    return Pace(
        session.files_seen,
        state.walked_files,
        session.bytes_seen,
        state.walked_bytes,
        max((end - session.started_at).total_seconds(), 0.0),
        files_before=request.scanned_paths if request else 0,
        bytes_before=_before(session, "bytes"),
        has_ended=session.status == ScanSession.Status.SUCCEEDED,
    )


def _before(session: ScanSession, what: str) -> int:
    """What the tries of its job had seen, where it was read `_with_earlier_tries`."""
    return getattr(session, f"{what}_before", None) or 0


def _with_earlier_tries(sessions: QuerySet[ScanSession]) -> QuerySet[ScanSession]:
    """A job that lost its lease walks anew, in a session of its own."""
    tries = ScanSession.objects.filter(job=OuterRef("job"), library=OuterRef("library")).order_by().values("job")
    return sessions.annotate(
        bytes_before=Subquery(tries.annotate(most=Max("bytes_seen")).values("most")),
        folders_before=Subquery(tries.annotate(most=Max("directories_seen")).values("most")),
    )


def hash_pace(run: HashRun) -> Pace:
    return Pace(
        run.files_done,
        run.files_total,
        run.bytes_done,
        run.bytes_total,
        run.busy_seconds,
        share_held=run.share_held,
        is_by_bytes=True,
    )


# --- Scans ------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ShownSession:
    """A scan of a library, running or ended."""

    session: ScanSession
    pace: Pace
    now: datetime

    @property
    def is_running(self) -> bool:
        return self.session.status == ScanSession.Status.RUNNING

    @property
    def lasted(self) -> timedelta:
        end = self.session.finished_at or (self.now if self.is_running else self.session.updated_at)
        return max(end - self.session.started_at, timedelta(0))

    @property
    def folders_shown(self) -> int:
        return max(self.session.directories_seen, _before(self.session, "folders"))

    @property
    def more_files(self) -> int:
        """How many more than the last complete scan saw."""
        return max(self.pace.files_shown - self.pace.files_total, 0)


def as_shown_sessions(sessions: Iterable[ScanSession], state: LibraryState) -> list[ShownSession]:
    """What was read with `now`, ready for a template."""
    return [ShownSession(each, scan_pace(each, state), each.now) for each in sessions]  # type: ignore[attr-defined]


@dataclass(frozen=True)
class ShownRequest:
    """A wish to scan; `position` counts from 1 where it waits."""

    request: ScanRequest
    now: datetime
    position: int = 0

    @property
    def is_manual(self) -> bool:
        return self.request.priority == ScanRequest.Priority.HIGH

    @property
    def asked_by(self) -> str:
        return self.request.requested_by or _("the schedule")

    @property
    def can_cancel(self) -> bool:
        return self.request.status in ScanRequest.ACTIVE

    @property
    def lasted(self) -> timedelta | None:
        request = self.request
        if request.started_at is None or request.completed_at is None:
            return None
        return max(request.completed_at - request.started_at, timedelta(0))

    @property
    def has_result(self) -> bool:
        return self.request.status == ScanRequest.Status.COMPLETED


# --- Libraries --------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ShownLibrary:
    """A library with what was last found of it and what is being done about it."""

    library: LibraryRoot
    state: LibraryState
    now: datetime
    request: ShownRequest | None = None
    scan: ShownSession | None = None

    @property
    def is_scanning(self) -> bool:
        return self.scan is not None or (
            self.request is not None and self.request.request.status == ScanRequest.Status.RUNNING
        )

    @property
    def is_active(self) -> bool:
        """Whether it may change by itself; a page asks again about these."""
        return self.request is not None or self.scan is not None

    @property
    def can_scan(self) -> bool:
        return not self.is_active and not self.library.is_paused

    @property
    def role_word(self) -> str:
        return str(ROLE_WORDS.get(self.library.role, self.library.role))

    @property
    def is_sound(self) -> bool:
        return self.state.mount in (LibraryState.Mount.PRESENT, LibraryState.Mount.UNKNOWN)

    @property
    def is_findings_only(self) -> bool:
        return self.state.is_writable is False

    @property
    def gone_of(self) -> int:
        """Of how many files those that were not found are a part."""
        return max(self.state.file_count, self.state.gone_count)

    @property
    def schedule(self) -> str:
        """In words; empty where there is none."""
        if self.library.scan_cron:
            return self.library.scan_cron
        minutes = self.library.scan_interval_minutes
        return _("every %(length)s") % {"length": duration_words(minutes * 60)} if minutes > 0 else ""

    @property
    def is_due(self) -> bool:
        return self.library.next_scan_at is not None and self.library.next_scan_at <= self.now


def read_libraries(libraries: LibraryQuerySet) -> list[ShownLibrary]:
    """Libraries as a page shows them, in three queries however many they are."""
    found = list(libraries.select_related("state").annotate(now=Now()))
    requests = _active_requests()
    sessions = _running_sessions()
    return [_shown(each, requests, sessions) for each in found]


def _shown(library: LibraryRoot, requests: dict[int, ShownRequest], sessions: dict[int, ScanSession]) -> ShownLibrary:
    state, request, session = state_of(library), requests.get(library.pk), sessions.get(library.pk)
    wish = request.request if request else None
    scan = ShownSession(session, scan_pace(session, state, wish), session.now) if session else None  # type: ignore[attr-defined]
    return ShownLibrary(library, state, library.now, request, scan)  # type: ignore[attr-defined]


def state_of(library: LibraryRoot) -> LibraryState:
    """What is known of it; where nobody has looked yet, nothing."""
    try:
        return library.state
    except LibraryState.DoesNotExist:
        return LibraryState(
            library=library,
            mount=LibraryState.Mount.UNKNOWN,
            mount_note="",
            filesystems={},
            file_count=0,
            total_bytes=0,
            missing_count=0,
            error_count=0,
            walked_files=0,
            walked_bytes=0,
            gone_count=0,
        )


def _active_requests() -> dict[int, ShownRequest]:
    """Requests that wait or run, by library."""
    rows = ScanRequest.objects.filter(status__in=ScanRequest.ACTIVE).annotate(now=Now())
    rows = rows.select_related("job", "library")
    return {each.request.library_id: each for each in in_line(rows.order_by("-priority", "created_at", "id"))}


def in_line(requests: Iterable[ScanRequest]) -> list[ShownRequest]:
    """Requests in the queue's order; those that wait for the slot are counted. A paused library's have no turn."""
    shown, position = [], 0
    for request in requests:
        is_next = request.status == ScanRequest.Status.PENDING and not holds_slot(request)
        waits = is_next and not request.library.is_paused
        position += waits
        shown.append(ShownRequest(request, request.now, position if waits else 0))  # type: ignore[attr-defined]
    return shown


def holds_slot(request: ScanRequest) -> bool:
    return request.job is not None and request.job.status in Job.ACTIVE


def _running_sessions() -> dict[int, ScanSession]:
    running = ScanSession.objects.filter(status=ScanSession.Status.RUNNING, job__status=Job.Status.RUNNING)
    rows = _with_earlier_tries(running.filter(library__isnull=False)).annotate(now=Now()).order_by("id")
    return {each.library_id: each for each in rows if each.library_id is not None}


# --- The slot ---------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ShownSlot:
    """The one scan or hash job that waits for a consumer or runs, and who has it."""

    row: ShownJob
    request: ScanRequest | None
    library: LibraryRoot | None
    pace: Pace | None
    #: Where its consumer runs; empty where no consumer of that name is alive.
    hostname: str
    phase: str = ""

    @property
    def is_scan(self) -> bool:
        return self.row.job.kind == Job.Kind.SCAN

    @property
    def share(self) -> int | None:
        """Of the scan or the hash run itself, or what its executor told the job."""
        if self.pace is not None and self.pace.share is not None:
            return self.pace.share
        told = self.row.share
        return None if told is None else min(told, ALMOST)

    @property
    def percent(self) -> int | None:
        return None if self.share is None else self.share // 10


def read_slot(hostnames: dict[str, str]) -> ShownSlot | None:
    """Who holds the slot, in at most two queries; `hostnames` are those of the consumers that are alive."""
    held = Job.objects.holding_slot().select_related("scan_request__library__state", "hash_run")
    job = held.annotate(now=Now()).first()
    if job is None:
        return None
    row = ShownJob(job, job.now)  # type: ignore[attr-defined]
    request = getattr(job, "scan_request", None)
    run = getattr(job, "hash_run", None)
    session = _session_of(job) if job.kind == Job.Kind.SCAN else None
    library = request.library if request else session.library if session else None
    return ShownSlot(
        row,
        request,
        library,
        hash_pace(run) if run else scan_pace(session, state_of(library), request) if session and library else None,
        hostnames.get(row.worker, ""),
        str(PHASE_WORDS.get(run.phase, "")) if run else "",
    )


def _session_of(job: Job) -> ScanSession | None:
    running = ScanSession.objects.filter(job=job, status=ScanSession.Status.RUNNING)
    return _with_earlier_tries(running).select_related("library__state").order_by("-id").first()


# --- Hashing ----------------------------------------------------------------------------------------------
def read_hash_state() -> HashState:
    """The row, or what its missing stands for; with the database's time as `now`."""
    found = HashState.objects.annotate(now=Now()).first()
    return found or HashState(id=1, algorithm="blake3", switching_to=None, is_due=False, is_paused=False, retry_at=None)
