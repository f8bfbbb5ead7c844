"""Renders files in child processes (`thumbnails.render_process`), each lent to one calling thread at a time.

A decoder may crash, hang or want all memory there is: then the child is gone, the caller gets a `RenderError`, and the
next caller a new child.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Lock
from typing import Any, NamedTuple

from django.conf import settings

from libraries.messages import encoded
from thumbnails.child_environment import child_environment
from thumbnails.render_board import Board
from thumbnails.render_errors import GENERATION_FAILED, TIMED_OUT, RenderError, told_by
from thumbnails.render_process import LENGTHS, Task

__all__ = ["RenderError", "Rendered", "close_all", "render"]

logger = logging.getLogger(__name__)
#: While a child works, the caller hears of it this often.
TICK_SECONDS = 0.5
#: A child that ended between two tasks is replaced, and the task given to the next.
TRIES = 3
#: No answer is as large.
MOST_ANSWER_BYTES = 64 << 20
#: What the columns of a row are made for; a child that a hostile file has taken over may tell anything.
MOST_CODE, MOST_MESSAGE = 64, 2_000
#: How long a killed child is waited for. So many that hang in the kernel all the same, and no new one is started.
KILL_SECONDS = 1.0
MOST_STUCK = 4


class Rendered(NamedTuple):
    data: bytes
    width: int
    height: int
    bytes_read: int


class _NeverBegun(Exception):
    """The child was gone before it took the task."""


class _Gone(Exception):
    """The child died over the task."""


class _TimeIsUp(Exception):
    """The child did not answer in time."""


def render(source: int, *, media_type: str, format: str, max_dimension: int, advance: Callable[[], None]) -> Rendered:
    """A small picture of the open file `source`, which stays open. Raises `RenderError`.

    `advance` is called every half second; what it raises ends the work and is passed on.
    """
    seconds = settings.THUMBNAIL_SECONDS[media_type]
    limits = (settings.THUMBNAIL_PIXELS, settings.THUMBNAIL_MEMORY_BYTES, float(seconds))
    for _ in range(TRIES):
        child = _borrow()
        task = Task(child.next_number(), media_type, format, max_dimension, *limits)
        try:
            told, data = child.carry_out(source, task, advance)
            is_last = bool(told["is_last"])
        except _NeverBegun:
            _discard(child)
            continue
        except _TimeIsUp:
            _discard(child)
            message = f"It took longer than the {seconds} seconds that a {media_type} may take."
            raise RenderError(TIMED_OUT, message, child.bytes_read(task)) from None
        except _Gone:
            message = child.how_it_ended()
            _discard(child)
            raise RenderError(GENERATION_FAILED, message, child.bytes_read(task)) from None
        except BaseException:
            _discard(child)
            raise
        if is_last:
            _discard(child)
        else:
            _give_back(child)
        return _taken(told, data)
    raise RenderError(GENERATION_FAILED, "The processes that render pictures end as soon as they are started.")


def _taken(told: dict[str, Any], data: bytes) -> Rendered:
    bytes_read = int(told["bytes_read"])
    if "code" in told:
        raise RenderError(str(told["code"])[:MOST_CODE], str(told["message"])[:MOST_MESSAGE], bytes_read)
    return Rendered(data, int(told["width"]), int(told["height"]), bytes_read)


# --- Lending ------------------------------------------------------------------------------------------------
_lock = Lock()
_idle: list[_Child] = []
_busy: set[_Child] = set()
#: Killed, and still there: a call to a dead disk that the kernel does not end.
_stuck: list[_Child] = []
#: A child dies with the *thread* that started it: so that is one that lives as long as the process.
_starter = ThreadPoolExecutor(1, "render-starter")


def _borrow() -> _Child:
    """The child that was used last, which is in memory; or a new one."""
    while True:
        with _lock:
            child = _idle.pop() if _idle else None
            if child is not None:
                _busy.add(child)
        if child is None:
            return _started()
        if child.is_alive():
            return child
        _discard(child)


def _started() -> _Child:
    with _lock:
        _stuck[:] = [child for child in _stuck if child.is_alive()]
        if len(_stuck) >= MOST_STUCK:
            message = f"{len(_stuck)} processes that render pictures hang on a disk that doesn't answer."
            raise RenderError(GENERATION_FAILED, message)
    try:
        child = _starter.submit(_Child).result()
    except (OSError, RuntimeError) as error:
        raise RenderError(GENERATION_FAILED, f"No process to render it could be started: {told_by(error)}.") from error
    with _lock:
        _busy.add(child)
    return child


def _give_back(child: _Child) -> None:
    with _lock:
        _busy.discard(child)
        _idle.append(child)


def _discard(child: _Child) -> None:
    with _lock:
        _busy.discard(child)
    if not child.end():
        logger.warning("A process that rendered a picture hangs in the kernel (process %s).", child.pid)
        with _lock:
            _stuck.append(child)


def close_all() -> None:
    """End all children; one at work is killed, and its caller gets an error. The next `render` starts new ones."""
    with _lock:
        idle, busy = _idle[:], list(_busy)
        _idle.clear()
    for child in idle:
        child.end()
    for child in busy:
        child.kill()


def _forget() -> None:
    """In a fork of this process: the children, and the thread that starts them, are the other's."""
    global _lock, _starter
    _lock, _starter = Lock(), ThreadPoolExecutor(1, "render-starter")
    _idle.clear()
    _busy.clear()
    _stuck.clear()


