"""The buffers that files are read into."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest

from libraries.buffers import BUFFER_BYTES, Buffers

HUGE_PAGE = 2 << 20


def address(buffer: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def flags_at(place: int) -> set[str]:
    """What the kernel was asked for of the memory at this address."""
    is_here, flags = False, set()
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if borders := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            is_here = int(borders[1], 16) <= place < int(borders[2], 16)
        elif is_here and line.startswith("VmFlags:"):
            flags = set(line.split()[1:])
    return flags


def test_both_fill_one_huge_page() -> None:
    buffers = Buffers()
    assert len(buffers.first) == len(buffers.second) == BUFFER_BYTES
    assert address(buffers.first) % HUGE_PAGE == 0
    assert address(buffers.second) == address(buffers.first) + BUFFER_BYTES
    assert (address(buffers.both), len(buffers.both)) == (address(buffers.first), 2 * BUFFER_BYTES)
    if Path("/sys/kernel/mm/transparent_hugepage/enabled").exists():
        assert "hg" in flags_at(address(buffers.first))


def test_two_pairs_share_nothing() -> None:
    one, other = Buffers(), Buffers()
    one.first[:], one.second[:] = b"1" * BUFFER_BYTES, b"2" * BUFFER_BYTES
    assert not any(other.first)
    assert not any(other.second)
    assert one.first == b"1" * BUFFER_BYTES


@pytest.mark.parametrize("at", [0, 1, BUFFER_BYTES - 1])
def test_only_so_many_bytes_are_compared(at: int) -> None:
    buffers = Buffers()
    assert buffers.are_equal(BUFFER_BYTES)
    buffers.second[at] = 1
    assert buffers.are_equal(at)
    assert not buffers.are_equal(at + 1)
