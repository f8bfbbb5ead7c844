"""One row of figures a day: made once, kept up through the day, and never a dip that was none."""

from __future__ import annotations

from datetime import timedelta
from threading import Barrier, Thread

import pytest
from django.core.cache import cache
from django.db import connections
from django.utils import timezone

from database.clock import SecondsFromNow
from dedupfs_site import daily_samples
from dedupfs_site.models import DailySample
from duplicates import listing
from jobs.living import _chores
from libraries.models import LibraryState
from tests import factories
from tests.waiting import until
from trash.models import Act

pytestmark = pytest.mark.django_db
DIGEST = {"hash_algorithm": "blake3", "content_hash": b"d" * 32, "needs_hash": False}


def two_copies(size: int = 500) -> None:
    library = factories.library()
    for name in "ab":
        factories.library_file(name, library, size_bytes=size, **DIGEST)
    LibraryState.objects.create(library=library, file_count=2, total_bytes=2 * size)


def sample_is_old() -> None:
    DailySample.objects.update(updated_at=SecondsFromNow(-daily_samples.EVERY_SECONDS))


def test_figures_are_those_of_index_groups_and_trash() -> None:
    two_copies()
    going = factories.library("going", removing_at=SecondsFromNow(0))
    LibraryState.objects.create(library=going, file_count=7, total_bytes=7)
    Act.objects.create(verb="empty", authorised_by="ada", trashed_bytes=40, space={"disk": [1000, 1300]})
    assert daily_samples.note_today()
    sample = DailySample.objects.get()
    assert sample.day == timezone.localdate()
    assert (sample.file_count, sample.total_bytes, sample.reclaimable_bytes) == (2, 1000, 500)
    assert (sample.trashed_bytes, sample.freed_bytes) == (40, 300)


def test_a_day_has_one_row_and_its_figures_follow() -> None:
    assert daily_samples.note_today()
    two_copies()
    assert not daily_samples.note_today(), "somebody did so just now"
    assert DailySample.objects.get().file_count == 0
    sample_is_old()
    cache.clear()  # on a slow machine totals are kept for a while
    assert daily_samples.note_today()
    assert DailySample.objects.get().reclaimable_bytes == 500


def test_while_groups_are_counted_anew_the_figure_before_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    yesterday = timezone.localdate() - timedelta(days=1)
    DailySample.objects.create(day=yesterday, reclaimable_bytes=9000)
    two_copies()
    partial = listing.Totals(groups=0, files=0, reclaimable_bytes=3, is_exact=False)
    monkeypatch.setattr(listing, "totals", lambda *_: partial)
    assert daily_samples.note_today()
    today = DailySample.objects.get(day=timezone.localdate())
    assert (today.reclaimable_bytes, today.file_count) == (9000, 2)


def test_of_many_at_once_one_takes_the_figures() -> None:
    barrier = Barrier(4)
    answers: list[bool] = []

    def come() -> None:
        barrier.wait()
        try:
            answers.append(daily_samples.note_today())
        finally:
            connections.close_all()

    threads = [Thread(target=come) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [False, False, False, True]
    assert DailySample.objects.count() == 1


def test_every_consumer_has_the_chore(start_consumer: object) -> None:
    assert _chores["take the day's figures"].verb is daily_samples.note_today
    start_consumer()  # type: ignore[operator]
    until(lambda: DailySample.objects.exists(), "a consumer to note the day's figures")