atexit.register(close_all)
os.register_at_fork(after_in_child=_forget)


# --- One child ----------------------------------------------------------------------------------------------
class _Child:
    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._end, self._board, self._number = ours, Board(), 0
        given = (theirs.fileno(), self._board.descriptor)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "thumbnails.render_process", *map(str, given), str(os.getpid())],
                pass_fds=given,
                cwd=settings.BASE_DIR,
                env=child_environment(MALLOC_ARENA_MAX="2"),
                # Decoders complain of every damaged file there; what matters is in the answer.
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            self._board.close_descriptor()

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def carry_out(self, source: int, task: Task, advance: Callable[[], None]) -> tuple[dict[str, Any], bytes]:
        until = time.monotonic() + task.seconds
        try:
            # The descriptor comes with a byte of its own: more could be taken apart from it.
            socket.send_fds(self._end, [b"f"], [source])
            self._end.sendall(encoded(tuple(task)))
            lengths = LENGTHS.unpack(self._exactly(LENGTHS.size, until, advance))
            if max(lengths) > MOST_ANSWER_BYTES:
                raise EOFError("that is no answer of ours")
            head, data = (bytes(self._exactly(length, until, advance)) for length in lengths)
            return json.loads(head), data
        except (EOFError, OSError, ValueError) as error:
            if self._board.read()[0] != task.number:
                raise _NeverBegun from error
            raise _Gone from error

    def _exactly(self, length: int, until: float, advance: Callable[[], None]) -> bytearray:
        found = bytearray()
        poll = select.poll()
        poll.register(self._end, select.POLLIN)
        while len(found) < length:
            left = until - time.monotonic()
            if left <= 0:
                raise _TimeIsUp
            if not poll.poll(min(left, TICK_SECONDS) * 1000):
                advance()
                continue
            some = self._end.recv(length - len(found))
            if not some:
                raise EOFError
            found += some
        return found

    def bytes_read(self, task: Task) -> int:
        """What a child that can't answer has read."""
        number, bytes_read = self._board.read()
        return bytes_read if number == task.number else 0

    def how_it_ended(self) -> str:
        """For a person."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1)
        status = self._process.returncode
        if status is None or status >= 0:
            return "The process that rendered it ended by itself."
        if -status == signal.SIGKILL:
            return "The process that rendered it was killed; the machine may be out of memory."
        return f"The decoder crashed on it ({signal.Signals(-status).name})."

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> bool:
        """Whether it is gone. One that hangs on a dead disk can't be waited for; it goes when the disk lets it."""
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=KILL_SECONDS)
        self._end.close()
        return not self.is_alive()
