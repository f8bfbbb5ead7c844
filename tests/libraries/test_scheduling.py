"""Schedules: intervals and cron expressions, across changes of the clock, asked for once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pytest_django.fixtures import Settings

from database.clock import SecondsFromNow
from jobs.executing import sweep_all
from libraries import queueing, scheduling
from libraries.errors import Refused
from libraries.models import LibraryRoot, ScanRequest
from logbook.models import LogbookEvent
from tests import factories

pytestmark = pytest.mark.django_db

NEVER = st.sampled_from(["", " ", "0 0 30 2 *", "* * * * * *", "@daily", "61 * * * *", "L L L L L", "*/0 * * * *"])


@pytest.fixture(autouse=True)
def berlin(settings: Settings) -> None:
    settings.TIME_ZONE = "Europe/Berlin"


def library(name: str = "photos", **fields: Any) -> LibraryRoot:
    made = factories.library(name)
    LibraryRoot.objects.filter(pk=made.pk).update(**fields)
    made.refresh_from_db()
    return made


def due(name: str = "photos", minutes_ago: float = 1, **fields: Any) -> LibraryRoot:
    chosen = fields or {"scan_interval_minutes": 60}
    return library(name, next_scan_at=SecondsFromNow(-60 * minutes_ago), **chosen)


def is_planned_ahead(row: LibraryRoot) -> bool:
    return LibraryRoot.objects.filter(pk=row.pk, next_scan_at__gt=SecondsFromNow(0)).exists()


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def following(cron: str, after: str, times: int) -> list[str]:
    moment, found = utc(after), []
    for _ in range(times):
        step = scheduling.next_run(0, cron, moment)
        assert step is not None
        assert step > moment
        moment = step
        found.append(f"{moment:%m-%d %H:%M}")
    return found


# --- When -------------------------------------------------------------------------------------------------
def test_no_schedule_is_no_run() -> None:
    for minutes in (0, -5):
        scheduling.check(minutes, "")
        assert scheduling.next_run(minutes, "", utc("2026-01-01")) is None


@pytest.mark.parametrize("change", ["2026-03-29 00:30", "2026-10-25 00:30"])
def test_an_interval_is_time_that_really_passes(change: str) -> None:
    on_the_wall = utc(change).astimezone(ZoneInfo("Europe/Berlin"))
    assert scheduling.next_run(90, "", on_the_wall) == utc(change) + timedelta(minutes=90)


def test_a_time_that_the_clock_skips_comes_right_after() -> None:
    """On 29 March 2026 02:00 to 03:00 don't exist in Berlin; 01:00 UTC is 03:00 there."""
    assert following("30 2 * * *", "2026-03-27 12:00", 3) == ["03-28 01:30", "03-29 01:00", "03-30 00:30"]


def test_a_time_that_the_clock_shows_twice_counts_once() -> None:
    """On 25 October 2026 02:30 comes at 00:30 and at 01:30 UTC."""
    assert following("30 2 * * *", "2026-10-23 12:00", 3) == ["10-24 00:30", "10-25 00:30", "10-26 01:30"]


@pytest.mark.parametrize("between", ["2026-10-25 01:00", "2026-10-25 01:29", "2026-10-25 01:45"])
def test_in_the_hour_that_comes_twice_the_next_run_is_still_ahead(between: str) -> None:
    assert following("30 2 * * *", between, 1) == ["10-26 01:30"]


def test_every_half_hour_goes_on_through_both_changes() -> None:
    for start in ("2026-03-29 00:00", "2026-10-25 00:00"):
        expected = [f"{utc(start) + timedelta(minutes=30 * step):%m-%d %H:%M}" for step in range(1, 6)]
        assert following("*/30 * * * *", start, 5) == expected


def test_a_cron_expression_is_meant_in_the_configured_zone(settings: Settings) -> None:
    assert following("0 4 * * MON", "2026-07-01 00:00", 1) == ["07-06 02:00"]
    settings.TIME_ZONE = "Asia/Kolkata"
    assert following("0 4 * * MON", "2026-07-01 00:00", 1) == ["07-05 22:30"]


@pytest.mark.parametrize(
    ("minutes", "cron", "said"),
    [
        (5, "0 4 * * *", "not both"),
        (10**9, "", "too many"),
        (0, "61 * * * *", "Bad minute"),
        (0, "0 4 * *", "has 4 fields"),
        (0, "0 0 4 * * *", "has 6 fields"),
        (0, "0 0 31 2 *", "Bad day-of-month"),
        (0, "0 0 * 2 MON#5", ""),
        (0, "@daily", "has 1 fields"),
    ],
)
def test_what_is_no_schedule_is_refused_with_what_is_wrong(minutes: int, cron: str, said: str) -> None:
    if not said:
        scheduling.check(minutes, cron)  # seldom, but it comes
        return
    with pytest.raises(Refused, match=said):
        scheduling.check(minutes, cron)


