"""Folders made to outlive a power cut, few or many. Knows nothing of Django."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

from trash import steps

#: From so many folders of one filesystem on it is synced as a whole. Each by itself has the disk empty its own memory
#: once more, and files of a plan lie in hundreds of folders.
MANY = 16
#: Kinds of filesystems, by the number the kernel has for each, that are known to wait for every name when they are
#: synced as a whole: ext4, XFS, btrfs. Those in user space do not even hear of it.
WHOLE = frozenset({0xEF53, 0x58465342, 0x9123683E})
#: More than any kernel writes.
_ANSWER_BYTES = 256


def sync_folders(handles: Iterable[int]) -> None:
    """What was done in these folders outlives a power cut from here on."""
    by_device: dict[int, list[int]] = {}
    for handle in handles:
        by_device.setdefault(os.fstat(handle).st_dev, []).append(handle)
    for together in by_device.values():
        if len(together) < MANY or not _synced_as_a_whole(together[0]):
            for handle in together:
                steps.sync(handle)


def _synced_as_a_whole(handle: int) -> bool:
    """An error may be of somebody else's file: then each folder tells of its own."""
    if _kind(handle) not in WHOLE:
        return False
    try:
        steps.sync_filesystem(handle)
    except OSError:
        return False
    return True


def _kind(handle: int) -> int | None:
    """Python's own `os.fstatvfs` leaves it out."""
    answer = ctypes.create_string_buffer(_ANSWER_BYTES)
    if steps.LIBC.fstatfs(handle, answer) != 0:
        return None
    return ctypes.c_long.from_buffer(answer).value & 0xFFFFFFFF
