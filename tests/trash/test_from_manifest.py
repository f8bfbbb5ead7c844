"""Undo by the manifest alone: without a database, wherever the disk is mounted, and whatever the manifest claims."""

from __future__ import annotations

import errno
import json
import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from pytest_django import Settings

from libraries.names import to_text
from trash import from_manifest, manifest
from trash.from_manifest import BadTrash, Told, undo_from


@pytest.fixture(autouse=True)
def _own_state(settings: Settings, tmp_path: Path) -> None:
    settings.STATE_ROOT = tmp_path / "state"


class Made:
    """A trash as acting leaves it, made by hand."""

    def __init__(self, root: Path) -> None:
        self.root, self.key = root, str(uuid.uuid4())
        self.folder = root / ".dedupfs-trash" / self.key
        (self.folder / "files").mkdir(parents=True)
        (root / ".dedupfs-trash").chmod(0o700)
        self.lines: list[Any] = [
            json.loads(
                manifest.head_line(key=self.key, plan=1, approved_by="ada", approved_at="then", library="photos")
            )
        ]

    def add(self, number: int, path: bytes, content: bytes = b"one", **changes: Any) -> Path:
        file = self.folder / "files" / str(number)
        file.write_bytes(content)
        digest = f"blake3:{blake3(content).hexdigest()}"
        line = manifest.item_line(
            number, path, to_text(path), file.stat(), digest=digest, action="trash", keeper="a", attributes={}
        )
        self.lines.append({**json.loads(line), **changes})
        return file

    def undo(self, folder: Path | None = None) -> list[Told]:
        self.write()
        return list(undo_from(os.fsencode(folder or self.root / ".dedupfs-trash")))

    def write(self) -> None:
        (self.folder / "manifest.jsonl").write_text("".join(json.dumps(line) + "\n" for line in self.lines))


@pytest.fixture
def made(tmp_path: Path) -> Made:
    (tmp_path / "photos").mkdir()
    return Made(tmp_path / "photos")


def codes(told: list[Told]) -> list[str]:
    return [each.code or each.status for each in told]


