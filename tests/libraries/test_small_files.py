"""Small files of a folder, read in C and in Python: the same answer, whatever happens to the files meanwhile."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from libraries.small_files import TOGETHER, signed
from libraries.unit_pages import SeenRow, Shelf, ShelfByPython, ShelfInC, rows_of, shelf
from tests.native import NEEDS_COMPILER
from tests.odd_times import set_odd_time
from tests.tree import tree
from tests.waiting import until

MOST = 4096


@pytest.fixture(params=["in C", "in Python"])
def read(request: pytest.FixtureRequest) -> Shelf:
    if request.param == "in Python":
        return ShelfByPython()
    made = shelf(mmap(-1, 4 * MOST, flags=MAP_PRIVATE | MAP_ANONYMOUS))
    assert isinstance(made, ShelfInC), NEEDS_COMPILER
    return made


def found(
    read: Shelf, folder: int, names: Sequence[str], least: int = 0, make: Any = blake3
) -> list[tuple[Any, ...] | None]:
    """For each name what is stored of it, without its path; None of what is odd."""
    odd = read.look(folder, "", names, least, MOST, make)
    rows: Iterator[SeenRow] = iter(list(rows_of(read.take())))
    return [None if name in odd else next(rows)[1:] for name in names]


def digests(read: Shelf, folder: int, names: Sequence[str]) -> list[bytes | None]:
    """Of those that are not odd."""
    return [each[6] for each in found(read, folder, names) if each]


@pytest.mark.parametrize("make", [blake3, None])
def test_it_tells_what_the_system_tells(read: Shelf, folder: int, tmp_path: Path, make: Any) -> None:
    tree(tmp_path, {b"a": b"one", b"b": b"", b"caf\xe9": b"two", b"full": b"x" * MOST})
    os.link(tmp_path / "a", tmp_path / "linked")
    os.utime(tmp_path / "a", ns=(-1, -1_500_000_001))  # before 1970
    names = sorted(os.listdir(tmp_path))
    for name, each in zip(names, found(read, folder, names, make=make), strict=True):
        info = os.stat(tmp_path / name)
        known = (info.st_size, info.st_mtime_ns, info.st_ctime_ns, signed(info.st_ino), signed(info.st_dev))
        digest = make((tmp_path / name).read_bytes()).digest() if make else None
        assert each == (*known, info.st_nlink, digest)


def test_without_a_hash_nothing_is_opened(read: Shelf, folder: int, tmp_path: Path) -> None:
    """Of a file that somebody has a lease on: whoever opens it would have to wait, and doesn't."""
    tree(tmp_path, {"leased": b"one"})
    with (tmp_path / "leased").open("r+b") as file:
        fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)  # which does nothing
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        assert found(read, folder, ["leased"], make=None) != [None]
        assert found(read, folder, ["leased"]) == [None]


def test_what_is_too_small_is_left_out_and_what_is_too_large_is_not_read(
    read: Shelf, folder: int, tmp_path: Path
) -> None:
    tree(tmp_path, {"small": b"1", "fits": b"12", "large": b"x" * (MOST + 1)})
    assert read.look(folder, "", ["small", "fits", "large"], 2, MOST, blake3) == []
    assert (read.file_count, read.bytes_seen, read.bytes_read) == (2, MOST + 3, 2)
    rows = [(row[0], row[1], row[7]) for row in rows_of(read.take())]
    assert rows == [("fits", 2, blake3(b"12").digest()), ("large", MOST + 1, None)]


@pytest.mark.parametrize("make", [blake3, None])
def test_what_is_no_file_is_told_apart_and_waited_for_by_nobody(
    read: Shelf, folder: int, tmp_path: Path, make: Any
) -> None:
    tree(tmp_path, {"file": b"1", "inside/x": b"1"})
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    answers = found(read, folder, ["link", "pipe", "inside", "gone", "file"], make=make)
    assert [each is not None for each in answers] == [False, False, False, False, True]


def test_more_files_than_there_is_room_for_are_read_in_portions(read: Shelf, folder: int, tmp_path: Path) -> None:
    contents = {f"{number:04}": bytes([number % 256]) * (number * 7 % MOST) for number in range(TOGETHER + 100)}
    tree(tmp_path, contents)
    assert digests(read, folder, [*contents]) == [blake3(content).digest() for content in contents.values()]


def test_a_folder_without_files_has_nothing(read: Shelf, folder: int) -> None:
    assert found(read, folder, []) == []


def test_no_descriptor_is_left_open(read: Shelf, folder: int, tmp_path: Path) -> None:
    tree(tmp_path, {"a": b"1", "large": b"x" * (MOST + 1)})
    os.mkfifo(tmp_path / "pipe")
    before = os.listdir("/proc/self/fd")
    found(read, folder, ["a", "large", "pipe", "gone"])
    assert os.listdir("/proc/self/fd") == before


#: Writes the same length into a file again and again, and puts its mtime back each time.
_WRITER = """
import os, sys
handle, when = os.open(sys.argv[1], os.O_WRONLY), os.stat(sys.argv[1]).st_mtime_ns
print("writes", flush=True)
while True:
    for byte in (b"a", b"b"):
        os.pwrite(handle, byte * int(sys.argv[2]), 0)
        os.utime(handle, ns=(when, when))
"""


def test_a_file_that_changes_while_it_is_read_has_no_digest(read: Shelf, folder: int, tmp_path: Path) -> None:
    """Its length and its mtime stay: the ctime tells. Not each time, since the kernel notes it before the first byte of
    a write and not after the last: so it is looked at until it was seen once."""
    tree(tmp_path, {"busy": b"a" * MOST})
    command = ["python3", "-c", _WRITER, str(tmp_path / "busy"), str(MOST)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        try:
            until(lambda: None in digests(read, folder, ["busy"] * 500), "a look at the file while it is written")
        finally:
            writer.kill()


@pytest.mark.parametrize("make", [blake3, None])
def test_a_time_that_can_t_be_stored_is_odd(read: Shelf, folder: int, tmp_path: Path, make: Any) -> None:
    tree(tmp_path, {"a": b"one", "b": b"two"})
    set_odd_time(tmp_path / "a")
    first, second = found(read, folder, ["a", "b"], make=make)
    assert first is None
    assert second is not None
