"""Claim, renew, finish, release, recover: the same words for every leased table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from pytest_django.fixtures import Settings

from database.clock import SecondsFromNow
from jobs.errors import LeaseLost
from jobs.lease import Lease
from jobs.models import Job, WalMaintenanceJob
from logbook.models import LogbookEvent
from tests import factories
from thumbnails.models import Thumbnail, ThumbnailCleanupJob

pytestmark = pytest.mark.django_db


def claimed(model: Any, *, seconds: float | None = None) -> Lease[Any]:
    lease = model.objects.claim("w", seconds=seconds)
    assert lease is not None
    return lease  # type: ignore[no-any-return]


def make(model: Any) -> Any:
    if model is Job:
        return factories.pending_job("thumbnail")
    if model is Thumbnail:
        return factories.pending_thumbnail()
    if model is ThumbnailCleanupJob:
        return ThumbnailCleanupJob.objects.create(group_key="blake3:00")
    return WalMaintenanceJob.objects.create()


LEASED = [Job, Thumbnail, ThumbnailCleanupJob, WalMaintenanceJob]
every_table = pytest.mark.parametrize("model", LEASED, ids=lambda model: model.__name__)


def test_claim_takes_the_oldest_pending_job() -> None:
    first = factories.pending_job("thumbnail")
    factories.pending_job("thumbnail")
    lease = claimed(Job)
    assert lease.row.pk == first.pk
    assert lease.row.status == "running"
    assert lease.row.started_at is not None


def test_claim_orders_times_of_every_precision() -> None:
    """Texts without a fraction, with three and with six digits are compared as the moments they mean."""
    times = ["2026-01-01 00:00:00", "2026-01-01 00:00:00.250", "2026-01-01 00:00:00.250001", "2026-01-01 00:00:01"]
    for number, text in reversed(list(enumerate(times))):
        with connection.cursor() as cursor:
            zone = "" if connection.vendor == "sqlite" else "+00"
            cursor.execute(
                "INSERT INTO jobs (id, kind, created_at) VALUES (%s, 'thumbnail', %s)", [f"j{number}", text + zone]
            )
    assert [claimed(Job).row.pk for _ in times] == ["j0", "j1", "j2", "j3"]


@every_table
def test_a_claimed_row_is_nobody_else_s(model: Any) -> None:
    make(model)
    claimed(model)
    assert model.objects.claim("other") is None


@every_table
def test_a_claim_hands_over_the_row_as_the_database_has_it(model: Any) -> None:
    make(model)
    row = claimed(model).row
    stored = model.objects.get(pk=row.pk)
    for column in model._meta.concrete_fields:
        assert getattr(row, column.attname) == getattr(stored, column.attname), column.name
    assert row._state.db == "executor"


def test_every_claim_writes_its_own_values(settings: Settings) -> None:
    """Statements are composed once: nothing of the first row may stick to the second."""
    source = factories.library_file()
    settings.THUMBNAIL_CONCURRENCY = {"image": 9, "video": 9}
    for number in range(3):
        factories.pending_thumbnail(f"t{number}", of=source)
    first, second, third = (claimed(Thumbnail, seconds=seconds) for seconds in (50, 500, 50))
    assert list(Thumbnail.objects.filter(lease_expires_at__gt=SecondsFromNow(100))) == [second.row]
    first.finish("ready", width=1, height=2, retry_after=None)
    second.finish("failed", code="X", message="why", retry_after=SecondsFromNow(1000))
    third.finish("failed", code=None, message=None, retry_after=SecondsFromNow(10))
    columns = ("status", "worker_id", "width", "height", "error_code", "error_message")
    assert list(Thumbnail.objects.order_by("thumb_key").values_list(*columns)) == [
        ("ready", first.worker_id, 1, 2, None, None),
        ("failed", second.worker_id, None, None, "X", "why"),
        ("failed", third.worker_id, None, None, None, None),
    ]
    assert list(Thumbnail.objects.filter(retry_after__gt=SecondsFromNow(100))) == [second.row]


def test_a_claim_that_finds_the_only_place_taken_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = make(WalMaintenanceJob)
    beaten = WalMaintenanceJob.objects.create(status="retryable")
    found = iter([beaten.pk, waiting.pk])
    monkeypatch.setattr(type(WalMaintenanceJob.objects.all()), "_oldest_due", lambda *_, **__: next(found))
    assert claimed(WalMaintenanceJob).row.pk == waiting.pk
    beaten.refresh_from_db()
    assert beaten.status == "retryable"


@every_table
def test_a_lost_lease_is_recovered_by_the_next_claim_and_says_so(model: Any) -> None:
    row = make(model)
    claimed(model)
    factories.expire(row)
    if model is WalMaintenanceJob:
        assert model.objects.claim("next") is None, "a checkpoint waits for its retry_after"
    elif model is Job:
        assert model.objects.claim("next") is None, "putting a job back is for policy to decide"
    else:
        assert claimed(model).worker_id.startswith("w:")
    row.refresh_from_db()
    assert row.error_code == "LEASE_EXPIRED"
    assert "lease ran out" in row.error_message
    expected = {Job: "retryable", Thumbnail: "running", ThumbnailCleanupJob: "running", WalMaintenanceJob: "retryable"}
    assert row.status == expected[model]


def test_recovery_keeps_an_error_that_stands_already() -> None:
    row = factories.pending_thumbnail(error_code="THUMB_DECODE_FAILED", error_message="not a picture")
    claimed(Thumbnail)
    factories.expire(row)
    assert Thumbnail.objects.recover() == 1
    row.refresh_from_db()
    assert (row.error_code, row.error_message) == ("THUMB_DECODE_FAILED", "not a picture")


def test_a_running_row_without_a_lease_is_stale() -> None:
    job = factories.pending_job("scan")
    Job.objects.filter(pk=job.pk).update(status="running", worker_id="w", lease_expires_at=None)
    assert Job.objects.recover() == 1


def test_a_recovered_checkpoint_counts_and_waits() -> None:
    row = make(WalMaintenanceJob)
    claimed(WalMaintenanceJob)
    factories.expire(row)
    WalMaintenanceJob.objects.recover()
    row.refresh_from_db()
    assert row.retry_count == 1
    assert WalMaintenanceJob.objects.filter(retry_after__gt=SecondsFromNow(100)).exists()
    WalMaintenanceJob.objects.update(retry_after=SecondsFromNow(-1))
    assert claimed(WalMaintenanceJob).row.pk == row.pk


@every_table
def test_an_old_claim_can_not_renew_finish_release_or_write(model: Any) -> None:
    row = make(model)
    old = claimed(model)
    factories.expire(row)
    outcome = sorted(model.lease_rules.outcomes)[0]
    writes: list[Callable[[], None]] = [old.renew, old.release, lambda: old.finish(outcome)]
    for write in writes:
        with pytest.raises(LeaseLost):
            write()
    with pytest.raises(LeaseLost), old.fenced("scan"):
        raise AssertionError("unreachable")


@every_table
def test_another_worker_s_id_opens_nothing(model: Any) -> None:
    row = make(model)
    claimed(model)
    thief = Lease.of(model, row.pk, "thief")
    with pytest.raises(LeaseLost):
        thief.renew()
    row.refresh_from_db()
    assert row.status == "running"


@every_table
def test_a_released_row_is_free_at_once(model: Any) -> None:
    row = make(model)
    claimed(model).release()
    row.refresh_from_db()
    assert row.status == model.lease_rules.recovered
    assert (row.worker_id, row.worker_heartbeat_at, row.lease_expires_at) == (None, None, None)


@every_table
def test_a_row_that_was_lost_before_and_is_given_back_in_order_tells_of_no_loss(model: Any) -> None:
    row = make(model)
    lease = claimed(model)
    model.objects.filter(pk=row.pk).update(error_code="LEASE_EXPIRED", error_message="once")
    lease.release()
    row.refresh_from_db()
    expected = ("WORKER_STOPPED", "Its worker was stopped and gave it back.") if model is Job else (None, None)
    assert (row.error_code, row.error_message) == expected


def test_a_row_that_is_given_back_keeps_another_error() -> None:
    row = factories.pending_thumbnail(error_code="THUMB_DECODE_FAILED", error_message="not a picture")
    claimed(Thumbnail).release()
    row.refresh_from_db()
    assert (row.error_code, row.error_message) == ("THUMB_DECODE_FAILED", "not a picture")


def test_renewing_prolongs_the_lease_and_progress_never_goes_back(settings: Settings) -> None:
    job, lease = factories.running_job("scan")
    settings.LEASE_SECONDS = 1000
    lease.renew(7, 10)
    lease.renew(3, 10)
    job.refresh_from_db()
    assert (job.processed_items, job.total_items, job.progress) == (7, 10, 0.7)
    assert Job.objects.filter(lease_expires_at__gt=SecondsFromNow(900)).exists()


@pytest.mark.parametrize("total", [0, None])
def test_progress_without_a_total_is_no_error(total: int | None) -> None:
    job, lease = factories.running_job("scan")
    lease.renew(5, total)
    job.refresh_from_db()
    assert (job.processed_items, job.progress) == (5, 0.0)


def test_finish_refuses_a_status_that_is_no_outcome() -> None:
    _, lease = factories.running_job("scan")
    with pytest.raises(ValueError, match="can't finish as pending"):
        lease.finish("pending")


def test_finish_clears_an_older_error() -> None:
    job, lease = factories.running_job("scan")
    Job.objects.update(error_code="LEASE_EXPIRED", error_message="once")
    lease.finish("completed")
    job.refresh_from_db()
    assert (job.status, job.progress, job.error_code, job.error_message) == ("completed", 1.0, None, None)
    assert job.finished_at is not None


def test_a_fenced_write_is_undone_when_it_fails() -> None:
    _, lease = factories.running_job("scan")
    library = factories.library()
    with pytest.raises(RuntimeError), lease.fenced("scan"):
        _add_file(library.pk, then_fail=True)
    assert not library.files.exists()
    with lease.fenced("scan"):
        _add_file(library.pk)
    assert library.files.count() == 1


def _add_file(library: int, *, then_fail: bool = False) -> None:
    from libraries.models import LibraryFile

    LibraryFile.objects.using("executor").create(library_id=library, relative_path="a", size_bytes=1, mtime_ns=1)
    if then_fail:
        raise RuntimeError("in the middle of a batch")


def test_thumbnails_run_up_to_the_limit_of_their_media_type(settings: Settings) -> None:
    settings.THUMBNAIL_CONCURRENCY = {"image": 2, "video": 1}
    source = factories.library_file()
    for number in range(4):
        factories.pending_thumbnail(f"i{number}", of=source)
        factories.pending_thumbnail(f"v{number}", of=source, media_type="video")
    taken = [claimed(Thumbnail).row.media_type for _ in range(3)]
    assert sorted(taken) == ["image", "image", "video"]
    assert Thumbnail.objects.claim("w") is None


def test_a_cleanup_waits_for_its_time_and_for_its_group() -> None:
    later = ThumbnailCleanupJob.objects.create(group_key="later", execute_after=SecondsFromNow(60))
    ThumbnailCleanupJob.objects.create(group_key="busy")
    waiting = factories.pending_thumbnail(group_key="busy")
    assert ThumbnailCleanupJob.objects.claim("w") is None
    Thumbnail.objects.filter(pk=waiting.pk).update(status="failed")
    assert claimed(ThumbnailCleanupJob).row.group_key == "busy"
    ThumbnailCleanupJob.objects.filter(pk=later.pk).update(execute_after=SecondsFromNow(0))
    assert claimed(ThumbnailCleanupJob).row.group_key == "later"


def test_what_a_recovery_did_is_in_the_logbook() -> None:
    job, lease = factories.running_job("scan")
    factories.expire(job)
    Job.objects.recover()
    event = LogbookEvent.objects.about("jobs", job.pk).last()
    assert event is not None
    assert (event.status_from, event.status_to) == ("running", "retryable")
    assert (event.worker_id, event.error_code) == (lease.worker_id, "LEASE_EXPIRED")
    assert "lease ran out" in event.payload_json["message"]