def everything(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def test_caution_19_files_come_back_by_the_manifest_alone(made: Made) -> None:
    made.add(7, b"old/b.jpg")
    made.add(8, b"caf\xe9/\xff", b"two")
    os.utime(made.folder / "files/7", ns=(1, 1_400_000_000_000_000_001))
    assert codes(made.undo()) == ["undone", "undone"]
    assert (made.root / "old/b.jpg").read_bytes() == b"one"
    assert (made.root / "old/b.jpg").stat().st_mtime_ns == 1_400_000_000_000_000_001
    with open(os.path.join(os.fsencode(made.root), b"caf\xe9/\xff"), "rb") as file:
        assert file.read() == b"two"
    assert not (made.root / ".dedupfs-trash").exists()


def test_caution_19_one_act_of_several(made: Made) -> None:
    other = Made(made.root)
    other.add(1, b"other")
    other.write()
    made.add(7, b"old/b.jpg")
    assert codes(made.undo(made.folder)) == ["undone"]
    assert (made.root / "old/b.jpg").exists()
    assert not (made.root / "other").exists()
    assert codes(other.undo()) == ["undone"]
    assert everything(made.root) == {"old", "old/b.jpg", "other"}


def test_caution_19_at_another_place_than_before(made: Made, tmp_path: Path) -> None:
    made.add(7, b"old/b.jpg")
    made.write()
    (tmp_path / "photos").rename(tmp_path / "mnt")
    told = list(undo_from(os.fsencode(tmp_path / "mnt/.dedupfs-trash")))
    assert codes(told) == ["undone"]
    assert (tmp_path / "mnt/old/b.jpg").read_bytes() == b"one"


def test_nothing_is_overwritten(made: Made) -> None:
    made.add(7, b"b.jpg")
    (made.root / "b.jpg").write_bytes(b"mine")
    (told,) = made.undo()
    assert (told.status, told.code) == ("stays", "PLACE_TAKEN")
    assert (made.root / "b.jpg").read_bytes() == b"mine"
    assert (made.folder / "files/7").read_bytes() == b"one"


def test_the_digest_is_checked_on_the_way_back(made: Made) -> None:
    made.add(7, b"b.jpg").write_bytes(b"eno")
    assert codes(made.undo()) == ["TRASH_CHANGED"]
    assert not (made.root / "b.jpg").exists()


def test_what_is_said_last_counts_and_half_a_line_counts_nothing(made: Made) -> None:
    made.add(7, b"wrong.jpg")
    made.add(7, b"b.jpg")
    made.write()
    with (made.folder / "manifest.jsonl").open("a") as file:
        file.write('{"item": 7, "path_he')
    assert codes(list(undo_from(os.fsencode(made.folder)))) == ["undone"]
    assert everything(made.root) == {"b.jpg"}


def test_a_file_that_the_manifest_does_not_know_is_left(made: Made) -> None:
    (made.folder / "files/9").write_bytes(b"whose?")
    made.add(7, b"b.jpg")
    told = made.undo()
    assert codes(told) == ["undone", "OUTSIDE"]
    assert (made.folder / "files/9").read_bytes() == b"whose?"


def test_folders_come_back_as_they_were(made: Made) -> None:
    folder = made.root / "old"
    folder.mkdir()
    os.chown(folder, 1234, 4321)
    folder.chmod(0o2750)
    os.utime(folder, ns=(1, 1_300_000_000_000_000_003))
    line = manifest.folder_line(b"old", folder.stat(), {b"user.colour".hex(): b"blue".hex()})
    made.lines.append(json.loads(line))
    folder.rmdir()
    made.add(7, b"old/b.jpg")
    made.undo()
    info = folder.stat()
    assert (info.st_uid, info.st_gid, info.st_mode & 0o7777) == (1234, 4321, 0o2750)
    assert info.st_mtime_ns == 1_300_000_000_000_000_003


def test_a_hard_link_gives_its_place_up(made: Made) -> None:
    keeper, place = made.root / "a", made.root / "b.jpg"
    keeper.write_bytes(b"one")
    place.hardlink_to(keeper)
    made.add(7, b"b.jpg", action="hardlink", inode=1)
    assert codes(made.undo()) == ["undone"]
    assert not place.samefile(keeper)
    assert keeper.read_bytes() == place.read_bytes() == b"one"


def test_a_file_of_one_name_is_nobodys_link(made: Made) -> None:
    (made.root / "b.jpg").write_bytes(b"one")
    inode = (made.root / "b.jpg").stat().st_ino
    made.add(7, b"b.jpg", action="hardlink", inode=1)
    assert codes(made.undo()) == ["PLACE_TAKEN"]
    assert (made.root / "b.jpg").stat().st_ino == inode


def test_a_link_that_was_about_to_take_a_place_goes_away(made: Made) -> None:
    """Killed between the link in the trash and the exchange: the file never left its place."""
    keeper, place = made.root / "a", made.root / "b.jpg"
    keeper.write_bytes(b"one")
    place.write_bytes(b"one")
    inode = place.stat().st_ino
    made.add(7, b"b.jpg", action="hardlink", inode=inode).unlink()
    (made.folder / "files/7").hardlink_to(keeper)
    assert codes(made.undo()) == ["undone"]
    assert place.stat().st_ino == inode
    assert keeper.stat().st_nlink == 1


# --- Lies ---------------------------------------------------------------------------------------------------
PATHS = [
    b"../b.jpg", b"old/../../b.jpg", b"/etc/b.jpg", b"", b".", b"old//b.jpg", b"old/", b"./b.jpg", b"b\0.jpg",
    b".dedupfs-trash/b.jpg", b"old/.dedupfs-trash/b.jpg",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_leaves_the_folder_is_refused(made: Made, path: bytes) -> None:
    made.add(7, path)
    before = everything(made.root.parent)
    assert codes(made.undo()) == ["OUTSIDE"]
    locks = {"state", "state/acting.lock", "photos/.dedupfs-trash/lock"}
    assert everything(made.root.parent) - locks == before | {
        str((made.folder / "manifest.jsonl").relative_to(made.root.parent))
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"path_hex": "zz"},
        {"path_hex": None},
        {"path_hex": 7},
        {"size": "3"},
        {"size": -1},
        {"digest": "blake3:00"},
        {"digest": "md5:" + "0" * 64},
        {"digest": None},
        {"action": "format"},
        {"action": None},
    ],
)
def test_a_line_that_no_manifest_has_is_refused(made: Made, changes: dict[str, Any]) -> None:
    made.add(7, b"b.jpg", **changes)
    (told,) = made.undo()
    assert (told.status, told.code) == ("stays", "OUTSIDE")
    assert (made.folder / "files/7").exists()


@pytest.mark.parametrize("number", ["../7", "7/../7", True, -7, 0, None, 7.0, [7]])
def test_a_name_that_is_no_number_is_nobodys(made: Made, number: Any) -> None:
    made.add(7, b"b.jpg", item=number)
    assert codes(made.undo()) == ["OUTSIDE"]
    assert not (made.root / "b.jpg").exists()


