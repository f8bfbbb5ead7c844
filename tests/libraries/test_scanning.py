"""A scan: what it stores, what it leaves alone, and what it never calls missing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from django.db import OperationalError, connection
from django.db.models import QuerySet
from pytest_django import Settings

from database.objects import drift
from jobs import budgets, stopping
from jobs.enforcing import transaction_on
from jobs.models import Job
from jobs.working import Work
from libraries import scanning
from libraries.models import LibraryFile, LibraryRoot, LibraryState, ScanError, ScanRequest, ScanSession
from libraries.names import to_text
from libraries.readers import Event, Part
from libraries.reading import SMALL_BYTES, UNIT_FILES
from libraries.scanning import LibraryScan
from libraries.storing import Stamp, Store
from libraries.unit_pages import SeenRow, ShelfByPython
from tests.libraries.scans import files_of, library_at, missing, present, scan, scanned, state_of
from tests.libraries.test_reading import HOSTILE
from tests.odd_times import set_odd_time
from tests.tree import tree

pytestmark = pytest.mark.django_db
LARGE = b"l" * (SMALL_BYTES + 1)


def test_a_first_scan_stores_every_file_once_with_its_digest(tmp_path: Path) -> None:
    library = scanned(tree(tmp_path, {"a/x.jpg": b"1", "a/b/y.jpg": b"22", "big": LARGE}))
    files = files_of(library)
    small, big = files[b"a/x.jpg"], files[b"big"]
    info = (tmp_path / "a/x.jpg").stat()
    assert (small.size_bytes, small.mtime_ns, small.ctime_ns) == (1, info.st_mtime_ns, info.st_ctime_ns)
    assert (small.inode, small.nlink, small.is_missing, small.needs_hash) == (info.st_ino, 1, False, False)
    assert (bytes(small.content_hash or b""), small.hash_algorithm) == (blake3(b"1").digest(), "blake3")
    assert (small.hashed_size_bytes, small.hashed_mtime_ns) == (1, info.st_mtime_ns)
    assert small.hashed_at is not None
    assert (big.needs_hash, big.content_hash, big.hash_algorithm, big.hashed_at) == (True, None, None, None)
    session = ScanSession.objects.get()
    assert (session.status, session.files_seen, session.directories_seen) == ("succeeded", 3, 3)
    assert (session.bytes_seen, session.added_count, session.library_id) == (3 + len(LARGE), 3, library.pk)
    state = state_of(library)
    assert (state.mount, state.file_count, state.total_bytes) == ("present", 3, 3 + len(LARGE))
    library.refresh_from_db()
    assert library.last_scanned_at is not None
    request = ScanRequest.objects.get()
    assert (request.status, request.scanned_paths, request.added_count) == ("completed", 3, 3)


def test_every_name_is_stored_byte_for_byte(tmp_path: Path) -> None:
    library = scanned(tree(tmp_path, {b"folder/" + name: name for name in HOSTILE}))
    assert set(files_of(library)) == {b"folder/" + name for name in HOSTILE}
    assert scan(library).status == "completed"
    assert present(library) == {b"folder/" + name for name in HOSTILE}, "a second look finds the same names"


def test_a_library_whose_own_name_is_no_text_is_scanned(tmp_path: Path) -> None:
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    library = scanned(tree(root, {"a": b"1"}))
    assert (library.root_path, present(library)) == (to_text(os.fsencode(root)), {b"a"})


def test_an_unchanged_library_is_not_written(tmp_path: Path) -> None:
    library = scanned(tree(tmp_path, {f"{number}": b"x" for number in range(20)}))
    before = list(LibraryFile.objects.order_by("id").values_list())
    assert scan(library).status == "completed"
    assert list(LibraryFile.objects.order_by("id").values_list()) == before


def test_new_changed_and_removed_files_are_told_apart(tmp_path: Path) -> None:
    library = scanned(tree(tmp_path, {f"keep-{n}": b"k" for n in range(8)} | {"edit": b"old", "drop": b"d"}))
    (tmp_path / "drop").unlink()
    tree(tmp_path, {"edit": b"newer", "add": b"a"})
    scan(library)
    files = files_of(library)
    assert missing(library) == {b"drop"}
    assert files[b"drop"].content_hash is not None, "a missing file keeps its digest"
    assert bytes(files[b"edit"].content_hash or b"") == blake3(b"newer").digest()
    assert bytes(files[b"add"].content_hash or b"") == blake3(b"a").digest()
    session = ScanSession.objects.latest("id")
    assert (session.added_count, session.changed_count, session.removed_count) == (1, 1, 1)


def stamp_of(path: Path) -> tuple[int, int]:
    return path.stat().st_atime_ns, path.stat().st_mtime_ns


def test_a_touched_file_is_read_again_and_keeps_its_group(tmp_path: Path) -> None:
    library = scanned(tree(tmp_path, {"a": b"same", "b": b"same"}))
    os.utime(tmp_path / "a", ns=(1, 1))
    scan(library)
    a, b = (files_of(library)[name] for name in (b"a", b"b"))
    assert (a.mtime_ns, bytes(a.content_hash or b"")) == (1, bytes(b.content_hash or b"x"))


def test_other_bytes_under_the_old_size_and_mtime_are_noticed(tmp_path: Path) -> None:
    """A backup put back over a file, with its times: only the ctime tells."""
    library = scanned(tree(tmp_path, {"a": b"old1", "big": LARGE}))
    LibraryFile.objects.filter(relative_path="big").update(
        needs_hash=False, hash_algorithm="blake3", content_hash=blake3(LARGE).digest(), sample_hash=b"s" * 32
    )
    for name, content in (("a", b"new2"), ("big", LARGE[::-1])):
        times = stamp_of(tmp_path / name)
        (tmp_path / name).write_bytes(content)
        os.utime(tmp_path / name, ns=times)
    scan(library)
    files = files_of(library)
    assert bytes(files[b"a"].content_hash or b"") == blake3(b"new2").digest()
    assert (files[b"big"].needs_hash, files[b"big"].content_hash, files[b"big"].sample_hash) == (True, None, None)


def hashed(path: str) -> bytes:
    digest = blake3(path.encode()).digest()
    LibraryFile.objects.filter(relative_path=path).update(
        needs_hash=False, hash_algorithm="blake3", content_hash=digest, sample_hash=digest[::-1]
    )
    return digest


def test_a_large_file_that_moved_keeps_its_digest_and_sample(tmp_path: Path) -> None:
    library = scanned(tree(tmp_path, {"old/big": LARGE} | {f"{n}": b"x" for n in range(9)}))
    digest = hashed("old/big")
    (tmp_path / "new").mkdir()
    (tmp_path / "old/big").rename(tmp_path / "new/big")
    scan(library)
    moved = files_of(library)[b"new/big"]
    assert missing(library) == {b"old/big"}
    assert (moved.needs_hash, bytes(moved.content_hash or b""), moved.hash_algorithm) == (False, digest, "blake3")
    assert bytes(moved.sample_hash or b"") == digest[::-1]


def test_another_file_of_that_size_at_a_new_place_inherits_nothing(tmp_path: Path) -> None:
    library = scanned(tree(tmp_path, {"old": LARGE} | {f"{n}": b"x" for n in range(9)}))
    hashed("old")
    times = stamp_of(tmp_path / "old")
    (tmp_path / "new").write_bytes(LARGE[::-1])  # made while the old one is there, so its inode is another
    os.utime(tmp_path / "new", ns=times)
    (tmp_path / "old").unlink()
    scan(library)
    assert files_of(library)[b"new"].content_hash is None


def test_hard_links_are_rows_of_one_inode(tmp_path: Path) -> None:
    tree(tmp_path, {"a": b"1"})
    os.link(tmp_path / "a", tmp_path / "b")
    files = files_of(scanned(tmp_path))
    assert files[b"a"].inode == files[b"b"].inode
    assert {file.nlink for file in files.values()} == {2}


def test_a_new_device_number_alone_reads_nothing_again(tmp_path: Path) -> None:
    library = scanned(tree(tmp_path, {"a": b"1"}))
    before = files_of(library)[b"a"]
    LibraryFile.objects.update(device=99, inode=98)
    scan(library)
    after = files_of(library)[b"a"]
    assert (after.device, after.inode, after.hashed_at) == (before.device, before.inode, before.hashed_at)


def test_a_row_that_another_worker_wrote_is_completed_not_reset(tmp_path: Path) -> None:
    """The protocol knows no ctime: rows of others come without one."""
    library = scanned(tree(tmp_path, {"a": b"1"}))
    before = files_of(library)[b"a"]
    LibraryFile.objects.update(ctime_ns=None, nlink=None)
    scan(library)
    after = files_of(library)[b"a"]
    assert (after.ctime_ns, after.nlink, after.hashed_at) == (before.ctime_ns, 1, before.hashed_at)


@pytest.mark.parametrize("statement_rows", [2, 1_000])
def test_a_path_that_somebody_else_stored_meanwhile_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement_rows: int
) -> None:
    contents = {f"{number}": b"%d" % number for number in range(9)}
    library = library_at(tree(tmp_path, contents))
    monkeypatch.setattr("libraries.storing.STATEMENT_ROWS", statement_rows)
    monkeypatch.setattr("libraries.storing.WORTH_IT", 1)
    last = max(contents, key=lambda name: blake3(contents[name]).digest())

    def meddle(name: str) -> None:
        if name == "scan_opened":
            LibraryFile.objects.create(library=library, relative_path=last, size_bytes=99, mtime_ns=1)

    monkeypatch.setattr("libraries.scanning.reach", meddle)
    assert scan(library).status == "completed"
    found = {name.decode(): (row.size_bytes, bytes(row.content_hash or b"")) for name, row in files_of(library).items()}
    assert found == {name: (1, blake3(content).digest()) for name, content in contents.items()}
    assert drift(connection) == [], "what was set aside is back"


def looked_at(rows: list[SeenRow]) -> list[bytes]:
    """As a reader hands them over."""
    shelf = ShelfByPython()
    for row in rows:
        shelf.put(row)
    return shelf.take()


@pytest.mark.parametrize("older", [b"a" * 32, b"z" * 32])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_name_that_a_listing_has_twice_is_stored_as_it_was_seen_last(
    tmp_path: Path, is_first: bool, older: bytes
) -> None:
    """A folder that changes while it is listed, on a share for instance, may name a file twice."""
    library = library_at(tmp_path)
    session = ScanSession.objects.create(library=library)
    store = Store(Stamp(library.pk, session.pk, "blake3"))
    store.clear()
    rows: list[SeenRow] = [
        ("once", 1, 1, 1, 1, 1, 1, b"b" * 32),
        ("twice", 1, 1, 1, 2, 1, 1, older),
        ("twice", 2, 2, 2, 3, 1, 1, b"c" * 32),
        ("again", 1, 1, 1, 4, 1, 1, None),
        ("again", 1, 1, 1, 4, 1, 1, None),
    ]
    if is_first:
        store.add(looked_at(rows))
        store.fill(len(rows))
    with transaction_on("scan"):
        if is_first:
            store.insert_filled()
        else:
            store.insert(rows)
    found = {path: (row.size_bytes, row.inode, row.content_hash) for path, row in files_of(library).items()}
    assert {path: (size, inode, digest and bytes(digest)) for path, (size, inode, digest) in found.items()} == {
        b"once": (1, 1, b"b" * 32),
        b"twice": (2, 3, b"c" * 32),
        b"again": (1, 4, None),
    }


def test_a_first_scan_does_not_say_how_much_there_is_before_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []

    def look(point: str) -> None:
        if point == "scan_stored":
            seen.extend(ScanRequest.objects.values_list("scanned_paths", "total_paths"))

    monkeypatch.setattr("libraries.scanning.reach", look)
    library = scanned(tree(tmp_path, {"a": b"1", "b": b"2"}))
    assert seen
    assert seen[-1] == (2, 0)
    assert ScanRequest.objects.values_list("scanned_paths", "total_paths").get() == (2, 2)
    seen.clear()
    tree(tmp_path, {"c": b"3"})
    scan(library)
    assert seen[-1] == (3, 3)


# --- What is gone, and what only seems to be ------------------------------------------------------------------


def ten_files(root: Path) -> LibraryRoot:
    return scanned(tree(root, {f"{number}": b"%d" % number for number in range(10)}))


def refused(job: Job, code: str, *words: str) -> None:
    assert (job.status, job.error_code) == ("failed", code)
    for word in words:
        assert word in (job.error_message or "")


def test_an_absent_root_stops_the_scan_and_loses_nothing(tmp_path: Path) -> None:
    library = ten_files(tmp_path / "root")
    before = list(LibraryFile.objects.order_by("id").values_list())
    (tmp_path / "root").rename(tmp_path / "away")
    refused(scan(library), "LIBRARY_ABSENT", "photos", "mounted")
    assert state_of(library).mount == LibraryState.Mount.ABSENT
    assert list(LibraryFile.objects.order_by("id").values_list()) == before
    assert ScanSession.objects.latest("id").status == "failed"
    (tmp_path / "away").rename(tmp_path / "root")
    assert scan(library).status == "completed"
    assert list(LibraryFile.objects.order_by("id").values_list()) == before, "back again, nothing is read anew"
    assert state_of(library).mount == LibraryState.Mount.PRESENT


def test_an_empty_root_stops_the_scan_and_loses_nothing(tmp_path: Path) -> None:
    library = ten_files(tmp_path / "root")
    (tmp_path / "root").rename(tmp_path / "away")
    (tmp_path / "root").mkdir()
    refused(scan(library), "LIBRARY_EMPTY", "photos")
    assert (len(present(library)), state_of(library).mount) == (10, LibraryState.Mount.EMPTY)
    assert scan(library, accept_missing=True).status == "completed"
    assert len(missing(library)) == 10


def test_another_disk_stops_the_scan_and_loses_nothing(tmp_path: Path) -> None:
    library = ten_files(tmp_path)
    LibraryState.objects.update(filesystems={"": "uuid:of-another-disk"})
    refused(scan(library), "LIBRARY_DIFFERENT", "uuid:of-another-disk")
    assert (len(present(library)), state_of(library).mount) == (10, LibraryState.Mount.DIFFERENT)
    assert scan(library, accept_missing=True).status == "completed"
    assert state_of(library).filesystems[""] != "uuid:of-another-disk", "the new one is remembered"


needs_mounts = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


@needs_mounts
def test_a_disk_inside_the_library_that_is_not_mounted_stops_the_scan(tmp_path: Path) -> None:
    root = tree(tmp_path, {f"{number}": b"x" for number in range(90)})
    inner = root / "inner disk"
    inner.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "dedupfs-inner", inner], check=True)
    try:
        library = scanned(tree(root, {"inner disk/a": b"1"}))
        assert set(state_of(library).filesystems) == {"", "inner disk"}
    finally:
        subprocess.run(["umount", inner], check=True)
    refused(scan(library), "LIBRARY_DIFFERENT", "inner disk", "nothing is mounted")
    assert missing(library) == set()


@needs_mounts
def test_a_disk_inside_the_library_that_is_empty_stops_the_scan(tmp_path: Path) -> None:
    """However few files it had: less than would ask a person."""
    root = tree(tmp_path, {f"{number}": b"x" for number in range(90)})
    inner, other = root / "inner disk", root / "never had any"
    for point in (inner, other):
        point.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "dedupfs-inner", point], check=True)
    try:
        library = scanned(tree(root, {"inner disk/a": b"1", "inner disk/b": b"2"}))
        (inner / "b").unlink()
        assert scan(library).status == "completed", "one of two may go"
        (inner / "a").unlink()
        refused(scan(library), "LIBRARY_EMPTY", "photos", "inner disk")
        assert (missing(library), state_of(library).mount) == ({b"inner disk/b"}, LibraryState.Mount.EMPTY)
        LibraryRoot.objects.update(exclude_patterns="inner disk")
        assert scan(library).status == "completed", "what is left out is not looked for"
        LibraryRoot.objects.update(exclude_patterns="")
        LibraryFile.objects.filter(relative_path="inner disk/a").update(is_missing=False)
        assert scan(library, accept_missing=True).status == "completed"
        assert missing(library) == {b"inner disk/a", b"inner disk/b"}
    finally:
        for point in (inner, other):
            subprocess.run(["umount", point], check=True)


@needs_mounts
def test_a_disk_that_goes_away_during_the_walk_stops_the_scan_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing could be found missing on it that anybody would ask about: one file of ten is gone."""
    root = tmp_path / "root"
    root.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "dedupfs-root", root], check=True)
    mounted = [root]

    def unmount(point: str) -> None:
        if point == "scan_walked":
            subprocess.run(["umount", mounted.pop()], check=True)

    try:
        library = ten_files(root)
        (root / "0").unlink()
        monkeypatch.setattr("libraries.scanning.reach", unmount)
        refused(scan(library), "LIBRARY_DIFFERENT", "dedupfs-root")
    finally:
        for point in mounted:
            subprocess.run(["umount", point], check=True)
    assert (len(present(library)), state_of(library).mount) == (10, LibraryState.Mount.DIFFERENT)


