"""Trashes on the disk: where they lie, who may look in, what a crash leaves."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from libraries.names import to_text
from tests.trash.folder import new_trash
from trash import folders, manifest
from trash.folders import open_trash, trash_folder_of
from trash.refusing import Refusal

KEY = str(uuid.UUID(int=7))


def test_a_trash_is_for_its_owner_alone(tmp_path: Path) -> None:
    os.umask(os.umask(0))
    with new_trash(tmp_path) as trash:
        assert (tmp_path / ".dedupfs-trash").stat().st_mode & 0o777 == 0o700
        assert folders.keys_in(os.fsencode(tmp_path), b"") == [trash.key]


def test_one_that_others_may_look_into_is_closed_to_them(tmp_path: Path) -> None:
    (tmp_path / ".dedupfs-trash").mkdir(mode=0o777)
    (tmp_path / ".dedupfs-trash").chmod(0o777)
    with new_trash(tmp_path):
        assert (tmp_path / ".dedupfs-trash").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("what", ["link", "file", "other owner"])
def test_something_else_of_that_name_is_no_trash(tmp_path: Path, what: str) -> None:
    library, name = tmp_path / "library", tmp_path / "library" / ".dedupfs-trash"
    (tmp_path / "outside").mkdir()
    library.mkdir()
    if what == "link":
        name.symlink_to(tmp_path / "outside")
    elif what == "file":
        name.write_bytes(b"")
    else:
        if os.geteuid():
            pytest.skip("only root can give a folder away")
        name.mkdir()
        os.chown(name, 12345, -1)
    with pytest.raises(Refusal) as refusal:
        new_trash(library)
    assert refusal.value.code == "NO_TRASH"
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_folder_of_an_act_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside" / "files").mkdir(parents=True)
    (tmp_path / ".dedupfs-trash").mkdir(mode=0o700)
    (tmp_path / ".dedupfs-trash" / KEY).symlink_to(tmp_path / "outside")
    with pytest.raises(Refusal):
        open_trash(os.fsencode(tmp_path), b"", KEY, is_made=False)


@pytest.mark.parametrize("key", ["..", "", "a/b", "x" * 36])
def test_only_names_of_acts_are_opened(tmp_path: Path, key: str) -> None:
    with pytest.raises(Refusal):
        open_trash(os.fsencode(tmp_path), b"", key, is_made=True)
    assert list(tmp_path.iterdir()) == []


def test_the_manifest_survives_being_cut_off(tmp_path: Path) -> None:
    with new_trash(tmp_path) as trash:
        trash.write_manifest(['{"item":1}'])
        file = tmp_path / ".dedupfs-trash" / trash.key / "manifest.jsonl"
        with file.open("ab") as end:
            end.write(b'{"item": 2, "pa')
        trash.write_manifest(['{"item":3}'])
        assert [line["item"] for line in trash.read_manifest()] == [1, 3]
        assert file.stat().st_mode & 0o777 == 0o600


def test_paths_in_the_manifest_lead_back_to_their_bytes(tmp_path: Path) -> None:
    path = b"caf\xe9/a\nb/\xff"
    line = manifest.item_line(
        7, path, to_text(path), tmp_path.stat(), digest="blake3:00", action="trash", keeper="k", attributes={}
    )
    (read,) = manifest.read(manifest.written([line]).splitlines())
    assert bytes.fromhex(read["path_hex"]) == path
    assert read["path"] == "caf\\xe9/a\\nb/\\xff"


def test_what_is_empty_goes_and_what_is_not_stays(tmp_path: Path) -> None:
    first, second = new_trash(tmp_path), new_trash(tmp_path)
    for trash in (first, second):
        trash.write_manifest(['{"item":1}'])
    os.close(os.open(b"1", os.O_CREAT | os.O_WRONLY, dir_fd=second.files))
    assert first.remove_if_empty()
    assert not second.remove_if_empty()
    assert folders.keys_in(os.fsencode(tmp_path), b"") == [second.key]
    os.unlink(b"1", dir_fd=second.files)
    assert second.remove_if_empty()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("left", ["key/files", "key/manifest.jsonl", "key", ""])
def test_what_a_kill_left_of_clearing_is_cleared(tmp_path: Path, left: str) -> None:
    top = tmp_path / ".dedupfs-trash"
    (top / KEY).mkdir(parents=True)
    if left == "key/files":
        (top / KEY / "files").mkdir()
        (top / KEY / "manifest.jsonl").touch()
    elif left == "key/manifest.jsonl":
        (top / KEY / "manifest.jsonl").touch()
    elif left == "":
        (top / KEY).rmdir()
    assert folders.clear(os.fsencode(tmp_path), b"", KEY)
    assert list(tmp_path.iterdir()) == []


def test_a_file_goes_to_the_trash_of_its_filesystem() -> None:
    mounts = {"": "uuid:1", "a": "uuid:2", "a/b": "uuid:3"}
    assert trash_folder_of("x/y", mounts) == ""
    assert trash_folder_of("ab/y", mounts) == ""
    assert trash_folder_of("a/y", mounts) == "a"
    assert trash_folder_of("a/b/c/d", mounts) == "a/b"
