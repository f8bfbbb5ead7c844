"""A file itself, read by a process of its own (`thumbnails.original_process`) that can be given up."""

from __future__ import annotations

import errno
import logging
import os
import selectors
import subprocess
import sys
from collections.abc import Iterator
from threading import Lock

from django.conf import settings
from django.utils.translation import gettext as _

from libraries.messages import receive, send
from libraries.models import LibraryFile
from libraries.names import to_bytes, to_display
from thumbnails.child_environment import child_environment
from thumbnails.original_process import PIECE_BYTES
from thumbnails.ranges import Span

logger = logging.getLogger(__name__)

COMMAND = [
    sys.executable,
    "-I",
    "-c",
    "import sys; sys.path.insert(0, sys.argv[1]); from thumbnails.original_process import main; main()",
    str(settings.BASE_DIR),
]
#: How long a killed process is waited for; one that hangs in the kernel is left alone.
_KILL_SECONDS = 1.0
_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})


class OriginalError(Exception):
    """Why a file can't be shown, as a person reads it."""

    status = 502


class NotThere(OriginalError):
    status = 404


class TooMany(OriginalError):
    status = 503


class Silent(OriginalError):
    status = 504


class Original:
    """An open file. Iterating gives the bytes of the part that was chosen; `close` ends the process in any case."""

    def __init__(self, process: subprocess.Popen[bytes], path: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._path = process, path
        self._input, self._output = process.stdin.fileno(), process.stdout.fileno()
        self._left = 0
        self.size = 0
        self.etag = ""

    def begin(self, root: bytes, path: bytes) -> None:
        """Have it opened."""
        try:
            send(self._input, (root, path))
            self._wait()
            what, value = receive(self._output)
        except (EOFError, BrokenPipeError):
            raise OriginalError(_("The process that reads files could not be started.")) from None
        if what == "irregular":
            raise NotThere(_("There is something else than a file at this path now."))
        if what == "failed":
            raise _refusal(value)
        device, inode, self.size, mtime_ns, ctime_ns = value
        self.etag = f'"{device:x}-{inode:x}-{self.size:x}-{mtime_ns:x}-{ctime_ns:x}"'

    def choose(self, span: Span) -> None:
        """From now on, give these bytes."""
        send(self._input, tuple(span))
        self._left = span.length

    def __iter__(self) -> Iterator[bytes]:
        while self._left:
            piece = self._next()
            self._left -= len(piece)
            yield piece

    def _next(self) -> bytes:
        try:
            self._wait()
        except Silent as silence:
            raise self._broken_off(str(silence)) from None
        piece = os.read(self._output, min(self._left, PIECE_BYTES))
        if not piece:
            raise self._broken_off(_("The file became shorter, or its disk failed."))
        return piece

    def _broken_off(self, why: str) -> ConnectionResetError:
        """Half of an answer is out already. Only a connection that breaks tells the browser that this is not all."""
        logger.warning("%s was not read to its end: %s", to_display(self._path), why)
        return ConnectionResetError(errno.ECONNRESET, why)

    def _wait(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._output, selectors.EVENT_READ)
            if not selector.select(settings.ORIGINAL_SECONDS):
                raise Silent(_("The disk of this library doesn't answer."))

    def close(self) -> None:
        _end(self._process)


def open_original(file: LibraryFile) -> Original:
    """Open a file of a library. Raises `OriginalError`; what it returns must be closed."""
    process = _start()
    try:
        original = Original(process, file.relative_path)
        original.begin(to_bytes(file.library.root_path), to_bytes(file.relative_path))
    except BaseException:
        _end(process)
        raise
    return original


def _refusal(number: int) -> OriginalError:
    if number in _NOT_THERE:
        return NotThere(_("The file is not there any more, or its library is not mounted. The next scan will notice."))
    return OriginalError(_("The file can't be read: %(reason)s") % {"reason": os.strerror(number)})


# --- The processes ----------------------------------------------------------------------------------------
_running: list[subprocess.Popen[bytes]] = []
_lock = Lock()


def most_at_once() -> int:
    """However many files are looked at, half of the web server's threads are left for everything else."""
    return max(settings.WEB_THREADS // 2, 1)


def _start() -> subprocess.Popen[bytes]:
    with _lock:
        _running[:] = [process for process in _running if process.poll() is None]
        if len(_running) >= most_at_once():
            raise TooMany(_("Too many files are being read at the moment. Try again when one of them is done."))
        # A session of its own: Ctrl-C in a terminal is for the server, which then closes what it has open.
        process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
            env=child_environment(),
            bufsize=0,
            start_new_session=True,
        )
        _running.append(process)
        return process


def _end(process: subprocess.Popen[bytes]) -> None:
    """One that can't be killed yet stays in the list, and its place stays taken, until the kernel lets go of it."""
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(timeout=_KILL_SECONDS)
    except subprocess.TimeoutExpired:
        logger.warning("A process that reads a file hangs in the kernel (process %s).", process.pid)
