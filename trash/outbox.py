"""What is still to be sent to a process that may not be reading at the moment. Whoever waits until it takes a message
can't do anything else meanwhile, and may wait for one that waits for the same."""

from __future__ import annotations

import select
import socket
from typing import Any

from libraries.messages import encoded


class Outbox:
    """`flush` sends as much as the other side has room for."""

    def __init__(self, end: socket.socket) -> None:
        self._end, self._left = end, bytearray()

    def __bool__(self) -> bool:
        """Whether anything is left."""
        return bool(self._left)

    def has_room(self) -> bool:
        """Whether the other side has taken most of what it was sent."""
        return not self._left and bool(select.select([], [self._end], [], 0)[1])

    def put(self, *message: Any) -> None:
        self.put_encoded(encoded(message))

    def put_encoded(self, message: bytes) -> None:
        self._left += message
        self.flush()

    def flush(self) -> None:
        try:
            while self._left:
                del self._left[: self._end.send(self._left, socket.MSG_DONTWAIT)]
        except BlockingIOError:
            pass  # it is full
