"""A file to be rendered, as the decoders see it: read by position, counted, and no longer than it was at first."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from thumbnails.render_errors import TOO_LARGE, RenderError, told_by

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: Enough for the headers of a picture in one read, and little enough where a video is only looked at here and there.
BUFFER_BYTES = 64 << 10


class Source(io.RawIOBase):
    """The descriptor may be shared with other processes, and with it its offset: so it is only read with `pread`.

    It has no `fileno`: a library that reads behind our back would be neither counted nor held to an end.
    """

    def __init__(self, descriptor: int, *, most_at_once: int, tell: Callable[[int], None] = lambda _: None) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._tell = tell
        #: Some decoders want the whole file in memory.
        self._most_at_once = most_at_once
        self._position = 0
        #: However often a decoder looks for what is not there: past so many bytes it meets the end of the file.
        self.most_bytes: int | None = None
        #: A file that grows while it is read must have an end.
        self.size = os.fstat(descriptor).st_size
        self.bytes_read = 0
        #: Why the disk didn't deliver; decoders make something else of it.
        self.trouble: OSError | None = None
        self.too_large: RenderError | None = None

    def buffered(self) -> io.BufferedReader:
        return io.BufferedReader(self, BUFFER_BYTES)

    def head(self, length: int) -> bytes:
        """The first bytes, wherever the reading stands."""
        try:
            found = os.pread(self._descriptor, length, 0)
        except OSError as error:
            self.trouble = error
            raise
        self._count(len(found))
        return found

    # --- As `io` wants it ---------------------------------------------------------------------------------
    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        """Whoever gave the descriptor closes it; a reader that goes away must not keep the next from reading."""

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}[whence]
        if start + offset < 0:
            raise ValueError("before the beginning of the file")
        self._position = start + offset
        return self._position

    def readinto(self, buffer: WriteableBuffer) -> int:
        room = memoryview(buffer).cast("B")
        room = room[: max(self.size - self._position, 0)]
        if not room or (self.most_bytes is not None and self.bytes_read >= self.most_bytes):
            return 0
        try:
            count = os.preadv(self._descriptor, [room], self._position)
        except OSError as error:
            self.trouble = error
            raise
        self._position += count
        self._count(count)
        return count

    def readall(self) -> bytes:
        length = max(self.size - self._position, 0)
        if length > self._most_at_once:
            self.too_large = RenderError(
                TOO_LARGE, f"Its decoder needs the whole file in memory, and {length:,} bytes are too many for that."
            )
            raise self.too_large
        found = bytearray(length)
        left = memoryview(found)
        while left and (count := self.readinto(left)):
            left = left[count:]
        return bytes(found[: length - len(left)])

    def _count(self, count: int) -> None:
        self.bytes_read += count
        self._tell(self.bytes_read)

    def explain(self) -> str:
        """Why the disk didn't deliver, for a person."""
        assert self.trouble is not None
        return f"The file could not be read: {self.trouble.strerror or told_by(self.trouble)}."
