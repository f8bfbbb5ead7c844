"""A figure over time as an area, drawn by the server: paths for an SVG of 1000 by 100, and the same as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

WIDTH, HEIGHT = 1000, 100
#: So many columns: more can't be told apart.
COLUMNS = 240
#: Where nobody looked for so long, nothing is drawn.
GAP_SECONDS = 300

Point = tuple[datetime, int]


@dataclass(frozen=True)
class Row:
    """A stretch of time and the largest figure in it."""

    since: datetime
    most: int


@dataclass(frozen=True)
class Chart:
    since: datetime
    until: datetime
    #: The value at the upper edge; a round number.
    top: int
    line: str
    area: str
    #: Where the limit lies, from above; None where it is off the chart.
    limit_y: str | None
    rows: list[Row]

    @property
    def half(self) -> int:
        return self.top // 2

    @property
    def middle(self) -> datetime:
        return self.since + (self.until - self.since) / 2


def draw(points: Sequence[Point], since: datetime, until: datetime, limit: int, row: timedelta) -> Chart | None:
    """The largest figure of each column; None where there is nothing to draw. `points` come in the order of time."""
    if not points:
        return None
    columns = list(_largest(points, since, (until - since) / COLUMNS))
    top = _round_up(max(value for _, value in columns))
    stretches = _stretches(columns, GAP_SECONDS / ((until - since) / COLUMNS).total_seconds())
    lines = [[_place(column, value, top) for column, value in stretch] for stretch in stretches]
    return Chart(
        since=since,
        until=until,
        top=top,
        line=" ".join(f"M{' L'.join(_widened(line))}" for line in lines),
        area=" ".join(f"M{_x(line[0])} {HEIGHT} L{' L'.join(_widened(line))} V{HEIGHT} Z" for line in lines),
        limit_y=f"{HEIGHT - HEIGHT * limit / top:.2f}" if 0 < limit <= top else None,
        rows=[Row(since + index * row, most) for index, most in _largest(points, since, row)],
    )


def _largest(points: Sequence[Point], since: datetime, step: timedelta) -> Iterator[tuple[int, int]]:
    """The largest figure of each step that has one, in order."""
    at, most = -1, 0
    for moment, value in points:
        index = max(int((moment - since) / step), 0)
        if index != at:
            if at >= 0:
                yield at, most
            at, most = index, value
        most = max(most, value)
    yield at, most


def _stretches(columns: list[tuple[int, int]], gap: float) -> Iterator[list[tuple[int, int]]]:
    """Cut where nobody looked."""
    stretch = columns[:1]
    for before, after in pairwise(columns):
        if after[0] - before[0] > max(gap, 1.5):
            yield stretch
            stretch = []
        stretch.append(after)
    yield stretch


def _place(column: int, value: int, top: int) -> str:
    x = min(column, COLUMNS) * WIDTH / COLUMNS
    return f"{x:.1f} {HEIGHT - HEIGHT * value / top:.2f}"


def _widened(line: list[str]) -> list[str]:
    """A single point gets some width, or nobody would see it."""
    if len(line) > 1:
        return line
    x, y = line[0].split()
    return [line[0], f"{min(float(x) + WIDTH / COLUMNS, WIDTH):.1f} {y}"]


def _x(place: str) -> str:
    return place.split()[0]


def _round_up(value: int) -> int:
    """The next of 1, 2, 5, 10, 20 … that is not smaller, in kB at the least."""
    step = 1000
    while True:
        for factor in (1, 2, 5):
            if value <= step * factor:
                return step * factor
        step *= 10
