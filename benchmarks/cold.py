"""Empties the machine's page cache, and says whether that can be done here."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

from tests.cold_files import from_disk

DROP = Path("/proc/sys/vm/drop_caches")
LOOKED_AT = 10
ASKING = 16


def drop() -> None:
    os.sync()
    DROP.write_text("3\n")


def can_drop(tree: Path) -> bool:
    """Whether a file that was just read has to come from the disk again after `drop`."""
    files = list(islice(tree.rglob("*.bin"), LOOKED_AT))
    try:
        _read(files)
        drop()
    except OSError:
        return False
    before = from_disk()
    wanted = _read(files)
    return from_disk() - before >= wanted


def _read(files: list[Path]) -> int:
    return sum(len(path.read_bytes()) for path in files)


def warm(tree: Path) -> None:
    """Have the whole tree in memory: names, what `stat` says, and content. Many ask the disk at once: 2,000,000 files
    one after the other would take longer than everything that is measured."""
    with ThreadPoolExecutor(ASKING) as pool:
        for _ in pool.map(_read_folder, (folder for folder, _, _ in os.walk(tree))):
            pass


def _read_folder(folder: str) -> None:
    buffer = bytearray(1 << 20)
    with os.scandir(folder) as entries:
        files = sorted((entry.inode(), entry.path) for entry in entries if entry.is_file(follow_symlinks=False))
    for _, path in files:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123  2,000,000 Path objects
            while file.readinto(buffer):
                pass