def test_many_files_gone_at_once_ask_a_person(tmp_path: Path) -> None:
    library = ten_files(tmp_path)
    for number in range(3):
        (tmp_path / f"{number}").unlink()
    (tmp_path / "new").write_bytes(b"n")
    refused(scan(library), "SCAN_MANY_GONE", "3 of 10", "25 %")
    assert (missing(library), state_of(library).gone_count) == (set(), 3)
    assert b"new" in present(library), "what is there was stored all the same"
    assert scan(library, accept_missing=True).status == "completed"
    assert (missing(library), state_of(library).gone_count) == ({b"0", b"1", b"2"}, 0)


def test_the_share_that_may_be_gone_is_a_knob(tmp_path: Path, settings: Settings) -> None:
    """DEDUPFS_MISSING_PERCENT"""
    library = ten_files(tmp_path)
    (tmp_path / "0").unlink()
    settings.MISSING_PERCENT = 9
    refused(scan(library), "SCAN_MANY_GONE")
    settings.MISSING_PERCENT = 10
    assert scan(library).status == "completed"
    assert missing(library) == {b"0"}


def test_a_file_that_comes_back_unchanged_is_not_read_again(tmp_path: Path) -> None:
    library = ten_files(tmp_path / "root")
    before = files_of(library)[b"3"]
    (tmp_path / "root/3").rename(tmp_path / "3")
    scan(library)
    assert missing(library) == {b"3"}
    assert (state_of(library).file_count, state_of(library).missing_count) == (9, 1)
    # A rename gives a new ctime; what comes back by a mount has its old one, as the row says here.
    (tmp_path / "3").rename(tmp_path / "root/3")
    LibraryFile.objects.filter(relative_path="3").update(ctime_ns=(tmp_path / "root/3").stat().st_ctime_ns)
    scan(library)
    after = files_of(library)[b"3"]
    assert (after.is_missing, after.hashed_at, after.needs_hash) == (False, before.hashed_at, False)
    assert (state_of(library).file_count, state_of(library).missing_count) == (10, 0)


