"""The flag that tells handlers to finish their batch: Huey itself waits for a handler, it never interrupts one."""

from __future__ import annotations

import signal
from threading import Event
from typing import Any

from jobs.errors import Stopping

_requested = Event()


def request() -> None:
    _requested.set()


def is_requested() -> bool:
    return _requested.is_set()


def check() -> None:
    if _requested.is_set():
        raise Stopping("this consumer was asked to stop")


def listen() -> None:
    """For a command that works by itself: the first Ctrl-C or SIGTERM lets the batch end, the second doesn't wait."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _requested_by_signal)


def _requested_by_signal(*_: Any) -> None:
    if is_requested():
        raise KeyboardInterrupt
    request()
