"""Files that lie on the disk and not in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def cold(path: Path) -> Iterator[int]:
    """An open handle of a file, of which nothing is in memory."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
        forget(handle)
        before = from_disk()
        os.pread(handle, 1, 0)
        if path.stat().st_size and from_disk() == before:
            pytest.skip("the filesystem of the temporary folder keeps its files in memory")
        forget(handle)
        yield handle
    finally:
        os.close(handle)


def forget(handle: int) -> None:
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)


def from_disk() -> int:
    """Bytes that were fetched from a disk for this process, by the kernel's count."""
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(lines["read_bytes"])
