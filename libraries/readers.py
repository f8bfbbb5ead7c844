"""A pool of reader processes (`libraries.reader_process`) and the thread that keeps them busy.

The thread takes answers in and hands tasks out while the caller writes to the database, so that no reader waits for a
transaction. What is waiting to be taken by the caller is bounded: a reader that is ahead of the database stops.
"""

from __future__ import annotations

import marshal
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any

from django.conf import settings

from jobs.errors import GivesWay

#: Answers that may wait for the caller before readers are held back.
MOST_ANSWERS = 24


@dataclass(frozen=True, slots=True)
class Done:
    key: int
    value: Any


@dataclass(frozen=True, slots=True)
class Failed:
    key: int
    reason: str
    is_changed: bool


@dataclass(frozen=True, slots=True)
class Read:
    """So many more bytes of the task's file were read."""

    key: int
    bytes_read: int


Event = Done | Failed | Read
Task = tuple[Any, ...]
Expand = Callable[[Any], Iterable[Task]]


class ReadersGone(GivesWay):
    """The reader processes ended by themselves; the job is given back and tried again."""

    def __init__(self) -> None:
        super().__init__("READERS_GONE", "The reader processes were killed; the machine may be out of memory.")


def reader_count() -> int:
    """How many readers a job may have: a disk that has to be waited for wants more of them than there are cores."""
    return settings.READERS or min(8, 4 * (os.cpu_count() or 1))


class ReaderPool:
    """`expand` turns what came of a task into further tasks, in the pool's own thread; those have no key of the
    caller's, and their events carry the key of the task they came from."""

    def __init__(self, count: int, expand: Expand | None = None, most_answers: int | None = None) -> None:
        self.count = count
        self._most_answers = most_answers or MOST_ANSWERS
        #: How many of the readers are given tasks; see `widen`.
        self.active = count
        self._expand = expand
        self._tasks: deque[tuple[int, Task]] = deque()
        self._answers: SimpleQueue[Event | None] = SimpleQueue()
        self._waiting = 0
        self._unfinished = 0
        self._lock = Lock()
        self._idle: list[Connection] = []
        self._busy: dict[Connection, int] = {}
        self._pids: dict[Connection, int] = {}

    # --- Starting and ending ------------------------------------------------------------------------------
    def __enter__(self) -> ReaderPool:
        pairs = [socket.socketpair() for _ in range(self.count)]
        theirs = [pair[1].fileno() for pair in pairs]
        self._host = subprocess.Popen(
            [sys.executable, "-m", "libraries.reader_process", *map(str, theirs)],
            pass_fds=theirs,
            cwd=settings.BASE_DIR,
            stdin=subprocess.DEVNULL,
        )
        for _, end in pairs:
            end.close()
        self._all = [Connection(pair[0].detach()) for pair in pairs]
        self._wake_in, self._wake_out = os.pipe()
        self._thread = Thread(target=self._run, name="readers", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.write(self._wake_out, b"x")
        self._thread.join()
        # An idle reader ends by itself when its socket closes; one that hangs on a dead disk has to be killed.
        for pid in [self._pids[each] for each in self._busy if each in self._pids]:
            _kill(pid)
        for each in self._all:
            each.close()
        os.close(self._wake_in)
        os.close(self._wake_out)
        try:
            self._host.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._host.kill()
            self._host.wait()

    # --- The caller's side --------------------------------------------------------------------------------
    def submit(self, key: int, task: Task) -> None:
        with self._lock:
            self._unfinished += 1
            self._tasks.append((key, task))
        os.write(self._wake_out, b".")

    def next(self, timeout: float) -> Event | None:
        """The next answer, or None where there is none for so long. Raises `ReadersGone`."""
        try:
            event = self._answers.get(timeout=timeout)
        except Empty:
            return None
        if event is None:
            raise ReadersGone
        with self._lock:
            self._waiting -= 1
            held_back = self._waiting == self._most_answers - 1
        if held_back:
            os.write(self._wake_out, b".")
        return event

    def grant(self, key: int) -> None:
        """Let the reader of that task read its next stride."""
        for connection, theirs in list(self._busy.items()):
            if theirs == key:
                connection.send_bytes(b"")

    @property
    def in_hand(self) -> int:
        """Tasks that have not ended, and answers that were not taken yet."""
        with self._lock:
            return self._unfinished + self._waiting

    def widen(self, active: int) -> None:
        """Give tasks to so many readers."""
        with self._lock:
            self.active = min(active, self.count)

    def doing(self) -> list[str]:
        """What each busy reader has open, by what the kernel says: no disk is asked."""
        busy = [self._pids[each] for each in list(self._busy) if each in self._pids]
        return [path for path in map(_open_path, busy) if path]

    # --- The thread's side --------------------------------------------------------------------------------
    def _run(self) -> None:
        alive = {each.fileno(): each for each in self._all}
        while alive:
            for ready in wait([self._wake_in, *alive.values()]):
                if ready == self._wake_in:
                    if b"x" in os.read(self._wake_in, 4096):
                        return
                    continue
                assert isinstance(ready, Connection)
                try:
                    self._take(ready, *marshal.loads(ready.recv_bytes()))  # noqa: S302  our own child wrote it
                except (EOFError, ConnectionResetError):
                    alive.pop(ready.fileno())
                    if ready in self._busy or not alive:
                        self._answers.put(None)
                        return
            self._hand_out()

    def _take(self, connection: Connection, key: int, what: str, value: Any) -> None:
        if what == "ready":
            self._pids[connection] = value
            self._idle.append(connection)
            return
        if what == "read":
            self._answer(Read(key, value))
            return
        del self._busy[connection]
        self._idle.append(connection)
        more = list(self._expand(value)) if what == "done" and self._expand else []
        with self._lock:
            self._unfinished += len(more) - 1
            self._tasks.extend((key, task) for task in more)
        self._answer(Done(key, value) if what == "done" else Failed(key, value, what == "changed"))

    def _answer(self, event: Event) -> None:
        with self._lock:
            self._waiting += 1
        self._answers.put(event)

    def _hand_out(self) -> None:
        while self._idle and len(self._busy) < self.active:
            with self._lock:
                if not self._tasks or self._waiting >= self._most_answers:
                    return
                # What was found last is done first where tasks beget tasks: the list stays short in a deep tree.
                key, task = self._tasks.pop() if self._expand else self._tasks.popleft()
            connection = self._idle.pop()
            self._busy[connection] = key
            connection.send_bytes(marshal.dumps((key, *task)))


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _open_path(pid: int) -> str:
    """The file, or at least the folder, that a reader has opened last."""
    try:
        handles = sorted(Path(f"/proc/{pid}/fd").iterdir(), key=lambda handle: int(handle.name), reverse=True)
        links = [str(handle.readlink()) for handle in handles]
    except OSError:
        return ""
    return next((link for link in links if link.startswith("/") and not link.startswith("/dev/")), "")
