"""The scan queue's verbs: ask, fold, cancel, look, and who gets the slot."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from pytest_django.fixtures import Settings

from database.clock import SecondsFromNow
from jobs import deciding, handlers
from jobs.errors import LeaseLost
from jobs.executing import GAVE_WAY, Outcome, drain, sweep_all
from jobs.lease import Lease
from jobs.models import Job
from jobs.working import Work
from libraries import queueing
from libraries.errors import NotThere, Refused
from libraries.models import HashState, LibraryRoot, ScanRequest
from logbook.models import LogbookEvent, LogbookItem
from tests import factories

pytestmark = pytest.mark.django_db

NORMAL, HIGH = ScanRequest.Priority.NORMAL, ScanRequest.Priority.HIGH


@pytest.fixture(autouse=True)
def hashing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Somebody here can hash; what was hashed is nothing."""
    done: list[str] = []

    def hash_nothing(work: Work[Job]) -> None:
        done.append(work.row.pk)

    monkeypatch.setitem(handlers._handlers, "hash", hash_nothing)
    return done


def libraries(count: int) -> list[LibraryRoot]:
    return [factories.library(f"library {number}") for number in range(count)]


def ask(library: LibraryRoot, priority: int = HIGH, **more: Any) -> ScanRequest:
    return queueing.submit(library.pk, priority, actor="vera", **more)


def fresh(request: ScanRequest) -> ScanRequest:
    return ScanRequest.objects.get(pk=request.pk)


def claim() -> Lease[Job]:
    lease = Job.objects.claim("w")
    assert lease is not None
    return lease


def pause_hashing() -> None:
    HashState.objects.update_or_create(pk=1, defaults={"is_paused": True})


def holder() -> Job:
    return Job.objects.holding_slot().get()


def events(request: ScanRequest) -> list[str]:
    told = LogbookEvent.objects.about("scan_requests", request.pk).exclude(event_type="status")
    return list(told.values_list("event_type", flat=True))


# --- Asking -----------------------------------------------------------------------------------------------
def test_a_new_request_waits_and_says_who_asked() -> None:
    first, second = libraries(2)
    ask(first)
    request = ask(second, NORMAL)
    assert uuid.UUID(request.pk).version == 4
    assert (request.status, request.priority, request.requested_by) == ("pending", NORMAL, "vera")
    assert (request.started_at, request.completed_at, request.error, request.job_id) == (None, None, None, None)
    assert (request.scanned_paths, request.total_paths, request.attempts) == (0, 0, 0)
    told = LogbookEvent.objects.about("scan_requests", request.pk).get(event_type="requested")
    assert (told.actor, told.payload_json) == ("vera", {"library": second.name, "priority": 0})
    assert LogbookItem.objects.get(subject_id=request.pk).title == f"scan of {second.name}"


def test_a_request_gets_the_free_slot_at_once() -> None:
    (library,) = libraries(1)
    request = ask(library, accept_missing=True)
    assert holder().pk == request.job_id
    assert holder().payload == {"library_id": library.pk, "request_id": request.pk, "accept_missing": True}
    assert request.status == "pending", "it runs when a consumer claims its job"


@pytest.mark.parametrize("state", ["unknown", "being removed", "paused"])
def test_a_library_that_can_not_be_scanned_is_refused(state: str) -> None:
    (library,) = libraries(1)
    if state == "unknown":
        with pytest.raises(NotThere, match="no library"):
            queueing.submit(library.pk + 1, HIGH, actor="vera")
    elif state == "being removed":
        LibraryRoot.objects.update(removing_at=SecondsFromNow(0))
        with pytest.raises(NotThere):
            ask(library)
    else:
        LibraryRoot.objects.update(is_paused=True)
        with pytest.raises(Refused, match="Resume it"):
            ask(library)
    assert not ScanRequest.objects.exists()
    assert not LogbookEvent.objects.filter(event_type="requested").exists()


def test_a_library_with_the_longest_name_can_be_scanned() -> None:
    library = factories.library("n" * 255)
    assert ask(library).status == "pending"


