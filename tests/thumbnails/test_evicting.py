"""The size of the cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_django import Settings

from database.clock import SecondsFromNow
from tests.conftest import Consumers
from tests.thumbnails.photos import photos, pictures_in
from tests.waiting import until
from thumbnails import evicting, store
from thumbnails.admitting import request
from thumbnails.keys import place_of
from thumbnails.models import Thumbnail
from thumbnails.touching import touch

pytestmark = pytest.mark.django_db


def pictures(tmp_path: Path, count: int, size: int = 100) -> list[Thumbnail]:
    """Pictures of that size, the first looked at last."""
    files = photos(tmp_path / "library", *(f"{number}.jpg" for number in range(count)))
    request(files)
    for number, file in enumerate(files):
        lease = Thumbnail.objects.filter(file=file).claim("test")
        assert lease is not None
        store.save(place_of(lease.row), b"x" * size)
        lease.finish("ready", width=1, height=1, bytes_size=size)
        Thumbnail.objects.filter(pk=lease.row.pk).update(last_used_at=SecondsFromNow(-7200 - number * 60))
    return list(Thumbnail.objects.order_by("file__relative_path"))


def test_those_go_first_that_nobody_has_looked_at_for_longest(
    tmp_path: Path, thumb_root: Path, settings: Settings
) -> None:
    rows = pictures(tmp_path, 5)
    request([row.file for row in rows], max_dimension=640)  # what waits takes no room, and stays
    settings.THUMBNAIL_CACHE_BYTES = 500
    assert evicting.evict() == 0
    settings.THUMBNAIL_CACHE_BYTES = 350
    assert touch(rows[4:]) == 1
    assert evicting.evict() == 2
    left = Thumbnail.objects.filter(status="ready").order_by("file__relative_path")
    assert [row.pk for row in left] == [rows[0].pk, rows[1].pk, rows[4].pk]
    assert pictures_in(thumb_root) == sorted(place_of(row) for row in left)
    assert evicting.cache_bytes() == 300
    assert Thumbnail.objects.filter(status="pending").count() == 5


def test_zero_is_no_limit(tmp_path: Path, thumb_root: Path, settings: Settings) -> None:
    pictures(tmp_path, 2)
    settings.THUMBNAIL_CACHE_BYTES = 0
    assert evicting.evict() == 0


def test_many_go_in_batches(
    tmp_path: Path, thumb_root: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures(tmp_path, 7)
    settings.THUMBNAIL_CACHE_BYTES = 1
    monkeypatch.setattr(evicting, "BATCH", 2)
    monkeypatch.setattr(evicting, "MOST_BATCHES", 2)
    assert [evicting.evict() for _ in range(3)] == [4, 3, 0]
    assert pictures_in(thumb_root) == []


def test_a_look_is_noted_at_most_once_an_hour(tmp_path: Path, thumb_root: Path) -> None:
    rows = pictures(tmp_path, 2)
    assert touch(rows) == 2
    assert touch(rows) == 0
    assert touch(Thumbnail.objects.all()) == 0
    assert touch([]) == 0


def test_what_can_not_be_removed_keeps_no_other(tmp_path: Path, thumb_root: Path, settings: Settings) -> None:
    rows = pictures(tmp_path, 3)
    oldest = thumb_root / place_of(rows[2])
    oldest.unlink()
    oldest.mkdir()
    settings.THUMBNAIL_CACHE_BYTES = 150
    assert [evicting.evict(), evicting.evict()] == [2, 0]
    assert list(Thumbnail.objects.all()) == [rows[2]]


def test_a_consumer_holds_the_limit(tmp_path: Path, thumb_root: Path, start_consumer: Consumers) -> None:
    """The knob is in MB: three pictures of half of one."""
    pictures(tmp_path, 3, size=1 << 19)
    start_consumer(DEDUPFS_THUMBNAIL_CACHE_MB="1")
    until(lambda: Thumbnail.objects.count() == 2, "one to go")
    until(lambda: len(pictures_in(thumb_root)) == 2, "its picture, too")
