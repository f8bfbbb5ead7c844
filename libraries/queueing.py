"""The scan queue: wishes to have a library scanned, and who gets the one slot next.

Every row of `scan_requests` is a wish; only the one whose turn it is has a row in `jobs`. From then on it moves with
its job, by a trigger (`libraries.objects`). What decides a race is always an index: one active request a library, one
active scan or hash job. On PostgreSQL nothing here locks a request before its job, as that trigger locks them in the
other order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from django.conf import settings
from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import Exists, Q, QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from database.clock import SecondsFromNow
from database.keyset import Page, newest_first
from database.routing import POLICY
from jobs import deciding
from jobs.doorbell import ring
from jobs.errors import Refused as JobRefused
from jobs.handlers import is_handled
from jobs.models import Job
from libraries.errors import LibrariesError, NotThere, Refused
from libraries.models import HashState, LibraryRoot, ScanRequest
from libraries.names import to_display
from logbook.models import write_event

logger = logging.getLogger(__name__)
TABLE = "scan_requests"
PRUNED_AT_ONCE = 500
#: Each try means that somebody else was quicker; so often in a row means that something else is wrong.
TRIES = 100
#: After somebody cancelled a hash job, hashing everything anew is not begun again for so long.
REST_SECONDS = 3600

Turn = Callable[[], bool]
Priority, Status = ScanRequest.Priority, ScanRequest.Status


class Gone(Exception):
    """Somebody else has moved the row that was to be changed."""


# --- Asking -----------------------------------------------------------------------------------------------
def submit(library_id: int, priority: int, *, actor: str, accept_missing: bool = False) -> ScanRequest:
    """Ask for a scan; the request that waits or runs already is the answer where there is one.

    A waiting one takes over the higher priority and the permission to call many files missing; a running one is left
    as it is.
    """
    for _try in range(TRIES):
        try:
            with transaction.atomic():
                library = scannable(library_id)
                request = current(library_id)
                key = (
                    _add(library, priority, accept_missing, actor)
                    if request is None
                    else _raise(request, priority, accept_missing, actor)
                )
            return ScanRequest.objects.get(pk=key)
        except (IntegrityError, Gone):
            continue  # another process was quicker: look again
    raise LibrariesError(f"The queue changes so fast that no scan of library {library_id} could be asked for.")


def scannable(library_id: int) -> LibraryRoot:
    library = LibraryRoot.objects.kept().filter(pk=library_id).first()
    if library is None:
        raise NotThere(_("There is no library %(id)s.") % {"id": library_id})
    if library.is_paused:
        words = _("The library %(name)s is paused. Resume it on its page, then ask again.")
        raise Refused(words % {"name": to_display(library.name)})
    return library


def _add(library: LibraryRoot, priority: int, accept_missing: bool, actor: str) -> str:
    """A new request; the index of active requests refuses it where another process has added one meanwhile."""
    request = ScanRequest(library=library, priority=priority, accept_missing=accept_missing, requested_by=actor[:150])
    request.save(force_insert=True)
    write_event(TABLE, request.pk, "requested", actor=actor, library=library.name, priority=int(priority))
    transaction.on_commit(_promote_now)
    return request.pk


def _raise(request: ScanRequest, priority: int, accept_missing: bool, actor: str) -> str:
    """Let a waiting request take over what is more than it has."""
    changes: dict[str, Any] = {}
    if priority > request.priority:
        changes["priority"] = int(priority)
    if accept_missing and not request.accept_missing:
        changes["accept_missing"] = True
    if changes and request.status == Status.PENDING:
        change_waiting(request, changes)
        write_event(TABLE, request.pk, "raised", actor=actor, **changes)
        transaction.on_commit(_promote_now)
    return request.pk


def change_waiting(request: ScanRequest, changes: dict[str, Any]) -> None:
    """Swap a waiting request as it was read for the changed one, and what its job is told. Raises `Gone` where it was
    taken up or changed meanwhile."""
    if "accept_missing" in changes and request.job_id is not None:
        waiting = Job.objects.filter(pk=request.job_id, status__in=("pending", "retryable"))
        if not waiting.update(payload=payload_of(request, accept_missing=True), updated_at=Now()):
            raise Gone
    was = {"priority": request.priority, "accept_missing": request.accept_missing, "job": request.job_id}
    if not ScanRequest.objects.filter(pk=request.pk, status=Status.PENDING, **was).update(updated_at=Now(), **changes):
        raise Gone


def payload_of(request: ScanRequest, *, accept_missing: bool) -> dict[str, Any]:
    return {"library_id": request.library_id, "request_id": request.pk, "accept_missing": accept_missing}


def cancel(request_id: str, *, actor: str, reason: str = "") -> ScanRequest:
    """Cancel what waits or runs; the slot is free at once, and whatever the scan still writes is refused."""
    for _try in range(TRIES):
        request = get(request_id)
        if request is None:
            raise NotThere(_("There is no scan request %(id)s.") % {"id": repr(request_id[:80])})
        if request.status not in ScanRequest.ACTIVE:
            words = _("This scan request is %(status)s; only one that is pending or running is cancelled.")
            raise Refused(words % {"status": request.status})
        if _cancelled(request, actor, reason):
            return ScanRequest.objects.get(pk=request.pk)
    raise LibrariesError(f"The scan request {request_id} could not be cancelled.")


def _cancelled(request: ScanRequest, actor: str, reason: str) -> bool:
    """Whether it was; not where somebody moved it meanwhile."""
    try:
        with transaction.atomic():
            if request.job_id is not None:
                deciding.cancel(request.job_id, actor=actor, reason=reason)
            elif not _without_job(request).update(status=Status.CANCELLED, completed_at=Now(), updated_at=Now()):
                return False
            write_event(TABLE, request.pk, "cancel", actor=actor, **({"reason": reason} if reason else {}))
            transaction.on_commit(_promote_now)
    except JobRefused:
        return False  # its job has just ended
    return True


def _without_job(request: ScanRequest) -> QuerySet[ScanRequest]:
    return ScanRequest.objects.filter(pk=request.pk, status__in=ScanRequest.ACTIVE, job__isnull=True)


# --- Looking ----------------------------------------------------------------------------------------------
def get(request_id: str) -> ScanRequest | None:
    return ScanRequest.objects.filter(pk=request_id).first()


def current(library_id: int) -> ScanRequest | None:
    """The request of a library that waits or runs."""
    return ScanRequest.objects.filter(library_id=library_id, status__in=ScanRequest.ACTIVE).first()


def pending() -> QuerySet[ScanRequest]:
    """What waits, in the order in which it gets its turn."""
    return ScanRequest.objects.filter(status=Status.PENDING).order_by("-priority", "created_at", "id")


def processing() -> QuerySet[ScanRequest]:
    return ScanRequest.objects.filter(status=Status.RUNNING).order_by("started_at", "id")


def history() -> QuerySet[ScanRequest]:
    """What ended in the last hours (`DEDUPFS_SCAN_HISTORY_HOURS`), newest first."""
    since = SecondsFromNow(-settings.SCAN_HISTORY_HOURS * 3600)
    ended = ScanRequest.objects.exclude(status__in=ScanRequest.ACTIVE).filter(completed_at__gte=since)
    return ended.order_by("-completed_at", "-id")


def history_page(cursor: str | None, size: int) -> Page[ScanRequest]:
    """So many of the history behind the one that `cursor` names, with their libraries and the database's time as `now`.
    Raises `UnknownCursor`."""
    rows = history().select_related("library").annotate(now=Now())
    return newest_first(rows, columns=("completed_at", "id"), cursor=cursor, size=size, parse=_possible_key)


def _possible_key(key: str) -> str:
    """PostgreSQL has no way to even ask about a NUL."""
    if "\x00" in key:
        raise ValueError("not a request's id")
    return key


# --- The slot ---------------------------------------------------------------------------------------------
def promote() -> bool:
    """Fill the one slot for scan and hash jobs where it is free; whether this call did.

    Manual scans go first, then due hashing, then scheduled scans (`goes_before_hashing` asks the same). Anybody may
    call it at any time: the index of active jobs lets one win.
    """
    for _try in range(TRIES):
        turn = _next_turn()
        if turn is None:
            return False
        try:
            with transaction.atomic():
                if turn():
                    ring(deciding.QUEUE)
                    return True
        except IntegrityError:
            return False  # another process was quicker
        except Gone:
            continue
    logger.error("The queue changes so fast that nobody could be given the slot")
    return False


def goes_before_hashing(using: str = POLICY) -> bool:
    """Whether a scan waits for which a hash job gives way; exactly those that `promote` would prefer to it."""
    manual = _waiting().using(using).filter(priority=Priority.HIGH)
    return manual.exists() or _direct_scans().using(using).exists()


def hashing_waits() -> bool:
    """Whether hashing gets the slot when its turn comes: to begin, or to go on with a job that was given back."""
    is_paused = Exists(HashState.objects.filter(pk=1, is_paused=True))
    return hashing_is_due() or _given_back().filter(~is_paused).exists()


def hashing_is_due() -> bool:
    """Whether there is something to hash and nobody has paused it."""
    state = HashState.objects.filter(pk=1).first()
    if state is None:
        return _must_switch(HashState(algorithm="blake3"))
    if state.is_paused:
        return False
    return state.is_due or HashState.objects.filter(retry_at__lte=Now()).exists() or _must_switch(state)


def _next_turn() -> Turn | None:
    if Job.objects.holding_slot().exists():
        return None
    return _manual_turn() or _hash_turn() or _turn_of(_waiting().filter(priority=Priority.NORMAL).first())


def _manual_turn() -> Turn | None:
    request = _waiting().filter(priority=Priority.HIGH).first()
    job = _direct_scans().first()
    if job is None or (request is not None and request.created_at <= job.created_at):
        return _turn_of(request)
    return partial(_put_back, job.pk)


def _hash_turn() -> Turn | None:
    if HashState.objects.filter(pk=1, is_paused=True).exists():
        return None
    given_back = _given_back().order_by("created_at", "id").first()
    if given_back is not None:
        return partial(_put_back, given_back.pk)
    is_wanted = is_handled(Job.Kind.HASH) and hashing_is_due()
    return _start_hashing if is_wanted and not _has_hash_job() else None


def _given_back() -> QuerySet[Job]:
    return Job.objects.filter(deciding.may_go_on(), kind=Job.Kind.HASH)


def _has_hash_job() -> bool:
    return Job.objects.filter(kind=Job.Kind.HASH, status__in=Job.UNFINISHED).exists()


def _must_switch(state: HashState) -> bool:
    """Whether everything has to be hashed by another algorithm and nobody has begun.

    Once begun it is due like all other hashing, so that a switch which can't be completed doesn't spin.
    """
    if settings.HASH_ALGORITHM in (state.algorithm, state.switching_to):
        return False
    ended_badly = Job.objects.filter(kind=Job.Kind.HASH, status__in=("failed", "cancelled"))
    return not ended_badly.filter(finished_at__gt=SecondsFromNow(-REST_SECONDS)).exists()


def _waiting() -> QuerySet[ScanRequest]:
    """Requests that may have the slot: those of a paused library wait until it is resumed."""
    has_no_job_yet = Q(job__isnull=True) | deciding.may_go_on("job__")
    return pending().filter(has_no_job_yet, library__is_paused=False, library__removing_at__isnull=True)


def _direct_scans() -> QuerySet[Job]:
    """Scans that were asked for as a job, without a request: they count as manual."""
    scans = Job.objects.filter(deciding.may_go_on(), kind=Job.Kind.SCAN, scan_request__isnull=True)
    return scans.order_by("created_at", "id")


def _turn_of(request: ScanRequest | None) -> Turn | None:
    if request is None:
        return None
    return partial(_start, request) if request.job_id is None else partial(_put_back, request.job_id)


def _put_back(job_id: str) -> bool:
    if not deciding.put_back(job_id):
        raise Gone
    return True


def _start(request: ScanRequest) -> bool:
    """Give a request its job. The job comes first: its index decides who has the slot."""
    job = Job.objects.create(kind=Job.Kind.SCAN)
    waits = ScanRequest.objects.filter(pk=request.pk, status=Status.PENDING, job__isnull=True)
    if not waits.update(job=job, updated_at=Now()):
        raise Gone
    accepts = ScanRequest.objects.values_list("accept_missing", flat=True).get(pk=request.pk)
    Job.objects.filter(pk=job.pk).update(payload=payload_of(request, accept_missing=accepts))
    write_event("jobs", job.pk, "requested", actor=request.requested_by, request=request.pk)
    return True


def _start_hashing() -> bool:
    job = Job.objects.create(kind=Job.Kind.HASH)
    write_event("jobs", job.pk, "requested", actor="policy")
    return True


def _promote_now() -> None:
    """After a commit: what was asked for is stored, so a database that is away now costs time, never a wish."""
    try:
        promote()
    except DatabaseError:
        logger.warning("The slot could not be filled; the sweep will do it.", exc_info=True)


# --- Keeping tidy -----------------------------------------------------------------------------------------
def prune() -> int:
    """Delete requests that ended long ago (`DEDUPFS_SCAN_REQUEST_DAYS`); the logbook keeps what happened to them."""
    hours = max(settings.SCAN_REQUEST_DAYS * 24, settings.SCAN_HISTORY_HOURS)
    ended = ScanRequest.objects.exclude(status__in=ScanRequest.ACTIVE)
    old = ended.filter(completed_at__lt=SecondsFromNow(-hours * 3600)).order_by("completed_at", "id")
    keys = list(old.values_list("pk", flat=True)[:PRUNED_AT_ONCE])
    return ScanRequest.objects.filter(pk__in=keys).delete()[0] if keys else 0
