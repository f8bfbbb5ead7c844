"""Random sequences of everything that can happen to the scan queue, against a model.

Whatever happens, a new request waits; manual ones go before scheduled ones, then the earlier; an id tells its current
status; the history has all that ended lately; a cancelled one is gone from the queue; what has ended is not cancelled;
a library has one active request; and a waiting one is raised, never lowered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, connections
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from database.clock import SecondsFromNow
from jobs import deciding, handlers
from jobs.executing import GAVE_WAY
from jobs.lease import Lease
from jobs.models import Job
from libraries import queueing
from libraries.errors import Refused
from libraries.models import HashState, LibraryRoot, ScanRequest
from logbook.models import LogbookEvent, LogbookItem
from tests import factories

pytestmark = pytest.mark.django_db

#: The properties have their hundred examples each in `test_queueing_properties.py`; here they meet, and at length by
#: `make torture`.
EXAMPLES = 30 if settings().max_examples <= 100 else settings().max_examples
LIBRARIES = 5
NORMAL, HIGH = 0, 1
ACTIVE = ("pending", "running")
places = st.integers(0, LIBRARIES - 1)
priorities = st.sampled_from([NORMAL, HIGH])
#: Where the times of other programs begin; ours come later.
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


def written(moment: datetime, digits: int) -> str:
    """In one of the forms that the protocol allows: whole seconds where they are whole, or 3 or 6 digits more."""
    if digits == 0 and moment.microsecond == 0:
        return f"{moment:%Y-%m-%d %H:%M:%S}"
    return f"{moment:%Y-%m-%d %H:%M:%S.%f}"[: -3 if digits == 3 else None]


@dataclass
class Wish:
    """A request as it should be. `turn` is its place among equals; `job` says what became of its job."""

    place: int
    priority: int
    turn: tuple[datetime, str]
    status: str = "pending"
    job: str = ""
    attempts: int = 0
    accepts: bool = False
    is_old: bool = False
    moves: list[str] = field(default_factory=lambda: ["pending"])

    def move(self, to: str) -> None:
        self.status = to
        self.moves.append(to)


class Queue(RuleBasedStateMachine):
    """The model: every request ever made, and whether hashing is due. The slot is filled after each step by hand, so
    that each step's own doing is seen."""

    requests: Bundle[str] = Bundle("requests")

    def __init__(self) -> None:
        super().__init__()
        for model in (ScanRequest, Job, HashState, LibraryRoot, LogbookEvent, LogbookItem):
            model.objects.all().delete()
        self.libraries = [factories.library(f"library {number}") for number in range(LIBRARIES)]
        self.wishes: dict[str, Wish] = {}
        self.is_hash_due = False
        #: "" where there is none; else pending, running or retryable.
        self.hash_job = ""
        self.lease: Lease[Job] | None = None

    # --- What the model knows -----------------------------------------------------------------------------
    def active(self, place: int) -> str | None:
        return next((k for k, wish in self.wishes.items() if wish.place == place and wish.status in ACTIVE), None)

    def waiting(self) -> list[str]:
        keys = [key for key, wish in self.wishes.items() if wish.status == "pending"]
        return sorted(keys, key=lambda key: (-self.wishes[key].priority, self.wishes[key].turn))

    def is_slot_free(self) -> bool:
        jobs = {wish.job for wish in self.wishes.values()} | {self.hash_job}
        return not jobs & {"pending", "running"}

    def fill(self) -> None:
        """What should happen to the slot now."""
        if not self.is_slot_free():
            return
        waiting = self.waiting()
        first = self.wishes[waiting[0]] if waiting else None
        is_hash_wanted = self.is_hash_due or self.hash_job == "retryable"
        if is_hash_wanted and (first is None or first.priority == NORMAL):
            self.hash_job = "pending"
        elif first is not None:
            first.job = "pending"

    # --- Asking -------------------------------------------------------------------------------------------
    @initialize(target=requests, asked=st.lists(st.tuples(places, priorities, st.booleans()), max_size=4))
    def some_wait(self, asked: list[tuple[int, int, bool]]) -> Any:
        for each in asked:
            self.ask(*each)
        return multiple(*self.wishes)

    @rule(target=requests, place=places, priority=priorities, accepts=st.booleans())
    def submit(self, place: int, priority: int, accepts: bool) -> Any:
        return self.ask(place, priority, accepts)

    def ask(self, place: int, priority: int, accepts: bool) -> Any:
        request = queueing.submit(self.libraries[place].pk, priority, actor="vera", accept_missing=accepts)
        known = self.active(place)
        if known is None:
            assert request.pk not in self.wishes
            assert (request.status, request.priority) == ("pending", priority)
            turn = (request.created_at, request.pk)
            assert request.created_at >= max((wish.turn[0] for wish in self.wishes.values()), default=LONG_AGO)
            self.wishes[request.pk] = Wish(place, priority, turn, accepts=accepts)
            self.fill()
            return request.pk
        assert request.pk == known
        wish = self.wishes[known]
        if wish.status == "pending" and (priority > wish.priority or (accepts and not wish.accepts)):
            wish.priority, wish.accepts = max(wish.priority, priority), wish.accepts or accepts
            self.fill()
        return multiple()

    @rule(
        target=requests,
        place=places,
        priority=priorities,
        half_seconds=st.integers(0, 9),
        digits=st.sampled_from([0, 3, 6]),
    )
    def foreign_insert(self, place: int, priority: int, half_seconds: int, digits: int) -> Any:
        if self.active(place) is not None:
            return multiple()
        key, created = f"foreign-{len(self.wishes)}", LONG_AGO + timedelta(seconds=half_seconds / 2)
        if any(wish.turn[0] == created for wish in self.wishes.values()):
            return multiple()
        zone = "" if connection.vendor == "sqlite" else "+00"
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO scan_requests (id, library_id, priority, created_at) VALUES (%s, %s, %s, %s)",
                [key, self.libraries[place].pk, priority, written(created, digits) + zone],
            )
        self.wishes[key] = Wish(place, priority, (created, key))
        return key

    @rule(key=requests)
    def cancel(self, key: str) -> None:
        wish = self.wishes[key]
        if wish.status not in ACTIVE:
            with pytest.raises(Refused, match=f"is {wish.status};"):
                queueing.cancel(key, actor="vera")
            return
        assert queueing.cancel(key, actor="vera").status == "cancelled"
        self.ended(wish, "cancelled")

    def ended(self, wish: Wish, how: str) -> None:
        if wish.job in ("running", "retryable"):
            self.is_hash_due = True
        if wish.job == "running":
            self.lease = None
        wish.job = wish.job and how
        wish.move(how)
        if how == "cancelled":
            self.fill()

    # --- Working ------------------------------------------------------------------------------------------
    @precondition(lambda self: self.lease is None)
    @rule()
    def claim(self) -> None:
        lease = Job.objects.claim("machine")
        waiting = [key for key, wish in self.wishes.items() if wish.job == "pending"]
        if lease is None:
            assert not waiting
            assert self.hash_job != "pending"
            return
        self.lease = lease
        if lease.row.kind == "hash":
            assert self.hash_job == "pending"
            self.hash_job = "running"
            return
        (key,) = waiting
        wish = self.wishes[key]
        assert lease.row.payload == {
            "library_id": self.libraries[wish.place].pk, "request_id": key, "accept_missing": wish.accepts
        }  # fmt: skip
        wish.job = "running"
        wish.move("running")

    def running(self) -> Wish | None:
        return next((wish for wish in self.wishes.values() if wish.job == "running"), None)

    @precondition(lambda self: self.lease is not None)
    @rule(outcome=st.sampled_from(["completed", "failed"]))
    def finish(self, outcome: str) -> None:
        assert self.lease is not None
        self.lease.finish(outcome, message="why")
        wish = self.running()
        if wish is not None:
            self.ended(wish, outcome)
        else:
            self.hash_job, self.is_hash_due = "", False
        self.lease = None

    @precondition(lambda self: self.lease is not None)
    @rule(code=st.sampled_from(["LEASE_EXPIRED", "WORKER_STOPPED", GAVE_WAY]))
    def lose(self, code: str) -> None:
        assert self.lease is not None
        self.lease.release(code, "gone")
        wish = self.running()
        if wish is not None:
            wish.job = "retryable"
            wish.attempts += code == "LEASE_EXPIRED"
            wish.move("pending")
        else:
            self.hash_job = "retryable"
        self.lease = None

    @precondition(lambda self: self.is_slot_free())
    @rule()
    def promote(self) -> None:
        self.fill()
        assert queueing.promote() == (not self.is_slot_free())

    @precondition(lambda self: self.hash_job != "")
    @rule()
    def cancel_hash(self) -> None:
        job = Job.objects.get(kind="hash", status__in=Job.UNFINISHED)
        assert job.status == self.hash_job
        deciding.cancel(job.pk, actor="vera")
        if self.hash_job == "running":
            self.lease = None
        self.hash_job, self.is_hash_due = "", False

    @rule(key=requests)
    def look(self, key: str) -> None:
        wish, row = self.wishes[key], queueing.get(key)
        assert row is not None
        assert (row.pk, row.status, row.priority) == (key, wish.status, wish.priority)
        assert (row.completed_at is None) == (wish.status in ACTIVE)
        now = queueing.current(row.library_id)
        assert (now and now.pk) == self.active(wish.place)

    @rule(key=requests)
    def grow_old(self, key: str) -> None:
        """A request that ended longer ago than the history goes back."""
        if self.wishes[key].status not in ACTIVE:
            ScanRequest.objects.filter(pk=key).update(completed_at=SecondsFromNow(-25 * 3600))
            self.wishes[key].is_old = True

    # --- What must always hold ----------------------------------------------------------------------------
    @invariant()
    def every_id_tells_its_status_and_place(self) -> None:
        columns = ("pk", "status", "priority", "attempts", "accept_missing", "job__status")
        found = {key: rest for key, *rest in ScanRequest.objects.values_list(*columns)}
        assert found == {
            key: [wish.status, wish.priority, wish.attempts, wish.accepts, wish.job or None]
            for key, wish in self.wishes.items()
        }

    @invariant()
    def the_queue_is_in_order_and_the_history_is_whole(self) -> None:
        assert list(queueing.pending().values_list("pk", flat=True)) == self.waiting()
        assert Job.objects.holding_slot().count() <= 1
        recent = {key for key, wish in self.wishes.items() if wish.status not in ACTIVE and not wish.is_old}
        history = list(queueing.history())
        assert {row.pk for row in history} == recent
        ends = [row.completed_at for row in history]
        assert ends == sorted(ends, reverse=True)  # type: ignore[type-var]

    def teardown(self) -> None:
        self.statuses_moved_as_the_logbook_says()
        connections.close_all()

    def statuses_moved_as_the_logbook_says(self) -> None:
        for key, wish in self.wishes.items():
            told = LogbookEvent.objects.about("scan_requests", key).filter(event_type="status")
            assert list(told.values_list("status_to", flat=True)) == wish.moves


def test_the_scan_queue_keeps_its_properties_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(handlers._handlers, "hash", lambda _work: None)
    run_state_machine_as_test(Queue, settings=settings(max_examples=EXAMPLES, stateful_step_count=15))
