"""Who gets a checkpoint and when: by wish, by force, and by the size of the log."""

from __future__ import annotations

import pytest
from django.db import IntegrityError
from pytest_django.fixtures import Settings

from database.clock import SecondsFromNow
from jobs import wal_watching
from jobs.models import WalMaintenanceJob, WalSize
from jobs.wal_deciding import DoesNotApply, Refused, TooSoon, request_checkpoint, wal_bytes
from logbook.models import LogbookEvent
from tests.jobs.checkpoints import carry_out, completed, empty_log, fill_log, on_postgresql, on_sqlite

pytestmark = pytest.mark.django_db


def ask(mode: str = "passive", *, is_forced: bool = False) -> WalMaintenanceJob:
    return request_checkpoint(mode, by="otto", reason="tidy", is_forced=is_forced)


# --- By wish ----------------------------------------------------------------------------------------------
@on_sqlite
def test_a_wish_is_a_row_with_its_reason_and_an_event() -> None:
    row = ask("restart")
    assert (row.status, row.requested_mode, row.requested_by, row.reason) == ("pending", "restart", "otto", "tidy")
    event = LogbookEvent.objects.get(event_type="requested")
    assert (event.actor, event.payload_json) == ("otto", {"mode": "restart", "reason": "tidy"})


@on_sqlite
def test_truncate_is_off_until_it_is_allowed(settings: Settings) -> None:
    with pytest.raises(Refused, match=r"truncate is not allowed here; allowed: passive, restart\..*DEDUPFS_WAL_MODES"):
        ask("truncate")
    settings.WAL_MODES = ["truncate"]
    assert ask("truncate").requested_mode == "truncate"
    with pytest.raises(Refused, match="allowed: truncate"):
        ask("passive")
    with pytest.raises(Refused, match="no mode “vacuum”"):
        ask("vacuum")
    settings.WAL_MODES = []
    with pytest.raises(Refused, match="allowed: none"):
        ask("passive")


@on_sqlite
def test_asking_again_returns_the_one_that_waits_and_may_make_it_stronger() -> None:
    first = ask("passive")
    assert ask("passive").pk == first.pk
    second = ask("restart")
    assert (second.pk, second.requested_mode) == (first.pk, "restart")
    assert ask("passive").requested_mode == "restart", "it never gets weaker"
    assert LogbookEvent.objects.filter(event_type="requested").count() == 4


@on_sqlite
def test_asking_while_one_runs_returns_it_unless_more_is_wanted() -> None:
    row = ask("passive")
    assert WalMaintenanceJob.objects.claim("worker") is not None
    assert (ask("passive").pk, ask("passive", is_forced=True).status) == (row.pk, "running")
    with pytest.raises(Refused, match=r"A passive checkpoint runs now\. Ask for restart when it has ended\."):
        ask("restart")
    assert WalMaintenanceJob.objects.get().requested_mode == "passive"


@on_sqlite
def test_one_that_was_busy_is_returned_as_it_is_and_force_tries_it_at_once() -> None:
    busy = WalMaintenanceJob.objects.create(
        requested_mode="restart", status="retryable", retry_count=3, retry_after=SecondsFromNow(600)
    )
    row = ask("restart")
    assert (row.pk, row.status) == (busy.pk, "retryable")
    assert carry_out() == 0
    other = ask("passive")
    assert other.pk != busy.pk, "a weaker one does not have to wait for it"
    carry_out()
    row = ask("restart", is_forced=True)
    assert (row.pk, row.status, row.retry_after, row.retry_count) == (busy.pk, "pending", None, 3)
    assert carry_out() == 1
    assert set(WalMaintenanceJob.objects.values_list("status", flat=True)) == {"completed"}


@on_sqlite
def test_the_next_one_keeps_its_distance_unless_forced(settings: Settings) -> None:
    settings.WAL_INTERVAL_SECONDS = 900
    completed(seconds_ago=890)
    with pytest.raises(TooSoon, match=r"ask again in \d+ seconds?, or force it") as refusal:
        ask()
    assert 1 <= refusal.value.seconds <= 10
    assert WalMaintenanceJob.objects.count() == 1
    assert ask(is_forced=True).status == "pending"
    assert LogbookEvent.objects.get(event_type="requested").payload_json["forced"] is True