def test_what_a_new_rule_leaves_out_is_no_loss_that_asks(tmp_path: Path) -> None:
    library = scanned(tree(tmp_path, {"a.tmp": b"1", "cache/b": b"2", "keep": b"333"}))
    LibraryRoot.objects.update(exclude_patterns="*.tmp\ncache")
    library.refresh_from_db()
    assert scan(library).status == "completed"
    assert present(library) == {b"keep"}


@pytest.fixture
def powerless() -> list[str]:
    """A command in front of which even root must ask for permission."""
    if os.geteuid() != 0:
        return []
    capabilities = "-dac_override,-dac_read_search"
    return ["setpriv", f"--bounding-set={capabilities}", f"--inh-caps={capabilities}"]


def test_nothing_below_a_folder_that_can_not_be_read_is_missing(
    tmp_path: Path, child_environment: dict[str, str], powerless: list[str]
) -> None:
    root = tree(tmp_path / "root", {"open/a": b"1", "closed/b": b"2", "closed/c/d": b"3", "gone": b"4"})
    tree(root, {f"more/{number}": b"m" for number in range(9)})
    library = scanned(root)
    (root / "gone").unlink()
    (root / "closed").chmod(0)
    try:
        manage = [*powerless, sys.executable, str(Path.cwd() / "manage.py"), "scan", "--now", library.name]
        subprocess.run(manage, env=child_environment, check=True, capture_output=True, text=True, timeout=120)
    finally:
        (root / "closed").chmod(0o700)
    assert missing(library) == {b"gone"}
    (error,) = ScanError.objects.all()
    assert (error.relative_path, error.is_folder, error.reason) == ("closed", True, "EACCES: Permission denied")
    assert state_of(library).error_count == 1
    scan(library)
    assert not ScanError.objects.exists(), "the list is the last scan's"


