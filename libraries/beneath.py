"""A file below a folder in one system call, where the kernel has it (`openat2`, Linux 5.6): no link on the way is
followed, and nothing outside the folder is reached. Step by step it takes two calls for each folder on the way.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import cache

#: The same number on every architecture that has it.
_OPENAT2 = 437
#: A path that is handed to the kernel is shorter than this.
PATH_BYTES = 4096
#: RESOLVE_NO_SYMLINKS and RESOLVE_BENEATH.
_RESOLVE = 0x04 | 0x08

#: Folder, path, flags; the handle, or an `OSError`.
Open = Callable[[int, bytes, int], int]


@cache
def opener() -> Open | None:
    """None where the kernel, or what it is locked up in, does not know the call."""
    import ctypes  # takes a while to load, and many processes never open a file

    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
    syscall.restype = ctypes.c_long
    how_type = ctypes.c_uint64 * 3
    # Made once for each set of flags: nothing in it changes.
    hows = cache(lambda flags: how_type(flags, 0, _RESOLVE))

    def open_below(folder: int, path: bytes, flags: int) -> int:
        how = hows(flags)
        while (handle := syscall(_OPENAT2, folder, path, how, 24)) < 0:
            number = ctypes.get_errno()
            if number != errno.EINTR:
                raise OSError(number, os.strerror(number))
        return int(handle)

    return open_below if _works(open_below) else None


def _works(open_below: Open) -> bool:
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(open_below(root, b".", os.O_PATH | os.O_CLOEXEC))
    except OSError:
        return False
    finally:
        os.close(root)
    return True
