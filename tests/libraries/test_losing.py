"""What is gone and what only moved: a rename asks nobody, loses no digest and makes no group."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from blake3 import blake3

from duplicates.finding import groups
from jobs.models import Job
from libraries.id_set import IdSet
from libraries.models import LibraryFile, LibraryRoot, ScanSession
from libraries.reading import SMALL_BYTES
from libraries.running_now import hash_now
from libraries.scanning import LibraryScan
from libraries.walking import Unit
from tests.libraries.scans import files_of, library_at, missing, present, scan, scanned, state_of
from tests.libraries.test_scanning import looked_at, powerless, refused
from tests.tree import tree

__all__ = ["powerless"]
pytestmark = pytest.mark.django_db


def content_of(name: str) -> bytes:
    """Small for every second name, and another for each."""
    return name.encode() * (1 if name[-1] in "02468" else SMALL_BYTES)


def hashed_library(root: Path, names: list[str]) -> LibraryRoot:
    """A library of which every file was read whole."""
    library = scanned(tree(root, {name: content_of(name) for name in names}), hash_everything=True)
    assert hash_now(actor="test").status == "completed"
    assert not LibraryFile.objects.filter(needs_hash=True).exists()
    return library


def ten_of_which(root: Path, **folders: int) -> LibraryRoot:
    """Ten files: so many in each folder, the rest in `rest`."""
    folders["rest"] = 10 - sum(folders.values())
    return hashed_library(root, [f"{folder}/{number}" for folder, count in folders.items() for number in range(count)])


def digests(library: LibraryRoot, folder: str) -> dict[str, bytes]:
    """The digests of the present files of a folder, by name."""
    files = LibraryFile.objects.filter(library=library, is_missing=False, needs_hash=False)
    rows = files.filter(relative_path__startswith=f"{folder}/").values_list("relative_path", "content_hash")
    return {path.rpartition("/")[2]: bytes(digest or b"") for path, digest in rows}


def read_at(folder: str) -> dict[str, object]:
    """When the large files of a folder were read."""
    files = LibraryFile.objects.filter(relative_path__startswith=f"{folder}/", size_bytes__gt=SMALL_BYTES)
    return {path.rpartition("/")[2]: at for path, at in files.values_list("relative_path", "hashed_at")}


def names_in(folder: str, count: int) -> set[bytes]:
    return {f"{folder}/{number}".encode() for number in range(count)}


def of_old(count: int) -> dict[str, bytes]:
    """What the files that were made in `old` hold, wherever they are by now."""
    return {f"{number}": blake3(content_of(f"old/{number}")).digest() for number in range(count)}


# --- What moved -------------------------------------------------------------------------------------------
def test_a_renamed_folder_with_most_files_asks_nobody_and_keeps_its_digests(tmp_path: Path) -> None:
    library = ten_of_which(tmp_path, old=8)
    before = read_at("old")
    (tmp_path / "old").rename(tmp_path / "new")
    job = scan(library)
    assert (job.status, job.error_message) == ("completed", None)
    assert (missing(library), state_of(library).gone_count) == (names_in("old", 8), 0)
    assert digests(library, "new") == of_old(8)
    assert read_at("new") == before, "no large file was read again"
    assert list(groups()) == []
    session = ScanSession.objects.latest("id")
    assert (session.added_count, session.removed_count, state_of(library).file_count) == (8, 8, 10)


def test_a_folder_renamed_there_and_back_asks_nobody(tmp_path: Path) -> None:
    library = ten_of_which(tmp_path, old=8)
    before = read_at("old")
    for old, new in (("old", "new"), ("new", "old")):
        (tmp_path / old).rename(tmp_path / new)
        assert scan(library).status == "completed"
        assert missing(library) == names_in(old, 8)
    assert (digests(library, "old"), read_at("old"), list(groups())) == (of_old(8), before, [])


def test_a_rename_that_a_killed_scan_had_half_stored_is_known_by_the_next_one(tmp_path: Path) -> None:
    library = ten_of_which(tmp_path, old=8)
    before = read_at("old")
    (tmp_path / "old").rename(tmp_path / "new")

    def die(name: str) -> None:
        if name == "scan_walked":
            raise RuntimeError("killed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("libraries.scanning.reach", die)
        assert scan(library).status == "failed"
    assert len(present(library)) == 18, "the new names were stored, and the old ones not yet settled"
    assert scan(library).status == "completed"
    assert (missing(library), state_of(library).gone_count) == (names_in("old", 8), 0)
    assert (digests(library, "new"), read_at("new"), list(groups())) == (of_old(8), before, [])


def test_more_files_than_one_portion_holds_are_all_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("libraries.losing.CHUNK", 3)
    monkeypatch.setattr("libraries.losing.PAGE", 4)
    library = ten_of_which(tmp_path, old=7)
    (tmp_path / "old").rename(tmp_path / "new")
    for number in range(2):
        (tmp_path / f"rest/{number}").unlink()
    assert scan(library).status == "completed"
    assert missing(library) == names_in("old", 7) | names_in("rest", 2)
    assert digests(library, "new") == of_old(7)


def test_every_new_name_of_a_moved_inode_has_its_digest(tmp_path: Path) -> None:
    library = ten_of_which(tmp_path, old=8)
    (tmp_path / "old").rename(tmp_path / "new")
    os.link(tmp_path / "new/1", tmp_path / "new/11")
    os.link(tmp_path / "new/1", tmp_path / "rest/again")
    assert scan(library).status == "completed"
    files = files_of(library)
    digest = of_old(8)["1"]
    assert {bytes(files[name].content_hash or b"") for name in (b"new/1", b"new/11", b"rest/again")} == {digest}


def test_what_is_known_of_one_old_name_is_not_lost_by_another(tmp_path: Path) -> None:
    tree(tmp_path, {"old/1": content_of("1")} | {f"rest/{number}": content_of(f"{number}") for number in range(8)})
    os.link(tmp_path / "old/1", tmp_path / "old/2")
    os.link(tmp_path / "old/1", tmp_path / "old/3")
    library = scanned(tmp_path)
    digest = blake3(content_of("1")).digest()
    LibraryFile.objects.filter(relative_path="old/2").update(
        needs_hash=False, hash_algorithm="blake3", content_hash=digest
    )
    (tmp_path / "old").rename(tmp_path / "new")
    assert scan(library).status == "completed"
    assert missing(library) == {b"old/1", b"old/2", b"old/3"}
    assert digests(library, "new") == dict.fromkeys("123", digest)


def test_a_name_less_of_a_file_that_is_there_is_no_file_that_is_gone(tmp_path: Path) -> None:
    tree(tmp_path, {f"a/{number}": content_of(f"{number}") for number in range(5)})
    (tmp_path / "b").mkdir()
    for number in range(5):
        os.link(tmp_path / f"a/{number}", tmp_path / f"b/{number}")
    library = scanned(tmp_path)
    for number in range(5):
        (tmp_path / f"b/{number}").unlink()
    assert scan(library).status == "completed"
    assert (missing(library), state_of(library).gone_count) == (names_in("b", 5), 0)


# --- What is gone -----------------------------------------------------------------------------------------
def test_many_gone_beside_a_rename_ask_and_leave_no_group_of_old_and_new_names(tmp_path: Path) -> None:
    library = ten_of_which(tmp_path, old=5, drop=4)
    before = read_at("old")
    (tmp_path / "old").rename(tmp_path / "new")
    for number in range(4):
        (tmp_path / f"drop/{number}").unlink()
    refused(scan(library), "SCAN_MANY_GONE", "4 of 10")
    assert (missing(library), state_of(library).gone_count) == (names_in("old", 5), 4)
    assert (state_of(library).file_count, ScanSession.objects.latest("id").removed_count) == (10, 5)
    assert (digests(library, "new"), read_at("new"), list(groups())) == (of_old(5), before, [])
    refused(scan(library), "SCAN_MANY_GONE", "4 of 10")
    assert scan(library, accept_missing=True).status == "completed"
    assert (missing(library), state_of(library).gone_count) == (names_in("old", 5) | names_in("drop", 4), 0)
    assert digests(library, "new") == of_old(5)


def test_a_name_that_a_listing_has_twice_hides_no_file_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many were seen as there are rows, but not all of them."""
    library = ten_of_which(tmp_path)
    (tmp_path / "rest/3").unlink()
    take_unit = LibraryScan._take_unit

    def twice(scan: LibraryScan, unit: Unit) -> None:
        rows = list(unit.rows())
        take_unit(scan, replace(unit, file_count=len(rows) + 1, pages=looked_at([*rows, rows[0]])))

    monkeypatch.setattr(LibraryScan, "_take_unit", twice)
    assert scan(library).status == "completed"
    assert missing(library) == {b"rest/3"}