# A folder that is so large that its reader answers in parts.
def flat_library(root: Path) -> LibraryRoot:
    flat = {f"flat/{number}": b"" for number in range(3 * UNIT_FILES)}
    return scanned(tree(root, flat | {f"rest/{number}": b"%d" % number for number in range(10)}))


def test_a_folder_with_more_files_than_a_unit_is_stored_file_by_file_once(tmp_path: Path) -> None:
    library = flat_library(tmp_path)
    count = 3 * UNIT_FILES + 10
    session = ScanSession.objects.latest("id")
    assert (session.files_seen, session.directories_seen, session.added_count) == (count, 3, count)
    assert (len(present(library)), state_of(library).file_count) == (count, count)
    (tmp_path / "flat/7").unlink()
    tree(tmp_path, {"flat/new": b"new"})
    assert scan(library).status == "completed"
    session = ScanSession.objects.latest("id")
    assert (session.files_seen, session.added_count, session.changed_count) == (count, 1, 0)
    assert missing(library) == {b"flat/7"}


#: For every reader: something happens to a folder when so many of its entries were taken.
_HAPPENS = """
import os

scandir = os.scandir

class Watched:
    def __init__(self, entries):
        self.entries, self.left = entries, {count}
    def __enter__(self):
        return self
    def __exit__(self, *_):
        self.entries.close()
    def __iter__(self):
        return self
    def __next__(self):
        self.left -= 1
        if self.left < 0:
            {what}
        return next(self.entries)

def watched(folder):
    entries = scandir(folder)
    return Watched(entries) if isinstance(folder, int) and os.fstat(folder).st_ino == {inode} else entries

os.scandir = watched
"""


