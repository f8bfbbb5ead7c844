"""What a reader process does: walks folders and hashes files. It knows nothing of Django or the database.

What it finds travels as plain tuples, so that it can be marshalled: cheap to make, and nothing in it can run code.
"""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from blake3 import blake3

from libraries.excluding import Exclusions
from libraries.names import to_text

#: Files up to this size are read whole while they are walked: a separate sample would cost more than it saves.
SMALL_BYTES = 64 << 10
BUFFER_BYTES = 1 << 20
#: A sample is so many bytes from the beginning, the middle and the end.
SAMPLE_BYTES = 16 << 10
#: A walking unit ends after so many files or so many bytes read, so that every reader stays busy.
UNIT_FILES = 2_000
UNIT_BYTES = 16 << 20

_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Seen(NamedTuple):
    """A file as a walk saw it. `inode` and `device` are signed, as the columns are."""

    path: str
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int
    links: int
    digest: bytes | None


class Trouble(NamedTuple):
    """A path that could not be read; a folder's trouble covers everything below it."""

    path: str
    is_folder: bool
    reason: str


@dataclass
class Walked:
    """What came of one unit of walking."""

    left: deque[bytes]
    files: list[Seen] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    #: Each folder's device: where it differs from its parent's, something is mounted.
    folders: list[tuple[bytes, int]] = field(default_factory=list)
    bytes_read: int = 0

    @property
    def is_full(self) -> bool:
        return len(self.files) >= UNIT_FILES or self.bytes_read >= UNIT_BYTES


class Changed(Exception):
    """The file is not the version that was asked for, or changed while it was read."""


@dataclass(frozen=True)
class WalkRules:
    """How a library is walked. With an algorithm, small files are hashed on the way."""

    root: bytes
    exclusions: Exclusions
    least_bytes: int = 0
    algorithm: str | None = None


def hasher(algorithm: str) -> Callable[..., Any]:
    return blake3 if algorithm == "blake3" else hashlib.sha256


def signed(number: int) -> int:
    """A 64-bit number as the two's complement that fits a signed column."""
    return number - (1 << 64) if number >= 1 << 63 else number


def version_of(info: os.stat_result) -> tuple[int, int, int, int, int]:
    """Equal for two looks at a file exactly if nobody changed it in between."""
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns


def reason_of(error: OSError) -> str:
    """Why a path could not be read, without the path: that stands beside it."""
    return f"{errno.errorcode.get(error.errno or 0, 'ERROR')}: {error.strerror or error}"


class Reader:
    """One reader's tools. The buffer is page-aligned, which doubles the speed, and private, which keeps it right:
    readers forked from one parent would mix their files up in a shared one. So it is made after the fork."""

    def __init__(self) -> None:
        self.buffer = mmap.mmap(-1, BUFFER_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.view = memoryview(self.buffer)

    # --- Walking ------------------------------------------------------------------------------------------
    def walk(self, rules: WalkRules, folders: list[bytes]) -> Walked:
        """Walk `folders` and what is below them until a unit is full; the rest is left for another unit."""
        unit = Walked(deque(folders))
        while unit.left and not unit.is_full:
            folder = unit.left.popleft()
            try:
                handle = os.open(rules.root + b"/" + folder, _OPEN_FOLDER)
            except OSError as error:
                unit.troubles.append(Trouble(to_text(folder), True, reason_of(error)))
                continue
            try:
                self._walk_folder(rules, folder, handle, unit)
            except OSError as error:
                unit.troubles.append(Trouble(to_text(folder), True, reason_of(error)))
            finally:
                os.close(handle)
        return unit

    def _walk_folder(self, rules: WalkRules, folder: bytes, handle: int, unit: Walked) -> None:
        unit.folders.append((folder, os.fstat(handle).st_dev))
        prefix = folder + b"/" if folder else b""
        covers = rules.exclusions.cover
        with os.scandir(handle) as entries:
            for entry in entries:
                name = os.fsencode(entry.name)
                path = prefix + name
                if covers(name, path):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    unit.left.append(path)
                elif entry.is_file(follow_symlinks=False):
                    try:
                        self._see(rules, entry, path, handle, unit)
                    except OSError as error:
                        unit.troubles.append(Trouble(to_text(path), False, reason_of(error)))

    def _see(self, rules: WalkRules, entry: os.DirEntry[str], path: bytes, handle: int, unit: Walked) -> None:
        info = entry.stat(follow_symlinks=False)
        size = info.st_size
        if size < rules.least_bytes:
            return
        digest = None
        if rules.algorithm and size <= SMALL_BYTES:
            digest = self._hash_small(entry.name, handle, info, hasher(rules.algorithm))
            unit.bytes_read += size
        unit.files.append(
            Seen(
                to_text(path),
                size,
                info.st_mtime_ns,
                info.st_ctime_ns,
                signed(info.st_ino),
                signed(info.st_dev),
                info.st_nlink,
                digest,
            )
        )

    def _hash_small(self, name: str, folder: int, seen: os.stat_result, make: Callable[..., Any]) -> bytes | None:
        """The digest of a file that fits the buffer. None where it changed or can't be read: the hash job looks
        again and keeps the reason."""
        try:
            file = os.open(name, _OPEN_FILE, dir_fd=folder)
        except OSError:
            return None
        try:
            length = os.readv(file, [self.buffer])
            if length != seen.st_size or version_of(os.fstat(file)) != version_of(seen):
                return None
        except OSError:
            return None
        finally:
            os.close(file)
        return bytes(make(self.view[:length]).digest())

    # --- Hashing ------------------------------------------------------------------------------------------
    def sample(self, path: bytes, size: int, mtime_ns: int, algorithm: str) -> bytes:
        """A digest of the beginning, the middle and the end: files that differ in it differ.

        Raises `Changed` where the file is not of that size and time, `OSError` where it can't be read.
        """
        make = hasher(algorithm)()
        with _opened(path, size, mtime_ns) as file:
            for offset in (0, (size - SAMPLE_BYTES) // 2, size - SAMPLE_BYTES):
                length = os.preadv(file, [self.view[:SAMPLE_BYTES]], max(offset, 0))
                make.update(self.view[:length])
        return bytes(make.digest())

    def hash(
        self, path: bytes, size: int, mtime_ns: int, algorithm: str, report: Callable[[int], None] = lambda _: None
    ) -> bytes:
        """The digest of the whole file; `report` is told of the bytes as they are read."""
        make = hasher(algorithm)()
        with _opened(path, size, mtime_ns) as file:
            while length := os.readv(file, [self.buffer]):
                make.update(self.view[:length])
                report(length)
        return bytes(make.digest())


class _opened:
    """A file that must be of this size and time when it is opened and still when it is closed."""

    def __init__(self, path: bytes, size: int, mtime_ns: int) -> None:
        self.path, self.wanted = path, (size, mtime_ns)

    def __enter__(self) -> int:
        self.file = os.open(self.path, _OPEN_FILE)
        try:
            self.before = os.fstat(self.file)
            if (self.before.st_size, self.before.st_mtime_ns) != self.wanted:
                raise Changed("it changed since it was scanned")
        except BaseException:
            os.close(self.file)
            raise
        return self.file

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and version_of(os.fstat(self.file)) != version_of(self.before):
                raise Changed("it changed while it was read")
        finally:
            os.close(self.file)