def test_an_id_counts_once() -> None:
    ids = IdSet()
    assert ids.update([(7,), (-5,), (7,), (70_000,)]) == [5]
    ids.add(70_000)
    ids.add(8)
    assert (ids.count, [key for key in (5, 6, 7, 8, 9, 70_000, 10**6) if key in ids]) == (3, [7, 8, 70_000])


@pytest.mark.parametrize("other", ["size_bytes", "mtime_ns", "inode"])
def test_an_inode_that_another_file_has_by_now_is_gone_all_the_same(tmp_path: Path, other: str) -> None:
    library = ten_of_which(tmp_path, drop=4)
    for number in range(4):
        (tmp_path / f"drop/{number}").unlink()
        new = tree(tmp_path, {f"new/{number}": content_of(f"new/{number}")}) / f"new/{number}"
        info = new.stat()
        # All is as it was before, but for one thing.
        same = {"size_bytes": info.st_size, "mtime_ns": info.st_mtime_ns, "inode": info.st_ino}
        same[other] += 1_000_000
        LibraryFile.objects.filter(relative_path=f"drop/{number}").update(**same)
    refused(scan(library), "SCAN_MANY_GONE", "4 of 10")
    assert (missing(library), state_of(library).gone_count) == (set(), 4)
    assert not LibraryFile.objects.filter(relative_path="new/1", content_hash__isnull=False).exists()


