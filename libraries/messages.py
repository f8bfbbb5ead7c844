"""Messages between a job and its readers, over a pair of sockets: a length, then a value that `marshal` can carry.

`multiprocessing` has the same, but loading it takes half of a reader's time to start.
"""

from __future__ import annotations

import marshal
import os
from typing import Any

_LENGTH_BYTES = 4


def encoded(value: Any) -> bytes:
    body = marshal.dumps(value)
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


def send(end: int, value: Any) -> None:
    send_encoded(end, encoded(value))


def send_encoded(end: int, message: bytes) -> None:
    left = memoryview(message)
    while left:
        left = left[os.write(end, left) :]


def receive(end: int) -> Any:
    """The next message; `EOFError` where the other side is gone."""
    length = int.from_bytes(_exactly(end, _LENGTH_BYTES), "big")
    # Both sides are ours, and what is marshalled is plain data.
    return marshal.loads(_exactly(end, length))  # noqa: S302


def _exactly(end: int, length: int) -> bytearray:
    found = bytearray(length)
    left = memoryview(found)
    while left:
        try:
            count = os.readv(end, [left])
        except ConnectionResetError:
            count = 0
        if count == 0:
            raise EOFError("the other side is gone")
        left = left[count:]
    return found
