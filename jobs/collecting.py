"""Less work for Python's collector while a job makes many values that never refer to themselves."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

#: How many new values the collector waits for, and how many rounds until it looks at older ones.
_COLLECTED = (1_000_000, 10, 10)


_lock = Lock()
#: What was in force before the first of those that are in it now came, one entry for each.
_before: list[tuple[int, int, int]] = []


@contextmanager
def little_collected() -> Iterator[None]:
    """Each batch makes ten thousands of small values, and none refers to itself: the collector need not look through
    them again and again. Jobs that overlap in one process share it: the last one to leave puts it back."""
    with _lock:
        _before.append(_before[0] if _before else gc.get_threshold())
        gc.set_threshold(*_COLLECTED)
    try:
        yield
    finally:
        with _lock:
            thresholds = _before.pop()
            if not _before:
                gc.set_threshold(*thresholds)
