"""The thumbnail root on disk: pictures at `ab/cd/<key>.webp`, and nothing else is ever written or removed.

Every step goes from an open folder to the next and follows no link, so a folder that somebody swaps for a link leads
nowhere. A picture is written beside its place and renamed: it is there whole or not at all. It is not forced to the
disk, which would cost more than making it: after a power cut one may be empty, and whoever serves it has its size in
the row.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from stat import S_ISREG
from typing import NamedTuple

from django.conf import settings

from database.crash_points import reach
from libraries.reading import OPEN_FOLDER
from thumbnails.errors import ThumbnailsError

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SHARD = re.compile(r"[0-9a-f]{2}")
_RELPATH = re.compile(r"([0-9a-f]{2})/([0-9a-f]{2})/(\1\2[0-9a-f]{60}\.(?:jpg|webp))")
_PICTURE = re.compile(r"[0-9a-f]{64}\.(?:jpg|webp)")
_TEMPORARY = re.compile(r"\.[0-9a-f]{64}\.(?:jpg|webp)\.[0-9a-f]{16}\.tmp")
#: A shard may be removed, being empty, between its making and the first file in it; so often in a row it never is.
MAKE_TRIES = 100


class OutsideRoot(ThumbnailsError):
    """A path that is none of ours, or a folder on the way that is a link."""


class Kept(NamedTuple):
    """Something that lies in the thumbnail root."""

    relpath: str
    #: The key of its row; None for a temporary file.
    key: str | None
    mtime: float


def save(relpath: str, data: bytes) -> None:
    """Put a picture in its place, over one that is there."""
    first, second, name = _parts(relpath)
    temporary = f".{name}.{secrets.token_hex(8)}.tmp"
    for _ in range(MAKE_TRIES):
        with suppress(FileNotFoundError), _shard(first, second, make=True) as folder:
            handle = os.open(temporary, _MAKE, 0o600, dir_fd=folder)
            try:
                _write(handle, data)
                reach("thumb_written")
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise
            return
    raise OSError(errno.ENOENT, "the folder of this thumbnail vanishes again and again", relpath)


def _write(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(handle, rest) :]
    finally:
        os.close(handle)


def open_picture(relpath: str, size: int | None = None) -> int:
    """A descriptor of the picture. Raises `FileNotFoundError` where it is gone or, given its size, not whole."""
    first, second, name = _parts(relpath)
    with _shard(first, second) as folder:
        try:
            handle = os.open(name, _READ, dir_fd=folder)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise FileNotFoundError(errno.ENOENT, "a symbolic link stands in its place", relpath) from None
    info = os.fstat(handle)
    if S_ISREG(info.st_mode) and size in (None, info.st_size):
        return handle
    os.close(handle)
    raise FileNotFoundError(errno.ENOENT, "the picture is not whole", relpath)


def remove(relpath: str) -> bool:
    """Remove a picture, and its folders where they are empty now; tell whether it was there."""
    first, second, name = _parts(relpath)
    try:
        with _shard(first, second) as folder:
            os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    _prune(first, second)
    return True


# --- What lies there --------------------------------------------------------------------------------------
def shards() -> list[str]:
    """The folders of the first level."""
    with suppress(FileNotFoundError), _root() as root:
        return _folders(root)
    return []


def listed(first: str) -> Iterator[Kept]:
    """Our files below one folder of the first level; empty folders are removed on the way. Whatever has another name
    than ours give is left alone."""
    with suppress(FileNotFoundError, NotADirectoryError, OutsideRoot), _root() as root, _step(root, first) as upper:
        for second in _folders(upper):
            with suppress(FileNotFoundError, NotADirectoryError, OutsideRoot), _step(upper, second) as folder:
                yield from _files(folder, first, second)
            _prune(first, second)
    _prune(first)


def remove_kept(kept: Kept) -> bool:
    """Remove something that was listed, unless somebody has renewed it since."""
    first, second, name = kept.relpath.split("/")
    try:
        with _shard(first, second) as folder:
            if os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime != kept.mtime:
                return False
            os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    _prune(first, second)
    return True


def _files(folder: int, first: str, second: str) -> Iterator[Kept]:
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries]
    for name in names:
        is_picture = _PICTURE.fullmatch(name) is not None
        if not is_picture and not _TEMPORARY.fullmatch(name):
            continue
        with suppress(FileNotFoundError):
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if S_ISREG(info.st_mode):
                yield Kept(f"{first}/{second}/{name}", name.partition(".")[0] if is_picture else None, info.st_mtime)


def _folders(handle: int) -> list[str]:
    with os.scandir(handle) as entries:
        found = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    return sorted(name for name in found if _SHARD.fullmatch(name))


def _prune(first: str, second: str | None = None) -> None:
    """Remove the folder if it is empty, and then the one above. Only the system can say so without a race."""
    with suppress(OSError, OutsideRoot), _root() as root:
        if second is not None:
            with suppress(OSError), _step(root, first) as upper:
                os.rmdir(second, dir_fd=upper)
        os.rmdir(first, dir_fd=root)


# --- Steps ------------------------------------------------------------------------------------------------
@contextmanager
def alone() -> Iterator[bool]:
    """Whether nobody else on this machine looks through the root now: then nobody will until the block ends."""
    with _root(make=True) as root:
        try:
            fcntl.flock(root, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _parts(relpath: str) -> tuple[str, str, str]:
    found = _RELPATH.fullmatch(relpath)
    if found is None:
        raise OutsideRoot(f"{relpath[:200]!r} is no path of a thumbnail.")
    return found[1], found[2], found[3]


@contextmanager
def _shard(first: str, second: str, *, make: bool = False) -> Iterator[int]:
    with _root(make=make) as root, _step(root, first, make=make) as upper, _step(upper, second, make=make) as folder:
        yield folder


@contextmanager
def _root(*, make: bool = False) -> Iterator[int]:
    if make:
        settings.THUMBNAIL_ROOT.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = _open(os.fsencode(settings.THUMBNAIL_ROOT))
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _step(above: int, name: str, *, make: bool = False) -> Iterator[int]:
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=above)
    handle = _open(name, above)
    try:
        yield handle
    finally:
        os.close(handle)


def _open(name: str | bytes, above: int | None = None) -> int:
    try:
        return os.open(name, OPEN_FOLDER, dir_fd=above)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            shown = os.fsdecode(name)
            raise OutsideRoot(f"{shown} of the thumbnail root is no folder but a link or a file.") from None
        raise
