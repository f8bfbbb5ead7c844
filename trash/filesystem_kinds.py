"""Which kind a filesystem is, as the kernel calls it. Knows nothing of Django."""

from __future__ import annotations

import ctypes

from trash import steps

#: Kinds, by the number the kernel has for each, on a disk that this machine alone writes to: ext4, XFS, btrfs. What the
#: kernel knows of a name there is what the disk has. They are known to wait for every name when they are synced as a
#: whole; those in user space do not even hear of it.
OWN = frozenset({0xEF53, 0x58465342, 0x9123683E})
#: More than any kernel writes.
_ANSWER_BYTES = 256


def is_own(handle: int) -> bool:
    """Whether what this is open on lies on such a disk. Python's own `os.fstatvfs` leaves the kind out."""
    answer = ctypes.create_string_buffer(_ANSWER_BYTES)
    if steps.LIBC.fstatfs(handle, answer) != 0:
        return False
    return ctypes.c_long.from_buffer(answer).value & 0xFFFFFFFF in OWN