def happens(patch: pytest.MonkeyPatch, code: Path, folder: Path, count: int, what: str) -> None:
    """Have every reader that is started from now on do `what` in the middle of this folder."""
    script = _HAPPENS.format(count=count, what=what, inode=folder.stat().st_ino)
    tree(code, {"sitecustomize.py": script.encode()})
    patch.setenv("PYTHONPATH", str(code))


def test_nothing_in_a_folder_that_fails_half_way_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of what would have come after the parts that were taken."""
    library = flat_library(tmp_path / "root")
    for name in ("flat/1", f"flat/{UNIT_FILES}", "rest/1"):
        (tmp_path / "root" / name).unlink()
    with monkeypatch.context() as patch:
        fails = "raise OSError(5, os.strerror(5))"
        happens(patch, tmp_path / "code", tmp_path / "root/flat", 2 * UNIT_FILES + 500, fails)
        assert scan(library).status == "completed"
    (error,) = ScanError.objects.all()
    assert (error.relative_path, error.is_folder, error.reason) == ("flat", True, "EIO: Input/output error")
    session = ScanSession.objects.latest("id")
    assert session.files_seen == 2 * UNIT_FILES + 9, "two whole portions, and the rest"
    assert missing(library) == {b"rest/1"}
    assert scan(library).status == "completed"
    assert missing(library) == {b"rest/1", b"flat/1", f"flat/{UNIT_FILES}".encode()}


@pytest.mark.parametrize("is_first", [True, False])
def test_a_file_that_vanishes_before_it_is_looked_at_is_told_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    """Its folder was listed with it: whether it is gone, the next scan says."""
    root = tree(tmp_path / "root", {f"a/{number}": b"%d" % number for number in range(10)})
    library = library_at(root) if is_first else scanned(root)
    with monkeypatch.context() as patch:
        gone = str(root / "a/3")
        happens(patch, tmp_path / "code", root / "a", 10, f"os.path.exists({gone!r}) and os.unlink({gone!r})")
        assert scan(library).status == "completed"
    (error,) = ScanError.objects.all()
    assert (error.relative_path, error.is_folder, error.reason) == ("a/3", False, "ENOENT: No such file or directory")
    assert (missing(library), len(present(library))) == (set(), 9 if is_first else 10)
    assert scan(library).status == "completed"
    assert (missing(library), len(present(library))) == (set() if is_first else {b"a/3"}, 9)


def test_a_reader_that_is_killed_in_a_folder_half_way_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = flat_library(tmp_path)
    (tmp_path / "rest/1").unlink()
    take = LibraryScan._take

    def kill(scan: LibraryScan, event: Event | None) -> None:
        if isinstance(event, Part):
            for pid in scan.pool._readers.pids.values():
                os.kill(pid, signal.SIGKILL)
        take(scan, event)

    with monkeypatch.context() as patch:
        patch.setattr(LibraryScan, "_take", kill)
        job = scan(library)
    assert (job.status, job.error_code, missing(library)) == ("retryable", "READERS_GONE", set())
    assert scan(library).status == "completed"
    assert (missing(library), len(present(library))) == ({b"rest/1"}, 3 * UNIT_FILES + 9)


@pytest.mark.parametrize("size", [3, SMALL_BYTES + 1])
def test_a_file_whose_time_can_t_be_stored_is_named_and_nothing_else_suffers(tmp_path: Path, size: int) -> None:
    """In a first scan, in a later one, and where it was in the index before it got that time."""
    root = tree(tmp_path, {"odd": b"x" * size, "known": b"y" * size, "plain": b"z" * size})
    set_odd_time(root / "odd")
    library = scanned(root)
    (error,) = ScanError.objects.all()
    assert (error.relative_path, error.reason.split(":")[0]) == ("odd", "EOVERFLOW")
    assert present(library) == {b"known", b"plain"}
    set_odd_time(root / "known")
    job = scan(library)
    assert (job.status, present(library), missing(library)) == ("completed", {b"known", b"plain"}, set())
    assert set(ScanError.objects.values_list("relative_path", flat=True)) == {"odd", "known"}
    os.utime(root / "odd")
    assert (scan(library).status, present(library)) == ("completed", {b"odd", b"known", b"plain"})


def test_a_minimum_size_and_patterns_are_the_librarys_own(tmp_path: Path) -> None:
    tree(tmp_path, {"empty": b"", "one": b"1", "three": b"333", "@eaDir/x": b"xxx", "mine/x": b"xxx"})
    set_odd_time(tmp_path / "one")
    library = scanned(tmp_path, min_size_bytes=2, exclude_patterns="mine")
    assert present(library) == {b"three", b"@eaDir/x"}
    assert not ScanError.objects.exists(), "nobody asked for it, so nothing is wrong with it"


def test_a_second_scan_goes_on_where_a_first_one_was_cut_off(tmp_path: Path) -> None:
    library = scanned(tree(tmp_path, {f"{number}": b"%d" % number for number in range(10)}))
    LibraryFile.objects.filter(relative_path__in="56789").delete()
    kept = dict(LibraryFile.objects.values_list("relative_path", "hashed_at"))
    scan(library)
    files = files_of(library)
    assert {to_text(path): file.hashed_at for path, file in files.items() if to_text(path) in kept} == kept
    assert all(file.content_hash is not None for file in files.values())


def test_more_files_than_one_batch_holds_are_all_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """DEDUPFS_SCAN_BATCH_FILES"""
    settings.SCAN_BATCH_FILES = 7
    monkeypatch.setattr("libraries.scanning.SMALL_UNIT", 3)
    names = {f"d{number % 5}/{number}": b"%d" % number for number in range(50)}
    library = scanned(tree(tmp_path, names))
    assert len(present(library)) == 50
    tree(tmp_path, {f"e/{number}": b"%d" % number for number in range(30)})
    scan(library)
    assert len(present(library)) == 80
    assert all(file.content_hash is not None for file in files_of(library).values())


def test_what_is_left_for_the_last_batch_of_a_first_scan_is_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stored while readers have nothing to do. A later scan writes next to nothing."""
    monkeypatch.setattr(scanning, "FIRST_BATCH_FILES", 10)
    monkeypatch.setattr(scanning, "EARLY_BATCH_FILES", 3 * UNIT_FILES)
    asked: list[tuple[bool, bool, bool]] = []
    wanted_files = LibraryScan._wanted_files

    def noted(scan: LibraryScan) -> int:
        scan.batch_files = 100
        before, wanted, after = scan.pool.in_hand, wanted_files(scan), scan.pool.in_hand
        if before == after:  # readers go on meanwhile
            asked.append((scan.is_first, after < 3, wanted == 10))
        return wanted

    monkeypatch.setattr(LibraryScan, "_wanted_files", noted)
    library = scanned(tree(tmp_path, {f"{n % 7}/{n % 5}/{n}": b"%d" % n for n in range(300)}))
    scan(library)
    assert {is_small for is_first, is_running_dry, is_small in asked if is_first and is_running_dry} == {True}
    assert not any(is_small for is_first, is_running_dry, is_small in asked if not is_first or not is_running_dry)


