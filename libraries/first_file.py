"""Whether a disk inside a library holds any file that a scan would see. Knows nothing of Django: it runs in
`libraries.asking`.

Mostly the first folder has one. A disk with nothing but folders is looked through for a while, and then nobody knows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from libraries.excluding import Exclusions
from libraries.names import to_bytes, to_text

#: For all disks of a library together: less than a question may take.
SECONDS = 5.0

#: Each folder below which there is no file → the folders there that could not be read, as columns hold them; None where
#: time was up before all of it was seen.
WithoutFiles = dict[str, list[str] | None]


@dataclass(frozen=True)
class Visible:
    """What a scan sees: nothing that the library leaves out, and nothing that is smaller."""

    patterns: tuple[str, ...]
    least_bytes: int


class _TimeUp(Exception):
    pass


def without_files(root: bytes, folders: Iterable[str], visible: Visible) -> WithoutFiles:
    """Which of these folders below the root hold no file; those that are left out are not asked about."""
    search, found = _Search(root, visible), WithoutFiles()
    for folder in folders:
        holds_files, unread = search.through(folder)
        if not holds_files:
            found[folder] = unread
    return found


class _Search:
    def __init__(self, root: bytes, visible: Visible) -> None:
        self.root, self.least_bytes = root, visible.least_bytes
        self.exclusions = Exclusions(visible.patterns)
        self.until = time.monotonic() + SECONDS

    def through(self, folder: str) -> tuple[bool, list[str] | None]:
        """Whether there is a file, and what could not be read on the way."""
        start = os.fsdecode(to_bytes(folder))
        unread: list[str] = []
        if self.exclusions.cover_below(start):
            return True, None
        try:
            return any(self._files(start, unread)), unread
        except _TimeUp:
            return False, None

    def _files(self, start: str, unread: list[str]) -> Iterator[bool]:
        left = [start]
        while left:
            if time.monotonic() > self.until:
                raise _TimeUp
            folder = left.pop()
            try:
                with os.scandir(self.root + b"/" + os.fsencode(folder)) as entries:
                    for entry in entries:
                        name = os.fsdecode(entry.name)
                        path = f"{folder}/{name}"
                        if self.exclusions.cover(name, path):
                            continue
                        if entry.is_dir(follow_symlinks=False):
                            left.append(path)
                        else:
                            yield self._is_seen(entry)
            except OSError:
                unread.append(to_text(os.fsencode(folder)))

    def _is_seen(self, entry: os.DirEntry[bytes]) -> bool:
        with suppress(OSError):  # it has just gone
            is_file = entry.is_file(follow_symlinks=False)
            return is_file and entry.stat(follow_symlinks=False).st_size >= self.least_bytes
        return False
