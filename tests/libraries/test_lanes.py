"""The order of reading: one reader for a spinning disk, in the order of its blocks; all readers for other disks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from libraries import lanes, mounts, scanning
from libraries.candidates import Candidate
from libraries.disk_order import first_block, places
from libraries.lanes import Lanes, RealDisks, Unit
from libraries.models import LibraryFile
from libraries.readers import ReaderPool, reader_count
from libraries.running_now import hash_now
from tests.indexing import indexed
from tests.libraries.dead_disk import mounted
from tests.libraries.scans import present, scanned
from tests.tree import tree


class FakeDisks:
    """A device's number names its disk; 0 doesn't spin."""

    def spinning(self, root: bytes, device: int | None) -> str:
        return f"sd{device}" if device else ""


def unit(path: str, device: int = 0, library: int = 1, size: int = 1) -> Unit:
    row = Candidate(1, library, path, size, 1, 1, int(path) if path.isdigit() else 0, device, 1, None, True)
    return Unit("hash", [row])


def paths(units: list[Unit]) -> list[str]:
    return [each.file.path for each in units]


@pytest.fixture(autouse=True)
def _single_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "TASK_FILES", 1)


def test_a_spinning_disk_has_one_reader_and_several_disks_are_read_at_once() -> None:
    waiting = Lanes(8, FakeDisks())
    waiting.put(b"/nowhere", [unit(f"{n}", device) for n in range(3) for device in (1, 2)])
    first = list(waiting.ready())
    assert {key[0] for key, _ in first} == {"sd1", "sd2"}
    assert len(first) == 2
    assert list(waiting.ready()) == []
    waiting.ended(("sd1", 0))
    assert [key[0] for key, _ in waiting.ready()] == ["sd1"]


def test_other_disks_have_all_readers_but_one_for_each_that_spins() -> None:
    waiting = Lanes(4, FakeDisks())
    waiting.put(b"/nowhere", [unit(f"{n}") for n in range(100)])
    waiting.put(b"/nowhere", [unit("0", device=1)])
    ready = [key[0] for key, _ in waiting.ready()]
    assert sorted(ready) == ["", "", "", "sd1"]


def test_a_spinning_disk_is_swept_from_its_beginning_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies behind the head waits for the next sweep."""
    waiting = Lanes(1, FakeDisks())
    waiting.put(b"/nowhere", [unit(n, device=1) for n in ("30", "10", "20")])
    read = [paths(units) for _, units in waiting.ready()]
    waiting.put(b"/nowhere", [unit(n, device=1) for n in ("5", "15")])
    while waiting.files:
        waiting.ended(("sd1", 0))
        read += [paths(units) for _, units in waiting.ready()]
    assert read == [["10"], ["15"], ["20"], ["30"], ["5"]]


def test_the_one_reader_of_a_spinning_disk_gets_more_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for each next task; others have some waiting."""
    monkeypatch.setattr(lanes, "TASK_FILES", 100)
    waiting = Lanes(2, FakeDisks())
    for device in (0, 1):
        waiting.put(b"/nowhere", [unit(f"{n}", device, size=lanes.TASK_BYTES // 2) for n in range(10)])
    sizes = {key[0]: len(units) for key, units in waiting.ready()}
    assert sizes == {"": 2, "sd1": 8}


def test_a_lane_with_a_budget_stands_still_alone() -> None:
    waiting = Lanes(8, FakeDisks())
    waiting.put(b"/a", [unit(f"{n}", library=1) for n in range(4)], stride=1000)
    waiting.put(b"/b", [unit(f"{n}", library=2) for n in range(4)])
    started = list(waiting.ready())
    assert [key for key, _ in started if key[1]] == [("", 1)] * lanes.BUDGETED_TASKS
    waiting.ended(("", 1))
    waiting.hold(("", 1), 1000)
    assert list(waiting.ready()) == []
    assert 0 < (waiting.held_seconds or 0) <= 1000
    assert len(waiting.empty()) == 2
    assert (waiting.files, waiting.bytes) == (0, 0)


def test_where_a_file_lies_is_asked_of_its_filesystem(tmp_path: Path) -> None:
    tree(tmp_path, {"here": os.urandom(70_000)})
    with (tmp_path / "here").open("rb") as file:
        os.fsync(file.fileno())
        block = first_block(file.fileno())
    found = places(os.fsencode(tmp_path), [(b"here", 7), (b"gone", 9)])
    assert found == [(0, 7) if block is None else (1, block), (0, 9)]


def test_what_is_no_file_on_a_disk_has_no_place() -> None:
    read, write = os.pipe()
    assert first_block(read) is None
    os.close(read)
    os.close(write)


@pytest.mark.django_db
def test_files_on_spinning_disks_are_hashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RealDisks, "spinning", lambda *_: "sda")
    files = {f"{n}": bytes([n // 2]) * 70_000 for n in range(10)}
    indexed(tree(tmp_path, files))
    assert hash_now(actor="test").status == "completed"
    found = {row.relative_path: bytes(row.content_hash or b"") for row in LibraryFile.objects.all()}
    assert found == {path: blake3(content).digest() for path, content in files.items()}


def test_a_disk_inside_is_asked_itself_and_a_number_without_a_disk_by_its_mount(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A library on a spinning disk (9) with a disk that does not spin inside (8), and a subvolume (7)."""
    monkeypatch.setattr(mounts, "has_disk", lambda number: number in (8, 9))
    monkeypatch.setattr(mounts, "is_rotational", lambda number: number == 9)
    monkeypatch.setattr(mounts, "disk_of", lambda number: {8: "sdb", 9: "sda"}[number])
    monkeypatch.setattr(mounts, "block_device", lambda _root: 9)
    disks = RealDisks()
    assert [disks.spinning(b"/photos", device) for device in (9, 8, 7, None)] == ["sda", "", "sda", "sda"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("spinning", "patterns", "is_alone"),
    [("", "", False), ("photos", "", True), ("photos/in/side", "", True), ("photos/in/side", "side", False)],
)
def test_a_walk_has_one_reader_where_a_spinning_disk_takes_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spinning: str, patterns: str, is_alone: bool
) -> None:
    """Also where it is inside of a library on a disk that does not spin; not where its folder is left out."""
    root = tree(tmp_path / "photos", {"a": b"1", "in/side/hidden": b""})
    spins = os.fsencode(tmp_path / spinning) if spinning else None
    monkeypatch.setattr(RealDisks, "spinning", lambda _, path, __: "sda" if os.path.realpath(path) == spins else "")
    counts: list[int] = []

    class Counted(ReaderPool):
        def __init__(self, count: int, *more: Any, **options: Any) -> None:
            counts.append(count)
            super().__init__(count, *more, **options)

    monkeypatch.setattr(scanning, "ReaderPool", Counted)
    with mounted("-t", "tmpfs", "the disk", str(root / "in" / "side")):
        library = scanned(tree(root, {"in/side/b": b"2"}), exclude_patterns=patterns)
    assert present(library) == ({b"a"} if patterns else {b"a", b"in/side/b"})
    assert counts == [1 if is_alone else reader_count()]
