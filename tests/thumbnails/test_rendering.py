"""Making thumbnails with the real renderer: what becomes of the row, the picture and the source."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread
from threading import enumerate as threads
from typing import Any

import pytest
from PIL import Image
from pytest_django import Settings

from database.clock import SecondsFromNow
from jobs import stopping
from jobs.budgets import charge
from jobs.errors import LeaseLost
from jobs.executing import drain, sweep_all
from jobs.models import IoRateLimit
from jobs.working import Work, kept_alive
from libraries.models import LibraryFile
from logbook.models import LogbookEvent
from tests.conftest import Consumers
from tests.libraries.dead_disk import dead_disk
from tests.thumbnails.photos import jpeg, photos, pictures_in, state_of
from tests.tree import tree
from tests.waiting import until
from thumbnails import opening, rendering, store
from thumbnails.admitting import request
from thumbnails.models import Thumbnail
from thumbnails.render_pool import close_all

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _children_end() -> Iterator[None]:
    yield
    close_all()


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return tmp_path / "library"


def rendered(files: list[LibraryFile]) -> list[Thumbnail]:
    """Ask for their pictures and make them, here."""
    request(files)
    drain("thumbnails")
    return list(Thumbnail.objects.order_by("file_id"))


def test_a_picture_is_made_and_the_source_is_as_before(library: Path, thumb_root: Path) -> None:
    files = photos(library, "a.jpg", "deep/er/b.JPG", b"caf\xe9/\xff.jpg")
    before = state_of(library)
    rows = rendered(files)
    assert [row.status for row in rows] == ["ready"] * 3
    for row in rows:
        picture = thumb_root / (row.output_relpath or "")
        with Image.open(picture) as image:
            assert (image.format, image.size) == ("WEBP", (row.width, row.height)) == ("WEBP", (64, 48))
        assert row.bytes_size == picture.stat().st_size
        assert (row.error_count, row.error_code, row.retry_after, row.lease_expires_at) == (0, None, None, None)
    assert len(pictures_in(thumb_root)) == 3
    assert state_of(library) == before


def test_a_damaged_file_fails_with_its_code_and_waits_longer_each_time(library: Path, thumb_root: Path) -> None:
    file = photos(library, "a.jpg")[0]
    (library / "a.jpg").write_bytes(b"no picture")
    os.utime(library / "a.jpg", ns=(0, file.mtime_ns))
    LibraryFile.objects.update(size_bytes=10)
    file.refresh_from_db()
    (row,) = rendered([file])
    assert (row.status, row.error_code, row.error_count) == ("failed", "THUMB_DECODE_FAILED", 1)
    assert row.error_message
    for count, seconds in ((2, 60), (3, 120), (7, 1800), (20, 1800)):
        Thumbnail.objects.update(retry_after=SecondsFromNow(-1), error_count=count - 1)
        rendered([file])
        assert Thumbnail.objects.get().error_count == count
        late, early = SecondsFromNow(seconds + 5), SecondsFromNow(seconds - 25)
        assert Thumbnail.objects.filter(retry_after__lt=late, retry_after__gt=early).exists()
    assert pictures_in(thumb_root) == []
    (library / "a.jpg").write_bytes(jpeg())
    os.utime(library / "a.jpg", ns=(0, file.mtime_ns))
    LibraryFile.objects.update(size_bytes=len(jpeg()))
    Thumbnail.objects.update(retry_after=SecondsFromNow(-1))
    rendered([file])  # by its old key: the row takes the file as it is now
    row = Thumbnail.objects.get()
    assert (row.status, row.error_count, row.error_code, row.retry_after) == ("ready", 0, None, None)


def test_the_waits_grow_as_the_protocol_says() -> None:
    waits = [rendering.retry_seconds(errors) for errors in (1, 2, 3, 4, 5, 6, 7, 8, 10_000)]
    assert waits == [30, 60, 120, 240, 480, 960, 1800, 1800, 1800]


def test_a_source_that_is_another_by_now_is_not_rendered(library: Path, thumb_root: Path) -> None:
    changed, gone, folder = files = photos(library, "changed.jpg", "gone.jpg", "folder.jpg")
    (library / "changed.jpg").write_bytes(jpeg((10, 10)))
    (library / "gone.jpg").unlink()
    (library / "folder.jpg").unlink()
    (library / "folder.jpg").mkdir()
    codes = {row.file_id: row.error_code for row in rendered(files)}
    assert codes == {
        changed.pk: "THUMB_SOURCE_CHANGED", gone.pk: "THUMB_SOURCE_UNREADABLE", folder.pk: "THUMB_SOURCE_CHANGED"
    }  # fmt: skip
    assert pictures_in(thumb_root) == []


def test_a_source_that_changes_while_it_is_read_is_not_kept(
    library: Path, thumb_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def touch(point: str) -> None:
        if point == "thumb_opened":
            os.utime(library / "a.jpg")

    files = photos(library, "a.jpg")
    monkeypatch.setattr(rendering, "reach", touch)
    (row,) = rendered(files)
    assert (row.status, row.error_code) == ("failed", "THUMB_SOURCE_CHANGED")
    assert pictures_in(thumb_root) == []


# --- Doors ------------------------------------------------------------------------------------------------
def test_links_out_of_the_library_are_not_followed(library: Path, thumb_root: Path, tmp_path: Path) -> None:
    files = photos(library, "file.jpg", "folder/a.jpg")
    secret = tree(tmp_path / "secret", {"a.jpg": (library / "folder/a.jpg").read_bytes()}) / "a.jpg"
    os.utime(secret, ns=(0, files[1].mtime_ns))
    (library / "file.jpg").unlink()
    (library / "file.jpg").symlink_to(secret)
    (library / "folder").rename(tmp_path / "aside")
    (library / "folder").symlink_to(tmp_path / "secret")
    assert [row.error_code for row in rendered(files)] == ["THUMB_PATH_POLICY_REJECTED"] * 2
    assert pictures_in(thumb_root) == []


@pytest.mark.parametrize("path", ["../secret/a.jpg", "/{}/secret/a.jpg", "x/../../secret/a.jpg", "./a.jpg", "x//a.jpg"])
def test_a_path_that_leaves_the_library_is_refused(library: Path, thumb_root: Path, tmp_path: Path, path: str) -> None:
    files = photos(library, "a.jpg", "x/a.jpg")[:1]
    tree(tmp_path / "secret", {"a.jpg": jpeg()})
    LibraryFile.objects.filter(pk=files[0].pk).update(relative_path=path.format(tmp_path))
    (row,) = rendered(files)
    assert (row.status, row.error_code) == ("failed", "THUMB_PATH_POLICY_REJECTED")


def test_a_library_that_is_on_its_way_out_is_not_looked_for_in_the_working_folder(
    library: Path, thumb_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = photos(library, "a.jpg")
    files[0].library.__class__.objects.update(root_path="removed/1")
    photos(tmp_path / "removed/1", "a.jpg", name="decoy")
    monkeypatch.chdir(tmp_path)
    (row,) = rendered(files)
    assert row.error_code == "THUMB_PATH_POLICY_REJECTED"


def test_a_thumbnail_folder_that_is_a_link_is_refused(library: Path, thumb_root: Path, tmp_path: Path) -> None:
    files = photos(library, "a.jpg")
    before = state_of(library)
    request(files)
    row = Thumbnail.objects.get()
    thumb_root.mkdir(parents=True)
    (thumb_root / row.thumb_key[:2]).symlink_to(library)
    drain("thumbnails")
    row.refresh_from_db()
    assert (row.status, row.error_code) == ("failed", "THUMB_PATH_POLICY_REJECTED")
    assert state_of(library) == before


def test_a_row_that_names_a_place_outside_is_refused(library: Path, thumb_root: Path) -> None:
    files = photos(library, "a.jpg")
    request(files)
    Thumbnail.objects.update(output_relpath=f"{library}/a.jpg")
    before = state_of(library)
    drain("thumbnails")
    assert Thumbnail.objects.get().error_code == "THUMB_PATH_POLICY_REJECTED"
    assert state_of(library) == before


def test_a_disk_that_is_full_is_that_rows_error(
    library: Path, thumb_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    files = photos(library, "a.jpg")
    monkeypatch.setattr(store, "_write", full)
    (row,) = rendered(files)
    assert (row.status, row.error_code) == ("failed", "THUMB_GENERATION_FAILED")
    assert "ENOSPC" in (row.error_message or "")
    assert pictures_in(thumb_root) == []


# --- Disks that don't answer ------------------------------------------------------------------------------
def is_opener(thread: Thread) -> bool:
    return isinstance(thread, opening._Opener)


def test_a_dead_disk_is_given_up_and_holds_up_no_other(library: Path, thumb_root: Path, settings: Settings) -> None:
    dead = photos(library / "dead", *(f"{number}.jpg" for number in range(8)), name="dead")
    alive, warm = photos(library / "alive", "a.jpg", "b.jpg", name="alive")
    rendered([warm])  # a process that has to be started first takes a busy machine longer than this
    settings.THUMBNAIL_SECONDS = {"image": 4, "video": 4}
    with dead_disk(library / "dead"):
        began = time.monotonic()
        rows = rendered([*dead, alive])
        assert time.monotonic() - began < 6 * 4, "only the first of eight waited"
        assert len(set(filter(is_opener, threads())) - set(opening._idle)) == 1, "only one thread hangs"
        assert {row.error_code for row in rows[:8]} == {"THUMB_SOURCE_UNREACHABLE"}
        assert rows[8].status == "ready"
    until(lambda: not opening._hanging, "the call to come back")
    Thumbnail.objects.update(retry_after=SecondsFromNow(-1))
    assert {row.status for row in rendered(dead)} == {"ready"}


def test_a_consumer_outlives_a_dead_disk(start_consumer: Consumers, library: Path, thumb_root: Path) -> None:
    dead = photos(library / "dead", *(f"{number}.jpg" for number in range(6)), name="dead")
    with dead_disk(library / "dead"):
        request(dead)
        # The process that renders the last one has to be started in this time as well.
        start_consumer(DEDUPFS_THUMBNAIL_IMAGE_SECONDS="10", DEDUPFS_CONSUMER_WORKERS="2")
        until(lambda: Thumbnail.objects.filter(status="failed").count() == 6, "all to be given up")
        alive = photos(library / "alive", "a.jpg", name="alive")
        request(alive)
        until(lambda: Thumbnail.objects.filter(status="ready").exists(), "the other disk's picture")


@pytest.mark.parametrize("call", ["_look_and_close", "_open"])
def test_a_disk_that_dies_when_the_file_is_looked_at_or_closed_holds_up_nobody(
    library: Path, thumb_root: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    warm, *files = photos(library, "a.jpg", "b.jpg", "c.jpg")
    rendered([warm])
    settings.THUMBNAIL_SECONDS = {"image": 5, "video": 5}  # in which a small picture is made on a busy machine, too
    before, answers, real = set(os.listdir("/proc/self/fd")), Event(), getattr(opening, call)

    def silent(*arguments: Any) -> Any:
        found = real(*arguments)
        assert answers.wait(60)
        return found

    monkeypatch.setattr(opening, call, silent)
    codes = [row.error_code for row in rendered(files)]
    assert codes == [None, "THUMB_SOURCE_UNREACHABLE", "THUMB_SOURCE_UNREACHABLE"]
    answers.set()
    until(lambda: not opening._hanging, "the call to come back")
    until(lambda: set(os.listdir("/proc/self/fd")) <= before, "the file to be closed")
    Thumbnail.objects.filter(status="failed").update(retry_after=SecondsFromNow(-1))
    assert {row.status for row in rendered(files)} == {"ready"}


def test_whatever_an_opener_meets_the_disk_has_answered(
    library: Path, thumb_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    files = photos(library, "a.jpg")
    monkeypatch.setattr(opening, "open_file", fail)
    assert [row.error_code for row in rendered(files)] == ["THUMB_SOURCE_UNREADABLE"]
    assert opening._hanging == {}


# --- The budget -------------------------------------------------------------------------------------------
def test_what_is_read_is_charged_once(library: Path, thumb_root: Path, settings: Settings) -> None:
    files = photos(library, "a.jpg", "b.jpg")
    settings.THUMBNAIL_IO_BYTES = 1000
    size = sum(file.size_bytes for file in files)
    began = time.time()
    rendered(files)
    took = time.time() - began
    (bucket,) = IoRateLimit.objects.all()
    assert bucket.bucket_key == "thumbnail_io_global"
    paid = bucket.next_available_at_ms / 1000 - began
    assert size / 1000 <= paid <= size / 1000 + took - 0.9 * size / 1000 + 0.5, "each byte once"
    assert took >= size / 1000 * 0.9, "and it is waited for"


@pytest.mark.parametrize("harm", ["changed", "a link", "full", "lost"])
def test_what_was_read_is_charged_also_where_nothing_came_of_it(
    library: Path, thumb_root: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    def spoil(point: str) -> None:
        if harm == "changed" and point == "thumb_opened":
            os.utime(library / "a.jpg")
        if harm == "lost" and point == "thumb_rendered":
            raise LeaseLost("somebody else has it")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    files = photos(library, "a.jpg")
    request(files)
    settings.THUMBNAIL_IO_BYTES = 1 << 20
    monkeypatch.setattr(rendering, "reach", spoil)
    if harm == "a link":
        thumb_root.parent.mkdir()
        thumb_root.symlink_to(library)
    elif harm == "full":
        monkeypatch.setattr(store, "_write", full)
    charged: list[int] = []

    def noted(bucket: str, amount: int, limit: int) -> float:
        charged.append(amount)
        return charge(bucket, amount, limit)

    monkeypatch.setattr(rendering, "charge", noted)
    monkeypatch.setattr("jobs.executing.stopping.is_requested", lambda: bool(charged))
    drain("thumbnails")
    assert Thumbnail.objects.get().status == ("running" if harm == "lost" else "failed")
    assert len(charged) == 1
    assert charged[0] >= files[0].size_bytes


def test_a_file_that_left_the_index_is_told(library: Path, thumb_root: Path) -> None:
    request(photos(library, "a.jpg"))
    lease = Thumbnail.objects.claim("test")
    assert lease is not None
    lease.row.file_id = 10**9
    outcome = rendering.render_one(Work(lease))
    assert (outcome.status, outcome.code) == ("failed", "THUMB_SOURCE_UNREADABLE")


def test_without_a_limit_nothing_is_charged(library: Path, thumb_root: Path) -> None:
    rendered(photos(library, "a.jpg"))
    assert not IoRateLimit.objects.exists()


def test_a_stopping_consumer_does_not_wait_until_it_is_paid(
    library: Path, thumb_root: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.THUMBNAIL_IO_BYTES = 1
    real = store.save

    def save(relpath: str, data: bytes) -> None:
        real(relpath, data)
        monkeypatch.setattr(stopping, "is_requested", lambda: True)

    monkeypatch.setattr(store, "save", save)
    request(photos(library, "a.jpg"))
    began = time.monotonic()
    drain("thumbnails")
    assert time.monotonic() - began < 60, "at a byte a second it would be hours"
    assert Thumbnail.objects.get().status == "ready"


# --- Threads ----------------------------------------------------------------------------------------------
def test_both_places_are_used_though_nobody_rang(start_consumer: Consumers, library: Path, thumb_root: Path) -> None:
    """The sweep lets as many threads look as may render. What was read long ago is not paid yet, so they stay at it."""
    request(photos(library, *(f"{number}.jpg" for number in range(6))))
    owed = (time.time() + 600) * 1000
    IoRateLimit.objects.create(bucket_key="thumbnail_io_global", next_available_at_ms=owed)
    start_consumer(DEDUPFS_THUMBNAIL_IO_MB="1", DEDUPFS_SWEEP_SECONDS="3600", DEDUPFS_LEASE_SECONDS="60")
    until(lambda: len(pictures_in(thumb_root)) == 2, "two pictures at the same time")
    assert Thumbnail.objects.filter(status="running").count() == 2


def test_one_thread_of_a_consumer_is_left_for_others(library: Path, settings: Settings) -> None:
    settings.THUMBNAIL_CONCURRENCY = {"image": 6, "video": 6}
    settings.CONSUMER_WORKERS = 3
    request(photos(library, *(f"{number}.jpg" for number in range(6))))
    with ExitStack() as held:
        for _ in range(2):
            lease = rendering.claimable().claim("test")
            assert lease is not None
            held.enter_context(kept_alive(Work(lease)))
        assert rendering.claimable().claim("test") is None
        settings.CONSUMER_WORKERS = 4
        assert rendering.claimable().due().exists()
    settings.CONSUMER_WORKERS = 1
    assert rendering.claimable().due().exists(), "a consumer with one thread renders, too"


def test_the_sweep_rings_once_for_each_that_may_be_rendered(
    library: Path, thumb_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    request(photos(library, *(f"{number}.jpg" for number in range(5))))
    monkeypatch.setattr(rendering, "ring", heard.append)
    monkeypatch.setattr("jobs.executing.ring", heard.append)
    sweep_all()
    assert heard.count("thumbnails") == 3


def test_every_move_is_in_the_logbook(library: Path, thumb_root: Path) -> None:
    (row,) = rendered(photos(library, "a.jpg"))
    moves = LogbookEvent.objects.about("thumbnails", str(row.pk)).values_list("status_from", "status_to")
    assert list(moves) == [(None, "pending"), ("pending", "running"), ("running", "ready")]
