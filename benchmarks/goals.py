"""What a figure should reach, and what it must not exceed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    reach: float
    never_above: float

    def judge(self, figure: float) -> str:
        if figure <= self.reach:
            return "reached"
        return "allowed" if figure <= self.never_above else "MISSED"

    def __str__(self) -> str:
        return f"{self.reach:g}, never above {self.never_above:g}"
