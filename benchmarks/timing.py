"""Runs programs and says what they took."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Spent:
    """Seconds of one run; the CPU's are those of the program and of every process it waited for. `stolen` is what other
    machines on the same host took away from the cores meanwhile: wall time is worth little where that is much."""

    wall: float
    user: float
    system: float
    stolen: float

    @property
    def cpu(self) -> float:
        return self.user + self.system

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            self.wall + other.wall, self.user + other.user, self.system + other.system, self.stolen + other.stolen
        )

    def __sub__(self, other: Spent) -> Spent:
        """What was spent beyond another; nothing where the difference is smaller than what either varies by."""
        return Spent(
            max(self.wall - other.wall, 0.0),
            max(self.user - other.user, 0.0),
            max(self.system - other.system, 0.0),
            max(self.stolen - other.stolen, 0.0),
        )


def timed(
    command: Sequence[str | Path],
    *,
    output: Path,
    environment: dict[str, str] | None = None,
    folder: Path | None = None,
    good: frozenset[int] = frozenset({0}),
) -> Spent:
    """Run `command` with its output in the file `output`; a program that fails ends the benchmark."""
    errors = output.with_suffix(".errors")
    with output.open("wb") as out, errors.open("wb") as err:
        stolen, start = stolen_seconds(), time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=err, env=environment, cwd=folder)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        stolen = stolen_seconds() - stolen
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in good:
        words = " ".join(map(str, command))
        sys.exit(f"{words} ended with {process.returncode}:\n{errors.read_text(errors='replace')[-2000:]}")
    return Spent(wall, usage.ru_utime, usage.ru_stime, stolen)


def stolen_seconds() -> float:
    """What the host has kept from this machine's cores since it was started; 0 where it does not tell."""
    total = Path("/proc/stat").read_text().splitlines()[0].split()
    return int(total[8]) / os.sysconf("SC_CLK_TCK")


def median(runs: Sequence[Spent]) -> Spent:
    names = ("wall", "user", "system", "stolen")
    return Spent(*(statistics.median(getattr(run, name) for run in runs) for name in names))