@on_sqlite
def test_failed_ones_need_no_distance() -> None:
    row = ask()
    lease = WalMaintenanceJob.objects.claim("worker")
    assert lease is not None
    lease.finish("failed", code="WAL_CHECKPOINT_FAILED", message="disk")
    assert ask().pk != row.pk


@on_sqlite
def test_an_interval_that_has_passed_is_no_hindrance() -> None:
    completed(seconds_ago=901)
    assert ask().status == "pending"


def test_the_database_itself_allows_one_active_row() -> None:
    WalMaintenanceJob.objects.create()
    with pytest.raises(IntegrityError):
        WalMaintenanceJob.objects.create(status="running")


@on_sqlite
def test_long_names_of_askers_fit() -> None:
    row = request_checkpoint("passive", by="o" * 150)
    assert row.requested_by == "o" * 64


@on_postgresql
def test_on_postgresql_it_is_refused_with_words_and_nothing_is_watched() -> None:
    with pytest.raises(DoesNotApply, match="looks after its write-ahead log by itself"):
        ask()
    assert wal_bytes() is None
    assert wal_watching.look() is None
    assert not WalSize.objects.exists()
    assert not WalMaintenanceJob.objects.exists()


# --- By the size of the log -------------------------------------------------------------------------------
def forget_the_last_figure() -> None:
    """As if a minute had passed."""
    WalSize.objects.filter(seen_at__gt=SecondsFromNow(-59)).update(seen_at=SecondsFromNow(-60))


@on_sqlite
def test_a_log_past_its_limit_is_written_back_once(settings: Settings) -> None:
    settings.WAL_BYTES = 1
    fill_log()
    row = wal_watching.look()
    assert row is not None
    assert (row.requested_by, row.requested_mode) == ("automatic", "restart")
    assert "past the limit" in (row.reason or "")
    assert wal_watching.look() is None
    carry_out()
    forget_the_last_figure()
    assert wal_watching.look() is None, "not before the interval has passed"
    assert WalMaintenanceJob.objects.count() == 1


@on_sqlite
def test_a_large_file_that_does_not_grow_is_left_alone(settings: Settings) -> None:
    settings.WAL_BYTES, settings.WAL_INTERVAL_SECONDS = 1, 0
    empty_log()
    fill_log(60)
    assert wal_watching.look() is not None
    carry_out()
    WalSize.objects.update(seen_at=SecondsFromNow(-180))
    WalMaintenanceJob.objects.update(finished_at=SecondsFromNow(-120))
    for _minute in range(3):
        assert wal_watching.look() is None
        forget_the_last_figure()
    fill_log(300)
    assert wal_watching.look() is not None, "it has grown since"


@on_sqlite
def test_a_limit_of_0_and_a_small_log_ask_for_nothing(settings: Settings) -> None:
    fill_log()
    settings.WAL_BYTES = 0
    assert wal_watching.look() is None
    settings.WAL_BYTES = 1 << 40
    assert wal_watching.look() is None


@on_sqlite
def test_a_failing_disk_is_not_asked_every_minute(settings: Settings) -> None:
    settings.WAL_BYTES = 1
    fill_log()
    row = wal_watching.look()
    assert row is not None
    lease = WalMaintenanceJob.objects.claim("worker")
    assert lease is not None
    lease.finish("failed", code="WAL_CHECKPOINT_FAILED", message="disk")
    assert wal_watching.look() is None


@on_sqlite
@pytest.mark.parametrize(
    ("modes", "chosen"), [(["passive"], "passive"), (["truncate", "passive"], "truncate"), ([], None)]
)
def test_automatic_takes_the_strongest_mode_that_is_allowed(
    settings: Settings, modes: list[str], chosen: str | None
) -> None:
    settings.WAL_BYTES, settings.WAL_MODES = 1, modes
    fill_log()
    row = wal_watching.look()
    assert (row.requested_mode if row else None) == chosen


@on_sqlite
def test_one_figure_a_minute_is_kept_for_a_week() -> None:
    WalSize.objects.create(bytes_size=1, seen_at=SecondsFromNow(-8 * 86400))
    WalSize.objects.create(bytes_size=2, seen_at=SecondsFromNow(-6 * 86400))
    fill_log()
    size = wal_bytes()
    for _consumer in range(3):
        wal_watching.look()
    assert list(WalSize.objects.order_by("seen_at").values_list("bytes_size", flat=True)) == [2, size]
    forget_the_last_figure()
    wal_watching.look()
    assert WalSize.objects.count() == 3
