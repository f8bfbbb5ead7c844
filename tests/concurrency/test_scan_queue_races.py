"""Real processes at the scan queue at the same moment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from database.clock import SecondsFromNow
from jobs import deciding
from jobs.models import Job
from libraries import queueing
from libraries.models import HashState, LibraryRoot, ScanRequest
from logbook.models import LogbookEvent
from tests import factories
from tests.concurrency.racing import release, start

pytestmark = pytest.mark.django_db

Race = Callable[..., list[list[str]]]


@pytest.fixture
def race(child_environment: dict[str, str], tmp_path: Path) -> Race:
    """Run each `(verb, argument)` in a process of its own, all from the same moment on; return what each printed."""

    def run(*verbs: tuple[str, int]) -> list[list[str]]:
        gate = tmp_path / "go"
        environment = {**child_environment, "DEDUPFS_SQLITE_BUSY_SECONDS": "120"}
        return release([start("queue_racer", environment, *each, gate) for each in verbs], gate)

    return run


def make_libraries(count: int, **fields: object) -> list[LibraryRoot]:
    made = [factories.library(f"library {number}") for number in range(count)]
    LibraryRoot.objects.update(**fields)
    HashState.objects.create(pk=1, is_paused=True)
    return made


def test_eight_processes_that_ask_for_one_library_get_one_request(race: Race) -> None:
    libraries = make_libraries(10)
    printed = race(*[("submit", number % 2) for number in range(8)])
    assert ScanRequest.objects.count() == len(libraries)
    for number, library in enumerate(libraries):
        request = ScanRequest.objects.get(library=library)
        assert {answers[number] for answers in printed} == {request.pk}
        assert request.priority == 1, "somebody asked by hand, and nobody lowered it"
    assert Job.objects.get() == Job.objects.holding_slot().get()


def test_one_of_several_consumers_fills_the_slot(race: Race) -> None:
    libraries = make_libraries(3)
    blocker = deciding.enqueue("scan", actor="vera")
    requests = [queueing.submit(library.pk, 0, actor="vera") for library in libraries]
    deciding.cancel(blocker.pk, actor="vera")
    printed = race(*[("promote", 0)] * 6)
    assert sorted(answer for answers in printed for answer in answers) == ["False"] * 5 + ["True"]
    assert Job.objects.holding_slot().get().payload["request_id"] == requests[0].pk
    assert ScanRequest.objects.filter(job__isnull=False).count() == 1


def test_several_schedulers_ask_once_for_what_is_due(race: Race) -> None:
    make_libraries(5, scan_interval_minutes=10, next_scan_at=SecondsFromNow(-3600))
    printed = race(*[("tick", 0)] * 6)
    assert sum(int(answer) for answers in printed for answer in answers) == 5
    assert ScanRequest.objects.count() == 5
    assert not LibraryRoot.objects.filter(next_scan_at__lte=SecondsFromNow(0)).exists()
    assert LogbookEvent.objects.filter(event_type="requested", item__item_type="scan_requests").count() == 5


def test_asking_cancelling_and_working_at_once_leaves_every_row_in_step(race: Race) -> None:
    make_libraries(3)
    race(*[(verb, seed) for verb in ("ask", "cancel", "work") for seed in (1, 2)])
    assert Job.objects.holding_slot().count() <= 1
    active = ScanRequest.objects.filter(status__in=ScanRequest.ACTIVE)
    assert active.count() == active.values("library").distinct().count()
    in_step: dict[str, set[str | None]] = {
        "pending": {"pending", "retryable", None}, "running": {"running"}, "completed": {"completed"},
        "failed": {"failed"}, "cancelled": {"cancelled", None},
    }  # fmt: skip
    for request in ScanRequest.objects.select_related("job"):
        assert (request.job and request.job.status) in in_step[request.status], request.pk
        assert (request.completed_at is None) == (request.status in ScanRequest.ACTIVE)
        if request.job is not None and request.status == "pending":
            assert request.job.payload["accept_missing"] == request.accept_missing
    assert ScanRequest.objects.filter(status="completed").exists()
    _finish_the_rest()


def _finish_the_rest() -> None:
    """Nothing is stuck: what waits gets its turn, one after the other."""
    deciding.requeue_retryable()
    while (lease := Job.objects.claim("last")) is not None:
        lease.finish("completed")
        queueing.promote()
    assert not ScanRequest.objects.filter(status__in=ScanRequest.ACTIVE).exists()
