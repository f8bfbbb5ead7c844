"""The files of a folder, looked at, and the small ones read whole: many in one call where `small_files.c` was compiled,
else one by one. `libraries.unit_pages` makes rows of them.

`scripts/install.sh` compiles it into the virtual environment where there is a compiler. Nothing depends on that but
how long a scan takes.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from mmap import mmap
from stat import S_ISREG
from typing import Any

from libraries import native

#: Size, mtime, ctime, inode, device and links, all as the columns have them; and the digest, or None where the file was
#: not read or changed meanwhile.
SmallFile = tuple[int, int, int, int, int, int, bytes | None]
#: What makes a hash of a content; without one nothing is opened.
Make = Callable[..., Any] | None

VERSION = 4
#: Names of one call.
TOGETHER = 512
OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
#: Times are stored as nanoseconds in 64 bits: from the year 1677 to 2262. Some filesystems hold others.
_FAR_SECONDS, _SECOND_NS = 9_223_372_035, 10**9
#: What is found of a file: `struct seen` of the C.
SEEN = struct.Struct("=7q")
_FIELDS = 7
NOTHING, ODD = -1, -2


def signed(number: int) -> int:
    """A 64-bit number as the two's complement that fits a signed column."""
    return number - (1 << 64) if number >= 1 << 63 else number


def has_storable_times(info: os.stat_result) -> bool:
    return (
        nearest_storable(info.st_mtime_ns) == info.st_mtime_ns
        and nearest_storable(info.st_ctime_ns) == info.st_ctime_ns
    )


def nearest_storable(time_ns: int) -> int:
    least, most = -_FAR_SECONDS * _SECOND_NS, (_FAR_SECONDS + 1) * _SECOND_NS - 1
    return min(max(time_ns, least), most)


# --- In Python --------------------------------------------------------------------------------------------
def read_by_python(folder: int, names: Sequence[str], least: int, most: int, make: Make) -> Iterator[SmallFile | None]:
    """Those of `least` to `most` bytes are read. For each name in its turn; None where there was no file that could be
    opened, or looked at, and stored."""
    for name in names:
        try:
            if make is None:
                yield told(os.stat(name, dir_fd=folder, follow_symlinks=False), None)
            else:
                yield _read(folder, name, least, most, make)
        except OSError:
            yield None


def _read(folder: int, name: str, least: int, most: int, make: Callable[..., Any]) -> SmallFile | None:
    file = os.open(name, OPEN_FILE, dir_fd=folder)
    try:
        after = info = os.fstat(file)
        size = info.st_size
        if least <= size <= most and S_ISREG(info.st_mode):
            # One byte more than there should be tells a file that grows.
            content = os.read(file, size + 1)
            after = os.fstat(file)
    finally:
        os.close(file)
    if after is info or len(content) != size:
        return told(info, None)
    is_same = after.st_mtime_ns == info.st_mtime_ns and after.st_ctime_ns == info.st_ctime_ns
    return told(info, make(content).digest() if is_same else None)


def told(info: os.stat_result, digest: bytes | None) -> SmallFile | None:
    """As the columns have it; None of what is no file, or has a time that they can't have."""
    if not S_ISREG(info.st_mode) or not has_storable_times(info):
        return None
    numbers = (signed(info.st_ino), signed(info.st_dev), info.st_nlink)
    return info.st_size, info.st_mtime_ns, info.st_ctime_ns, *numbers, digest


# --- In C -------------------------------------------------------------------------------------------------
class NativeReader:
    """Many files in one call. What was found of them stands in `seen` until the next call, what was read in `room`."""

    def __init__(self, built: Any, room: mmap | memoryview) -> None:
        import ctypes

        number, address = ctypes.c_int64, ctypes.c_void_p
        self._call = built.dedupfs_read_small_files
        self._call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_long, number, number, address, address, number)
        self._call.restype = ctypes.c_long
        self.seen = (ctypes.c_char * (SEEN.size * TOGETHER))()
        self._numbers = memoryview(self.seen).cast("B").cast("q")
        self._room, self._contents = ctypes.byref(ctypes.c_char.from_buffer(room)), memoryview(room)

    def read(self, folder: int, names: bytes, count: int, least: int, most: int) -> int:
        """`names` with a zero byte between them, at most `TOGETHER`; behind the last one Python has put one itself.
        Returns how many of them there was room for."""
        done: int = self._call(folder, names, count, least, most, self.seen, self._room, len(self._contents))
        return done

    def sizes(self, count: int) -> list[int]:
        """Of the first so many names: 0 for what is odd."""
        return self._column(0, count)

    def starts(self, count: int) -> list[int]:
        """Where the content of each begins in the room, or why it is not there: `NOTHING` or `ODD`."""
        return self._column(_FIELDS - 1, count)

    def content(self, start: int, size: int) -> memoryview:
        return self._contents[start : start + size]

    def _column(self, number: int, count: int) -> list[int]:
        return self._numbers[number : count * _FIELDS : _FIELDS].tolist()


def native_reader(room: mmap | memoryview) -> NativeReader | None:
    """None where nobody could compile it; `room` holds more than the largest file that is read."""
    built = native.library("small_files", VERSION)
    return None if built is None else NativeReader(built, room)
