"""Opening a source for reading: by steps below its library, and given up where the disk doesn't answer.

A call to a dead disk hangs in the kernel, and its thread with it. So threads of their own open the files; one that
takes too long is left alone. While it hangs nothing else of that library is opened, so a dead disk costs one thread for
each picture that was asked for at the same moment, whatever waits in the queue.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from queue import SimpleQueue
from stat import S_ISREG
from threading import Event, Lock, Thread

from libraries.reading import open_file, reason_of
from thumbnails.errors import ThumbnailsError

REJECTED = "THUMB_PATH_POLICY_REJECTED"
UNREADABLE = "THUMB_SOURCE_UNREADABLE"
CHANGED = "THUMB_SOURCE_CHANGED"
UNREACHABLE = "THUMB_SOURCE_UNREACHABLE"
_POLL_SECONDS = 0.5
#: Library's folder → the call that hangs there.
_hanging: dict[bytes, _Opening] = {}


class SourceError(ThumbnailsError):
    """The source can't be read, or not this version of it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


def open_source(
    root: bytes, path: bytes, *, version: tuple[int, int], seconds: float, check: Callable[[], None]
) -> int:
    """A descriptor of the regular file at `path` below `root`, if it is of this size and time.

    `check` is called while it waits; it may raise.
    """
    _refuse_outside(root, path)
    handle = _open_in_time(root, path, seconds, check)
    try:
        refuse_changed(handle, version)
    except BaseException:
        os.close(handle)
        raise
    return handle


def refuse_changed(handle: int, version: tuple[int, int]) -> None:
    """Raise unless it is a regular file of this size and time."""
    info = os.fstat(handle)
    if not S_ISREG(info.st_mode):
        raise SourceError(CHANGED, "It is no longer a file.")
    if (info.st_size, info.st_mtime_ns) != version:
        raise SourceError(CHANGED, "The file changed since it was scanned. Its picture can be made after a scan.")


def _refuse_outside(root: bytes, path: bytes) -> None:
    """What the index holds is no reason to believe it: a path goes down from its library, step by step."""
    steps = path.split(b"/")
    if not root.startswith(b"/") or b".." in root.split(b"/") or b"\0" in root + path:
        raise SourceError(REJECTED, "The folder of its library is no whole path.")
    if any(step in (b"", b".", b"..") for step in steps):
        raise SourceError(REJECTED, "Its path does not stay inside its library.")


def _open_in_time(root: bytes, path: bytes, seconds: float, check: Callable[[], None]) -> int:
    if root in _hanging:
        raise SourceError(UNREACHABLE, "The disk of its library does not answer.")
    opening = _Opening(root, path)
    _hand_over(opening)
    until = time.monotonic() + seconds
    try:
        while not opening.ended.wait(min(_POLL_SECONDS, max(until - time.monotonic(), 0))):
            check()
            if time.monotonic() >= until and opening.hangs():
                raise SourceError(UNREACHABLE, f"The disk of its library did not answer for {seconds:.0f} s.")
        return opening.take()
    except BaseException:
        opening.give_up()
        raise


class _Opener(Thread):
    """Opens one file after the other; idle ones wait for the next, since starting a thread costs more than opening."""

    def __init__(self) -> None:
        super().__init__(name="open sources", daemon=True)
        self.openings: SimpleQueue[_Opening] = SimpleQueue()
        self.start()

    def run(self) -> None:
        while True:
            self.openings.get().run(self)


#: Those that hang are not among them. (Appending to a list and popping are one step each.)
_idle: list[_Opener] = []


def _hand_over(opening: _Opening) -> None:
    try:
        opener = _idle.pop()
    except IndexError:
        opener = _Opener()
    opener.openings.put(opening)


class _Opening:
    """One call of `open`; its descriptor goes to whoever waits, or is closed where nobody does."""

    def __init__(self, root: bytes, path: bytes) -> None:
        self.root, self.path = root, path
        self.ended = Event()
        self._lock = Lock()
        self._handle: int | None = None
        self._error: OSError | None = None
        self._is_given_up = False

    def take(self) -> int:
        with self._lock:
            handle, self._handle = self._handle, None
        if handle is None:
            raise _told(self._error)
        return handle

    def hangs(self) -> bool:
        """Note that it does, unless it has just ended."""
        with self._lock:
            if not self.ended.is_set():
                _hanging[self.root] = self
            return not self.ended.is_set()

    def give_up(self) -> None:
        with self._lock:
            self._is_given_up = True
            handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def run(self, opener: _Opener) -> None:
        handle = None
        try:
            handle = open_file(self.root, self.path)
        except OSError as error:
            self._error = error
        with self._lock:
            if handle is not None and self._is_given_up:
                os.close(handle)
            elif handle is not None:
                self._handle = handle
            if _hanging.get(self.root) is self:
                del _hanging[self.root]
            _idle.append(opener)
            self.ended.set()


def _told(error: OSError | None) -> SourceError:
    if error is None:
        return SourceError(UNREADABLE, "It could not be opened.")
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return SourceError(REJECTED, "The file, or a folder on the way to it, is a link or something else by now.")
    return SourceError(UNREADABLE, f"It can't be read: {reason_of(error)}")
