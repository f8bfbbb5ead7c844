"""A library's folder with files of equal content, opened the way the disk core wants them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from trash import proving
from trash.folders import Trash, open_trash
from trash.moving import Place
from trash.proving import Found


class Wanted(NamedTuple):
    size: int
    mtime_ns: int
    inode: int


def wanted(path: Path) -> Wanted:
    info = path.stat()
    return Wanted(info.st_size, info.st_mtime_ns, info.st_ino)


def place(path: Path) -> Place:
    """The folder stays open until the test process ends."""
    return Place(os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY), os.fsencode(path.name))


@contextmanager
def found(path: Path, who: str = "VICTIM") -> Iterator[Found]:
    where = place(path)
    file = proving.open_wanted(where.folder, where.name, wanted(path), who)
    try:
        yield file
    finally:
        os.close(file.handle)
        os.close(where.folder)


def new_trash(root: Path) -> Trash:
    return open_trash(os.fsencode(root), b"", str(uuid.uuid4()), is_made=True)
