"""A library's folder with files of equal content, opened the way the disk core wants them."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from trash import proving, steps
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


def without_exchange(patch: pytest.MonkeyPatch) -> None:
    """As on a filesystem that can neither exchange names nor rename without replacing."""

    def not_known(*_: object) -> None:
        raise steps.NotKnownHere(errno.EINVAL, os.strerror(errno.EINVAL))

    patch.setattr(steps, "_renameat2", not_known)


def moves_and_syncs(patch: pytest.MonkeyPatch) -> list[str]:
    """What is moved and synced from now on, by the names of the folders, in its order."""
    sync, move, exchange = steps.sync, steps.rename_new, steps.exchange
    told: list[str] = []

    def name_of(handle: int) -> str:
        return Path(os.readlink(f"/proc/self/fd/{handle}")).name

    def tell_sync(handle: int) -> None:
        sync(handle)
        told.append(f"synced {name_of(handle)}")

    def tell_move(name: bytes, new: bytes, *, src_fd: int, dst_fd: int) -> None:
        move(name, new, src_fd=src_fd, dst_fd=dst_fd)
        told.append(f"moved from {name_of(src_fd)}")

    def tell_exchange(name: bytes, other: bytes, *, src_fd: int, dst_fd: int) -> None:
        exchange(name, other, src_fd=src_fd, dst_fd=dst_fd)
        told.append(f"moved from {name_of(dst_fd)}")

    patch.setattr(steps, "sync", tell_sync)
    patch.setattr(steps, "rename_new", tell_move)
    patch.setattr(steps, "exchange", tell_exchange)
    return told


def before(monkeypatch: pytest.MonkeyPatch, step: str, change: Callable[[], object], time: int = 1) -> None:
    """Have somebody change the disk right before one of our steps."""
    real, calls = getattr(steps, step), []

    def changed(*args: object, **kwargs: object) -> None:
        calls.append(step)
        if len(calls) == time:
            change()
        real(*args, **kwargs)

    monkeypatch.setattr(steps, step, changed)


def remember(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """What has this name is told from memory from now on, whatever becomes of it; opening it is another matter."""
    name, known = os.fsencode(path), path.lstat()
    for verb in ("stat", "lstat"):
        real = getattr(os, verb)

        def from_memory(asked: Any, real: Any = real, **options: Any) -> os.stat_result:
            return known if asked == name else real(asked, **options)

        monkeypatch.setattr(os, verb, from_memory)