def test_what_is_compared_with_the_index_comes_in_smaller_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.SCAN_BATCH_FILES = 9
    monkeypatch.setattr("libraries.scanning.COMPARED_FILES", 4)
    batches: list[tuple[bool, int]] = []
    store = LibraryScan._store

    def noted(scan: LibraryScan) -> None:
        store(scan)
        batches.append((scan.is_first, scan.batch_files))

    monkeypatch.setattr(LibraryScan, "_store", noted)
    library = scanned(tree(tmp_path, {f"{number}": b"%d" % number for number in range(20)}))
    scan(library)
    assert set(batches) == {(True, 9), (False, 4)}


@pytest.mark.parametrize("is_first", [True, False])
def test_a_batch_that_an_interrupted_scan_left_is_not_stored_by_the_next_one(tmp_path: Path, is_first: bool) -> None:
    """A consumer carries one scan out after the other, on one connection."""
    one = library_at(tree(tmp_path / "one", {"left/over": b"1", "same": b"1"}), "one")
    other_root = tree(tmp_path / "other", {"same": b"2", "own": b"3"})
    other = library_at(other_root, "other") if is_first else scanned(other_root, name="other")

    def interrupted(_: LibraryScan) -> None:
        raise RuntimeError("interrupted")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LibraryScan, "_store", interrupted)
        assert scan(one).status == "failed"
    assert scan(other).status == "completed"
    assert present(other) == {b"same", b"own"}
    assert bytes(files_of(other)[b"same"].content_hash or b"") == blake3(b"2").digest()
    assert not LibraryFile.objects.filter(library=one).exists()


