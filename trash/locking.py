"""One hand at a time on people's files: a lock of the operating system, from before the first intent of a batch until
its outcome is recorded.

A lease can't hold back a rename: a consumer that was frozen past the end of its lease goes on where it was when it
wakes. This lock survives the freezing and dies with the process, so whoever gets it knows that nobody else is in the
middle of anything, and may settle what was left (`trash.settling`).
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from jobs.errors import GivesWay
from jobs.executing import ACT_LOCKED, worker_name
from trash import steps
from trash.folders import LOCK, Lockable, info_of, is_empty, remove_empty
from trash.folders import NAME as TRASH

NAME = "acting.lock"
#: Some filesystems, mostly of networks, know no such locks; the one in the state folder counts then.
_UNKNOWN = frozenset({errno.ENOTSUP, errno.EBADF, errno.ENOLCK, errno.ENOSYS, errno.EINVAL})
#: A disk that is full or read-only still has its trash, and files that may come out of it.
_NO_FILE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
_mine = threading.local()


class Busy(Exception):
    """Another process, or another thread of this one, acts on files; `who` tells which, as far as it is known."""

    def __init__(self, who: str) -> None:
        super().__init__(f"Somebody else acts on files at this moment: {who}.")
        self.who = who


def giving_way(reason: Busy) -> GivesWay:
    return GivesWay(ACT_LOCKED, f"{reason} It is tried again by itself.")


class Held:
    """The lock, in hand. Without a handle it is that of trashes alone: there is no state folder to write to."""

    def __init__(self, handle: int | None) -> None:
        self._handle = handle
        #: Device and inode of a trash → what holds its lock.
        self._trashes: dict[tuple[int, int], list[int]] = {}

    def take(self, trash: Lockable) -> None:
        """Lock a trash too, as long as this lock is held: a consumer on another machine has another state folder.
        Raises `Busy`."""
        key = _key(trash)
        if key in self._trashes:
            return  # whoever has locked it once would wait for himself
        _flock(trash.top)
        try:
            handles = _locked_file(trash.top)
        except BaseException:
            with suppress(OSError):
                fcntl.flock(trash.top, fcntl.LOCK_UN)
            raise
        # The lock belongs to what was opened, and lasts until its last descriptor is closed.
        self._trashes[key] = [os.dup(trash.top), *handles]

    def take_away(self, trash: Lockable) -> None:
        """Let a trash go where nothing but its lock is in it, and the lock with it: it is not held from here on.
        Whoever opened that lock before finds that it is none any more (`_locked_file`)."""
        key = _key(trash)
        if key not in self._trashes or not is_empty(trash):
            return
        if info_of(LOCK, dir_fd=trash.top) is not None:
            if not any(_is_at(trash.top, handle) for handle in self._trashes[key]):
                return  # somebody else's: we could make none
            steps.unlink(LOCK, dir_fd=trash.top)
        # Closed first: a file that is open keeps its folder from going on an NFS.
        for handle in self._trashes.pop(key):
            os.close(handle)
        remove_empty(TRASH, trash.mount)

    def handles(self) -> list[int]:
        """Every descriptor that holds it: whoever is given all of them holds it, too, until all are closed."""
        own = [] if self._handle is None else [self._handle]
        return [*own, *(handle for handles in self._trashes.values() for handle in handles)]

    def let_go(self) -> None:
        for handles in self._trashes.values():
            for handle in handles:
                os.close(handle)
        self._trashes.clear()
        if self._handle is not None:
            os.close(self._handle)


def _key(trash: Lockable) -> tuple[int, int]:
    info = os.fstat(trash.top)
    return info.st_dev, info.st_ino


def _flock(handle: int) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Busy("a process that works in the same trash, on this machine or another") from None
    except OSError as error:
        if error.errno not in _UNKNOWN:
            raise


def _locked_file(top: int) -> list[int]:
    """The lock file of a trash, open and locked. A lock on a folder holds on this machine only: servers of files know
    none of those. Empty where no file can be made: the folder's lock counts then. Raises `Busy`."""
    while True:
        try:
            handle = steps.create(LOCK, dir_fd=top)
        except FileNotFoundError:
            raise Busy("a process that takes the empty trash away") from None
        except OSError as error:
            if error.errno not in _NO_FILE:
                raise
            return []
        try:
            _flock(handle)
            if _is_at(top, handle):
                return [handle]
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # whoever had it took it away with the trash: there is another one by now, or none


def _is_at(top: int, handle: int) -> bool:
    now, own = info_of(LOCK, dir_fd=top), os.fstat(handle)
    return now is not None and (now.st_dev, now.st_ino) == (own.st_dev, own.st_ino)


def _take_first(handle: int, doing: str) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Busy(os.pread(handle, 300, 0).decode(errors="replace").strip() or "unknown") from None
    # Who it is, for those who find it taken.
    words = f"{worker_name()} since {timezone.now():%Y-%m-%d %H:%M:%S} UTC, {doing}"
    os.ftruncate(handle, 0)
    os.pwrite(handle, words.encode(errors="replace"), 0)


@contextmanager
def held(*trashes: Lockable, doing: str = "acting") -> Iterator[Held]:
    """Hold the lock, and that of these trashes. Inside of itself, in the same thread, it is the same lock. Raises
    `Busy` at once where another has it: nobody waits with a lease in hand."""
    inside: Held | None = getattr(_mine, "lock", None)
    if inside is not None:
        for trash in trashes:
            inside.take(trash)
        yield inside
        return
    handle = os.open(_path(), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    lock = Held(handle)
    try:
        _take_first(handle, doing)
        _mine.lock = lock
        for trash in trashes:
            lock.take(trash)
        yield lock
    finally:
        _mine.lock = None
        lock.let_go()


def _path() -> Path:
    folder = Path(settings.STATE_ROOT)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / NAME
