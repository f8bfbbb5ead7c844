"""Removing thumbnails: only what is finished, only below the thumbnail root, and only what nobody needs."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from database.clock import SecondsFromNow
from jobs.executing import drain, sweep_all
from libraries import removing
from libraries.models import LibraryFile
from logbook.models import LogbookEvent
from tests.thumbnails.photos import photos, pictures_in, state_of
from tests.tree import tree
from thumbnails import cleaning, orphans, store, tidying
from thumbnails.admitting import request
from thumbnails.cleaning import schedule
from thumbnails.keys import place_of
from thumbnails.models import Thumbnail, ThumbnailCleanupJob

pytestmark = pytest.mark.django_db
GROUP, OTHER = f"blake3:{'a' * 64}", f"blake3:{'b' * 64}"


@pytest.fixture
def living(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The groups that there are, as the room above would tell."""
    groups: set[str] = set()

    def among(keys: Sequence[str]) -> set[str]:
        return groups & set(keys)

    monkeypatch.setattr(cleaning, "_living", [among])
    return groups


@pytest.fixture(autouse=True)
def _walks_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidying, "_thumbnails_after", 0)
    monkeypatch.setattr(tidying, "_jobs_after", 0)
    orphans._left.clear()


def finished(files: list[LibraryFile], group: str | None = GROUP, status: str = "ready") -> list[Thumbnail]:
    """Thumbnails of these files as an executor leaves them, with pictures that stand for real ones."""
    request(files, group_keys={file.pk: group for file in files} if group else {})
    rows = []
    for file in files:
        lease = Thumbnail.objects.filter(file=file).claim("test")
        assert lease is not None
        columns: dict[str, Any] = {"width": 1, "height": 1, "bytes_size": 7} if status == "ready" else {}
        if status == "ready":
            store.save(place_of(lease.row), b"picture")
        lease.finish(status, **columns)
        rows.append(Thumbnail.objects.get(pk=lease.row.pk))
    return rows


def test_a_groups_thumbnails_go_and_nothing_else(tmp_path: Path, thumb_root: Path) -> None:
    files = photos(tmp_path / "library", *(f"{number}.jpg" for number in range(5)))
    before = state_of(tmp_path / "library")
    finished(files[:2])
    finished(files[2:3], status="failed")
    kept = finished(files[3:], OTHER)
    schedule(GROUP, 0)
    drain("thumbnail_cleanup")
    job = ThumbnailCleanupJob.objects.get()
    assert (job.status, job.error_code, job.lease_expires_at) == ("completed", None, None)
    assert set(Thumbnail.objects.values_list("pk", flat=True)) == {row.pk for row in kept}
    assert pictures_in(thumb_root) == sorted(place_of(row) for row in kept)
    assert len(list(thumb_root.iterdir())) == len({row.thumb_key[:2] for row in kept}), "no empty folder is left"
    assert state_of(tmp_path / "library") == before


def test_it_is_not_done_before_its_time(tmp_path: Path, thumb_root: Path, settings: Settings) -> None:
    finished(photos(tmp_path / "library", "a.jpg"))
    settings.THUMBNAIL_CLEANUP_HOURS = 2
    schedule(GROUP)
    job = ThumbnailCleanupJob.objects.filter(execute_after__lt=SecondsFromNow(7300))
    assert job.filter(execute_after__gt=SecondsFromNow(7100)).exists()
    drain("thumbnail_cleanup")
    assert Thumbnail.objects.exists()
    settings.THUMBNAIL_CLEANUP_HOURS = 0
    schedule(GROUP)
    drain("thumbnail_cleanup")
    assert not Thumbnail.objects.exists()


def test_it_waits_while_one_of_the_group_waits_or_runs(tmp_path: Path, thumb_root: Path) -> None:
    files = photos(tmp_path / "library", "a.jpg", "b.jpg")
    finished(files[:1])
    request(files[1:], group_keys={files[1].pk: GROUP})
    schedule(GROUP, 0)
    drain("thumbnail_cleanup")
    lease = Thumbnail.objects.claim("test")
    assert lease is not None
    drain("thumbnail_cleanup")
    assert ThumbnailCleanupJob.objects.get().status == "pending"
    lease.finish("failed", code="X")
    drain("thumbnail_cleanup")
    assert not Thumbnail.objects.exists()


def test_scheduling_again_sets_the_one_row_anew(tmp_path: Path, thumb_root: Path) -> None:
    first = schedule(GROUP, 0, actor="vera")
    drain("thumbnail_cleanup")
    ThumbnailCleanupJob.objects.update(error_code="X", error_message="x")
    again = schedule(GROUP, 60)
    assert (again.pk, again.status, again.error_code, again.finished_at) == (first.pk, "pending", None, None)
    schedule(GROUP, 0)
    lease = ThumbnailCleanupJob.objects.claim("test")
    assert lease is not None
    assert schedule(GROUP, 0).status == "running", "one that runs is left to run"
    assert LogbookEvent.objects.get(event_type="requested").actor == "vera"


