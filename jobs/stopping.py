"""The flag that tells handlers to finish their batch: Huey itself waits for a handler, it never interrupts one."""

from __future__ import annotations

from threading import Event

from jobs.errors import Stopping

_requested = Event()


def request() -> None:
    _requested.set()


def is_requested() -> bool:
    return _requested.is_set()


def check() -> None:
    if _requested.is_set():
        raise Stopping("this consumer was asked to stop")
