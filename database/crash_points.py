"""Places where a test can make this process die as if by `kill -9`, or stand still as if by `kill -STOP`.

`DEDUPFS_CRASH_POINT=name` kills at the first time the point is reached, `name:3` at the third;
`DEDUPFS_STOP_POINT` stops there instead, until somebody sends SIGCONT. Without the variables a point costs one call:
they are read when the process starts.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from threading import Lock

VARIABLE = "DEDUPFS_CRASH_POINT"
STOP_VARIABLE = "DEDUPFS_STOP_POINT"
_SIGNALS = {VARIABLE: signal.SIGKILL, STOP_VARIABLE: signal.SIGSTOP}
#: point → which time, and what then.
_wanted: dict[str, list[tuple[int, signal.Signals]]] = {}
_reached: Counter[str] = Counter()
#: Several threads may come by the same point.
_counting = Lock()


def read_variables() -> None:
    """What is wanted now: for a process that was forked and given other variables since."""
    _wanted.clear()
    _reached.clear()
    for variable, number in _SIGNALS.items():
        name, _, count = os.environ.get(variable, "").partition(":")
        if name:
            _wanted.setdefault(name, []).append((int(count or 1), number))


def reach(point: str) -> None:
    """Die or stand still here if a test asked for it."""
    if not _wanted or point not in _wanted:
        return
    with _counting:
        _reached[point] += 1
        for count, number in _wanted[point]:
            if _reached[point] == count:
                os.kill(os.getpid(), number)


read_variables()
