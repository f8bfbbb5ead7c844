"""A pool of reader processes (`libraries.reader_process`) and the thread that keeps them busy.

The thread takes answers in and hands tasks out while the caller writes to the database, so that no reader waits for a
transaction. What is waiting to be taken by the caller is bounded: a reader that is ahead of the database stops.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any

from django.conf import settings

from jobs.errors import GivesWay
from libraries.messages import encoded, receive, send, send_encoded

#: A task that needed more blocks of 512 bytes than this was read from a disk, not from memory.
COLD_BLOCKS = 256
#: After so many tasks in a row that were read from memory, the disk need not be waited for any more.
WARM_TASKS = 16
#: Answers that may wait for the caller before readers are held back.
MOST_ANSWERS = 16
#: While so many of the caller's tasks wait for a reader, those that answer in parts, of which more such tasks come, are
#: held back too.
MOST_TASKS = 100
#: A message up to this size always fits into a socket: it can be sent to a reader that is not listening yet.
AHEAD_BYTES = 64 << 10


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


@dataclass(frozen=True, slots=True)
class Part:
    """What a reader found so far of a task that it has not ended; none of it comes again."""

    key: int
    value: Any


Event = Done | Failed | Read | Part
Task = tuple[Any, ...]
Expand = Callable[[Any], Iterable[Task]]


class ReadersGone(GivesWay):
    """The reader processes ended by themselves; the job is given back and tried again."""

    def __init__(self) -> None:
        super().__init__("READERS_GONE", "The reader processes were killed; the machine may be out of memory.")


def reader_count() -> int:
    """How many readers a job may have: a disk that has to be waited for wants more of them than there are cores."""
    return settings.READERS or min(8, 4 * (os.cpu_count() or 1))


class Readers:
    """The processes themselves, and a socket to each."""

    def __init__(self, count: int) -> None:
        pairs = [socket.socketpair() for _ in range(count)]
        theirs = [pair[1].fileno() for pair in pairs]
        self._host = subprocess.Popen(
            [sys.executable, "-m", "libraries.reader_process", *map(str, theirs)],
            pass_fds=theirs,
            cwd=settings.BASE_DIR,
            stdin=subprocess.DEVNULL,
        )
        for _, end in pairs:
            end.close()
        self.ends = [pair[0].detach() for pair in pairs]
        #: Which process is at which socket; known as soon as it is there.
        self.pids: dict[int, int] = {}

    def close(self, busy: Iterable[int] = ()) -> None:
        """An idle reader ends by itself when its socket closes; one that hangs on a dead disk has to be killed."""
        for pid in [self.pids[end] for end in busy if end in self.pids]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for end in self.ends:
            os.close(end)
        try:
            self._host.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._host.kill()
            self._host.wait()


_spare: list[Readers] | None = None


@contextmanager
def kept_readers() -> Iterator[None]:
    """For a command that does one job after the other: readers are started at once, and once."""
    global _spare
    _spare = [Readers(reader_count())]  # enough for any pool: one that wants fewer gives tasks to fewer
    try:
        yield
    finally:
        left, _spare = _spare, None
        for readers in left:
            readers.close()


class ReaderPool:
    """`expand` turns what came of a task into further tasks, in the pool's own thread; those have no key of the
    caller's, and their events carry the key of the task they came from."""

    def __init__(self, count: int, expand: Expand | None = None, most_answers: int | None = None) -> None:
        self.count = count
        #: Files that lie in memory are read as fast as there are cores; more readers would only get into each other's
        #: way. A disk that has to be waited for gets them all.
        self._for_memory = self.active = min(count, max(2, os.cpu_count() or 1))
        self._cold_tasks = 0
        self._most_answers = most_answers or MOST_ANSWERS
        #: Whoever takes few answers wants to hold the readers back, not to have them go ahead.
        self._goes_ahead = most_answers is None
        self._expand = expand
        #: With the key of each, and whether it takes a moment at the most: those of the caller, which are done first,
        #: since he keeps what he needs for their answers, and those that came of others.
        self._tasks: deque[tuple[int, Task, bool]] = deque()
        self._further: deque[tuple[int, Task, bool]] = deque()
        self._answers: SimpleQueue[Event | Exception] = SimpleQueue()
        self._waiting = 0
        self._unfinished = 0
        self._lock = Lock()
        self._idle: list[int] = []
        #: What each busy reader has to do, first things first, and those that may get a task ahead of time: their own
        #: takes a moment, and a reader that had to wait for the next one would waste as long.
        self._busy: dict[int, list[int]] = {}
        self._ahead: list[int] = []
        #: Those that answer in parts, and how many of them are held back.
        self._in_parts: set[int] = set()
        self._held = 0
        self._is_broken = False

    # --- Starting and ending ------------------------------------------------------------------------------
    def __enter__(self) -> ReaderPool:
        self._readers = _spare.pop() if _spare else Readers(self.count)
        self._idle += self._readers.pids
        self._wake_in, self._wake_out = os.pipe()
        self._thread = Thread(target=self._run, name="readers", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.write(self._wake_out, b"x")
        self._thread.join()
        if _spare is not None and not self._busy and not self._is_broken:
            _spare.append(self._readers)
        else:
            self._readers.close(self._busy)
        os.close(self._wake_in)
        os.close(self._wake_out)

    # --- The caller's side --------------------------------------------------------------------------------
    def submit(self, key: int, task: Task, *, is_short: bool = False) -> None:
        """Have a task done. One that `is_short`, and never waits for leave, may be given to a reader that has another
        such task in hand."""
        with self._lock:
            self._unfinished += 1
            self._tasks.append((key, task, is_short))
        os.write(self._wake_out, b".")

    def next(self, timeout: float) -> Event | None:
        """The next answer, or None where there is none for so long. Raises what the pool ended of, as `ReadersGone`."""
        try:
            event = self._answers.get(timeout=timeout)
        except Empty:
            return None
        if isinstance(event, Exception):
            raise event
        with self._lock:
            self._waiting -= 1
            held_back = self._waiting == self._most_answers - 1
        if held_back:
            os.write(self._wake_out, b".")
        return event

    def grant(self, key: int) -> None:
        """Let the reader of that task read its next stride."""
        for end, keys in list(self._busy.items()):
            if keys[:1] == [key]:
                send(end, None)

    @property
    def in_hand(self) -> int:
        """Tasks that have not ended, and answers that were not taken yet."""
        with self._lock:
            return self._unfinished + self._waiting

    def doing(self) -> list[str]:
        """What each busy reader has open, by what the kernel says: no disk is asked."""
        pids = [self._readers.pids[end] for end in list(self._busy)]
        return [path for path in map(_open_path, pids) if path]

    # --- The thread's side --------------------------------------------------------------------------------
    def _run(self) -> None:
        try:
            self._keep_busy()
        except Exception as error:  # whoever waits for answers has to know that none will come
            self._is_broken = True
            self._answers.put(error)

    def _keep_busy(self) -> None:
        poll = select.poll()
        for end in (self._wake_in, *self._readers.ends):
            poll.register(end, select.POLLIN)
        while True:
            for end, _ in poll.poll():
                if end == self._wake_in:
                    if b"x" in os.read(end, 4096):
                        return
                    continue
                try:
                    self._take(end, *receive(end))
                except EOFError:
                    raise ReadersGone from None
            self._hold_back(poll)
            self._hand_out()

    def _hold_back(self, poll: select.poll) -> None:
        """A reader that answers in parts does so without being asked. While there is enough to be done with what came
        so far, none of it is taken in: the reader stops when its socket is full. It is noticed all the same when it is
        killed. Tasks hold it back only where another reader is there to do them."""
        if not self._in_parts:
            self._held = 0
            return
        with self._lock:
            is_enough = self._waiting >= self._most_answers
            is_enough |= len(self._tasks) >= MOST_TASKS and len(self._in_parts) < self.count
        self._held = len(self._in_parts) if is_enough else 0
        for end in self._in_parts:
            poll.modify(end, 0 if is_enough else select.POLLIN)

    def _take(self, end: int, key: int, what: str, value: Any, blocks: int) -> None:
        if what == "ready":
            self._readers.pids[end] = value
            self._idle.append(end)
            return
        if what == "read":
            self._answer(Read(key, value))
            return
        if what == "part":
            self._in_parts.add(end)
            if end in self._ahead:  # this takes longer than a moment
                self._ahead.remove(end)
            self._answer(Part(key, value), self._further_of(value))
            return
        self._ended(end)
        self._cold_tasks = WARM_TASKS if blocks > COLD_BLOCKS else max(self._cold_tasks - 1, 0)
        self.active = self.count if self._cold_tasks else self._for_memory
        if what == "done":
            self._answer(Done(key, value), self._further_of(value), ended=1)
        else:
            self._answer(Failed(key, value, what == "changed"), ended=1)

    def _further_of(self, value: Any) -> list[Task]:
        return list(self._expand(value)) if self._expand else []

    def _answer(self, event: Event, more: Sequence[Task] = (), ended: int = 0) -> None:
        """All at once: whoever asks meanwhile must not find that nothing is in hand."""
        with self._lock:
            self._unfinished += len(more) - ended
            self._further.extend((event.key, task, True) for task in more)
            self._waiting += 1
        self._answers.put(event)

    def _ended(self, end: int) -> None:
        """A reader has ended the first of its tasks."""
        self._in_parts.discard(end)
        keys = self._busy[end]
        keys.pop(0)
        if keys:
            self._ahead.append(end)
            return
        del self._busy[end]
        self._idle.append(end)
        if end in self._ahead:
            self._ahead.remove(end)

    def _hand_out(self) -> None:
        while end := self._next_reader():
            with self._lock:
                if self._waiting >= self._most_answers or not (self._tasks or self._further):
                    return
                # What was found last is done first where tasks beget tasks: the list stays short in a deep tree.
                is_further = not self._tasks
                key, task, is_short = self._further.pop() if is_further else self._tasks.popleft()
            message = encoded((key, *task))
            is_short = is_short and self._goes_ahead and len(message) <= AHEAD_BYTES
            if end in self._busy and not is_short:
                with self._lock:
                    (self._further.append if is_further else self._tasks.appendleft)((key, task, is_short))
                return
            self._give(end, key, is_short=is_short)
            with suppress(BrokenPipeError):  # a reader that was killed is noticed when its socket is read
                send_encoded(end, message)

    def _next_reader(self) -> int | None:
        """An idle one, as long as not enough of them do something, or else one that will be idle in a moment."""
        if self._idle and len(self._busy) - self._held < self.active:
            return self._idle[-1]
        return self._ahead[0] if self._ahead else None

    def _give(self, end: int, key: int, *, is_short: bool) -> None:
        if end in self._busy:
            self._ahead.remove(end)
            self._busy[end].append(key)
            return
        self._idle.remove(end)
        self._busy[end] = [key]
        if is_short:
            self._ahead.append(end)


def _open_path(pid: int) -> str:
    """The file, or at least the folder, that a reader has opened last."""
    try:
        handles = sorted(Path(f"/proc/{pid}/fd").iterdir(), key=lambda handle: int(handle.name), reverse=True)
        links = [str(handle.readlink()) for handle in handles]
    except OSError:
        return ""
    return next((link for link in links if link.startswith("/") and not link.startswith("/dev/")), "")
