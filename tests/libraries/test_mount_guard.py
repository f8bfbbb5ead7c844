"""Disks inside a library: those it looks after are guarded, those in folders that it leaves out come and go."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from jobs.models import Job
from libraries import adding, asking, changing, first_file, watching
from libraries.asking import Look, Question
from libraries.models import LibraryFile, LibraryRoot, LibraryState
from libraries.mount_guard import looked_after
from libraries.names import to_text
from logbook.models import LogbookEvent
from tests.libraries.dead_disk import mounted
from tests.libraries.scans import missing, present, scan, scanned, state_of
from tests.tree import tree

pytestmark = pytest.mark.django_db

Mount = LibraryState.Mount
INNER = "deep/snapshots/disk.one"
#: Each way to leave the folder out: by its own name, by a name above it, by its path, by one above it.
WAYS = ("disk.one", "*.one", "snap*", "deep/snapshots", "deep/*/disk.one", "/deep")


class Disk:
    """A filesystem that can be mounted in a folder of the library, and unmounted."""

    def __init__(self, point: Path, stack: ExitStack) -> None:
        self.point, self._stack = point, stack
        point.mkdir(parents=True)

    def mount(self, name: str = "the disk", **files: bytes) -> None:
        self._stack.enter_context(mounted("-t", "tmpfs", name, str(self.point)))
        tree(self.point, files)

    def unmount(self) -> None:
        self._stack.pop_all().close()


@pytest.fixture
def disk(disk: Path) -> Iterator[Disk]:
    root = tree(disk / "photos", {f"{number}": b"x" for number in range(20)})
    with ExitStack() as stack:
        yield Disk(root / INNER, stack)


@pytest.fixture
def root(disk: Disk) -> Path:
    return disk.point.parents[2]


def change(library: LibraryRoot, patterns: str) -> None:
    changing.change(library.pk, actor="anna", exclude_patterns=patterns)
    library.refresh_from_db()


def looked_at(library: LibraryRoot) -> str:
    watching.look_at_all()
    return state_of(library).mount


def ended(job: Job) -> tuple[str, str | None]:
    return job.status, job.error_code


COMPLETED = ("completed", None)


# --- Folders that are left out ----------------------------------------------------------------------------
@pytest.mark.parametrize("pattern", WAYS)
def test_a_disk_in_a_folder_that_is_left_out_may_come_and_go(disk: Disk, root: Path, pattern: str) -> None:
    disk.mount(a=b"1")
    library = scanned(root, exclude_patterns=pattern)
    assert present(library) == {b"%d" % number for number in range(20)}
    disk.unmount()
    assert looked_at(library) == Mount.PRESENT
    assert ended(scan(library)) == COMPLETED
    disk.mount("another disk", b=b"2")
    assert looked_at(library) == Mount.PRESENT
    assert ended(scan(library)) == COMPLETED
    assert (set(state_of(library).filesystems), missing(library)) == ({""}, set())


@pytest.mark.parametrize("pattern", ["disk", "deep/disk.one", "*.two", "snapshots/disk.one"])
def test_a_pattern_that_is_about_something_else_leaves_the_guard_as_it_is(disk: Disk, root: Path, pattern: str) -> None:
    disk.mount(a=b"1")
    library = scanned(root, exclude_patterns=pattern)
    disk.unmount()
    assert looked_at(library) == Mount.DIFFERENT
    assert ended(scan(library)) == ("failed", "LIBRARY_DIFFERENT")


def test_a_disk_that_is_left_out_and_was_remembered_all_the_same_is_forgotten(disk: Disk, root: Path) -> None:
    """As libraries have it that were scanned when every mount was remembered."""
    library = scanned(root, exclude_patterns="*.one")
    known = state_of(library).filesystems
    LibraryState.objects.update(filesystems={**known, INNER: "tmpfs:a snapshot of May"})
    assert looked_at(library) == Mount.PRESENT
    assert ended(scan(library)) == COMPLETED
    assert state_of(library).filesystems == known


def test_what_a_new_library_leaves_out_is_not_remembered(disk: Disk, root: Path) -> None:
    disk.mount(a=b"1")
    library = adding.add("Photos", str(root), actor="anna", exclude_patterns="*.one")
    assert set(state_of(library).filesystems) == {""}
    LibraryState.objects.all().delete()
    assert looked_at(library) == Mount.PRESENT
    assert set(state_of(library).filesystems) == {""}


def test_the_library_s_own_disk_is_always_looked_after() -> None:
    assert looked_after({"": "uuid:1", "a": "uuid:2"}, "*") == {"": "uuid:1"}
    assert looked_after({"caf\N{LATIN SMALL LETTER E WITH ACUTE}": "a", to_text(b"caf\xe9"): "b"}, "caf?") == {}
    assert looked_after({"a/.dedupfs-trash/b": "c"}, "") == {}


# --- Folders that are left out later ----------------------------------------------------------------------
def test_leaving_a_folder_out_lets_its_disk_go_and_taking_it_in_again_wants_the_same(disk: Disk, root: Path) -> None:
    disk.mount(a=b"1")
    library = scanned(root, exclude_patterns="")
    known = state_of(library).filesystems
    assert set(known) == {"", INNER}
    disk.unmount()
    assert looked_at(library) == Mount.DIFFERENT
    change(library, "*.one")
    assert looked_at(library) == Mount.PRESENT, "leaving it out is an answer"
    for _ in range(2):
        assert ended(scan(library)) == COMPLETED
        assert state_of(library).filesystems == known, "the index still knows its files"
    change(library, "")
    assert looked_at(library) == Mount.DIFFERENT
    assert ended(scan(library)) == ("failed", "LIBRARY_DIFFERENT")
    disk.mount("another disk", b=b"2")
    assert ended(scan(library)) == ("failed", "LIBRARY_DIFFERENT")
    disk.unmount()
    disk.mount(a=b"1")
    assert ended(scan(library)) == COMPLETED
    assert looked_at(library) == Mount.PRESENT


def test_another_disk_in_a_folder_that_is_left_out_does_not_take_the_place_of_the_known_one(
    disk: Disk, root: Path
) -> None:
    disk.mount(a=b"1")
    library = scanned(root, exclude_patterns="")
    change(library, "*.one")
    disk.unmount()
    disk.mount("another disk", b=b"2")
    assert ended(scan(library)) == COMPLETED
    change(library, "")
    assert ended(scan(library)) == ("failed", "LIBRARY_DIFFERENT")
    assert ended(scan(library, accept_missing=True)) == COMPLETED
    assert state_of(library).filesystems[INNER] == "tmpfs:another disk"


# --- A disk that came up empty ----------------------------------------------------------------------------
@pytest.fixture
def emptied(disk: Disk, root: Path) -> LibraryRoot:
    """A library whose last scan has found the disk inside of it empty."""
    disk.mount(a=b"12", b=b"12")
    library = scanned(root, exclude_patterns="*.tmp", min_size_bytes=1)
    disk.unmount()
    disk.mount()
    assert ended(scan(library)) == ("failed", "LIBRARY_EMPTY")
    return library


def test_a_disk_inside_that_is_empty_is_told_of_until_it_holds_files_again(emptied: LibraryRoot, disk: Disk) -> None:
    note = state_of(emptied).mount_note
    assert INNER in note
    tree(disk.point, {"lost+found/x.tmp": b"left out", "of no size": b"", "deep/er/.keep": b""})
    (disk.point / "link").symlink_to("/etc/hostname")
    for _ in range(2):
        assert looked_at(emptied) == Mount.EMPTY
        assert (state_of(emptied).mount_note, state_of(emptied).is_writable) == (note, True)
    assert not LogbookEvent.objects.filter(event_type="mount").exists(), "nothing has changed"
    assert ended(scan(emptied)) == ("failed", "LIBRARY_EMPTY"), "a scan says the same"
    tree(disk.point, {"deep/er/back": b"12"})
    assert looked_at(emptied) == Mount.PRESENT
    assert ended(scan(emptied)) == COMPLETED


def test_an_empty_disk_that_was_unmounted_in_between_is_no_better(emptied: LibraryRoot, disk: Disk) -> None:
    note = state_of(emptied).mount_note
    disk.unmount()
    assert looked_at(emptied) == Mount.DIFFERENT
    disk.mount()
    assert looked_at(emptied) == Mount.EMPTY
    assert state_of(emptied).mount_note == note
    disk.unmount()
    disk.mount(a=b"12")
    assert looked_at(emptied) == Mount.PRESENT


@pytest.mark.parametrize("answer", ["accepted", "left out"])
def test_a_person_s_answer_settles_it(emptied: LibraryRoot, answer: str) -> None:
    if answer == "accepted":
        assert ended(scan(emptied, accept_missing=True)) == COMPLETED
    else:
        change(emptied, "*.one")
    assert looked_at(emptied) == Mount.PRESENT


def ask_here(questions: Mapping[int, Question], **_: Any) -> dict[int, Look | None]:
    """In the test's own process, where it can be meddled with."""
    return {key: asking.look(question) for key, question in questions.items()}


