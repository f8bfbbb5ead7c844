"""Asking for thumbnails: one row for each key, no more than there is room for, and failed ones only when it is time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from database.clock import SecondsFromNow
from libraries.models import LibraryFile
from tests import factories
from thumbnails import admitting
from thumbnails.admitting import QueueFull, ready, repair, request
from thumbnails.keys import relpath_of, thumb_key
from thumbnails.models import Thumbnail

pytestmark = pytest.mark.django_db
GROUP = f"blake3:{'a' * 64}"


def files(count: int, suffix: str = "jpg", **fields: Any) -> list[LibraryFile]:
    library = factories.library()
    return [factories.library_file(f"{number:03}.{suffix}", library, **fields) for number in range(count)]


@pytest.fixture
def rung(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    heard: list[str] = []
    monkeypatch.setattr(admitting, "ring", heard.append)
    return heard


def finish(status: str, **columns: Any) -> Thumbnail:
    lease = Thumbnail.objects.claim("test")
    assert lease is not None
    lease.finish(status, **columns)
    return Thumbnail.objects.get(pk=lease.row.pk)


def test_a_row_waits_with_all_that_a_worker_needs() -> None:
    (file,) = files(1, size_bytes=11, mtime_ns=22)
    asked = request([file], group_keys={file.pk: GROUP}, max_dimension=640, format="jpeg")
    row = Thumbnail.objects.get()
    assert asked[file.pk].key == row.thumb_key == thumb_key(file, 640, "jpeg")
    assert asked[file.pk].status == row.status == "pending"
    assert (row.file_id, row.group_key, row.media_type) == (file.pk, GROUP, "image")
    assert (row.format, row.max_dimension, row.version) == ("jpeg", 640, 1)
    assert (row.source_size_bytes, row.source_mtime_ns) == (11, 22)
    assert row.output_relpath == relpath_of(row.thumb_key, "jpeg")
    row.refresh_from_db()
    assert row.created_at is not None, "the database's own defaults"


def test_asking_again_finds_the_same_row_and_writes_nothing(rung: list[str]) -> None:
    some = files(3)
    first = request(some)
    with CaptureQueriesContext(connection) as queries:
        assert request(some) == first
    assert len(queries) == 1
    assert Thumbnail.objects.count() == 3
    assert len(rung) == 3


def test_two_hundred_are_asked_for_in_a_few_statements(rung: list[str], settings: Settings) -> None:
    settings.THUMBNAIL_CONCURRENCY = {"image": 5, "video": 2}
    some = files(200)
    with CaptureQueriesContext(connection) as queries:
        request(some)
    assert len(queries) <= 8, [query["sql"][:80] for query in queries]
    assert Thumbnail.objects.filter(status="pending").count() == 200
    assert rung == ["thumbnails"] * 7, "once for each that may be rendered at the same time"


def test_the_same_file_twice_is_one_row() -> None:
    (file,) = files(1)
    assert list(request([file, file])) == [file.pk]
    assert Thumbnail.objects.count() == 1


def test_what_can_not_be_decoded_here_is_not_let_in() -> None:
    some = files(1)
    some += [factories.library_file(name, some[0].library) for name in ("a.txt", "jpg")]
    asked = request(some)
    assert [each.status for each in asked.values()].count("unsupported") == 2
    assert Thumbnail.objects.count() == 1


def test_videos_are_told_from_images() -> None:
    (file,) = files(1, "MP4")
    request([file])
    assert Thumbnail.objects.get().media_type == "video"


def test_a_missing_file_is_not_let_in_but_its_picture_is_still_there() -> None:
    (file,) = files(1)
    request([file])
    finish("ready", width=3, height=2, bytes_size=1)
    file.is_missing = True
    assert request([file])[file.pk].status == "ready"
    Thumbnail.objects.all().delete()
    asked = request([file])[file.pk]
    assert (asked.status, asked.error_code) == ("failed", "THUMB_SOURCE_MISSING")
    assert not Thumbnail.objects.exists()


# --- Capacity ---------------------------------------------------------------------------------------------
def test_no_more_are_let_in_than_there_is_room_for(settings: Settings) -> None:
    settings.THUMBNAIL_CAPACITY = 3
    some = files(5)
    with pytest.raises(QueueFull, match="3 thumbnails wait") as full:
        request(some)
    assert {asked.status for asked in full.value.asked.values()} == {"pending"}
    assert len(full.value.asked) == Thumbnail.objects.count() == 3
    lease = Thumbnail.objects.claim("test")
    assert lease is not None
    with pytest.raises(QueueFull):
        request(some[3:])  # one that runs takes its place still
    lease.finish("ready", width=1, height=1, bytes_size=1)
    with pytest.raises(QueueFull):
        request(some)
    assert Thumbnail.objects.filter(status="pending").count() == 3


def test_what_is_there_is_told_also_when_the_queue_is_full(settings: Settings) -> None:
    settings.THUMBNAIL_CAPACITY = 1
    some = files(3)
    with pytest.raises(QueueFull):
        request(some)
    first = Thumbnail.objects.get().file
    assert request([first])[first.pk].status == "pending"


# --- Again ------------------------------------------------------------------------------------------------
def test_a_failed_one_comes_back_after_its_time_and_not_before(rung: list[str], settings: Settings) -> None:
    (file,) = files(1)
    request([file])
    row = finish("failed", code="THUMB_DECODE_FAILED", message="why", error_count=1, retry_after=SecondsFromNow(60))
    asked = request([file])[file.pk]
    assert (asked.status, asked.error_code, asked.error_message) == ("failed", "THUMB_DECODE_FAILED", "why")
    assert asked.retry_after is not None
    Thumbnail.objects.update(retry_after=SecondsFromNow(-1))
    # By now it was touched and hashed to the same content: a worker compares with what the row says.
    LibraryFile.objects.update(mtime_ns=5)
    settings.THUMBNAIL_CAPACITY = 0
    with pytest.raises(QueueFull):
        request([file])
    settings.THUMBNAIL_CAPACITY = 1
    assert request([file])[file.pk].status == "pending"
    row.refresh_from_db()
    assert (row.status, row.error_count, row.source_mtime_ns, row.finished_at) == ("pending", 1, 5, None)
    assert len(rung) == 2


def test_a_source_that_changed_has_a_new_row(thumb_root: Path) -> None:
    (file,) = files(1)
    before = request([file])[file.pk].key
    finish("ready", width=1, height=1, bytes_size=1)
    assert list(ready([file.pk])) == [file.pk]
    LibraryFile.objects.update(size_bytes=99)
    file.refresh_from_db()
    assert ready([file.pk]) == {}, "a picture of what it was is not shown"
    asked = request([file])[file.pk]
    assert asked.key != before
    assert asked.status == "pending"
    assert Thumbnail.objects.count() == 2


def test_those_that_can_be_shown_are_found_in_one_query() -> None:
    some = files(3)
    request(some)
    finish("ready", width=4, height=3, bytes_size=9)
    finish("failed", code="X")
    with CaptureQueriesContext(connection) as queries:
        found = ready([file.pk for file in some])
        assert [(row.width, row.height) for row in found.values()] == [(4, 3)]
        assert ready([file.pk for file in some], 640) == {}
    assert len(queries) == 2


def test_a_picture_that_is_gone_is_made_again(rung: list[str], settings: Settings) -> None:
    (file,) = files(1)
    request([file])
    row = finish("ready", width=1, height=1, bytes_size=1)
    settings.THUMBNAIL_CAPACITY = 0
    assert not repair(row)
    settings.THUMBNAIL_CAPACITY = 1
    assert repair(row)
    assert not repair(row), "it waits already"
    assert Thumbnail.objects.get().status == "pending"
    assert len(rung) == 2


def test_a_picture_of_what_the_file_was_is_not_made_again() -> None:
    (file,) = files(1)
    request([file])
    row = finish("ready", width=1, height=1, bytes_size=1)
    LibraryFile.objects.update(size_bytes=99)
    assert not repair(row)
    assert Thumbnail.objects.get().status == "ready"


def test_a_picture_joins_the_group_it_is_looked_at_in() -> None:
    (file,) = files(1)
    request([file])
    assert Thumbnail.objects.get().group_key == f"file:{file.pk}"
    request([file], group_keys={file.pk: GROUP})
    assert Thumbnail.objects.get().group_key == GROUP
    request([file])
    request([file], group_keys={file.pk: "blake3:other"})
    assert Thumbnail.objects.get().group_key == GROUP


def test_a_file_whose_row_goes_meanwhile_is_missing_and_no_sign_of_a_full_queue() -> None:
    gone, stays = files(2)
    LibraryFile.objects.filter(pk=gone.pk).delete()
    asked = request([gone, stays])
    assert (asked[gone.pk].status, asked[gone.pk].error_code) == ("failed", "THUMB_SOURCE_MISSING")
    assert asked[stays.pk].status == "pending"
