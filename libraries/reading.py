"""What a reader process does: walks folders and hashes files. It knows nothing of Django or the database.

What it finds travels as plain tuples, so that it can be marshalled: cheap to make, and nothing in it can run code.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from stat import S_ISREG
from typing import Any, NamedTuple

from blake3 import blake3

from libraries.beneath import PATH_BYTES, opener
from libraries.buffers import Buffers
from libraries.excluding import Exclusions
from libraries.names import PATH_CHARACTERS, to_text
from libraries.small_files import OPEN_FILE, told
from libraries.small_files import signed as signed  # others have it from here
from libraries.streams import Stream
from libraries.unit_pages import shelf

#: Files up to this size are read whole while they are walked: a separate sample would cost more than it saves.
SMALL_BYTES = 64 << 10
#: A sample is so many bytes from the beginning, the middle and the end.
SAMPLE_BYTES = 4 << 10
#: A walking unit ends after so many files or so many bytes read, so that every reader stays busy.
UNIT_FILES = 2_000
UNIT_BYTES = 16 << 20
#: A folder's names are taken so many at a time, and what they stand for is looked at before the next ones are taken.
PORTION_NAMES = 2_000

OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ODD_TIME = "its time lies before 1677 or after 2262, which can't be stored: give it another one, as by touch"


class Trouble(NamedTuple):
    """A path that could not be read; a folder's trouble covers everything below it."""

    path: str
    is_folder: bool
    reason: str


class Walked:
    """What came of one unit of walking. (Plain classes here: loading `dataclasses` takes a reader longer than all
    the rest.)"""

    def __init__(self, left: list[bytes]) -> None:
        self.begin(left)

    def begin(self, left: list[bytes]) -> None:
        #: Folders that are still to be walked, last in first out: that keeps the list short in a deep tree.
        self.left = left
        #: Its files (`libraries.unit_pages`).
        self.pages: list[bytes] = []
        self.troubles: list[Trouble] = []
        self.folder_count = self.file_count = self.bytes_seen = self.bytes_read = 0


class Changed(Exception):
    """The file is not the version that was asked for, or changed while it was read."""


class OutsideLibrary(FileNotFoundError):
    """A path that does not go down from its library."""


class WalkRules:
    """How a library is walked. With an algorithm, small files are hashed on the way."""

    def __init__(self, root: bytes, exclusions: Exclusions, least_bytes: int = 0, algorithm: str | None = None) -> None:
        self.root, self.exclusions, self.least_bytes = root, exclusions, least_bytes
        self.hasher = hasher(algorithm) if algorithm else None


def hasher(algorithm: str) -> Callable[..., Any]:
    if algorithm == "blake3":
        return blake3
    import hashlib  # loaded only where it is chosen

    return hashlib.sha256


def version_of(info: os.stat_result) -> tuple[int, int, int, int, int]:
    """Equal for two looks at a file exactly if nobody changed it in between."""
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns


def reason_of(error: OSError) -> str:
    """Why a path could not be read, without the path: that stands beside it."""
    return f"{errno.errorcode.get(error.errno or 0, 'ERROR')}: {error.strerror or error}"