def test_what_a_scan_holds_is_refused_once_its_job_is_cancelled(tmp_path: Path) -> None:
    library = library_at(tree(tmp_path, {"a": b"1"}))
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    from database import crash_points

    def cancelled(name: str) -> None:
        if name == "scan_opened":
            Job.objects.update(status="cancelled", lease_expires_at=None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("libraries.scanning.reach", cancelled)
        assert scan(library).status == "cancelled"
    assert crash_points.reach is not cancelled
    assert not LibraryFile.objects.exists()
    assert ScanRequest.objects.get().status == "cancelled"


@pytest.mark.parametrize("point", ["scan_opened", "scan_stored"])
def test_a_scan_that_is_stopped_ends_its_session_and_the_next_try_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings, point: str
) -> None:
    settings.SCAN_BATCH_FILES = 1
    monkeypatch.setattr("libraries.walking.FIRST_FILES", 1)
    library = library_at(tree(tmp_path, {f"{n}/{n}": b"%d" % n for n in range(9)}))
    monkeypatch.setattr(stopping, "_requested", threading.Event())
    with monkeypatch.context() as patch:
        patch.setattr("libraries.scanning.reach", lambda name: stopping.request() if name == point else None)
        assert scan(library).status == "retryable"
    session = ScanSession.objects.get()
    assert (session.status, session.error_message) == ("failed", "The scan was interrupted.")
    assert session.finished_at is not None
    stopping._requested.clear()
    assert scan(library).status == "completed"
    assert list(ScanSession.objects.order_by("id").values_list("status", flat=True)) == ["failed", "succeeded"]
    assert len(present(library)) == 9


