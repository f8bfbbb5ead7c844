"""Places where a test can make this process die as if by `kill -9`.

`DEDUPFS_CRASH_POINT=name` kills at the first time the point is reached, `name:3` at the third. Without the
variable a point costs one look-up.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

VARIABLE = "DEDUPFS_CRASH_POINT"
_reached: Counter[str] = Counter()


def reach(point: str) -> None:
    """Die here if a test asked for it."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    name, _, count = wanted.partition(":")
    if name == point:
        _reached[point] += 1
        if _reached[point] == int(count or 1):
            os.kill(os.getpid(), signal.SIGKILL)
