"""Every state in which somebody who was taking files out of the trash can have left the disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.duplicates.plans import planned
from tests.trash.disks import loop_disk
from tests.trash.on_disk import item_at, library_on, trash_of, trashed
from trash.folders import Trash, open_trash
from trash.locking import Held, held
from trash.models import Act, TrashItem
from trash.moving import temporary_name
from trash.settling_left import settle_left

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("young_files_too")]
TWO = {"a.jpg": b"one", "old/b.jpg": b"one"}


class Left:
    """A file that was being taken out when somebody was killed."""

    def __init__(self, root: Path, action: str = "trash", status: str = "undoing", path: str = "old/b.jpg") -> None:
        self.source = trashed(planned(action))
        verb = "undo" if status == "undoing" else "empty"
        self.act = Act.objects.create(verb=verb, selection={"all": True}, authorised_by="otto", status="running")
        TrashItem.objects.update(status=status, left_by=self.act)
        item = item_at(path)
        self.path, self.inode = path, item.inode
        self.place = root / path
        self.file = trash_of(root / item.trash_folder) / item.act.key / "files" / str(item.plan_file_id)
        self.beside = self.place.with_name(temporary_name(self.file.name.encode()).decode())

    def settled(self) -> tuple[str, int | None]:
        with held() as lock:
            settle_left(lock)
        item = item_at(self.path)
        return item.status, item.left_by_id

    def check_back(self) -> None:
        assert self.settled() == ("undone", self.act.pk)
        assert self.place.stat().st_ino == self.inode
        assert not self.file.exists()
        self.act.refresh_from_db()
        self.source.refresh_from_db()
        assert (self.act.done_count, self.act.bytes_done) == (1, 3)
        assert (self.source.trashed_count, self.source.trashed_bytes) == (0, 0)

    def check_stays(self) -> None:
        assert self.settled() == ("trashed", None)
        assert self.file.stat().st_ino == self.inode
        self.act.refresh_from_db()
        self.source.refresh_from_db()
        assert (self.act.done_count, self.act.skipped_count) == (0, 0)
        assert self.source.trashed_count == 1


def test_nothing_was_done(tmp_path: Path) -> None:
    library_on(tmp_path / "photos", TWO)
    Left(tmp_path / "photos").check_stays()


def test_it_was_moved(tmp_path: Path) -> None:
    library_on(tmp_path / "photos", TWO)
    left = Left(tmp_path / "photos")
    left.file.rename(left.place)
    left.check_back()
    assert left.place.stat().st_nlink == 1


def test_it_was_linked_and_not_unlinked(tmp_path: Path) -> None:
    library_on(tmp_path / "photos", TWO)
    left = Left(tmp_path / "photos")
    left.place.hardlink_to(left.file)
    left.check_back()
    assert left.place.stat().st_nlink == 1
    assert not trash_of(tmp_path / "photos").exists()


def test_it_was_moved_and_its_owner_went_on_with_it(tmp_path: Path) -> None:
    library_on(tmp_path / "photos", TWO)
    left = Left(tmp_path / "photos")
    left.file.unlink()
    left.place.write_bytes(b"edited since")
    assert left.settled() == ("undone", left.act.pk)
    assert left.place.read_bytes() == b"edited since"


def test_a_link_was_exchanged_and_lies_in_the_trash(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library_on(root, TWO)
    left = Left(root, "hardlink")
    left.place.rename(root / "spare")
    left.file.rename(left.place)
    (root / "spare").rename(left.file)
    left.check_back()
    assert (root / "a.jpg").stat().st_nlink == 1


def test_a_link_that_is_the_last_name_of_its_file_goes_only_if_its_bytes_are_there(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library_on(root, TWO)
    left = Left(root, "hardlink")
    left.place.rename(root / "spare")
    left.file.rename(left.place)
    (root / "spare").rename(left.file)
    (root / "a.jpg").unlink()
    left.place.write_bytes(b"eno")
    assert left.settled()[0] == "trashed"
    assert left.file.read_bytes() == b"one"
    TrashItem.objects.update(status="undoing", left_by=left.act)
    left.place.write_bytes(b"one")
    assert left.settled()[0] == "undone"
    assert not left.file.exists()


def test_a_name_was_made_beside_the_link(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library_on(root, TWO)
    left = Left(root, "hardlink")
    left.beside.hardlink_to(left.file)
    left.check_stays()
    assert not left.beside.exists()
    assert left.place.samefile(root / "a.jpg")
    assert left.file.stat().st_nlink == 1


def test_a_name_was_renamed_over_the_link(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library_on(root, TWO)
    left = Left(root, "hardlink")
    left.beside.hardlink_to(left.file)
    left.beside.rename(left.place)
    left.check_back()
    assert left.place.stat().st_nlink == 1


def test_a_folder_was_half_made(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library_on(root, TWO)
    left = Left(root)
    (left.file.parent.parent / "new-folder").mkdir()
    left.file.rename(left.place)
    left.check_back()
    assert not trash_of(root).exists()


@pytest.mark.parametrize("is_gone", [True, False])
def test_emptying_had_removed_it_or_not(tmp_path: Path, is_gone: bool) -> None:
    library_on(tmp_path / "photos", TWO)
    left = Left(tmp_path / "photos", status="emptying")
    if not is_gone:
        left.check_stays()
        return
    left.file.unlink()
    assert left.settled() == ("emptied", left.act.pk)
    assert not trash_of(tmp_path / "photos").exists()


@pytest.mark.parametrize("status", ["undoing", "emptying"])
def test_what_somebody_with_another_state_folder_has_in_hand_is_left_to_him(tmp_path: Path, status: str) -> None:
    root = tmp_path / "photos"
    library_on(root, TWO)
    left = Left(root, status=status)
    other = Held(os.open(tmp_path, os.O_RDONLY))
    with open_trash(os.fsencode(root), b"", left.source.key, is_made=False) as trash:
        other.take(trash)
    assert left.settled() == (status, left.act.pk)
    other.let_go()
    left.check_stays()


def test_what_he_has_written_before_he_let_the_trash_go_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library_on(tmp_path / "photos", TWO)
    left, take = Left(tmp_path / "photos"), Held.take

    def written_meanwhile(lock: Held, trash: Trash) -> None:
        left.file.rename(left.place)
        TrashItem.objects.update(status="undone")
        take(lock, trash)

    monkeypatch.setattr(Held, "take", written_meanwhile)
    assert left.settled() == ("undone", left.act.pk)
    left.act.refresh_from_db()
    assert left.act.done_count == 0, "he counts it himself"


@pytest.mark.parametrize("status", ["undoing", "emptying"])
def test_what_lies_on_a_disk_that_is_not_there_is_settled_when_it_is(tmp_path: Path, status: str) -> None:
    root = tmp_path / "photos"
    root.mkdir()
    with loop_disk(root / "disk", image=tmp_path / "disk.img") as disk:
        library_on(root, {"a.jpg": b"one", "disk/old/b.jpg": b"one"})
        left = Left(root, status=status, path="disk/old/b.jpg")
        disk.unmount()
        assert left.settled() == (status, left.act.pk)
        (root / "disk/other").write_bytes(b"some other disk")
        assert left.settled() == (status, left.act.pk)
        os.unlink(root / "disk/other")
        disk.mount()
        left.check_stays()
