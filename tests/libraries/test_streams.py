"""Reading a file to its end: from memory what lies there, past it what does not."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from libraries.streams import LEAST_BYTES, Stream
from tests.cold_files import cold, from_disk

MIB = 1 << 20
CONTENT = os.urandom(3 * MIB + 1234)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    with cold(path) as handle:
        yield handle


def fetched_by_reading(handle: int, length: int = len(CONTENT), offset: int = 0) -> int:
    before = from_disk()
    assert os.pread(handle, length, offset) == CONTENT[offset : offset + length]
    return from_disk() - before


def whole(stream: Stream) -> bytes:
    content = b""
    with mmap.mmap(-1, MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as buffer:
        while length := stream.read_into(buffer):
            content += buffer[:length]
    return content


def test_what_is_not_in_memory_is_read_once_and_leaves_nothing_there(file: int) -> None:
    before = from_disk()
    assert whole(Stream(file, len(CONTENT))) == CONTENT
    assert from_disk() - before < 2 * len(CONTENT)
    # The kernel may have looked ahead of the first question; the rest was not there and is not there now.
    assert fetched_by_reading(file, MIB, 2 * MIB) >= MIB


def test_what_is_in_memory_is_taken_from_there(file: int) -> None:
    os.pread(file, len(CONTENT), 0)
    before = from_disk()
    assert whole(Stream(file, len(CONTENT))) == CONTENT
    assert from_disk() == before


def test_what_is_half_in_memory_is_right(file: int) -> None:
    os.pread(file, MIB + 4096, 0)
    assert whole(Stream(file, len(CONTENT))) == CONTENT


@pytest.mark.parametrize("length", [2 * MIB, 2 * MIB + 1, LEAST_BYTES, LEAST_BYTES - 1, 0])
def test_each_end_is_found(tmp_path: Path, length: int) -> None:
    path = tmp_path / "other"
    path.write_bytes(CONTENT[:length])
    with cold(path) as handle:
        assert whole(Stream(handle, length)) == CONTENT[:length]


@pytest.mark.parametrize("wrong", [len(CONTENT) - MIB, len(CONTENT) + MIB])
def test_a_file_of_another_size_is_read_to_its_own_end(file: int, wrong: int) -> None:
    assert whole(Stream(file, wrong)) == CONTENT


def test_a_change_that_is_only_in_memory_yet_is_read(tmp_path: Path, file: int) -> None:
    path = tmp_path / "file"
    with path.open("r+b") as change:
        change.seek(2 * MIB)
        change.write(b"changed")
        change.flush()
        assert whole(Stream(file, len(CONTENT)))[2 * MIB : 2 * MIB + 7] == b"changed"


def test_a_filesystem_that_can_not_tell_is_read_as_ever() -> None:
    path = Path("/proc/filesystems")
    handle = os.open(path, os.O_RDONLY)
    assert whole(Stream(handle, LEAST_BYTES)) == path.read_bytes()
    os.close(handle)