def test_asking_again_for_more_raises_the_waiting_request_and_tells_so() -> None:
    first, second = libraries(2)
    ask(first)
    request = ask(second, NORMAL)
    assert ask(second, NORMAL).pk == request.pk
    assert events(request) == ["requested"], "nothing changed, so there is nothing to tell"
    again = ask(second, HIGH, accept_missing=True)
    assert (again.pk, again.priority, again.accept_missing) == (request.pk, HIGH, True)
    lower = ask(second, NORMAL)
    assert (lower.priority, lower.accept_missing) == (HIGH, True)
    assert events(request) == ["requested", "raised"]


@pytest.mark.parametrize("job_status", ["pending", "retryable"])
def test_accepting_missing_files_reaches_a_job_that_waits(job_status: str) -> None:
    (library,) = libraries(1)
    request = ask(library)
    if job_status == "retryable":
        pause_hashing()
        claim().release()
        Job.objects.create(kind="scan")  # somebody else's, in the slot
    ask(library, accept_missing=True)
    job = Job.objects.get(pk=request.job_id)
    assert (job.status, job.payload["accept_missing"]) == (job_status, True)


def test_a_running_request_is_left_as_it_is() -> None:
    (library,) = libraries(1)
    request = ask(library, NORMAL)
    claim()
    again = ask(library, HIGH, accept_missing=True)
    assert (again.pk, again.status, again.priority, again.accept_missing) == (request.pk, "running", NORMAL, False)
    assert Job.objects.get().payload["accept_missing"] is False


# --- It moves with its job --------------------------------------------------------------------------------
@pytest.mark.parametrize("outcome", ["completed", "failed"])
def test_a_request_ends_as_its_job_does_and_frees_the_library(outcome: str) -> None:
    (library,) = libraries(1)
    request = ask(library)
    lease = claim()
    running = fresh(request)
    assert (running.status, running.completed_at) == ("running", None)
    assert running.started_at is not None
    assert list(queueing.processing()) == [running]
    lease.finish(outcome, message="it burned" if outcome == "failed" else None)
    ended = fresh(request)
    assert (ended.status, ended.error) == (outcome, "it burned" if outcome == "failed" else None)
    assert ended.completed_at is not None
    assert queueing.current(library.pk) is None
    assert ask(library).pk != request.pk


def test_a_worker_elsewhere_moves_the_request_too() -> None:
    """It knows `jobs` and nothing else."""
    (library,) = libraries(1)
    request = ask(library)
    for status in ("running", "completed"):
        with connection.cursor() as cursor:
            cursor.execute("UPDATE jobs SET status = %s WHERE id = %s", [status, request.job_id])
        assert fresh(request).status == status


@pytest.mark.parametrize(("code", "attempts"), [("LEASE_EXPIRED", 1), ("WORKER_STOPPED", 0), (GAVE_WAY, 0), (None, 1)])
def test_a_lost_scan_waits_again_in_its_old_place(code: str | None, attempts: int) -> None:
    pause_hashing()
    first, second = libraries(2)
    request, later = ask(first), ask(second)
    claim().finish("retryable", code=code)
    waiting = fresh(request)
    assert (waiting.status, waiting.attempts, waiting.created_at) == ("pending", attempts, request.created_at)
    assert list(queueing.pending()) == [request, later]
    assert queueing.promote()
    assert holder().pk == request.job_id, "the same job goes on"
    assert holder().attempts == attempts


def test_a_scan_that_is_lost_too_often_fails_and_says_why(settings: Settings) -> None:
    settings.JOB_ATTEMPTS = 2
    pause_hashing()
    (library,) = libraries(1)
    request = ask(library)
    for _ in range(3):
        factories.expire(claim().row)
        Job.objects.recover()
        deciding.requeue_retryable()
    ended = fresh(request)
    assert (ended.status, ended.attempts) == ("failed", 3)
    assert "lease ran out" in (ended.error or "")
    assert ended.completed_at is not None