class Reader:
    """One reader's tools, made after the fork."""

    def __init__(self) -> None:
        self.buffers = Buffers()
        self.buffer = self.buffers.first
        self.shelf = shelf(self.buffer)

    # --- Walking ------------------------------------------------------------------------------------------
    def walk(
        self,
        rules: WalkRules,
        folders: list[bytes],
        most_files: int = UNIT_FILES,
        hand_over: Callable[[Walked], None] | None = None,
    ) -> Walked:
        """Walk `folders` and what is below them until a unit is full; the rest is left for another unit.

        A folder is never left half walked: where the unit is full in the middle of one, what there is so far, with the
        folders that are left, goes to `hand_over` and is no part of what is returned.
        """
        unit, shelf = Walked(list(folders)), self.shelf
        shelf.clear()
        while unit.left and shelf.file_count < most_files and shelf.bytes_read < UNIT_BYTES:
            folder = unit.left.pop()
            try:
                handle = open_folder(rules.root, folder)
            except OSError as error:
                unit.troubles.append(Trouble(_text_of(folder), True, reason_of(error)))
                continue
            try:
                self._walk_folder(rules, folder, handle, unit, hand_over)
            except OSError as error:
                unit.troubles.append(Trouble(_text_of(folder), True, reason_of(error)))
            finally:
                os.close(handle)
        return self._filled(unit)

    def _walk_folder(
        self,
        rules: WalkRules,
        folder: bytes,
        handle: int,
        unit: Walked,
        hand_over: Callable[[Walked], None] | None,
    ) -> None:
        unit.folder_count += 1
        prefix = os.fsdecode(folder) + "/" if folder else ""
        for files in _listed(rules, handle, prefix, unit):
            if hand_over and self._is_full(unit):
                hand_over(self._filled(unit))
                unit.begin([])
            # Small ones are hashed on the way. No digest where one changed or can't be read: the hash job looks again
            # and keeps the reason.
            for name in self.shelf.look(handle, prefix, files, rules.least_bytes, SMALL_BYTES, rules.hasher):
                self._look_by_itself(rules, handle, prefix + name, name, unit)

    def _is_full(self, unit: Walked) -> bool:
        count = self.shelf.file_count + len(unit.left) + len(unit.troubles)
        return count >= UNIT_FILES or self.shelf.bytes_read >= UNIT_BYTES

    def _filled(self, unit: Walked) -> Walked:
        shelf = self.shelf
        unit.file_count, unit.bytes_seen, unit.bytes_read = shelf.file_count, shelf.bytes_seen, shelf.bytes_read
        unit.pages = shelf.take()
        return unit

    def _look_by_itself(self, rules: WalkRules, folder: int, path: str, name: str, unit: Walked) -> None:
        """At what is not simply a file that can be read and stored."""
        try:
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError as error:
            unit.troubles.append(_trouble_with(path, error))
            return
        if not S_ISREG(info.st_mode) or info.st_size < rules.least_bytes:
            return
        known, text = told(info, None), to_text(os.fsencode(path))
        if known is None:
            unit.troubles.append(_trouble_with(path, OSError(errno.EOVERFLOW, _ODD_TIME)))
        elif len(text) > PATH_CHARACTERS:
            reason = f"the path is longer than {PATH_CHARACTERS} characters"
            unit.troubles.append(_trouble_with(path, OSError(errno.ENAMETOOLONG, reason)))
        else:
            self.shelf.put((text, *known))

    # --- Hashing ------------------------------------------------------------------------------------------
    def sample(self, root: bytes, path: bytes, size: int, mtime_ns: int) -> bytes:
        """BLAKE3 of the beginning, the middle and the end: files that differ in it differ.

        Raises `Changed` where the file is not of that size and time, `OSError` where it can't be read.
        """
        with opened(root, path, size, mtime_ns) as file:
            return self.sample_of(file, size)

    def sample_of(self, file: int, size: int) -> bytes:
        """The sample of an open file, which stays where it is."""
        length = 0
        for offset in (0, (size - SAMPLE_BYTES) // 2, size - SAMPLE_BYTES):
            length += os.preadv(file, [self.buffer[length : length + SAMPLE_BYTES]], max(offset, 0))
        return bytes(blake3(self.buffer[:length]).digest())

    def hash(
        self,
        root: bytes,
        path: bytes,
        size: int,
        mtime_ns: int,
        algorithm: str,
        report: Callable[[int], None] = lambda _: None,
    ) -> bytes:
        """The digest of the whole file; `report` is told of the bytes as they are read."""
        make = hasher(algorithm)()
        with opened(root, path, size, mtime_ns) as file:
            stream = Stream(file, size)
            buffer = self.buffer
            while length := stream.read_into(buffer):
                make.update(buffer[:length])
                report(length)
                buffer = self.buffers.both if stream.is_direct else self.buffer
        return bytes(make.digest())


def _listed(rules: WalkRules, folder: int, prefix: str, unit: Walked) -> Iterator[list[str]]:
    """The files of a folder, a portion at a time; what folders it has is left to be walked."""
    plain, endings = rules.exclusions.plain, rules.exclusions.endings
    covers = None if rules.exclusions.is_simple else rules.exclusions.cover
    with os.scandir(folder) as entries:
        while True:
            files: list[str] = []
            entry = None
            for entry in islice(entries, PORTION_NAMES):
                name = entry.name
                if name in plain or name.endswith(endings) or (covers and covers(name, prefix + name)):
                    continue
                if entry.is_file(follow_symlinks=False):
                    files.append(name)
                elif entry.is_dir(follow_symlinks=False):
                    unit.left.append(os.fsencode(prefix + name))
            if entry is None:
                return
            yield files


def open_folder(root: bytes, folder: bytes) -> int:
    """A handle of a folder below `root`. Each step is opened from the one before: no link on the way is followed, and
    no path is too long."""
    steps = _steps(folder) if folder else []
    return open_below(os.open(root, OPEN_FOLDER), steps)


def open_below(handle: int, names: Iterable[bytes]) -> int:
    """The folder that these names lead to, one step after the other; `handle` is closed on the way."""
    for name in names:
        try:
            below = os.open(name, OPEN_FOLDER, dir_fd=handle)
        finally:
            os.close(handle)
        handle = below
    return handle


def open_file(root: bytes | int, path: bytes) -> int:
    """A handle of a file below `root`, which is a path or a handle itself, opened the same way; nothing is waited for,
    and a link is an error."""
    if isinstance(root, int):
        return _open_in(root, path)
    handle = os.open(root, OPEN_FOLDER)
    try:
        return _open_in(handle, path)
    finally:
        os.close(handle)


def _open_in(root: int, path: bytes) -> int:
    steps = _steps(path)
    at_once = opener() if len(path) < PATH_BYTES else None
    if at_once is not None:
        return at_once(root, path, OPEN_FILE)
    folder = open_below(os.dup(root), steps[:-1])
    try:
        return os.open(steps[-1], OPEN_FILE, dir_fd=folder)
    finally:
        os.close(folder)


def _steps(path: bytes) -> list[bytes]:
    """What the index holds is no reason to believe it: a path goes down from its library, step by step."""
    steps = path.split(b"/")
    if b"" in steps or b"." in steps or b".." in steps:
        raise OutsideLibrary(errno.ENOENT, "it does not stay inside its library")
    return steps


def _trouble_with(path: str, error: OSError) -> Trouble:
    return Trouble(_text_of(os.fsencode(path)), False, reason_of(error))


def _text_of(folder: bytes) -> str:
    return to_text(folder)[:PATH_CHARACTERS]


class opened:
    """A file that must be of this size and time when it is opened and still when it is closed."""

    def __init__(self, root: bytes | int, path: bytes, size: int, mtime_ns: int) -> None:
        self.root, self.path, self.wanted = root, path, (size, mtime_ns)

    def __enter__(self) -> int:
        self.file = open_file(self.root, self.path)
        try:
            self.before = os.fstat(self.file)
            if not S_ISREG(self.before.st_mode):
                raise Changed("it is no longer a file")
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
