"""Waiting for something real to happen, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(look: Callable[[], T], what: str, seconds: float = 60) -> T:
    """Return the first true answer of `look`; fail, naming `what`, when none came in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = look()
        if answer:
            return answer
        time.sleep(0.02)
    raise AssertionError(f"waited {seconds} s in vain for {what}")