def test_a_retryable_job_without_a_code_fails_when_its_attempts_are_used_up() -> None:
    job = Job.objects.create(kind="thumbnail", status="retryable", attempts=99)
    deciding.requeue_retryable()
    job.refresh_from_db()
    assert job.status == "failed"


def test_the_database_refuses_every_other_move() -> None:
    (library,) = libraries(1)
    request = ask(library)
    queueing.cancel(request.pk, actor="vera")
    for status in ("pending", "running", "completed", "failed"):
        with pytest.raises(IntegrityError, match="illegal move"), transaction.atomic():
            ScanRequest.objects.filter(pk=request.pk).update(status=status)


# --- Cancelling -------------------------------------------------------------------------------------------
def test_cancelling_what_runs_frees_the_slot_and_discards_what_comes_late() -> None:
    first, second = libraries(2)
    request, following = ask(first), ask(second)
    lease = claim()
    pause_hashing()
    cancelled = queueing.cancel(request.pk, actor="otto", reason="wrong disk")
    assert (cancelled.status, cancelled.error) == ("cancelled", None)
    assert cancelled.completed_at is not None
    assert holder().pk == fresh(following).job_id
    with pytest.raises(LeaseLost):
        lease.finish("completed")
    assert fresh(request).status == "cancelled"
    told = LogbookEvent.objects.about("scan_requests", request.pk).get(event_type="cancel")
    assert (told.actor, told.payload_json) == ("otto", {"reason": "wrong disk"})
    assert LogbookEvent.objects.about("jobs", lease.row.pk).get(event_type="cancel").actor == "otto"
    assert ask(first).pk != request.pk, "a new wish is a new request"


def test_what_was_cancelled_before_it_started_is_never_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setitem(handlers._handlers, "scan", lambda work: done.append(work.row.pk))
    promoted, waiting = (ask(library) for library in libraries(2))
    queueing.cancel(waiting.pk, actor="vera")
    queueing.cancel(promoted.pk, actor="vera")
    assert drain("jobs") == 0
    assert done == []


def test_cancelling_the_job_on_its_page_cancels_the_request() -> None:
    (library,) = libraries(1)
    request = ask(library)
    deciding.cancel(str(request.job_id), actor="vera")
    assert fresh(request).status == "cancelled"


def test_cancelling_nothing_or_what_has_ended_is_an_error_that_says_so() -> None:
    with pytest.raises(NotThere, match="no scan request 'nobody'"):
        queueing.cancel("nobody", actor="vera")
    (library,) = libraries(1)
    for outcome in ("completed", "failed", "cancelled"):
        request = ask(library)
        if outcome == "cancelled":
            queueing.cancel(request.pk, actor="vera")
        else:
            claim().finish(outcome)
        before = fresh(request).updated_at
        with pytest.raises(Refused, match=f"is {outcome}"):
            queueing.cancel(request.pk, actor="vera")
        assert fresh(request).updated_at == before
        pause_hashing()


# --- Looking ----------------------------------------------------------------------------------------------
def ended(library: LibraryRoot, hours_ago: float, status: str = "completed") -> ScanRequest:
    moment = SecondsFromNow(-hours_ago * 3600)
    return ScanRequest.objects.create(library=library, status=status, completed_at=moment, created_at=moment)


def test_what_is_unknown_is_none() -> None:
    assert queueing.get("nobody") is None
    assert queueing.current(1) is None


def test_the_history_is_what_ended_lately_newest_first(settings: Settings) -> None:
    settings.SCAN_HISTORY_HOURS = 24
    (library,) = libraries(1)
    statuses = ("completed", "failed", "cancelled")
    rows = [ended(library, hours, statuses[number % 3]) for number, hours in enumerate((23.9, 3, 12, 0, 24.1, 100))]
    ask(library)
    assert list(queueing.history()) == [rows[3], rows[1], rows[2], rows[0]]
    assert list(queueing.history()[:2]) == [rows[3], rows[1]]
    assert ScanRequest.objects.count() == 7, "looking deletes nothing"