def test_a_file_of_another_library_is_no_place_to_have_moved_to(tmp_path: Path) -> None:
    library = ten_of_which(tmp_path / "one", old=8)
    other = library_at(tree(tmp_path / "two", {"a": b"1"}), "other")
    (tmp_path / "one/old").rename(tmp_path / "two/new")
    assert scan(other).status == "completed"
    refused(scan(library), "SCAN_MANY_GONE", "8 of 10")
    assert missing(library) == set()


def test_a_file_that_an_earlier_walk_saw_on_another_disk_is_another_file(tmp_path: Path) -> None:
    """Filesystems number their files alike, and a copy has its original's size and time."""
    library = ten_of_which(tmp_path, drop=4)
    for number in range(4):
        tree(tmp_path, {f"copy/{number}": content_of(f"drop/{number}")})
    assert scan(library).status == "completed"
    for number in range(4):
        copy = LibraryFile.objects.get(relative_path=f"copy/{number}")
        LibraryFile.objects.filter(relative_path=f"drop/{number}").update(
            inode=copy.inode, mtime_ns=copy.mtime_ns, device=99
        )
        (tmp_path / f"drop/{number}").unlink()
    refused(scan(library), "SCAN_MANY_GONE", "4 of 14")
    assert missing(library) == set()


def test_a_name_that_could_not_be_looked_at_is_not_where_a_file_moved_to(
    tmp_path: Path, child_environment: dict[str, str], powerless: list[str]
) -> None:
    root = tree(tmp_path / "root", {f"open/{number}": b"%d" % number for number in range(10)})
    (root / "closed").mkdir()
    for number in range(4):
        os.link(root / f"open/{number}", root / f"closed/{number}")
    library = scanned(root)
    for number in range(4):
        (root / f"open/{number}").unlink()
    (root / "closed").chmod(0)
    try:
        manage = [*powerless, sys.executable, str(Path.cwd() / "manage.py"), "scan", "--now", library.name]
        subprocess.run(manage, env=child_environment, check=False, capture_output=True, text=True, timeout=120)
    finally:
        (root / "closed").chmod(0o700)
    refused(Job.objects.filter(kind="scan").latest("created_at"), "SCAN_MANY_GONE", "4 of 10")
    assert missing(library) == set()
