"""Work of an executor over an index and over one of a tenth of its size: what each takes, and whether memory grows."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from benchmarks.goals import Goal
from benchmarks.report import table
from benchmarks.scratch import installation, run

if TYPE_CHECKING:
    from django.db.models import QuerySet

VENDORS = ("sqlite", "postgresql")
TIMES = 10
GROWTH = Goal(1.2, 1.5)
#: How often the row is read; it is written about once a second.
EVERY_SECONDS = 0.1
MB = 1_000_000
HOW = (
    "Each size has a fresh database, filled and counted by another process; the work is carried out once, as an "
    "executor does, in a process of its own. Memory is that process's largest resident set (VmHWM), beside what it had "
    "before the work (Python, Django); on SQLite up to 50 MB of it are the page cache, which a small database does not "
    "fill. CPU is the process's own, too: a PostgreSQL server's is not in either. Progress: how often the figure in "
    f"the row changed while the work ran, read every {EVERY_SECONDS} s through another connection, and the longest "
    "time without a change."
)


@dataclass(frozen=True)
class Carried:
    """What one piece of work took, and how many of what it makes came of it."""

    wall: float
    cpu: float
    began_bytes: int
    peak_bytes: int
    moves: int
    longest_still: float
    made: int

    @property
    def progress(self) -> str:
        return f"{self.moves} times, {self.longest_still:.1f} s"

    @property
    def memory(self) -> str:
        return f"{self.began_bytes / MB:.0f} → **{self.peak_bytes / MB:.0f}**"


# --- Outside ------------------------------------------------------------------------------------------------
def both_sizes(module: str, size: int) -> Iterator[tuple[str, int, Carried]]:
    """Database, size and what it took: of a tenth first, then of the whole."""
    for vendor in VENDORS:
        for count in (size // TIMES, size):
            with installation(vendor) as environment:
                run(module, environment, "fill", str(count))
                yield vendor, count, Carried(**json.loads(run(module, environment, "work", str(count))))


def told(found: list[tuple[str, int, Carried]], of: str, made: str) -> str:
    """What each run took, and how that grows; `of` is what there was so many of, `made` what came of it."""
    head = [f"database, {of}", "wall s", "CPU s", f"{of}/s", made, "memory MB, before → peak", "progress moved"]
    rows = [
        [
            f"{vendor}, {count:,}", f"{each.wall:.1f}", f"{each.cpu:.1f}", f"{count / each.wall:,.0f}",
            f"{each.made:,}", each.memory, each.progress,
        ]
        for vendor, count, each in found
    ]  # fmt: skip
    return f"{table(head, rows)}\n\n{_judged(found)}"


def _judged(found: list[tuple[str, int, Carried]]) -> str:
    """From a tenth to the whole, on each database."""
    rows = []
    for (vendor, few, small), (_, many, large) in zip(found[::2], found[1::2], strict=True):
        ratio = large.peak_bytes / small.peak_bytes
        cost = large.wall / small.wall / TIMES
        verdict = f"{GROWTH}: {GROWTH.judge(ratio)}"
        rows.append([f"{vendor}, {few:,} → {many:,}", f"**{ratio:.2f}**", verdict, f"{cost:.2f}"])
    return table(["growth", "peak memory, ratio", "goal", "time for each, ratio"], rows)


# --- In a process of its own --------------------------------------------------------------------------------
def main(words: list[str], fill: Callable[[int], Any], work: Callable[[int], Carried]) -> None:
    """`fill` and `work` are each asked for by name, with the size."""
    import django

    django.setup()
    from duplicates import summary

    verb, size = words[0], int(words[1])
    if verb == "fill":
        fill(size)
        summary.bring_up_to_date()
    else:
        print(json.dumps(asdict(work(size))))


def carried_out(running: QuerySet[Any], work: Callable[[], int]) -> Carried:
    """Do it, and watch the one row that runs meanwhile; `work` says how many it made."""
    before = _status("VmRSS")
    with _watched(running) as seen:
        wall, cpu = time.perf_counter(), time.process_time()
        made = work()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Carried(wall, cpu, before, _status("VmHWM"), seen.moves, seen.longest_still, made)


class _Seen:
    """A figure that somebody else writes."""

    def __init__(self) -> None:
        self.moves = 0
        self.longest_still = 0.0
        self._last: int | None = None
        self._moved_at = time.monotonic()

    def look(self, figure: int | None) -> None:
        now = time.monotonic()
        self.longest_still = max(self.longest_still, now - self._moved_at)
        if figure is not None and figure != self._last:
            self.moves += self._last is not None
            self._last, self._moved_at = figure, now


@contextmanager
def _watched(running: QuerySet[Any]) -> Iterator[_Seen]:
    """Threads have their own connections."""
    seen, done = _Seen(), Event()

    def watch() -> None:
        from django.db import connections

        figures = running.values_list("processed_items", flat=True)
        while not done.wait(EVERY_SECONDS):
            seen.look(figures.first())
        connections.close_all()

    thread = Thread(target=watch, name="watch")
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def _status(name: str) -> int:
    """Of this process, in bytes. `ru_maxrss` would begin with what the process that started this one held."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))
