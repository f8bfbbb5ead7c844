"""A render child: takes an open file from a socket, answers with a small picture or with why there is none.

`python -m thumbnails.render_process SOCKET BOARD PARENT` knows nothing of Django, holds no database and no secret, and
writes no file. What a decoder does to it, it does to nobody else: its parent kills it when its time is up, and starts
another where it died.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from libraries.messages import receive, send_encoded
from thumbnails.render_board import Board
from thumbnails.render_errors import GENERATION_FAILED, OUT_OF_MEMORY, RenderError, told_by
from thumbnails.source import Source

if TYPE_CHECKING:
    from thumbnails.images import Picture

#: After so many pictures a child is replaced: whatever its libraries have lost until then comes back.
MOST_RENDERS = 2000
#: A child that is this much larger after a picture than it was before its first one is replaced at once.
MOST_GROWTH_BYTES = 160 << 20
#: A child that nobody needs for so long ends.
IDLE_SECONDS = 120
#: Pages come before pictures where both want a core.
NICENESS = 5
#: Rather the child than its parent, where the machine is out of memory.
OOM_SCORE = 600
PR_SET_PDEATHSIG = 1
#: The lengths of an answer's two parts. What comes from a process that hostile files are fed to is read as JSON and as
#: bytes: nothing in it can harm the reader.
LENGTHS = struct.Struct("!II")


class Task(NamedTuple):
    number: int
    media_type: str
    format: str
    max_dimension: int
    most_pixels: int
    memory_bytes: int
    seconds: float


class Answer(NamedTuple):
    told: dict[str, Any]
    data: bytes = b""


def _failed(code: str, message: str, source: Source) -> Answer:
    return Answer({"code": code, "message": message, "bytes_read": source.bytes_read})


def encoded(answer: Answer, *, is_last: bool) -> bytes:
    head = json.dumps({**answer.told, "is_last": is_last}).encode()
    return LENGTHS.pack(len(head), len(answer.data)) + head + answer.data


class Server:
    def __init__(self, end: socket.socket, board: Board) -> None:
        self.end, self.board = end, board
        self.renders = 0
        self.start_bytes: dict[str, int] = {}

    def serve(self) -> None:
        while select.select([self.end], [], [], IDLE_SECONDS)[0]:
            start, descriptors, _, _ = socket.recv_fds(self.end, 1, 1)
            if not start:
                return
            task = Task(*receive(self.end.fileno()))
            try:
                answer, is_worn = self.answer(task, descriptors[0])
            finally:
                os.close(descriptors[0])
            is_last = is_worn or self.is_worn(task)
            send_encoded(self.end.fileno(), encoded(answer, is_last=is_last))
            if is_last:
                return

    def answer(self, task: Task, descriptor: int) -> tuple[Answer, bool]:
        """What came of it, and whether this process should not be used again."""
        self.board.begin(task.number)
        source = Source(descriptor, most_at_once=task.memory_bytes // 2, tell=partial(self.board.count, task.number))
        try:
            picture = self.render(task, source)
        except RenderError as error:
            return _failed(error.code, error.message, source), False
        except MemoryError:
            message = f"It needs more than the {task.memory_bytes >> 20:,} MB of memory that a picture may take."
            return _failed(OUT_OF_MEMORY, message, source), True
        except Exception as error:
            message = f"The picture could not be made: {told_by(error)}."
            return _failed(GENERATION_FAILED, message, source), True
        finally:
            allow_memory(None)
        told = {"width": picture.width, "height": picture.height, "bytes_read": source.bytes_read}
        return Answer(told, picture.data), False

    def render(self, task: Task, source: Source) -> Picture:
        """Libraries are loaded when the first file asks for them, and don't count as what a picture takes."""
        wanted = {"format": task.format, "max_dimension": task.max_dimension, "most_pixels": task.most_pixels}
        if task.media_type == "video":
            from thumbnails import videos

            self.remember_start(task)
            allow_memory(task.memory_bytes)
            return videos.render(source, seconds=task.seconds, **wanted)  # type: ignore[arg-type]
        from thumbnails import images

        self.remember_start(task)
        allow_memory(task.memory_bytes)
        return images.render(source, **wanted)  # type: ignore[arg-type]

    def remember_start(self, task: Task) -> None:
        self.start_bytes.setdefault(task.media_type, taken_bytes()[1])

    def is_worn(self, task: Task) -> bool:
        self.renders += 1
        if task.media_type == "video":
            gc.collect()  # containers, streams and their contexts know each other
        grown = taken_bytes()[1] - self.start_bytes.get(task.media_type, 0)
        return self.renders >= MOST_RENDERS or grown > MOST_GROWTH_BYTES


def taken_bytes() -> tuple[int, int]:
    """Of address space, and of memory."""
    pages = Path("/proc/self/statm").read_text().split()
    return int(pages[0]) * resource.getpagesize(), int(pages[1]) * resource.getpagesize()


def allow_memory(more_bytes: int | None) -> None:
    """Let the process take so much more than it has now; or as much as it wants."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)  # whoever started the consumer may have set one
    limit = most if more_bytes is None else taken_bytes()[0] + more_bytes
    if most != resource.RLIM_INFINITY:
        limit = min(limit, most)
    resource.setrlimit(resource.RLIMIT_AS, (limit, most))


def die_with(parent: int) -> None:
    """A decoder that never returns would not notice that nobody waits for it any more."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def main(end: int, board: int, parent: int) -> None:
    die_with(parent)
    # Ctrl-C reaches the whole group: whoever gave the task decides when to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    with suppress(BrokenPipeError, ConnectionResetError, EOFError):  # nobody wants the answer any more
        Server(socket.socket(fileno=end), Board(board)).serve()
    os._exit(0)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:4]))
