"""The bytes of an open file, from its first to its last, without filling the machine's memory with them.

What lies in the page cache is taken from there. A file that does not is read past it: nobody will read it again soon,
what other programs keep there stays, and a fast disk gives its bytes in a fraction of the time that it takes to make
room for them.
"""

from __future__ import annotations

import errno
import fcntl
import os
from typing import Any

#: Small files are not worth the question.
LEAST_BYTES = 1 << 20
#: What a filesystem says that can't tell, or can't read past the cache.
_UNABLE = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class Stream:
    """Reads into buffers that are page-aligned and hold whole pages, as direct reading wants them."""

    def __init__(self, file: int, size: int) -> None:
        self.file, self.size = file, size
        self.offset = 0
        self._may_be_cached = size >= LEAST_BYTES
        #: Whether what follows is read past the page cache.
        self.is_direct = False

    def read_into(self, buffer: Any) -> int:
        """How many bytes came; none at the end."""
        length = self._cached(buffer) if self._may_be_cached else 0
        if not length:
            length = self._direct(buffer) if self.is_direct else os.preadv(self.file, [buffer], self.offset)
        self.offset += length
        return length

    def _cached(self, buffer: Any) -> int:
        """The next bytes if all of them are in memory; else they, and what follows, are to come from the disk."""
        try:
            length = os.preadv(self.file, [buffer], self.offset, os.RWF_NOWAIT)
            if length == min(len(buffer), self.size - self.offset):
                return length
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno not in _UNABLE:
                raise
            self._may_be_cached = False
            return 0
        self._may_be_cached = False
        self.is_direct = self._switch(os.O_DIRECT)
        return 0

    def _direct(self, buffer: Any) -> int:
        try:
            length = os.preadv(self.file, [buffer], self.offset)
        except OSError as error:
            if error.errno not in _UNABLE:
                raise
            length = 0
        if length < len(buffer):
            # The end, or as good as: what follows begins inside a page, and that is not read directly.
            self.is_direct = False
            self._switch(0)
        return length or os.preadv(self.file, [buffer], self.offset)

    def _switch(self, flag: int) -> bool:
        try:
            fcntl.fcntl(self.file, fcntl.F_SETFL, fcntl.fcntl(self.file, fcntl.F_GETFL) & ~os.O_DIRECT | flag)
        except OSError as error:
            if error.errno not in _UNABLE:
                raise
            return False
        return True
