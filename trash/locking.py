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
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from jobs.errors import GivesWay
from jobs.executing import ACT_LOCKED, worker_name
from trash.folders import Trash

NAME = "acting.lock"
#: Some filesystems, mostly of networks, know no such locks; the one in the state folder counts then.
_UNKNOWN = frozenset({errno.ENOTSUP, errno.EBADF, errno.ENOLCK, errno.ENOSYS, errno.EINVAL})
_mine = threading.local()


class Busy(Exception):
    """Another process, or another thread of this one, acts on files; `who` tells which, as far as it is known."""

    def __init__(self, who: str) -> None:
        super().__init__(f"Somebody else acts on files at this moment: {who}.")
        self.who = who


def giving_way(reason: Busy) -> GivesWay:
    return GivesWay(ACT_LOCKED, f"{reason} It is tried again by itself.")


class Held:
    """The lock, in hand."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._trashes: dict[tuple[int, int], int] = {}

    def take(self, trash: Trash) -> None:
        """Lock a trash too, as long as this lock is held: a consumer on another machine has another state folder.
        Raises `Busy`."""
        info = os.fstat(trash.top)
        if (info.st_dev, info.st_ino) in self._trashes:
            return  # whoever has locked it once would wait for himself
        try:
            fcntl.flock(trash.top, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy("a process that works in the same trash, on this machine or another") from None
        except OSError as error:
            if error.errno not in _UNKNOWN:
                raise
        # The lock belongs to what was opened, and lasts until its last descriptor is closed.
        self._trashes[info.st_dev, info.st_ino] = os.dup(trash.top)

    def let_go(self) -> None:
        for handle in self._trashes.values():
            os.close(handle)
        self._trashes.clear()
        os.close(self._handle)

    def take_first(self, doing: str) -> None:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(os.pread(self._handle, 300, 0).decode(errors="replace").strip() or "unknown") from None
        # Who it is, for those who find it taken.
        words = f"{worker_name()} since {timezone.now():%Y-%m-%d %H:%M:%S} UTC, {doing}"
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, words.encode(errors="replace"), 0)


@contextmanager
def held(*trashes: Trash, doing: str = "acting") -> Iterator[Held]:
    """Hold the lock, and that of these trashes. Inside of itself, in the same thread, it is the same lock. Raises
    `Busy` at once where another has it: nobody waits with a lease in hand."""
    inside: Held | None = getattr(_mine, "lock", None)
    if inside is not None:
        for trash in trashes:
            inside.take(trash)
        yield inside
        return
    lock = Held(os.open(_path(), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    try:
        lock.take_first(doing)
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
