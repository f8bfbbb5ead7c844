"""What a run of the benchmarks was asked for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

DEFAULT_WORK = Path(__file__).with_name("work")


@dataclass(frozen=True)
class Options:
    #: Holds the trees, which are kept, and what single runs leave, which is not.
    work: Path = DEFAULT_WORK
    trees: tuple[str, ...] = ("a", "b", "c")
    rounds: int = 3
    is_quick: bool = False

    @property
    def extent(self) -> str:
        """What a reader has to know of how a figure was taken."""
        return f"{self.rounds} interleaved rounds, medians" if self.rounds > 1 else "one round"


def default_work() -> Path:
    return Path(os.environ.get("BENCH_WORK", DEFAULT_WORK)).absolute()
