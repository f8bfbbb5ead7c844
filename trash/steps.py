"""Every system call that changes a person's disk. Before and after each there is a place where a test can make the
process die (`DEDUPFS_CRASH_POINT=disk:17`), so that no two of them can be forgotten to be told apart.

Names are bytes, and each stands in a folder that is given by its descriptor: no path is walked anew.
"""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from typing import Any

from database.crash_points import reach

POINT = "disk"
#: For what Python has no name for.
LIBC = ctypes.CDLL(None, use_errno=True)
_NOREPLACE, _EXCHANGE = 1, 2
#: How a kernel or a filesystem says that it knows no such way of renaming.
_UNKNOWN = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})


class NotKnownHere(OSError):
    """The filesystem can't exchange two names, or can't rename without replacing."""


def mkdir(name: bytes, mode: int, *, dir_fd: int) -> None:
    reach(POINT)
    os.mkdir(name, mode, dir_fd=dir_fd)
    reach(POINT)


def rmdir(name: bytes, *, dir_fd: int) -> None:
    reach(POINT)
    os.rmdir(name, dir_fd=dir_fd)
    reach(POINT)


def create(name: bytes, *, dir_fd: int) -> int:
    """A descriptor that appends to a file only its owner can read; it is made where it is not there."""
    reach(POINT)
    handle = os.open(
        name, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600, dir_fd=dir_fd
    )
    reach(POINT)
    return handle


def append(handle: int, data: bytes) -> None:
    reach(POINT)
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]
    reach(POINT)


def sync(handle: int) -> None:
    """What was done in this folder, or written into this file, outlives a power cut from here on."""
    reach(POINT)
    os.fsync(handle)
    reach(POINT)


def sync_filesystem(handle: int) -> None:
    """The same for everything on the filesystem that this is open on."""
    reach(POINT)
    if LIBC.syncfs(handle) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    reach(POINT)


def link(name: bytes, new: bytes, *, src_fd: int, dst_fd: int) -> None:
    """One more name for a file; `FileExistsError` where the name is taken."""
    reach(POINT)
    os.link(name, new, src_dir_fd=src_fd, dst_dir_fd=dst_fd, follow_symlinks=False)
    reach(POINT)


def unlink(name: bytes, *, dir_fd: int) -> None:
    reach(POINT)
    os.unlink(name, dir_fd=dir_fd)
    reach(POINT)


def rename_over(name: bytes, new: bytes, *, src_fd: int, dst_fd: int) -> None:
    """Replaces what has the new name; only for names that hold nothing which isn't elsewhere too."""
    reach(POINT)
    os.rename(name, new, src_dir_fd=src_fd, dst_dir_fd=dst_fd)
    reach(POINT)


def rename_new(name: bytes, new: bytes, *, src_fd: int, dst_fd: int) -> None:
    """Never replaces anything: `FileExistsError` where the name is taken, `NotKnownHere` where that can't be asked."""
    reach(POINT)
    _renameat2(src_fd, name, dst_fd, new, _NOREPLACE)
    reach(POINT)


def exchange(name: bytes, other: bytes, *, src_fd: int, dst_fd: int) -> None:
    """Both names have what the other had, in one step; `NotKnownHere` where that can't be asked."""
    reach(POINT)
    _renameat2(src_fd, name, dst_fd, other, _EXCHANGE)
    reach(POINT)


@cache
def _function() -> Any:
    try:
        found = LIBC.renameat2
    except AttributeError:
        return None
    found.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return found


def _renameat2(src_fd: int, name: bytes, dst_fd: int, new: bytes, flags: int) -> None:
    """Python's own `os.rename` always replaces."""
    call = _function()
    if call is None:
        raise NotKnownHere(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if call(src_fd, name, dst_fd, new, flags) != 0:
        number = ctypes.get_errno()
        kind = NotKnownHere if number in _UNKNOWN else OSError
        raise kind(number, os.strerror(number), name)