def test_a_folder_that_is_a_link_is_not_followed(made: Made, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (made.root / "old").symlink_to(tmp_path / "outside")
    made.add(7, b"old/b.jpg")
    made.add(8, b"old/deep/c.jpg")
    assert codes(made.undo()) == ["FOLDER_GONE", "FOLDER_GONE"]
    assert not any((tmp_path / "outside").iterdir())


def test_a_file_in_the_trash_that_is_a_link_is_not_followed(made: Made, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"one")
    file = made.add(7, b"b.jpg")
    file.unlink()
    file.symlink_to(tmp_path / "secret")
    assert codes(made.undo())[0] != "undone"
    assert not (made.root / "b.jpg").exists()


# --- What is no trash ---------------------------------------------------------------------------------------
def _link(made: Made) -> Path:
    target = made.root.parent / "real"
    (made.root / ".dedupfs-trash").rename(target)
    (made.root / ".dedupfs-trash").symlink_to(target)
    return made.root / ".dedupfs-trash"


def _headless(made: Made) -> Path:
    made.lines.pop(0)
    made.write()
    return made.folder


def _other_head(made: Made) -> Path:
    made.lines[0]["act"] = str(uuid.uuid4())
    made.write()
    return made.folder


def _newer(made: Made) -> Path:
    made.lines[0]["version"] = 2
    made.write()
    return made.folder


def _foreign(made: Made) -> Path:
    os.chown(made.root / ".dedupfs-trash", 1234, 1234)
    return made.folder


@pytest.mark.parametrize(
    ("give", "words"),
    [
        (lambda made: made.root, "is no trash"),
        (lambda made: made.folder / "files", "is no trash"),
        (lambda made: made.root / "gone/.dedupfs-trash", "no trash with files"),
        (lambda made: made.root / ".dedupfs-trash" / str(uuid.uuid4()), "can't be opened"),
        (_link, "link"),
        (_headless, "no manifest of DedupFS"),
        (_other_head, "no manifest of DedupFS"),
        (_newer, "another version"),
        (_foreign, "belongs to another user"),
    ],
)
def test_what_is_no_trash_is_told_in_words(made: Made, give: Callable[[Made], Path], words: str) -> None:
    file = made.add(7, b"b.jpg")
    made.write()
    content = file.read_bytes()
    with pytest.raises(BadTrash) as caught:
        list(undo_from(os.fsencode(give(made))))
    assert words in str(caught.value)
    assert not (made.root / "b.jpg").exists()
    assert content == b"one"


def test_it_waits_for_nobody_who_acts(made: Made) -> None:
    from trash import locking
    from trash.folders import open_trash

    made.add(7, b"b.jpg")
    made.write()
    with open_trash(os.fsencode(made.root), b"", made.key, is_made=False) as trash, locking.held(trash):
        import threading

        caught: list[str] = []

        def other() -> None:
            try:
                list(undo_from(os.fsencode(made.folder)))
            except BadTrash as error:
                caught.append(str(error))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert "Somebody else acts on files" in caught[0]
    shutil.rmtree(made.root.parent / "state")
    assert codes(list(undo_from(os.fsencode(made.folder)))) == ["undone"]


def test_without_a_state_folder_the_trash_is_locked_all_the_same(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    from trash import locking
    from trash.folders import open_trash

    def read_only() -> Path:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    made.add(7, b"b.jpg")
    made.write()
    monkeypatch.setattr(locking, "_path", read_only)
    other = locking.Held(None)
    with open_trash(os.fsencode(made.root), b"", made.key, is_made=False) as trash:
        other.take(trash)
    with pytest.raises(BadTrash, match="Somebody else acts on files"):
        list(undo_from(os.fsencode(made.folder)))
    other.let_go()
    assert codes(list(undo_from(os.fsencode(made.folder)))) == ["undone"]
    assert not made.folder.parent.exists()


def test_it_needs_no_model(made: Made) -> None:
    """Nothing in it can ask a database."""
    source = Path(from_manifest.__file__).read_text()
    assert "models" not in source
    assert "django.db" not in source


@pytest.mark.parametrize("last", [0, 1])
def test_of_two_files_of_one_path_the_one_that_went_last_comes_back(tmp_path: Path, last: int) -> None:
    """Whatever the names of the acts' folders are."""
    (tmp_path / "photos").mkdir()
    acts = sorted((Made(tmp_path / "photos") for _ in range(2)), key=lambda act: act.key)
    for number, act in enumerate(acts):
        act.add(number + 1, b"b.jpg", f"of act {number}".encode())
        act.write()
        moment = 1_700_000_000 + (number == last)
        os.utime(act.folder / "manifest.jsonl", (moment, moment))
    told = list(undo_from(os.fsencode(tmp_path / "photos/.dedupfs-trash")))
    assert codes(told) == ["undone", "PLACE_TAKEN"]
    assert (tmp_path / "photos/b.jpg").read_text() == f"of act {last}"
