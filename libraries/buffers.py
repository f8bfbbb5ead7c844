"""The buffers that one process reads files into.

They are this process's own: readers forked from one parent would mix their files up in shared ones, so they are made
after the fork. They begin on a page, which doubles the speed of reading. And they lie in one huge page, where the
kernel has one to give: a disk that is read past the page cache then fills a buffer as one piece of memory, not as 256.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from mmap import MADV_HUGEPAGE, MAP_ANONYMOUS, MAP_PRIVATE, mmap

BUFFER_BYTES = 1 << 20
_HUGE_PAGE = 2 << 20


class Buffers:
    """Two of them, side by side."""

    def __init__(self) -> None:
        # Somewhere in twice as much there is a whole huge page. What is never touched takes no memory.
        room = mmap(-1, 2 * _HUGE_PAGE, flags=MAP_PRIVATE | MAP_ANONYMOUS)
        with suppress(OSError):  # a kernel without them is only slower
            room.madvise(MADV_HUGEPAGE)
        start = -_address(room) % _HUGE_PAGE
        view = memoryview(room)
        self.first = view[start : start + BUFFER_BYTES]
        self.second = view[start + BUFFER_BYTES : start + 2 * BUFFER_BYTES]
        #: Both as one: a disk is asked for more at a time. What comes from memory is hashed sooner from less.
        self.both = view[start : start + 2 * BUFFER_BYTES]

    @cached_property
    def are_equal(self) -> Callable[[int], bool]:
        """Whether so many of their first bytes are. Python compares views byte by byte; libc does not."""
        import ctypes

        memcmp = ctypes.CDLL(None).memcmp
        memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
        places = [_address(buffer) for buffer in (self.first, self.second)]
        return lambda length: memcmp(*places, length) == 0


def _address(buffer: mmap | memoryview) -> int:
    import ctypes  # takes a while to load

    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))
