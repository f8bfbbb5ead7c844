"""Figures that take long to count are kept for a while: a hundred times as long as they took, up to a minute.

Where the key says all that they hang on, or nearly all, they are kept for that minute however long they took.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from django.core.cache import cache

#: What took no longer than this is counted anew each time.
QUICK_SECONDS = 0.05
TIMES = 100
LONGEST_KEPT_SECONDS = 60.0
T = TypeVar("T")


def kept_or_counted(key: str, count: Callable[[], T], *, is_fresh: bool = False, is_keyed: bool = False) -> T:
    """What `count` says, or said a moment ago; `is_fresh` where nothing is good that was kept.

    `is_keyed` says that the key is another one whenever something was done that these figures tell of.
    """
    kept: T | None = None if is_fresh else cache.get(key)
    if kept is not None:
        return kept
    began = time.monotonic()
    found = count()
    took = time.monotonic() - began
    if took > QUICK_SECONDS:
        cache.set(key, found, LONGEST_KEPT_SECONDS if is_keyed else min(took * TIMES, LONGEST_KEPT_SECONDS))
    return found
