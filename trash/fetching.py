"""Has the next files brought into memory while one is worked on, where they come from a disk: several are asked for at
once, and a disk answers many questions in hardly more time than one. Nothing is decided by it: every file is opened,
checked and read again when its turn comes.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from stat import S_ISREG

from trash.checking_items import Ground
from trash.planned import Planned
from trash.proving import SMALL_BYTES, open_path
from trash.refusing import Refusal

#: Questions at a time.
ASKING = 8
#: Blocks of 512 bytes that were read from disks for each file, from which on files are taken to come from there.
COLD_BLOCKS = 8


class Fetching:
    """For one run. Whoever has it closes it."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._blocks = _from_disk()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def is_wanted(self, files: int) -> bool:
        """Whether most of the files since the last question, which were so many, came from a disk."""
        before, self._blocks = self._blocks, _from_disk()
        return files > 0 and self._blocks - before >= files * COLD_BLOCKS

    def fetch(self, files: Iterable[Planned], ground: Ground) -> None:
        """Begin to, with both of each pair; nobody waits for it. Large ones are read ahead by the kernel itself."""
        paths: list[bytes] = []
        for file in files:
            if file.size <= SMALL_BYTES:
                with suppress(Refusal):
                    paths += [ground.path_of(file), ground.path_of(file.keeper)]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(ASKING, thread_name_prefix="fetching")
        for start in range(ASKING):
            self._pool.submit(_fetch, paths[start::ASKING])


def _fetch(paths: list[bytes]) -> None:
    for path in paths:
        # Whatever is wrong with it is told when its turn comes.
        with suppress(OSError):
            if not S_ISREG(os.lstat(path).st_mode):
                continue  # a pipe that somebody waits at, say, is never opened
            handle = open_path(path)
            try:
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_WILLNEED)
            finally:
                os.close(handle)


def _from_disk() -> int:
    """By the kernel's count, for all threads."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_inblock
