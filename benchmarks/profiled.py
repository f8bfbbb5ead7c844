"""`python -m benchmarks.profiled FILE plain|cprofile COMMAND …`: run a `manage.py` command and leave in FILE, as JSON,
the CPU seconds of this process and of those it started, and where this one's time went."""

from __future__ import annotations

import cProfile
import json
import os
import pstats
import re
import resource
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SHOWN = 15


class Profile:
    """The calls of every thread of this process, by CPU seconds."""

    def __init__(self) -> None:
        self._each: list[cProfile.Profile] = []

    def start(self) -> None:
        if sys.version_info < (3, 12):  # later ones see all threads by themselves
            threading.setprofile(self._begin_thread)
        self._begin()

    def _begin(self) -> None:
        # Time on a core: a thread that waits for readers or for a lock does nothing.
        profile = cProfile.Profile(time.thread_time)
        self._each.append(profile)
        profile.enable()

    def _begin_thread(self, frame: FrameType, event: str, argument: Any) -> None:
        self._begin()

    def top(self) -> list[list[Any]]:
        """Name, calls, own seconds and seconds with what it called, of the functions that took longest themselves."""
        self._each[0].disable()
        threading.setprofile(None)
        stats = pstats.Stats(self._each[0])
        for profile in self._each[1:]:
            profile.create_stats()
            stats.add(pstats.Stats(profile))
        found: dict[tuple[str, int, str], tuple[int, int, float, float, Any]] = stats.stats  # type: ignore[attr-defined]
        longest = sorted(found.items(), key=lambda item: -item[1][2])[:SHOWN]
        return [[_name(file, call), calls, own, whole] for (file, _, call), (_, calls, own, whole, _) in longest]


def _name(file: str, function: str) -> str:
    if file.startswith("~"):
        return re.sub(r" at 0x\w+", "", function.strip("<>"))
    path = Path(file)
    if path.is_relative_to(ROOT) and ".venv" not in path.parts:
        return f"{path.relative_to(ROOT)}: {function}"
    return f"{'/'.join(path.parts[-3:])}: {function}"


def main(file: str, kind: str, words: list[str]) -> None:
    sys.path.insert(0, str(ROOT))
    sys.argv = ["manage.py", *words]
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dedupfs_site.settings")
    profile = Profile() if kind == "cprofile" else None
    if profile:
        profile.start()
    try:
        from django.core.management import execute_from_command_line

        execute_from_command_line(sys.argv)
    finally:
        top = profile.top() if profile else []
        Path(file).write_text(json.dumps({"top": top, **_cpu()}))


def _cpu() -> dict[str, float]:
    parent, readers = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "parent_user": parent.ru_utime,
        "parent_system": parent.ru_stime,
        "readers_user": readers.ru_utime,
        "readers_system": readers.ru_stime,
    }


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
