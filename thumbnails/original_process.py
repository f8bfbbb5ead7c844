"""A process that reads one file of a library for a page. It knows nothing of Django.

A call to a dead disk hangs in the kernel, and a thread that hangs can't be ended. So the web server never touches a
library itself: this process opens the file, says what it is, and writes the part that it is asked for to its output.
When it is silent for too long it is killed, or left alone where even that has to wait.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from fcntl import F_SETPIPE_SZ, fcntl
from stat import S_ISREG

from libraries.messages import receive, send
from libraries.reading import open_file, version_of

PIECE_BYTES = 256 << 10
_INPUT, _OUTPUT = 0, 1


def main() -> None:
    # Whoever reads may go away at any time; that is no error.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    with suppress(OSError):
        fcntl(_OUTPUT, F_SETPIPE_SZ, PIECE_BYTES)
    root, path = receive(_INPUT)
    try:
        file = open_file(root, path)
        info = os.fstat(file)
    except OSError as error:
        send(_OUTPUT, ("failed", error.errno))
        return
    if not S_ISREG(info.st_mode):
        send(_OUTPUT, ("irregular", None))
        return
    send(_OUTPUT, ("opened", version_of(info)))
    # From here on there is nothing but the file's own bytes: whatever goes wrong shows by their end.
    with suppress(EOFError, OSError):
        _write(file, *receive(_INPUT))


def _write(file: int, start: int, length: int) -> None:
    os.lseek(file, start, os.SEEK_SET)
    while length:
        piece = memoryview(os.read(file, min(length, PIECE_BYTES)))
        if not piece:
            return  # it became shorter
        length -= len(piece)
        while piece:
            piece = piece[os.write(_OUTPUT, piece) :]