def test_rows_that_name_a_place_outside_go_without_touching_it(tmp_path: Path, thumb_root: Path) -> None:
    files = photos(tmp_path / "library", "a.jpg", "b.jpg")
    rows = finished(files)
    Thumbnail.objects.filter(pk=rows[0].pk).update(output_relpath="../../library/a.jpg")
    before = state_of(tmp_path / "library")
    schedule(GROUP, 0)
    drain("thumbnail_cleanup")
    job = ThumbnailCleanupJob.objects.get()
    assert (job.status, job.error_code) == ("completed", "THUMB_PATH_POLICY_REJECTED")
    assert not Thumbnail.objects.exists()
    assert state_of(tmp_path / "library") == before


def test_a_thumbnail_folder_swapped_for_a_library_costs_no_file(tmp_path: Path, thumb_root: Path) -> None:
    (row,) = finished(photos(tmp_path / "library", "a.jpg"))
    shard = thumb_root / place_of(row)[:5]
    decoy = tree(tmp_path / "decoy", {Path(place_of(row)).name: b"precious"})
    shard.rename(tmp_path / "aside")
    shard.symlink_to(decoy)
    before = state_of(decoy)
    schedule(GROUP, 0)
    drain("thumbnail_cleanup")
    assert state_of(decoy) == before


def test_a_picture_that_can_not_be_removed_fails_the_clean_up(tmp_path: Path, thumb_root: Path) -> None:
    row, other = finished(photos(tmp_path / "library", "a.jpg", "b.jpg"))
    store.remove(place_of(row))
    (thumb_root / place_of(row)).mkdir(parents=True)
    schedule(GROUP, 0)
    drain("thumbnail_cleanup")
    job = ThumbnailCleanupJob.objects.get()
    assert (job.status, job.error_code) == ("failed", "THUMB_CLEANUP_FAILED")
    assert "EISDIR" in (job.error_message or "")
    assert Thumbnail.objects.get() == row, "its row still tells of it, and the other went"
    assert not (thumb_root / place_of(other)).exists()


# --- What nobody needs ------------------------------------------------------------------------------------
def waiting() -> set[str]:
    return set(ThumbnailCleanupJob.objects.filter(status="pending").values_list("group_key", flat=True))


def test_a_group_that_dissolved_is_scheduled_and_withdrawn_when_it_comes_back(
    tmp_path: Path, thumb_root: Path, living: set[str]
) -> None:
    files = photos(tmp_path / "library", "a.jpg", "b.jpg")
    finished(files[:1])
    finished(files[1:], OTHER)
    living |= {GROUP, OTHER}
    sweep_all()
    assert waiting() == set()
    living.remove(GROUP)
    sweep_all()
    assert waiting() == {GROUP}
    due = ThumbnailCleanupJob.objects.get().execute_after
    sweep_all()
    assert ThumbnailCleanupJob.objects.get().execute_after == due, "looking again does not put it off"
    living.add(GROUP)
    sweep_all()
    assert waiting() == set()
    assert Thumbnail.objects.count() == 2


def test_while_nobody_tells_of_groups_they_all_live(tmp_path: Path, thumb_root: Path, living: set[str]) -> None:
    cleaning._living.clear()
    finished(photos(tmp_path / "library", "a.jpg"))
    tidying.tidy_all()
    assert waiting() == set()


