"""A page of memory that a render child shares with its parent: what it wrote there outlives it.

A child that was killed can't tell any more how far it was; what it has read of a disk counts against the budget all the
same, and a task that it never began is nobody's failure.
"""

from __future__ import annotations

import mmap
import os
import struct

_NUMBERS = struct.Struct("=QQ")


class Board:
    def __init__(self, descriptor: int | None = None) -> None:
        """A new one, or that of the parent, by its descriptor."""
        if descriptor is None:
            descriptor = os.memfd_create("render", os.MFD_CLOEXEC)
            os.ftruncate(descriptor, mmap.PAGESIZE)
        self.descriptor = descriptor
        self._page = mmap.mmap(descriptor, mmap.PAGESIZE)

    def begin(self, task: int) -> None:
        _NUMBERS.pack_into(self._page, 0, task, 0)

    def count(self, task: int, bytes_read: int) -> None:
        _NUMBERS.pack_into(self._page, 0, task, bytes_read)

    def read(self) -> tuple[int, int]:
        """The number of the last task that was begun, and the bytes that were read for it."""
        task, bytes_read = _NUMBERS.unpack_from(self._page, 0)
        return task, bytes_read

    def close_descriptor(self) -> None:
        """Once the child has it: the page itself stays."""
        os.close(self.descriptor)