def test_old_requests_are_pruned_by_the_sweep_and_the_logbook_keeps_them(settings: Settings) -> None:
    settings.SCAN_REQUEST_DAYS = 2
    (library,) = libraries(1)
    old, young, active = ended(library, 49), ended(library, 47), ask(library)
    sweep_all()
    assert set(ScanRequest.objects.values_list("pk", flat=True)) == {young.pk, active.pk}
    assert LogbookEvent.objects.about("scan_requests", old.pk).exists()


def test_nothing_is_pruned_that_the_history_shows(settings: Settings) -> None:
    settings.SCAN_REQUEST_DAYS, settings.SCAN_HISTORY_HOURS = 1, 72
    (library,) = libraries(1)
    shown = ended(library, 71)
    assert queueing.prune() == 0
    assert list(queueing.history()) == [shown]


# --- The slot ---------------------------------------------------------------------------------------------
def carried_out(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let a consumer do everything that waits; return it in that order, a scan as its library's name."""
    order: list[str] = []

    def note(work: Work[Job]) -> None:
        known = work.row.payload.get("library_id")
        order.append(LibraryRoot.objects.get(pk=known).name if known else work.row.kind)

    for kind in ("scan", "hash"):
        monkeypatch.setitem(handlers._handlers, kind, note)
    drain("jobs")
    return order


def test_manual_scans_go_before_hashing_and_hashing_before_scheduled_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    blocker = deciding.enqueue("scan", actor="vera")
    scheduled, manual, later = libraries(3)
    ask(scheduled, NORMAL)
    ask(manual, HIGH)
    ask(later, HIGH)
    HashState.objects.create(pk=1, is_due=True)
    deciding.cancel(blocker.pk, actor="vera")
    expected = [manual.name, later.name, "hash", scheduled.name, "hash"]
    assert carried_out(monkeypatch) == expected, "and what a scan found is hashed by itself"


def test_a_hash_job_that_gave_way_goes_on_after_the_manual_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    HashState.objects.create(pk=1, is_due=True)
    assert queueing.promote()
    hash_job = claim()
    scheduled, manual = libraries(2)
    ask(scheduled, NORMAL)
    assert not queueing.goes_before_hashing()
    ask(manual, HIGH)
    assert queueing.goes_before_hashing()
    assert queueing.goes_before_hashing("executor")
    hash_job.finish("retryable", code=GAVE_WAY)
    assert carried_out(monkeypatch) == [manual.name, "hash", scheduled.name, "hash"]
    job = Job.objects.get(pk=hash_job.row.pk)
    assert (job.status, job.attempts) == ("completed", 0), "the same job, and giving way was no failed attempt"


def test_a_scan_job_without_a_request_counts_as_manual() -> None:
    pause_hashing()
    direct = deciding.enqueue("scan", actor="vera", payload={"library_id": 1})
    scheduled, manual = libraries(2)
    ask(scheduled, NORMAL)
    ask(manual, HIGH)
    claim().release()
    deciding.requeue_retryable()
    assert holder().pk == direct.pk, "it was asked for first"


def test_paused_hashing_gets_no_slot() -> None:
    HashState.objects.create(pk=1, is_due=True)
    assert queueing.promote()
    claim().release()
    pause_hashing()
    assert not queueing.promote()
    (scheduled,) = libraries(1)
    ask(scheduled, NORMAL)
    assert holder().kind == "scan"


def test_requests_of_a_paused_library_wait_until_it_is_resumed() -> None:
    blocker = deciding.enqueue("scan", actor="vera")
    first, second = libraries(2)
    waiting, following = ask(first), ask(second)
    LibraryRoot.objects.filter(pk=first.pk).update(is_paused=True)
    deciding.cancel(blocker.pk, actor="vera")
    assert queueing.promote()
    assert holder().pk == fresh(following).job_id
    pause_hashing()
    queueing.cancel(following.pk, actor="vera")
    assert not queueing.promote()
    assert not queueing.goes_before_hashing()
    LibraryRoot.objects.update(is_paused=False)
    assert queueing.promote()
    assert holder().pk == fresh(waiting).job_id


def test_nothing_that_nobody_can_carry_out_takes_the_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    HashState.objects.create(pk=1, is_due=True)
    monkeypatch.delitem(handlers._handlers, "hash")
    assert not queueing.promote()


# --- When hashing is due ----------------------------------------------------------------------------------
@pytest.mark.parametrize("outcome", ["completed", "failed", "cancelled"])
def test_hashing_is_due_after_a_scan_however_it_ended(outcome: str, hashing: list[str]) -> None:
    (library,) = libraries(1)
    request = ask(library)
    lease = claim()
    assert not queueing.hashing_is_due()
    if outcome == "cancelled":
        queueing.cancel(request.pk, actor="vera")
    else:
        lease.finish(outcome)
    assert HashState.objects.get().is_due
    drain("jobs")
    assert len(hashing) == 1
    assert not HashState.objects.get().is_due
    assert not queueing.promote(), "and once is enough"


def test_a_scan_that_never_ran_leaves_nothing_to_hash() -> None:
    (library,) = libraries(1)
    queueing.cancel(ask(library).pk, actor="vera")
    assert not Job.objects.holding_slot().exists()


def test_a_cancelled_hash_job_stays_cancelled_until_the_next_scan(hashing: list[str]) -> None:
    HashState.objects.create(pk=1, is_due=True, retry_at=SecondsFromNow(-1))
    queueing.promote()
    deciding.cancel(holder().pk, actor="vera")
    assert not queueing.promote()
    (library,) = libraries(1)
    ask(library)
    claim().finish("completed")
    drain("jobs")
    assert len(hashing) == 1


def test_a_hash_job_that_fails_is_not_tried_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []

    def fail(work: Work[Job]) -> None:
        tries.append(work.row.pk)
        raise ValueError("no such algorithm")

    monkeypatch.setitem(handlers._handlers, "hash", fail)
    HashState.objects.create(pk=1, is_due=True, retry_at=SecondsFromNow(-1))
    drain("jobs")
    assert len(tries) == 1
    assert HashState.objects.filter(retry_at__gt=SecondsFromNow(3000)).exists()
    HashState.objects.update(retry_at=SecondsFromNow(-1))
    drain("jobs")
    assert len(tries) == 2


def test_files_that_could_not_be_read_make_hashing_due_when_their_time_comes() -> None:
    HashState.objects.create(pk=1, retry_at=SecondsFromNow(600))
    assert not queueing.promote()
    HashState.objects.update(retry_at=SecondsFromNow(-1))
    assert queueing.promote()
    assert holder().kind == "hash"


@pytest.mark.parametrize("has_row", [True, False])
def test_another_algorithm_makes_hashing_due_until_somebody_has_begun(has_row: bool, settings: Settings) -> None:
    settings.HASH_ALGORITHM = "sha256"
    if has_row:
        HashState.objects.create(pk=1)
    assert queueing.hashing_is_due()
    assert queueing.promote()
    HashState.objects.update_or_create(pk=1, defaults={"switching_to": "sha256"})
    claim().finish("completed")
    assert not queueing.hashing_is_due(), "what is left of it is due like all other hashing"


def test_cancelling_a_change_of_algorithm_holds_for_a_while(settings: Settings) -> None:
    settings.HASH_ALGORITHM = "sha256"
    queueing.promote()
    deciding.cancel(holder().pk, actor="vera")
    assert not queueing.promote()
    Job.objects.update(finished_at=SecondsFromNow(-4000))
    assert queueing.promote()


# --- The worker -------------------------------------------------------------------------------------------
def test_a_scan_that_fails_is_told_of_and_the_queue_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = libraries(2)

    def scan(work: Work[Job]) -> Outcome | None:
        if work.row.payload["library_id"] == bad.pk:
            raise OSError("the disk is on fire")
        return None

    monkeypatch.setitem(handlers._handlers, "scan", scan)
    failing, fine = ask(bad), ask(good)
    assert drain("jobs") == 3, "both scans, one after the other without a sweep, and one hash job for both"
    assert (fresh(failing).status, fresh(failing).error) == ("failed", "OSError: the disk is on fire")
    assert (fresh(fine).status, fresh(fine).error) == ("completed", None)