def test_what_could_not_be_looked_through_in_time_changes_nothing(
    emptied: LibraryRoot, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(disk.point, {"back": b"12"})
    monkeypatch.setattr(asking, "ask", ask_here)
    monkeypatch.setattr(first_file, "SECONDS", -1.0)
    assert looked_at(emptied) == Mount.EMPTY


def test_what_is_below_a_folder_that_can_not_be_read_may_be_there(
    emptied: LibraryRoot, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scan does not call the disk empty then, either; but it does where the index has files beside that folder."""
    (disk.point / "locked").mkdir()
    plain = os.scandir

    def locked(path: Any) -> Any:
        if isinstance(path, bytes) and path.endswith(b"/locked"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return plain(path)

    monkeypatch.setattr(asking, "ask", ask_here)
    monkeypatch.setattr(os, "scandir", locked)
    assert looked_at(emptied) == Mount.EMPTY
    for file in LibraryFile.objects.filter(relative_path__startswith=INNER):
        file.relative_path = f"{INNER}/locked/{file.pk}"
        file.save(update_fields=["relative_path"])
    assert looked_at(emptied) == Mount.PRESENT


def test_what_a_scan_found_during_a_look_is_not_overwritten_by_it(
    emptied: LibraryRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it was asked the library was well, so nobody looked into the disk inside."""
    LibraryState.objects.update(mount=Mount.PRESENT)
    plain = asking.ask

    def slow(questions: Any, **options: Any) -> Any:
        answers = plain(questions, **options)
        LibraryState.objects.update(mount=Mount.EMPTY, mount_note="a scan found it")
        return answers

    monkeypatch.setattr(asking, "ask", slow)
    assert looked_at(emptied) == Mount.EMPTY
    assert state_of(emptied).mount_note == "a scan found it"
