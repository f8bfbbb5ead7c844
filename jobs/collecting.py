"""Less work for Python's collector while a job makes many values that never refer to themselves."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: How many new values the collector waits for, and how many rounds until it looks at older ones.
_COLLECTED = (1_000_000, 10, 10)


@contextmanager
def little_collected() -> Iterator[None]:
    """Each batch makes ten thousands of small values, and none refers to itself: the collector need not look through
    them again and again."""
    thresholds = gc.get_threshold()
    gc.set_threshold(*_COLLECTED)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