def test_while_groups_are_not_known_nothing_is_scheduled_and_nothing_withdrawn(
    tmp_path: Path, thumb_root: Path, living: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = photos(tmp_path / "library", "a.jpg", "b.jpg")
    finished(files[:1])
    tidying.tidy_all()
    due = ThumbnailCleanupJob.objects.get().execute_after
    finished(files[1:], OTHER)
    monkeypatch.setattr(cleaning, "_living", [*cleaning._living, lambda _: None])
    tidying.tidy_all()
    assert waiting() == {GROUP}
    assert ThumbnailCleanupJob.objects.get().execute_after == due, "its clock does not start anew"


def test_a_picture_that_stands_with_another_file_comes_back_to_its_own(
    tmp_path: Path, thumb_root: Path, living: set[str]
) -> None:
    mine, other = photos(tmp_path / "library", "a.jpg", "b.jpg")
    finished([mine], f"file:{other.pk}")
    tidying.tidy_all()
    assert Thumbnail.objects.get().group_key == f"file:{mine.pk}"


@pytest.mark.parametrize("group", [GROUP, None], ids=["in a group", "without a group"])
@pytest.mark.parametrize("change", [{"is_missing": True}, {"size_bytes": 99}], ids=["gone", "changed"])
def test_a_file_that_is_gone_or_changed_loses_its_picture_alone(
    tmp_path: Path, thumb_root: Path, living: set[str], settings: Settings, change: dict[str, Any], group: str | None
) -> None:
    living.add(GROUP)
    files = photos(tmp_path / "library", "a.jpg", "b.jpg")
    finished(files, group)
    LibraryFile.objects.filter(pk=files[0].pk).update(**change)
    sweep_all()
    key = f"file:{files[0].pk}"
    assert waiting() == {key}
    assert Thumbnail.objects.count() == 2
    LibraryFile.objects.filter(pk=files[0].pk).update(is_missing=False, size_bytes=files[0].size_bytes)
    sweep_all()
    assert waiting() == set(), "it is there again"
    LibraryFile.objects.filter(pk=files[0].pk).update(**change)
    settings.THUMBNAIL_CLEANUP_HOURS = 0
    sweep_all()
    drain("thumbnail_cleanup")
    assert [row.file_id for row in Thumbnail.objects.all()] == [files[1].pk]
    assert len(pictures_in(thumb_root)) == 1


def test_what_waits_is_looked_through_in_portions(tmp_path: Path, thumb_root: Path, living: set[str]) -> None:
    files = photos(tmp_path / "library", *(f"{number}.jpg" for number in range(5)))
    for number, file in enumerate(files):
        finished([file], f"blake3:{number:064x}")
    after, seen = 0, []
    while after := tidying.forsake(after, portion=2):
        seen.append(len(waiting()))
    assert seen == [2, 4]
    assert len(waiting()) == 5
    assert tidying.withdraw(0, portion=2) > 0
    living |= waiting()
    after = 0
    while after := tidying.withdraw(after, portion=2):
        pass
    assert waiting() == set()


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_old_clean_ups_are_forgotten(status: str) -> None:
    schedule(GROUP, 0)
    lease = ThumbnailCleanupJob.objects.claim("test")
    assert lease is not None
    lease.finish(status)
    tidying.forget_old()
    assert ThumbnailCleanupJob.objects.exists()
    ThumbnailCleanupJob.objects.update(finished_at=SecondsFromNow(-tidying.KEPT_SECONDS - 9))
    tidying.forget_old()
    assert not ThumbnailCleanupJob.objects.exists()


# --- Orphans ----------------------------------------------------------------------------------------------
def aged(path: Path) -> None:
    long_ago = time.time() - orphans.YOUNG_SECONDS - 9
    os.utime(path, (long_ago, long_ago))


def test_files_without_rows_and_stale_temporary_ones_go(tmp_path: Path, thumb_root: Path) -> None:
    kept, lost, young = finished(photos(tmp_path / "library", "a.jpg", "b.jpg", "c.jpg"))
    Thumbnail.objects.filter(pk__in=[lost.pk, young.pk]).delete()
    temporary = f"{place_of(kept)[:5]}/.{kept.thumb_key}.webp.{'0' * 16}.tmp"
    tree(thumb_root, {temporary: b"", "ab/cd/notes.txt": b"mine", "readme": b"mine"})
    for place in (place_of(kept), place_of(lost), temporary, "ab/cd/notes.txt", "readme"):
        aged(thumb_root / place)
    assert {orphan.relpath for orphan in orphans.find_orphans()} == {place_of(lost), temporary}
    assert orphans.remove_orphans() == 2
    assert set(pictures_in(thumb_root)) == {place_of(kept), place_of(young), "ab/cd/notes.txt", "readme"}


def test_an_orphan_that_is_made_anew_meanwhile_stays(tmp_path: Path, thumb_root: Path) -> None:
    (row,) = finished(photos(tmp_path / "library", "a.jpg"))
    Thumbnail.objects.all().delete()
    aged(thumb_root / place_of(row))
    (orphan,) = orphans.find_orphans()
    store.save(place_of(row), b"new")
    assert not store.remove_kept(orphan)
    assert (thumb_root / place_of(row)).read_bytes() == b"new"


def test_an_orphan_that_can_not_be_removed_keeps_no_other(
    tmp_path: Path, thumb_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = finished(photos(tmp_path / "library", "a.jpg", "b.jpg"))
    Thumbnail.objects.all().delete()
    for row in rows:
        aged(thumb_root / place_of(row))
    real, tried = store.remove_kept, []

    def remove_kept(kept: store.Kept) -> bool:
        tried.append(kept)
        if len(tried) == 1:
            raise PermissionError(1, "Operation not permitted")
        return real(kept)

    monkeypatch.setattr(store, "remove_kept", remove_kept)
    assert orphans.remove_orphans() == 1


def test_consumers_find_orphans_a_folder_at_a_time(tmp_path: Path, thumb_root: Path) -> None:
    rows = finished(photos(tmp_path / "library", *(f"{number}.jpg" for number in range(4))))
    Thumbnail.objects.all().delete()
    for row in rows:
        aged(thumb_root / place_of(row))
    folders = len(store.shards())
    assert sum(orphans.remove_some() for _ in range(folders)) == 4
    assert list(thumb_root.iterdir()) == []
    assert orphans.remove_some() == 0


def test_a_removed_library_takes_its_rows_along_and_its_pictures_follow(tmp_path: Path, thumb_root: Path) -> None:
    files = photos(tmp_path / "library", "a.jpg", "b.jpg")
    rows = finished(files[:1])
    request(files[1:])
    before = state_of(tmp_path / "library")
    removing.remove(files[0].library_id, actor="vera", even_if_unseen=True)
    assert removing.carry_on() == 1
    assert not Thumbnail.objects.exists()
    aged(thumb_root / place_of(rows[0]))
    assert orphans.remove_orphans() == 1
    assert pictures_in(thumb_root) == []
    assert state_of(tmp_path / "library") == before