@pytest.mark.parametrize(
    ("error", "status"),
    [(OperationalError("database or disk is full"), "retryable"), (ValueError("a fault of ours"), "failed")],
)
def test_a_scan_that_breaks_off_leaves_no_session_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, status: str
) -> None:
    def fail(name: str) -> None:
        if name == "scan_walked":
            raise error

    monkeypatch.setattr("libraries.scanning.reach", fail)
    assert scan(library_at(tree(tmp_path, {"a": b"1"}))).status == status
    assert ScanSession.objects.get().status == "failed"


def test_a_budget_is_charged_with_what_was_read(tmp_path: Path) -> None:
    from jobs.models import IoRateLimit

    library = scanned(tree(tmp_path, {"a": b"x" * 60_000, "b": b"x" * 60_000}), read_bytes_per_second=400_000)
    bucket = IoRateLimit.objects.get(bucket_key=f"library:{library.pk}")
    session = ScanSession.objects.get()
    assert session.finished_at is not None
    busy_ms = bucket.next_available_at_ms - session.started_at.timestamp() * 1000
    assert busy_ms >= 300, "120,000 bytes at 400,000 a second"


@pytest.fixture
def charged(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> list[int]:
    """What budgets are charged with, while scans take one file at a time and ask for their budget each time."""
    amounts: list[int] = []
    charge = budgets.charge

    def note(bucket: str, amount: int, limit: int) -> float:
        amounts.append(amount)
        return charge(bucket, amount, limit)

    settings.SCAN_BATCH_FILES = 1
    monkeypatch.setattr("libraries.walking.FIRST_FILES", 1)
    monkeypatch.setattr(scanning, "ASK_SECONDS", 0.0)
    monkeypatch.setattr(budgets, "charge", note)
    return amounts


NINE = {f"{number}/{number}": b"%d" % number * 60_000 for number in range(9)}


def test_a_budget_that_is_set_during_a_scan_is_charged_with_the_rest_to_the_last_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, charged: list[int]
) -> None:
    library = library_at(tree(tmp_path, NINE))

    def limit(point: str) -> None:
        if point == "scan_stored":
            LibraryRoot.objects.update(read_bytes_per_second=4_000_000)

    monkeypatch.setattr("libraries.scanning.reach", limit)
    assert scan(library).status == "completed"
    assert sum(charged) == 8 * 60_000, "all but the first, though it is less than is charged at a time"


def test_a_budget_that_is_lifted_holds_a_scan_up_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, charged: list[int]
) -> None:
    library = library_at(tree(tmp_path, NINE), read_bytes_per_second=1_000)
    advance = Work.advance

    def lift(work: Work[Job], *told: Any, **more: Any) -> None:
        advance(work, *told, **more)
        if charged:
            LibraryRoot.objects.update(read_bytes_per_second=0)

    monkeypatch.setattr(Work, "advance", lift)
    assert scan(library).status == "completed"
    assert sum(charged) == 2 * 60_000, "which would take two minutes, and the rest is free"


def test_small_files_of_a_later_scan_are_charged_too(tmp_path: Path, charged: list[int]) -> None:
    library = scanned(tree(tmp_path, {"a": b"1"}))
    LibraryRoot.objects.update(read_bytes_per_second=4_000_000)
    library.refresh_from_db()
    tree(tmp_path, {"a": b"x" * 50_000, "new": b"y" * 60_000, "large": LARGE})
    assert scan(library).status == "completed"
    assert sum(charged) == 110_000, "large ones are not read by a scan"
    scan(library)
    assert sum(charged) == 110_000


def test_a_tree_that_vanishes_while_it_is_walked_is_told_not_lost(tmp_path: Path) -> None:
    library = ten_files(tmp_path / "root")

    def vanish(name: str) -> None:
        if name == "scan_opened":
            shutil.rmtree(tmp_path / "root")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("libraries.scanning.reach", vanish)
        refused(scan(library), "LIBRARY_ABSENT")
    assert missing(library) == set()


def test_a_look_at_the_disk_in_the_same_moment_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = library_at(tree(tmp_path, {"a": b"1"}))
    real = QuerySet.exists

    def exists(rows: QuerySet[Any]) -> bool:
        """A consumer's look comes between the question and what follows from it."""
        found = real(rows)
        if rows.model is LibraryState and not found:
            LibraryState.objects.create(library=library)
        return found

    monkeypatch.setattr(QuerySet, "exists", exists)
    assert scan(library).status == "completed"
    assert present(library) == {b"a"}
