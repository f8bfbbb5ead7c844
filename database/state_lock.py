"""One process at a time looks after a state folder: the supervisor while it runs, or a restore."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class StateHeld(Exception):
    """Another process has the folder; `holder` is its process id, as far as it is known."""

    def __init__(self, holder: str) -> None:
        super().__init__(f"held by process {holder}")
        self.holder = holder


@contextmanager
def hold_state(folder: Path) -> Iterator[None]:
    """Hold `folder` for this process. The kernel drops the lock with the process, and children don't inherit it."""
    handle = os.open(folder / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateHeld(os.read(handle, 32).decode("ascii", "replace").strip() or "unknown") from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)