@given(cron=st.text(alphabet="0123456789*/-,#L MONJA", max_size=40) | st.text(max_size=30) | NEVER)
@example(cron="0 0 30 2 *")
@example(cron="0 0 * * 1L/2")
def test_any_text_is_a_schedule_or_refused(cron: str) -> None:
    try:
        scheduling.check(0, cron)
    except Refused:
        return
    start = utc("2026-10-24 22:00")
    step = scheduling.next_run(0, cron, start)
    assert step is None or step > start


# --- Planning ---------------------------------------------------------------------------------------------
def test_the_first_run_is_not_at_once() -> None:
    planned = library(scan_interval_minutes=60)
    scheduling.plan(planned)
    ahead = LibraryRoot.objects.filter(next_scan_at__gt=SecondsFromNow(3500), next_scan_at__lt=SecondsFromNow(3700))
    assert ahead.exists()
    assert scheduling.tick() == 0


def test_a_new_schedule_replaces_the_old_one() -> None:
    planned = due()
    LibraryRoot.objects.update(scan_interval_minutes=0, scan_cron="0 4 * * *")
    planned.refresh_from_db()
    at = scheduling.plan(planned)
    assert at is not None
    assert at.astimezone(UTC).minute == 0
    assert scheduling.tick() == 0
    planned.scan_cron = ""
    assert scheduling.plan(planned) is None
    assert not LibraryRoot.objects.filter(next_scan_at__isnull=False).exists()


def test_a_paused_library_has_no_time_and_gets_one_ahead_when_it_is_resumed() -> None:
    paused = due()
    LibraryRoot.objects.update(is_paused=True)
    assert scheduling.tick() == 0
    paused.refresh_from_db()
    assert paused.next_scan_at is None
    assert scheduling.plan(paused) is None
    LibraryRoot.objects.update(is_paused=False)
    assert scheduling.tick() == 0
    assert is_planned_ahead(paused)
    assert not ScanRequest.objects.exists()


# --- Asking -----------------------------------------------------------------------------------------------
def but_not_soon() -> str:
    """Every seven minutes, except in the hours to come: no time is reached while a test looks."""
    now = datetime.now(ZoneInfo("Europe/Berlin")).hour
    hours = [str(hour) for hour in range(24) if (hour - now) % 24 > 2]
    return f"*/7 {','.join(hours)} * * *"


@pytest.mark.parametrize("is_cron", [False, True], ids=["interval", "cron"])
def test_the_sweep_asks_once_for_all_the_times_that_were_missed(is_cron: bool) -> None:
    schedule = {"scan_cron": but_not_soon()} if is_cron else {"scan_interval_minutes": 7}
    missed = due(minutes_ago=60 * 24 * 30, **schedule)
    sweep_all()
    request = ScanRequest.objects.get()
    assert (request.library_id, request.priority, request.requested_by) == (missed.pk, 0, "schedule")
    assert LogbookEvent.objects.about("scan_requests", request.pk).get(event_type="requested").actor == "schedule"
    assert is_planned_ahead(missed)
    queueing.cancel(request.pk, actor="vera")
    sweep_all()
    assert ScanRequest.objects.count() == 1


def test_an_interval_keeps_its_rhythm() -> None:
    row = due(minutes_ago=150)
    assert row.next_scan_at is not None
    scheduling.tick()
    before = row.next_scan_at
    row.refresh_from_db()
    assert row.next_scan_at == before + timedelta(minutes=180)


def test_a_scan_that_waits_or_runs_already_is_enough() -> None:
    row = due()
    waiting = queueing.submit(row.pk, ScanRequest.Priority.HIGH, actor="vera")
    assert scheduling.tick() == 1
    request = ScanRequest.objects.get()
    assert (request.pk, request.priority) == (waiting.pk, 1)
    assert is_planned_ahead(row)


def test_one_bad_schedule_does_not_keep_the_others_from_their_time() -> None:
    due("a", scan_cron="written by hand")
    due("b", minutes_ago=0.5)
    assert scheduling.tick() == 1
    assert ScanRequest.objects.get().library.name == "b"


def test_a_library_that_is_being_removed_is_not_scanned() -> None:
    due()
    LibraryRoot.objects.update(removing_at=SecondsFromNow(0))
    assert scheduling.tick() == 0
    assert not ScanRequest.objects.exists()
