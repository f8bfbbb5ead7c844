"""A row in hand: its lease is kept in the background, and a lost one is told of."""

from __future__ import annotations

from threading import Event
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from jobs.executing import Queue, carry_out
from jobs.lease import Lease
from jobs.models import Job
from jobs.working import Work
from tests import factories

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "executor"])
WAIT_SECONDS = 30.0


@pytest.fixture
def renewed(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Event:
    """Set whenever the background has tried to renew."""
    settings.LEASE_SECONDS = 9  # renewed after a third of it; a busy machine takes its time
    tried, renew = Event(), Work.renew

    def told(work: Work[Any]) -> None:
        try:
            renew(work)
        finally:
            tried.set()

    monkeypatch.setattr(Work, "renew", told)
    return tried


def carried_out(handler: Any) -> Job:
    job, lease = factories.running_job("thumbnail")
    carry_out(Queue("jobs", Job.objects.all, lambda _row: handler), lease)
    job.refresh_from_db()
    return job


def test_a_renewal_right_after_the_end_is_no_lost_claim(
    renewed: Event, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    finish = Lease.finish

    def slow(lease: Lease[Any], *args: Any, **kwargs: Any) -> None:
        finish(lease, *args, **kwargs)
        renewed.clear()
        assert renewed.wait(WAIT_SECONDS)

    monkeypatch.setattr(Lease, "finish", slow)
    assert carried_out(lambda _work: None).status == "completed"
    assert caplog.text == ""


def test_a_claim_that_is_lost_meanwhile_is_told_of(renewed: Event, caplog: pytest.LogCaptureFixture) -> None:
    def lose(work: Work[Any]) -> None:
        Job.objects.filter(pk=work.row.pk).update(status="cancelled", lease_expires_at=None)
        renewed.clear()
        assert renewed.wait(WAIT_SECONDS)

    assert carried_out(lose).status == "cancelled"
    assert "no longer holds" in caplog.text
