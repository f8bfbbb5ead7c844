"""BLAKE3 of many small files in one call, where `blake3_many.c` was compiled and the processor has what makes it quick.
A small file by itself leaves most of the processor's vectors empty."""

from __future__ import annotations

from collections.abc import Callable
from mmap import mmap
from typing import Any

from libraries import native
from libraries.small_files import TOGETHER

VERSION = 1
DIGEST_BYTES = 32
#: What was found of files, at most `TOGETHER`, and where the content of each begins in the room; the digests of those
#: that were read, one behind the other.
HashMany = Callable[[Any, list[int]], bytes]


def hash_many_in(room: mmap | memoryview, *, wherever: bool = False) -> HashMany | None:
    """For contents that lie in `room`, none of them above 64 KiB; `wherever`: also where the package is quicker."""
    built = native.library("blake3_many", VERSION)
    if built is None or not (wherever or built.dedupfs_blake3_many_is_quick()):
        return None
    import ctypes

    call, address = built.dedupfs_blake3_many, ctypes.c_void_p
    call.argtypes, call.restype = (address, address, ctypes.c_long, address), None
    digests = (ctypes.c_char * (DIGEST_BYTES * TOGETHER))()
    place, made = ctypes.byref(ctypes.c_char.from_buffer(room)), memoryview(digests)

    def hash_many(seen: Any, starts: list[int]) -> bytes:
        call(place, seen, len(starts), digests)
        return bytes(made[: DIGEST_BYTES * sum(start >= 0 for start in starts)])

    return hash_many
