"""Where does the time of a scan go? CPU seconds of the process that writes and of those that read, and a profile."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from benchmarks import cold
from benchmarks.options import Options
from benchmarks.product import SCAN, Installation, installed
from benchmarks.report import Section, table
from benchmarks.scratch import ROOT
from benchmarks.timing import Spent, timed
from benchmarks.trees import built

CPU_HEAD = ["tree", "scan", "wall s", "parent user", "parent system", "readers user", "readers system", "cores busy"]
TOP_HEAD = ["function", "calls", "own CPU s", "with what it calls"]


def measure(options: Options) -> Iterator[Section]:
    cpu_rows: list[list[str]] = []
    tops: list[str] = []
    for name in options.trees:
        tree = built(name, options.work)
        cold.warm(tree)
        with installed(tree, options.work) as (ours, pristine):
            cpu_rows += [_cpu_row(name, scan, *_run(ours, "plain")) for scan in ("first", "second")]
            ours.renew(pristine)
            spent, found = _run(ours, "cprofile")
        tops.append(_top(name, spent, found))
    yield Section("Where the time of a scan goes", "\n\n".join([_what(), table(CPU_HEAD, cpu_rows), *tops]))


def _what() -> str:
    return (
        "`scan --now`, warm, one run each, the start of the program included. The parent compares and writes rows; "
        "readers walk, read and hash. Below, the parent's functions by the CPU seconds they took themselves, over all "
        "its threads, under cProfile, which slows Python down but not what SQLite and the kernel do."
    )


def _run(ours: Installation, kind: str) -> tuple[Spent, dict[str, Any]]:
    file = ours.scratch / "profile.json"
    command = [sys.executable, "-m", "benchmarks.profiled", str(file), kind, *SCAN]
    spent = timed(command, output=ours.scratch / "scan.out", environment=ours.environment, folder=ROOT)
    return spent, json.loads(file.read_text())


def _cpu_row(name: str, scan: str, spent: Spent, found: dict[str, Any]) -> list[str]:
    parts = [found[f"{who}_{what}"] for who in ("parent", "readers") for what in ("user", "system")]
    return [name, scan, f"{spent.wall:.2f}", *(f"{part:.2f}" for part in parts), f"{sum(parts) / spent.wall:.2f}"]


def _top(name: str, spent: Spent, found: dict[str, Any]) -> str:
    rows = [
        [f"`{function}`", f"{calls:,}", f"{own:.2f}", f"{whole:.2f}"] for function, calls, own, whole in found["top"]
    ]
    return f"Tree {name}, first scan, {spent.wall:.2f} s under cProfile:\n\n{table(TOP_HEAD, rows)}"
