"""The eight properties of the scan queue, each on its own, on rows in whatever state.

`test_queueing_machine.py` lets them meet in random sequences; `test_scan_queue_races.py` in several processes.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from database.clock import SecondsFromNow
from jobs.models import Job
from libraries import queueing
from libraries.errors import Refused
from libraries.models import HashState, LibraryRoot, ScanRequest
from tests import factories

pytestmark = pytest.mark.django_db

#: At least a hundred of each; `make torture` asks for more.
EXAMPLES = max(100, settings().max_examples)
LIBRARIES = 4
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
priorities = st.sampled_from([0, 1])
active = st.sampled_from(["pending", "running"])
ended = st.sampled_from(["completed", "failed", "cancelled"])
places = st.integers(0, LIBRARIES - 1)
#: Who waits: a place in the list is a library, a None one without a request.
crowds = st.lists(st.none() | priorities, min_size=LIBRARIES, max_size=LIBRARIES)
hundred = settings(max_examples=EXAMPLES)


@pytest.fixture
def libraries() -> list[LibraryRoot]:
    HashState.objects.create(pk=1, is_paused=True)
    return [factories.library(f"library {number}") for number in range(LIBRARIES)]


def only(rows: Iterable[ScanRequest]) -> list[ScanRequest]:
    """Let these requests be all there is."""
    for table in (ScanRequest.objects, Job.objects):
        table.all()._raw_delete("default")
    return ScanRequest.objects.bulk_create(rows)


def waiting(libraries: list[LibraryRoot], crowd: list[int | None], seconds: Iterable[float]) -> list[ScanRequest]:
    rows = zip(libraries, crowd, seconds, strict=True)
    return only(
        ScanRequest(library=library, priority=priority, created_at=LONG_AGO + timedelta(seconds=second))
        for library, priority, second in rows
        if priority is not None
    )


@hundred
@given(place=places, priority=priorities, crowd=crowds)
def test_p1_a_new_request_exists_and_waits(
    libraries: list[LibraryRoot], place: int, priority: int, crowd: list[int | None]
) -> None:
    crowd[place] = None
    before = waiting(libraries, crowd, range(LIBRARIES))
    request = queueing.submit(libraries[place].pk, priority, actor="vera")
    assert request.pk not in {row.pk for row in before}
    found = queueing.get(request.pk)
    assert found is not None
    assert (found.status, found.priority, found.library_id) == ("pending", priority, libraries[place].pk)


@hundred
@given(crowd=crowds, seconds=st.lists(st.sampled_from([0, 0.25, 0.5, 1, 2]), min_size=LIBRARIES, max_size=LIBRARIES))
def test_p2_high_goes_before_normal_and_then_the_earlier(
    libraries: list[LibraryRoot], crowd: list[int | None], seconds: list[float]
) -> None:
    rows = waiting(libraries, crowd, seconds)
    expected = sorted(rows, key=lambda row: (-row.priority, row.created_at, row.pk))
    assert list(queueing.pending()) == expected
    taken = []
    while queueing.promote():
        taken.append(Job.objects.holding_slot().get().payload["request_id"])
        for status in ("running", "completed"):
            Job.objects.holding_slot().update(status=status)
    assert taken == [row.pk for row in expected]


@hundred
@given(first=ended, others=st.lists(ended, max_size=3), now=st.none() | active)
def test_p3_an_id_tells_its_current_status(
    libraries: list[LibraryRoot], first: str, others: list[str], now: str | None
) -> None:
    statuses = [first, *others, *([now] if now else [])]
    rows = only(ScanRequest(library=libraries[0], status=status) for status in statuses)
    for row, status in zip(rows, statuses, strict=True):
        found = queueing.get(row.pk)
        assert found is not None
        assert (found.pk, found.status) == (row.pk, status)
    current = queueing.current(libraries[0].pk)
    assert current == (rows[-1] if now else None)


@hundred
@given(ends=st.lists(st.tuples(ended, st.floats(0.1, 100).filter(lambda hours: abs(hours - 24) > 0.1)), max_size=12))
def test_p4_the_history_has_everything_that_ended_lately(
    libraries: list[LibraryRoot], ends: list[tuple[str, float]]
) -> None:
    only([ScanRequest(library=libraries[1], status="pending")])
    rows = [
        ScanRequest.objects.create(library=libraries[0], status=status, completed_at=SecondsFromNow(-hours * 3600))
        for status, hours in ends
    ]
    recent = {row.pk for row, (_, hours) in zip(rows, ends, strict=True) if hours < 24}
    history = list(queueing.history())
    assert {row.pk for row in history} == recent
    times = [row.completed_at for row in history if row.completed_at]
    assert times == sorted(times, reverse=True)
    assert len(times) == len(recent)


@hundred
@given(place=places, crowd=crowds)
def test_p5_a_cancelled_request_is_gone_from_the_queue(
    libraries: list[LibraryRoot], place: int, crowd: list[int | None]
) -> None:
    crowd[place] = crowd[place] or 0
    rows = waiting(libraries, crowd, range(LIBRARIES))
    chosen = next(row for row in rows if row.library_id == libraries[place].pk)
    assert queueing.cancel(chosen.pk, actor="vera").status == "cancelled"
    assert set(queueing.pending()) == set(rows) - {chosen}
    assert chosen in queueing.history()


@hundred
@given(status=ended, place=places, crowd=crowds)
def test_p6_what_has_ended_can_not_be_cancelled(
    libraries: list[LibraryRoot], status: str, place: int, crowd: list[int | None]
) -> None:
    waiting(libraries, crowd, range(LIBRARIES))
    row = ScanRequest.objects.create(library=libraries[place], status=status)
    with pytest.raises(Refused, match=f"is {status};"):
        queueing.cancel(row.pk, actor="vera")
    row.refresh_from_db()
    assert (row.status, row.completed_at) == (status, None), "nothing was written"


@hundred
@given(place=places, status=active, asked=priorities, crowd=crowds)
def test_p7_an_active_request_is_the_answer(
    libraries: list[LibraryRoot], place: int, status: str, asked: int, crowd: list[int | None]
) -> None:
    crowd[place] = crowd[place] or 0
    rows = waiting(libraries, crowd, range(LIBRARIES))
    chosen = next(row for row in rows if row.library_id == libraries[place].pk)
    ScanRequest.objects.filter(pk=chosen.pk).update(status=status)
    assert queueing.submit(libraries[place].pk, asked, actor="vera").pk == chosen.pk
    assert set(ScanRequest.objects.all()) == set(rows)


@hundred
@given(status=active, was=priorities, asked=st.lists(priorities, min_size=1, max_size=6))
def test_p8_a_waiting_request_is_raised_and_never_lowered_and_a_running_one_left_alone(
    libraries: list[LibraryRoot], status: str, was: int, asked: list[int]
) -> None:
    only([ScanRequest(library=libraries[0], status=status, priority=was)])
    for priority in asked:
        queueing.submit(libraries[0].pk, priority, actor="vera")
    expected = max(was, *asked) if status == "pending" else was
    assert ScanRequest.objects.get().priority == expected
