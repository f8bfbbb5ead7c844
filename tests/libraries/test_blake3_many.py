"""BLAKE3 of many files at once is BLAKE3."""

from __future__ import annotations

import os
import random
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from libraries import native
from libraries.blake3_many import VERSION, HashMany, hash_many_in
from libraries.small_files import NOTHING, ODD, SEEN, TOGETHER
from tests.native import require_native

MOST = 64 << 10
ROOM = mmap(-1, 4 << 20, flags=MAP_PRIVATE | MAP_ANONYMOUS)
ROOM[:] = random.Random(3).randbytes(len(ROOM))


@pytest.fixture(scope="module")
def hash_many() -> HashMany:
    """Also where the processor is none that it is quick on."""
    require_native("blake3_many", VERSION)
    made = hash_many_in(ROOM, wherever=True)
    assert made is not None
    return made


def check(hash_many: HashMany, sizes: list[int]) -> None:
    """Contents one behind the other; a negative size is of a file that was not read."""
    seen, starts, expected, end = b"", [], b"", 0
    for size in sizes:
        starts.append(end if size >= 0 else size)
        seen += SEEN.pack(abs(size), 0, 0, 0, 0, 0, starts[-1])
        if size >= 0:
            expected += blake3(ROOM[end : end + size]).digest()
            end += size
    assert hash_many(seen, starts) == expected


def test_every_number_of_blocks_and_chunks_is_right(hash_many: HashMany) -> None:
    for size in range(MOST // 64 + 1):
        check(hash_many, [64 * size])
        check(hash_many, [max(0, 64 * size - 1)])


def test_every_length_of_a_last_block_is_right(hash_many: HashMany) -> None:
    for size in range(1024 + 130):
        check(hash_many, [size])


@given(st.lists(st.integers(0, 3000) | st.sampled_from([0, 1, 1023, 1024, 1025, NOTHING, ODD]), max_size=TOGETHER))
def test_files_side_by_side_do_not_mix(hash_many: HashMany, sizes: list[int]) -> None:
    check(hash_many, sizes)


def test_the_most_files_of_the_largest_size_are_right(hash_many: HashMany) -> None:
    check(hash_many, [MOST] * (len(ROOM) // MOST))
    check(hash_many, [len(ROOM) // TOGETHER] * TOGETHER)


def test_where_the_processor_is_not_made_for_it_the_package_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow:
        def dedupfs_blake3_many_is_quick(self) -> int:
            return 0

    monkeypatch.setattr(native, "library", lambda _name, _version: Slow())
    assert hash_many_in(mmap(-1, os.sysconf("SC_PAGE_SIZE"))) is None
