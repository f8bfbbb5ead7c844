"""Opening a source for reading: by steps below its library, and given up where the disk doesn't answer.

A call to a dead disk hangs in the kernel, and its thread with it. So threads of their own open the files, look at them
and close them; one that takes too long is left alone. While it hangs nothing else of that library is opened, so a dead
disk costs one thread for each picture that was asked for at the same moment, whatever waits in the queue.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from stat import S_ISREG
from threading import Event, Lock, Thread
from typing import Any, Generic, TypeVar

from libraries.reading import OutsideLibrary, open_file, reason_of
from thumbnails.errors import ThumbnailsError

REJECTED = "THUMB_PATH_POLICY_REJECTED"
UNREADABLE = "THUMB_SOURCE_UNREADABLE"
CHANGED = "THUMB_SOURCE_CHANGED"
UNREACHABLE = "THUMB_SOURCE_UNREACHABLE"
_POLL_SECONDS = 0.5
#: How long the closing of a file is waited for that nobody needs any more.
_CLOSE_SECONDS = 2.0
#: Library's folder → the call that hangs there.
_hanging: dict[bytes, _Call[Any]] = {}
T = TypeVar("T")


class SourceError(ThumbnailsError):
    """The source can't be read, or not this version of it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


@contextmanager
def opened_source(
    root: bytes, path: bytes, *, version: tuple[int, int], seconds: float, check: Callable[[], None]
) -> Iterator[int]:
    """A descriptor of the regular file at `path` below `root`, if it is of this size and time, and still is at the end.

    `check` is called while the disk is waited for; it may raise.
    """
    if not root.startswith(b"/") or b".." in root.split(b"/") or b"\0" in root + path:
        raise SourceError(REJECTED, "The folder of its library is no whole path.")
    if root in _hanging:
        raise SourceError(UNREACHABLE, "The disk of its library does not answer.")
    handle, info = _in_time(_Call(root, partial(_open, root, path), let_go=_close_opened), seconds, check)
    try:
        _refuse_changed(info, version)
        yield handle
    except BaseException:
        with suppress(SourceError):
            _in_time(_Call(root, partial(os.close, handle)), _CLOSE_SECONDS)
        raise
    _refuse_changed(_in_time(_Call(root, partial(_look_and_close, handle)), seconds, check), version)


def _open(root: bytes, path: bytes) -> tuple[int, os.stat_result]:
    handle = open_file(root, path)
    try:
        return handle, os.fstat(handle)
    except BaseException:
        os.close(handle)
        raise


def _close_opened(opened: tuple[int, os.stat_result]) -> None:
    os.close(opened[0])


def _look_and_close(handle: int) -> os.stat_result:
    try:
        return os.fstat(handle)
    finally:
        os.close(handle)


def _refuse_changed(info: os.stat_result, version: tuple[int, int]) -> None:
    """Raise unless it is a regular file of this size and time."""
    if not S_ISREG(info.st_mode):
        raise SourceError(CHANGED, "It is no longer a file.")
    if (info.st_size, info.st_mtime_ns) != version:
        raise SourceError(CHANGED, "The file changed since it was scanned. Its picture can be made after a scan.")


# --- Calls to a disk --------------------------------------------------------------------------------------
def _in_time(call: _Call[T], seconds: float, check: Callable[[], None] = lambda: None) -> T:
    """What the call returns. It is made in any case, and given up where it takes longer, or its disk hangs already."""
    until = time.monotonic() + (0 if call.root in _hanging else seconds)
    _hand_over(call)
    try:
        while not call.ended.wait(min(_POLL_SECONDS, max(until - time.monotonic(), 0))):
            check()
            if time.monotonic() >= until and call.hangs():
                raise SourceError(UNREACHABLE, f"The disk of its library did not answer for {seconds:.0f} s.")
        return call.take()
    except BaseException:
        call.give_up()
        raise


class _Opener(Thread):
    """Makes one call after the other; idle ones wait for the next, since starting a thread costs more than opening."""

    def __init__(self) -> None:
        super().__init__(name="open sources", daemon=True)
        self.calls: SimpleQueue[_Call[Any]] = SimpleQueue()
        self.start()

    def run(self) -> None:
        while True:
            self.calls.get().run(self)


#: Those that hang are not among them. (Appending to a list and popping are one step each.)
_idle: list[_Opener] = []


def _hand_over(call: _Call[Any]) -> None:
    try:
        opener = _idle.pop()
    except IndexError:
        opener = _Opener()
    opener.calls.put(call)


class _Call(Generic[T]):
    """One call to a disk. What it returns goes to whoever waits; where nobody does, it is let go of."""

    def __init__(self, root: bytes, verb: Callable[[], T], let_go: Callable[[T], None] = lambda _: None) -> None:
        self.root, self.verb, self.let_go = root, verb, let_go
        self.ended = Event()
        self._lock = Lock()
        self._found: list[T] = []
        self._error: BaseException | None = None
        self._is_given_up = False

    def take(self) -> T:
        with self._lock:
            if self._error is not None:
                raise _told(self._error)
            return self._found.pop()

    def hangs(self) -> bool:
        """Note that it does, unless it has just ended."""
        with self._lock:
            if not self.ended.is_set():
                _hanging.setdefault(self.root, self)
            return not self.ended.is_set()

    def give_up(self) -> None:
        with self._lock:
            self._is_given_up = True
            found, self._found = self._found, []
        for each in found:
            _hand_over(_Call(self.root, partial(self.let_go, each)))

    def run(self, opener: _Opener) -> None:
        try:
            found = self.verb()
            with self._lock:
                is_wanted = not self._is_given_up
                if is_wanted:
                    self._found.append(found)
            if not is_wanted:
                self.let_go(found)
        except BaseException as error:  # whatever it is, the disk has answered
            self._error = error
        with self._lock:
            if _hanging.get(self.root) is self:
                del _hanging[self.root]
            _idle.append(opener)
            self.ended.set()


def _told(error: BaseException) -> SourceError:
    if not isinstance(error, OSError):
        return SourceError(UNREADABLE, f"It could not be opened: {type(error).__name__}.")
    if isinstance(error, OutsideLibrary):
        return SourceError(REJECTED, "Its path does not stay inside its library.")
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return SourceError(REJECTED, "The file, or a folder on the way to it, is a link or something else by now.")
    return SourceError(UNREADABLE, f"It can't be read: {reason_of(error)}")
