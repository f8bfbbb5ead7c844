"""Waiting for something real to happen, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
#: Long enough for a loaded machine; nothing ever waits for its end unless something is wrong.
DEADLINE_SECONDS = 90


def until(look: Callable[[], T | None], what: str, seconds: float = DEADLINE_SECONDS) -> T:
    """Return the first true answer of `look`; fail, naming `what`, when none came in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = look()
        if answer:
            return answer
        time.sleep(0.02)
    raise AssertionError(f"waited {seconds} s in vain for {what}")
