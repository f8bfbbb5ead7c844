"""Undo: the hash is checked on the way back, nothing is overwritten, and the file is as it was."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from duplicates.models import Plan
from jobs.models import Job
from libraries.models import LibraryFile
from logbook.models import LogbookEvent
from tests.duplicates.plans import planned
from tests.libraries.scans import scan
from tests.trash.disks import loop_disk
from tests.trash.on_disk import carried_out, index, item_at, library_on, remove_empty_folders, trash_of, trashed, undone
from tests.tree import tree
from trash import steps
from trash.authorising import ask_undo, pause
from trash.from_manifest import Told, undo_from
from trash.making_folders import Folders
from trash.marking_undone import mark_undone
from trash.models import Act, RemovedFolder, TrashItem

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("young_files_too")]
TWO = {"a.jpg": b"one", "old/b.jpg": b"one"}


def told(item: TrashItem) -> tuple[str, str]:
    item.refresh_from_db()
    return item.status, item.reason_code


def metadata(path: Path) -> dict[str, Any]:
    info = path.lstat()
    names = os.listxattr(path, follow_symlinks=False)
    return {
        "mode": info.st_mode,
        "owner": (info.st_uid, info.st_gid),
        "mtime": info.st_mtime_ns,
        "atime": info.st_atime_ns,
        "inode": info.st_ino,
        "attributes": {name: os.getxattr(path, name) for name in names},
    }


# --- What comes back ----------------------------------------------------------------------------------------
def test_undo_brings_a_plan_back_and_the_records_say_so(tmp_path: Path) -> None:
    library_on(tmp_path / "photos", {**TWO, "old/c.jpg": b"two", "d.jpg": b"two"})
    plan = planned()
    source = trashed(plan)
    assert not (tmp_path / "photos/old/b.jpg").exists()
    assert LibraryFile.objects.get(relative_path="old/b.jpg").is_missing
    act = undone(plan=plan.pk)
    assert (act.status, act.done_count, act.skipped_count, act.bytes_done) == ("completed", 2, 0, 6)
    assert (tmp_path / "photos/old/b.jpg").read_bytes() == b"one"
    assert (tmp_path / "photos/old/c.jpg").read_bytes() == b"two"
    assert {item.status for item in TrashItem.objects.all()} == {"undone"}
    assert all(item.left_by_id == act.pk and item.left_at for item in TrashItem.objects.all())
    source.refresh_from_db()
    assert (source.trashed_count, source.trashed_bytes) == (0, 0)
    assert not trash_of(tmp_path / "photos").exists()
    row = LibraryFile.objects.get(relative_path="old/b.jpg")
    info = (tmp_path / "photos/old/b.jpg").stat()
    assert not row.is_missing
    assert not row.needs_hash
    assert (row.inode, row.mtime_ns, row.ctime_ns, row.nlink) == (info.st_ino, info.st_mtime_ns, info.st_ctime_ns, 1)
    assert Job.objects.get(pk=act.job_id).status == "completed"
    assert LogbookEvent.objects.filter(event_type="undo_asked", actor="otto").exists()


def test_undo_of_an_item_leaves_the_others_in_the_trash(tmp_path: Path) -> None:
    library_on(tmp_path / "photos", {"a": b"1", "x/b": b"1", "x/c": b"1", "y/d": b"1"})
    source = trashed(planned())
    undone(items=[item_at("x/b").pk])
    assert (tmp_path / "photos/x/b").exists()
    assert not (tmp_path / "photos/x/c").exists()
    undone(folder=[item_at("y/d").library_id, "y"])
    assert (tmp_path / "photos/y/d").exists()
    assert told(item_at("x/c")) == ("trashed", "")
    source.refresh_from_db()
    assert (source.trashed_count, source.trashed_bytes) == (1, 1)
    assert trash_of(tmp_path / "photos").exists()


def test_undo_works_in_batches(tmp_path: Path, settings: Settings) -> None:
    settings.ACT_BATCH_FILES = 3
    library_on(tmp_path / "photos", {"a": b"1", **{f"x/{n}": b"1" for n in range(10)}})
    trashed(planned())
    act = undone(all=True)
    assert (act.done_count, act.status) == (10, "completed")
    assert len(list((tmp_path / "photos/x").iterdir())) == 10


@pytest.mark.parametrize("batch", [1, 10])
def test_of_two_files_of_one_path_the_one_that_went_last_comes_back(
    tmp_path: Path, settings: Settings, batch: int
) -> None:
    settings.ACT_BATCH_FILES = batch
    library = library_on(tmp_path / "photos", TWO)
    trashed(planned())
    tree(tmp_path / "photos", {"old/b.jpg": b"two", "c.jpg": b"two"})
    scan(library)
    trashed(planned())
    first, last = TrashItem.objects.filter(plan_file__relative_path="old/b.jpg").order_by("pk")
    assert undone(all=True).done_count == 1
    assert (tmp_path / "photos/old/b.jpg").read_bytes() == b"two"
    assert (told(first), told(last)) == (("trashed", "PLACE_TAKEN"), ("undone", ""))


def test_undo_of_any_name(tmp_path: Path) -> None:
    names = [b"caf\xe9.jpg", b"new\nline", b"-rf", b" trailing ", b"x" * 255, "né".encode(), b"\xef\x9e\xa9"]
    library_on(tmp_path / "photos", {b"a": b"1", **{b"deep/" + name: b"1" for name in names}})
    trashed(planned())
    assert undone(all=True).done_count == len(names)
    assert set(os.listdir(os.fsencode(tmp_path / "photos/deep"))) == set(names)


# --- Caution 16 ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("what", ["file", "folder", "dangling link", "fifo"])
def test_caution_16_undo_never_overwrites(tmp_path: Path, what: str) -> None:
    library_on(tmp_path / "photos", TWO)
    trashed(planned())
    place = tmp_path / "photos/old/b.jpg"
    if what == "file":
        place.write_bytes(b"mine")
    elif what == "folder":
        place.mkdir()
    elif what == "fifo":
        os.mkfifo(place)
    else:
        place.symlink_to("nowhere")
    before = place.lstat()
    act = undone(all=True)
    assert (act.status, act.done_count, act.skipped_count) == ("completed", 0, 1)
    assert told(item_at("old/b.jpg")) == ("trashed", "PLACE_TAKEN")
    assert place.lstat() == before
    assert what != "file" or place.read_bytes() == b"mine"
    (name,) = (trash_of(tmp_path / "photos") / item_at("old/b.jpg").act.key / "files").iterdir()
    assert name.read_bytes() == b"one"


def test_caution_16_an_item_that_stayed_can_be_asked_for_again(tmp_path: Path) -> None:
    library_on(tmp_path / "photos", TWO)
    trashed(planned())
    place = tmp_path / "photos/old/b.jpg"
    place.write_bytes(b"mine")
    undone(all=True)
    place.unlink()
    assert undone(all=True).done_count == 1
    assert place.read_bytes() == b"one"
    assert told(item_at("old/b.jpg")) == ("undone", "")


def test_caution_16_a_link_that_became_a_file_of_its_own_is_not_replaced(tmp_path: Path) -> None:
    library_on(tmp_path / "photos", TWO)
    trashed(planned("hardlink"))
    place = tmp_path / "photos/old/b.jpg"
    place.unlink()
    place.write_bytes(b"one")  # the same bytes, but somebody's own file
    before = place.stat()
    undone(all=True)
    assert told(item_at("old/b.jpg")) == ("trashed", "PLACE_TAKEN")
    assert place.stat() == before


def _saved_anew(place: Path) -> None:
    new = place.with_name("new")
    new.write_bytes(b"newest of all")
    new.rename(place)


def _edited(place: Path) -> None:
    place.write_bytes(b"newest of all")


def _taken_away(place: Path) -> None:
    place.unlink()


@pytest.mark.parametrize("way", ["records", "manifest"])
@pytest.mark.parametrize("happened", [_saved_anew, _edited, _taken_away])
def test_what_is_saved_the_moment_a_file_is_back_stays_at_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, happened: Callable[[Path], None], way: str
) -> None:
    root = tmp_path / "photos"
    library_on(root, TWO)
    trashed(planned())
    item, move = item_at("old/b.jpg"), steps.rename_new

    def used_at_once(*names: Any, **folders: Any) -> None:
        move(*names, **folders)
        happened(root / "old/b.jpg")

    monkeypatch.setattr(steps, "rename_new", used_at_once)
    if way == "records":
        act = undone(all=True)
        assert (act.status, act.done_count, act.skipped_count) == ("completed", 1, 0)
    else:

        def mark(key: str, back: list[Told]) -> None:
            mark_undone(key, back, actor="ada")

        (back,) = undo_from(os.fsencode(trash_of(root)), mark)
        assert (back.is_undone, back.code) == (True, "VICTIM_CHANGED")
    there = [path.read_bytes() for path in (root / "old").iterdir()]
    assert there == ([] if happened is _taken_away else [b"newest of all"])
    assert not trash_of(root).exists(), "nothing is stuck there"
    assert told(item) == ("undone", "VICTIM_CHANGED")
    assert "What is there now is left as it is" in item.reason
    assert LibraryFile.objects.get(relative_path="old/b.jpg").is_missing, "nobody has read what is there now"


def test_what_takes_its_name_in_the_trash_before_the_move_stays_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "photos"
    library_on(root, TWO)
    trashed(planned())
    item, opened = item_at("old/b.jpg"), Folders.open
    file = trash_of(root) / item.act.key / "files" / str(item.plan_file_id)

    def swapped(folders: Folders, folder: bytes) -> int:
        (tmp_path / "other").write_bytes(b"eno")
        (tmp_path / "other").rename(file)
        return opened(folders, folder)

    monkeypatch.setattr(Folders, "open", swapped)
    undone(all=True)
    assert told(item) == ("trashed", "TRASH_CHANGED")
    assert file.read_bytes() == b"eno"
    assert not (root / "old/b.jpg").exists()


# --- Caution 17 ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("action", ["trash", "hardlink"])
def test_caution_17_metadata_survives_trash_and_undo(tmp_path: Path, action: str) -> None:
    with loop_disk(tmp_path / "disk") as disk:
        library = library_on(disk.point, {"a.jpg": b"one"})
        (disk.point / "old").mkdir()
        place = disk.point / "old/b.jpg"
        place.write_bytes(b"one")
        os.chown(place, 1234, 4321)
        place.chmod(0o640 | stat.S_ISGID)
        os.setxattr(place, "user.comment", b"\x00mine\xff")
        os.utime(place, ns=(1_500_000_000_123_456_789, 1_400_000_000_987_654_321))
        index(library, b"old/b.jpg")
        before = metadata(place)
        trashed(planned(action))
        assert not place.exists() or metadata(place) != before
        assert undone(all=True).done_count == 1
        assert metadata(place) == before
        assert place.read_bytes() == b"one"


def test_caution_17_a_hard_link_of_the_trashed_file_stays_a_link(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library = library_on(root, {"a.jpg": b"one", "old/b.jpg": b"one"})
    (root / "other-name").hardlink_to(root / "old/b.jpg")
    LibraryFile.objects.filter(library=library, relative_path="old/b.jpg").update(nlink=2)
    trashed(planned())
    undone(all=True)
    assert (root / "old/b.jpg").samefile(root / "other-name")
    assert (root / "old/b.jpg").stat().st_nlink == 2


def test_caution_17_undo_of_a_hard_link_gives_the_name_its_own_file_back(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library_on(root, TWO)
    before = (root / "old/b.jpg").stat()
    os.utime(root / "a.jpg", ns=(1, 1))
    LibraryFile.objects.filter(relative_path="a.jpg").update(mtime_ns=1, hashed_mtime_ns=1)
    trashed(planned("hardlink"))
    assert (root / "old/b.jpg").samefile(root / "a.jpg")
    undone(all=True)
    after = (root / "old/b.jpg").stat()
    assert (after.st_ino, after.st_mtime_ns, after.st_nlink) == (before.st_ino, before.st_mtime_ns, 1)
    assert (root / "a.jpg").stat().st_nlink == 1
    keeper, row = (LibraryFile.objects.get(relative_path=path) for path in ("a.jpg", "old/b.jpg"))
    assert (keeper.nlink, keeper.ctime_ns) == (1, (root / "a.jpg").stat().st_ctime_ns)
    assert (row.inode, row.mtime_ns, row.hashed_mtime_ns) == (after.st_ino, after.st_mtime_ns, after.st_mtime_ns)


def test_undo_of_a_link_that_somebody_deleted_puts_the_file_there(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library_on(root, TWO)
    inode = (root / "old/b.jpg").stat().st_ino
    trashed(planned("hardlink"))
    (root / "old/b.jpg").unlink()
    undone(all=True)
    assert (root / "old/b.jpg").stat().st_ino == inode


@pytest.mark.parametrize("words", [b"new words, in both names", b"eno"])
def test_undo_of_a_link_that_was_edited_leaves_it(tmp_path: Path, words: bytes) -> None:
    root = tmp_path / "photos"
    library_on(root, TWO)
    trashed(planned("hardlink"))
    (root / "old/b.jpg").write_bytes(words)
    undone(all=True)
    assert told(item_at("old/b.jpg")) == ("trashed", "PLACE_TAKEN")
    assert (root / "a.jpg").read_bytes() == words


# --- What was in the trash ----------------------------------------------------------------------------------
def test_a_file_that_changed_in_the_trash_stays_there(tmp_path: Path) -> None:
    library_on(tmp_path / "photos", TWO)
    trashed(planned())
    item = item_at("old/b.jpg")
    file = trash_of(tmp_path / "photos") / item.act.key / "files" / str(item.plan_file_id)
    file.write_bytes(b"eno")
    undone(all=True)
    assert told(item) == ("trashed", "TRASH_CHANGED")
    assert not (tmp_path / "photos/old/b.jpg").exists()
    file.write_bytes(b"one more")
    undone(all=True)
    assert told(item) == ("trashed", "TRASH_CHANGED")
    file.unlink()
    file.symlink_to(tmp_path / "photos/a.jpg")
    undone(all=True)
    assert told(item)[0] == "trashed"
    assert not (tmp_path / "photos/old/b.jpg").exists()
    file.unlink()
    undone(all=True)
    assert told(item) == ("trashed", "TRASH_GONE")


def test_a_trash_behind_a_link_is_not_used(tmp_path: Path) -> None:
    library_on(tmp_path / "photos", TWO)
    trashed(planned())
    trash = trash_of(tmp_path / "photos")
    trash.rename(tmp_path / "elsewhere")
    trash.symlink_to(tmp_path / "elsewhere")
    undone(all=True)
    assert told(item_at("old/b.jpg")) == ("trashed", "NO_TRASH")


def test_what_was_brought_back_by_hand_meanwhile_counts_as_undone(tmp_path: Path) -> None:
    library_on(tmp_path / "photos", TWO)
    trashed(planned())
    item = item_at("old/b.jpg")
    folder = trash_of(tmp_path / "photos") / item.act.key
    (folder / "files" / str(item.plan_file_id)).rename(tmp_path / "photos/old/b.jpg")
    shutil.rmtree(trash_of(tmp_path / "photos"))
    assert undone(all=True).done_count == 1
    assert told(item) == ("undone", "")


# --- Folders ------------------------------------------------------------------------------------------------
def test_a_folder_that_went_comes_back_as_it_was(tmp_path: Path) -> None:
    with loop_disk(tmp_path / "disk") as disk:
        library_on(disk.point, {"a.jpg": b"one", "old/deep/b.jpg": b"one", "old/deep/c.jpg": b"one"})
        folder = disk.point / "old/deep"
        os.chown(folder, 1234, 4321)
        folder.chmod(0o2750)
        os.setxattr(folder, "user.colour", b"blue")
        os.utime(folder, ns=(5, 1_300_000_000_000_000_007))
        plan = planned()
        trashed(plan)
        os.utime(folder, ns=(5, 1_300_000_000_000_000_007))  # as `trash.empty_folders` remembers it
        remove_empty_folders(Act.objects.get())
        assert not folder.exists()
        undone(plan=plan.pk)
        info = folder.stat()
        assert (info.st_uid, info.st_gid, stat.S_IMODE(info.st_mode)) == (1234, 4321, 0o2750)
        assert info.st_mtime_ns == 1_300_000_000_000_000_007
        assert os.getxattr(folder, "user.colour") == b"blue"
        assert RemovedFolder.objects.get().is_back
        assert sorted(path.name for path in folder.iterdir()) == ["b.jpg", "c.jpg"]


def test_a_folder_of_which_nothing_is_known_is_made_like_its_parent(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library_on(root, {"a.jpg": b"one", "old/deep/b.jpg": b"one"})
    trashed(planned())
    (root / "old/deep").rmdir()
    (root / "old").rmdir()
    os.chown(root, 77, 78)
    undone(all=True)
    for folder in (root / "old", root / "old/deep"):
        info = folder.stat()
        assert (info.st_uid, info.st_gid, stat.S_IMODE(info.st_mode)) == (77, 78, 0o755)
    assert (root / "old/deep/b.jpg").read_bytes() == b"one"


def test_a_folder_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library_on(root, TWO)
    trashed(planned())
    (root / "old").rmdir()
    (tmp_path / "outside").mkdir()
    (root / "old").symlink_to(tmp_path / "outside")
    undone(all=True)
    assert told(item_at("old/b.jpg")) == ("trashed", "FOLDER_GONE")
    assert not any((tmp_path / "outside").iterdir())
    (root / "old").unlink()
    (root / "old").write_bytes(b"a file")
    undone(all=True)
    assert told(item_at("old/b.jpg")) == ("trashed", "FOLDER_GONE")


def test_no_folder_is_left_where_nothing_came_back(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library_on(root, TWO)
    trashed(planned())
    (root / "old").rmdir()
    item = item_at("old/b.jpg")
    (trash_of(root) / item.act.key / "files" / str(item.plan_file_id)).write_bytes(b"xxx")
    undone(all=True)
    assert not (root / "old").exists()


# --- Disks --------------------------------------------------------------------------------------------------
def test_undo_on_a_second_filesystem_inside_a_library(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    root.mkdir()
    with loop_disk(root / "inner/disk", image=tmp_path / "disk.img"):
        library_on(root, {"a.jpg": b"one", "inner/disk/old/b.jpg": b"one", "old/c.jpg": b"one"})
        trashed(planned())
        assert trash_of(root / "inner/disk").exists()
        assert item_at("inner/disk/old/b.jpg").trash_folder == "inner/disk"
        assert undone(all=True).done_count == 2
        assert (root / "inner/disk/old/b.jpg").read_bytes() == b"one"
        assert not trash_of(root / "inner/disk").exists()


def test_undo_while_the_disk_is_not_mounted_changes_nothing(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    root.mkdir()
    with loop_disk(root / "disk", image=tmp_path / "disk.img") as disk:
        library_on(root, {"a.jpg": b"one", "disk/old/b.jpg": b"one"})
        trashed(planned())
        disk.unmount()
        undone(all=True)
        assert told(item_at("disk/old/b.jpg")) == ("trashed", "TRASH_GONE")
        assert not any((root / "disk").iterdir())
        disk.mount()
        undone(all=True)
        assert (root / "disk/old/b.jpg").read_bytes() == b"one"


def test_undo_on_a_read_only_disk_says_so_and_does_nothing_half(tmp_path: Path) -> None:
    with loop_disk(tmp_path / "disk") as disk:
        library_on(disk.point, TWO)
        trashed(planned())
        disk.make_read_only()
        undone(all=True)
        assert told(item_at("old/b.jpg")) == ("trashed", "READ_ONLY")
        disk.make_writable()
        undone(all=True)
        assert (disk.point / "old/b.jpg").read_bytes() == b"one"


def test_undo_on_a_full_disk_says_so_and_leaves_no_folder(tmp_path: Path) -> None:
    with loop_disk(tmp_path / "disk") as disk:
        library_on(disk.point, TWO)
        trashed(planned())
        (disk.point / "old").rmdir()
        filler = disk.fill()
        undone(all=True)
        assert told(item_at("old/b.jpg")) == ("trashed", "DISK_FULL")
        assert not (disk.point / "old").exists()
        filler.unlink()
        undone(all=True)
        assert (disk.point / "old/b.jpg").read_bytes() == b"one"


# --- The act ------------------------------------------------------------------------------------------------
def test_undo_takes_nothing_of_an_act_that_came_after_it(tmp_path: Path) -> None:
    library = library_on(tmp_path / "photos", TWO)
    trashed(planned())
    act = ask_undo({"all": True}, actor="otto")
    tree(tmp_path / "photos", {"late/a": b"late", "late/older/b": b"late"})
    for path in (b"late/a", b"late/older/b"):
        index(library, path)
    trashed(planned())
    carried_out(act)
    assert (act.status, act.done_count) == ("completed", 1)
    assert told(item_at("old/b.jpg")) == ("undone", "")
    assert told(item_at("late/older/b")) == ("trashed", "")


def test_the_times_of_a_folder_that_comes_back_hold_over_batches(tmp_path: Path, settings: Settings) -> None:
    settings.ACT_BATCH_FILES = 2
    root = tmp_path / "photos"
    library_on(root, {"a": b"1", **{f"x/y/{n}": b"1" for n in range(5)}})
    trashed(planned())
    os.utime(root / "x/y", ns=(1, 1_300_000_000_000_000_005))
    remove_empty_folders(Act.objects.get())
    undone(all=True)
    assert (root / "x/y").stat().st_mtime_ns == 1_300_000_000_000_000_005


def test_a_paused_undo_gives_way_with_nothing_open(tmp_path: Path) -> None:
    library_on(tmp_path / "photos", TWO)
    trashed(planned())
    act = ask_undo({"all": True}, actor="otto")
    pause(act.pk, actor="otto")
    carried_out(act)
    assert act.is_living
    assert Job.objects.get(pk=act.job_id).error_code == "PAUSED"
    assert told(item_at("old/b.jpg")) == ("trashed", "")


def test_what_was_removed_for_good_is_left_out(tmp_path: Path) -> None:
    library_on(tmp_path / "photos", {"a": b"1", "x/b": b"1", "x/c": b"1"})
    plan = planned()
    trashed(plan)
    gone = item_at("x/b")
    rows = TrashItem.objects.filter(pk=gone.pk)
    rows.update(status="emptying")
    rows.update(status="emptied")
    act = undone(plan=plan.pk)
    assert (act.file_count, act.done_count) == (1, 1)
    assert told(gone)[0] == "emptied"
    assert Plan.objects.get(pk=plan.pk).status == "done"
