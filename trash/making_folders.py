"""The folders that files come back to. One that is gone is made again, as it was where that is known.

A folder is made inside the trash, given its owner, mode and attributes there, and renamed to its place: whoever is
killed in between leaves nothing half made in the library. No link is followed on the way down.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from stat import S_IMODE
from typing import Any, NamedTuple

from database.crash_points import reach
from libraries.excluding import TRASH
from libraries.reading import OPEN_FOLDER, open_below
from trash import steps
from trash.folders import Trash
from trash.refusing import Refusal, refused

#: Of a folder of which nothing is known.
MODE = 0o755
#: Beside the manifest, while it is dressed.
_NEW = b"new-folder"


class WasFolder(NamedTuple):
    """A folder as it was before it was taken away."""

    mode: int
    uid: int
    gid: int
    mtime_ns: int
    #: Name → value, both in hexadecimal.
    attributes: Mapping[str, str]


def steps_of(path: bytes) -> list[bytes]:
    """The names on the way to a file. Raises `Refusal` for a path that does not go down from where it starts, or that
    leads into a trash."""
    names = path.split(b"/")
    if any(name in (b"", b".", b"..", TRASH.encode()) or b"\0" in name for name in names):
        raise Refusal("OUTSIDE", "Its path does not stay inside the folder that holds the trash.")
    return names


class Folders:
    """Opens folders below the one that holds a trash, and makes what is missing."""

    def __init__(self, trash: Trash, known: Mapping[bytes, WasFolder], ours: Collection[bytes]) -> None:
        """`ours` are those of the known folders that nobody has called back yet: one that is there all the same was
        made by somebody who was killed before he could, or by us a moment ago."""
        self.trash, self.known, self.ours = trash, known, ours
        #: Made by us, by their path, and opened to put something into.
        self.made: list[bytes] = []
        self.filled: set[bytes] = set()

    def open(self, folder: bytes) -> int:
        """A descriptor of a folder; "" is the one that holds the trash. Raises `Refusal` where that can't be."""
        names = steps_of(folder) if folder else []
        handle = os.dup(self.trash.mount)
        for depth, name in enumerate(names):
            try:
                below = self._open_or_make(name, handle, b"/".join(names[: depth + 1]))
            except OSError as error:
                raise _refused(error) from None
            finally:
                os.close(handle)
            handle = below
            self.filled.add(b"/".join(names[: depth + 1]))
        return handle

    def back(self) -> list[bytes]:
        """Folders that went and are there again, the deepest first."""
        found = {path for path in self.filled if path in self.ours and path in self.known} | set(self.made)
        return sorted(found, key=lambda path: path.count(b"/"), reverse=True)

    def set_times(self) -> None:
        """Putting files into them changed their times."""
        for path in self.back():
            was = self.known.get(path)
            if was is None:
                continue
            with suppress(OSError):
                handle = self._open_there(path)
                try:
                    reach(steps.POINT)
                    os.utime(handle, ns=(os.fstat(handle).st_atime_ns, was.mtime_ns))
                    reach(steps.POINT)
                    steps.sync(handle)
                finally:
                    os.close(handle)

    def _open_there(self, path: bytes) -> int:
        return open_below(os.dup(self.trash.mount), path.split(b"/") if path else ())

    def unmake(self, count: int) -> None:
        """Take away what was made beyond the first `count`, where nothing came of it."""
        for path in reversed(self.made[count:]):
            above, _, name = path.rpartition(b"/")
            with suppress(OSError):
                handle = self._open_there(above)
                try:
                    steps.rmdir(name, dir_fd=handle)
                finally:
                    os.close(handle)
        del self.made[count:]

    def _open_or_make(self, name: bytes, parent: int, path: bytes) -> int:
        try:
            return os.open(name, OPEN_FOLDER, dir_fd=parent)
        except FileNotFoundError:
            pass
        self._make(name, parent, self.known.get(path))
        steps.sync(parent)
        self.made.append(path)
        return os.open(name, OPEN_FOLDER, dir_fd=parent)

    def _make(self, name: bytes, parent: int, was: WasFolder | None) -> None:
        above = os.fstat(parent)
        was = was or WasFolder(MODE, above.st_uid, above.st_gid, 0, {})
        clear_half_made(self.trash)
        steps.mkdir(_NEW, 0o700, dir_fd=self.trash.folder)
        try:
            _dress(_NEW, self.trash.folder, was)
            _move_new(self.trash.folder, name, parent)
        except OSError as error:
            clear_half_made(self.trash)
            # Somebody else made it at this moment: theirs is as good.
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise


def _move_new(trash: int, name: bytes, parent: int) -> None:
    try:
        steps.rename_new(_NEW, name, src_fd=trash, dst_fd=parent)
    except steps.NotKnownHere:
        # A folder takes the place of nothing but an empty folder, so there is nothing to lose by it.
        steps.rename_over(_NEW, name, src_fd=trash, dst_fd=parent)


def clear_half_made(trash: Trash) -> None:
    """A folder that never came to its place."""
    with suppress(FileNotFoundError):
        os.stat(_NEW, dir_fd=trash.folder, follow_symlinks=False)
        steps.rmdir(_NEW, dir_fd=trash.folder)


def was_folder(line: Mapping[str, Any]) -> WasFolder:
    """As the manifest has it. Raises `Refusal` where something else stands there."""
    numbers = [line.get(name) for name in ("mode", "uid", "gid", "mtime_ns")]
    attributes = line.get("attributes", {})
    if not all(isinstance(number, int) for number in numbers) or not isinstance(attributes, dict):
        raise Refusal("OUTSIDE", "The manifest tells of a folder in words that no manifest has.")
    mode, uid, gid, mtime_ns = (int(number or 0) for number in numbers)
    return WasFolder(S_IMODE(mode), uid, gid, mtime_ns, attributes)


def _dress(name: bytes, parent: int, was: WasFolder) -> None:
    """Owner first: changing it may take bits of the mode away. What this process may not set is left as it is."""
    handle = os.open(name, OPEN_FOLDER, dir_fd=parent)
    try:
        reach(steps.POINT)
        with suppress(OSError, OverflowError):
            os.fchown(handle, was.uid, was.gid)
        os.fchmod(handle, was.mode)
        for key, value in was.attributes.items():
            with suppress(OSError, ValueError, TypeError):
                os.setxattr(handle, bytes.fromhex(key), bytes.fromhex(value))
        reach(steps.POINT)
    finally:
        os.close(handle)


def _refused(error: OSError) -> Refusal:
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EEXIST):
        return Refusal("FOLDER_GONE", "Where its folder was, there is something else by now; it stays in the trash.")
    return refused(error, gone="FOLDER_GONE", what="Its folder")
