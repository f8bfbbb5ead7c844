"""How much memory does a scan take, and does that, or the time a file takes, grow with the tree?"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import answers, cold
from benchmarks.goals import Goal
from benchmarks.options import Options
from benchmarks.peers import JDUPES
from benchmarks.product import DUPLICATES, SCAN, Installation, installed
from benchmarks.report import Section, table
from benchmarks.timing import median
from benchmarks.trees import TREES, built

EVERY_SECONDS = 0.1
MB = 1_000_000
PEAK, GROWTH, COST = Goal(200, 300), Goal(1.2, 1.2), Goal(1.5, 2.0)
STEPS = (("first `scan --now`", SCAN), ("second `scan --now`", SCAN), ("`duplicates --fdupes`", DUPLICATES))


@dataclass(frozen=True)
class Watched:
    wall: float
    peak_bytes: int
    #: How many processes there were at the peak.
    processes: int


def measure(options: Options) -> Iterator[Section]:
    names = ["small"] if options.is_quick else ["small", "large"]
    found = {name: _steps(name, options) for name in names}
    head = ["step", "tree", "wall s", "µs a file", "peak MB", "processes at the peak", f"goal, MB: {PEAK}"]
    rows = [_row(step, name, found[name][step]) for step, _ in STEPS for name in names]
    body = f"{_what()}\n\n{table(head, rows)}"
    if "large" in found:
        body += f"\n\n{table(['from 200,000 to 2,000,000 files', 'ratio', 'goal'], list(_growth(found)))}"
    yield Section("Memory, and growth to 2,000,000 files", body)


def _what() -> str:
    return (
        f"Sum of the proportional set sizes (PSS) of the whole process tree, looked at every {EVERY_SECONDS} s; warm, "
        "fresh database, an empty `manage.py version` subtracted from each time; the groups were jdupes', to the file. "
        f"Trees: small, {TREES['small'].describe}; large, {TREES['large'].describe}."
    )


def _steps(name: str, options: Options) -> dict[str, Watched]:
    tree = built(name, options.work)
    cold.warm(tree)
    with installed(tree, options.work) as (ours, _):
        empty = median([ours.empty() for _ in range(3)]).wall
        seen = {step: _watch(ours, words, empty) for step, words in STEPS}
        JDUPES.run(tree, ours.scratch)
        answers.compare(ours.listing, JDUPES.listing(ours.scratch), name)
        return seen


def _row(step: str, name: str, seen: Watched) -> list[str]:
    each = seen.wall / TREES[name].files * 1e6
    peak = seen.peak_bytes / MB
    return [step, name, f"{seen.wall:.2f}", f"{each:.1f}", f"**{peak:.0f}**", str(seen.processes), PEAK.judge(peak)]


def _growth(found: dict[str, dict[str, Watched]]) -> Iterator[list[str]]:
    times = TREES["large"].files / TREES["small"].files
    for step, _ in STEPS:
        small, large = found["small"][step], found["large"][step]
        memory, cost = large.peak_bytes / small.peak_bytes, large.wall / small.wall / times
        yield [f"peak memory, {step}", f"**{memory:.2f}**", f"{GROWTH.reach:g}: {GROWTH.judge(memory)}"]
        yield [f"time a file, {step}", f"**{cost:.2f}**", f"{COST}: {COST.judge(cost)}"]


def _watch(ours: Installation, words: tuple[str, ...], empty: float) -> Watched:
    """Run a command in a session of its own, by which its processes are known even when their parent is gone."""
    peak, processes = 0, 0
    with ours.listing.open("wb") as out:
        start = time.perf_counter()
        process = subprocess.Popen(
            ours.command(*words), env=ours.environment, stdout=out, cwd=ours.scratch, start_new_session=True
        )
        while process.poll() is None:
            sizes = [size for size in map(_pss, _session(process.pid)) if size]
            if sum(sizes) > peak:
                peak, processes = sum(sizes), len(sizes)
            time.sleep(EVERY_SECONDS)
    wall = time.perf_counter() - start
    if process.returncode:
        sys.exit(f"{' '.join(words)} ended with {process.returncode}")
    return Watched(wall - empty, peak, processes)


def _session(leader: int) -> list[int]:
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit() and _session_of(each) == leader]


def _session_of(process: Path) -> int | None:
    try:
        stat = (process / "stat").read_bytes()
    except OSError:
        return None
    # The name in parentheses may hold anything; state, parent, group and session follow it.
    return int(stat.rpartition(b")")[2].split()[3])


def _pss(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
