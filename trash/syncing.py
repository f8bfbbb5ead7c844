"""Folders made to outlive a power cut, few or many. Knows nothing of Django."""

from __future__ import annotations

import os
from collections.abc import Iterable

from trash import filesystem_kinds, steps

#: From so many folders of one filesystem on it is synced as a whole. Each by itself has the disk empty its own memory
#: once more, and files of a plan lie in hundreds of folders.
MANY = 16


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
    if not filesystem_kinds.is_own(handle):
        return False
    try:
        steps.sync_filesystem(handle)
    except OSError:
        return False
    return True
