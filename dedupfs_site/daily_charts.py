"""Days side by side, drawn by the server on a plane of 1000 by 100: bars in layers, and a line over an area."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise

from dedupfs_site.charts import HEIGHT, WIDTH

#: The share of a day's place that its bar takes; the rest is air.
BAR_SHARE = 0.72


@dataclass(frozen=True)
class Layer:
    """One part of a bar; places come as text, so that no language writes its own decimal point into an SVG."""

    key: str
    y: str
    height: str


@dataclass(frozen=True)
class Bar:
    day: date
    x: str
    layers: list[Layer]
    #: By the layers' keys.
    counts: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True)
class Bars:
    bars: list[Bar]
    top: int
    width: str
    totals: dict[str, int]

    @property
    def has_any(self) -> bool:
        return any(self.totals.values())


@dataclass(frozen=True)
class Line:
    points: list[tuple[date, int]]
    top: int
    line: str
    area: str

    @property
    def half(self) -> int:
        return self.top // 2

    @property
    def change(self) -> int:
        """From the first day that is known to the last."""
        return self.points[-1][1] - self.points[0][1]


def last_days(today: date, count: int) -> list[date]:
    return [today - timedelta(days=back) for back in reversed(range(count))]


def stack(days: Sequence[date], found: Mapping[date, Mapping[str, int]], keys: Sequence[str]) -> Bars:
    """A bar for each day, its layers from the ground up in the order of `keys`."""
    counts = [{key: found.get(day, {}).get(key, 0) for key in keys} for day in days]
    top = round_up(max((sum(each.values()) for each in counts), default=0), least=4)
    place = WIDTH / len(days)
    bars = [
        Bar(day, f"{(number + (1 - BAR_SHARE) / 2) * place:.2f}", _layers(each, top), each)
        for number, (day, each) in enumerate(zip(days, counts, strict=True))
    ]
    return Bars(bars, top, f"{place * BAR_SHARE:.2f}", {key: sum(each[key] for each in counts) for key in keys})


def _layers(counts: Mapping[str, int], top: int) -> list[Layer]:
    layers, ground = [], float(HEIGHT)
    for key, count in counts.items():
        if count:
            height = HEIGHT * count / top
            ground -= height
            layers.append(Layer(key, f"{ground:.2f}", f"{height:.2f}"))
    return layers


def draw_line(days: Sequence[date], values: Mapping[date, int]) -> Line | None:
    """Through the days that are known, broken where one is not; None where none is."""
    points = [(day, values[day]) for day in days if day in values]
    if not points:
        return None
    top = round_up(max(value for _day, value in points), least=1000)
    width = WIDTH / len(days)
    first = days[0]
    stretches = [
        [((day - first).days * width + width / 2, HEIGHT - HEIGHT * value / top) for day, value in stretch]
        for stretch in _stretches(points)
    ]
    # A single day gets some width, or nobody would see it.
    lines = [each if len(each) > 1 else [(x + side, y) for x, y in each for side in (-5, 5)] for each in stretches]
    return Line(
        points,
        top,
        " ".join(f"M{_path(each)}" for each in lines),
        " ".join(f"M{each[0][0]:.1f} {HEIGHT} L{_path(each)} V{HEIGHT} Z" for each in lines),
    )


def _stretches(points: Sequence[tuple[date, int]]) -> list[list[tuple[date, int]]]:
    stretches = [[points[0]]]
    for before, after in pairwise(points):
        if (after[0] - before[0]).days > 1:
            stretches.append([])
        stretches[-1].append(after)
    return stretches


def _path(places: Sequence[tuple[float, float]]) -> str:
    return " L".join(f"{x:.1f} {y:.2f}" for x, y in places)


# --- Shares of a whole ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Share:
    """A piece of a bar that lies on its side."""

    x: str
    width: str
    percent: int


def shares(sizes: Sequence[int]) -> list[Share]:
    """Pieces of one bar, side by side; a piece that is there at all is never too thin to be seen."""
    whole = sum(sizes)
    if not whole:
        return []
    least = WIDTH / 250
    widths = [max(WIDTH * size / whole, least) if size else 0.0 for size in sizes]
    scale = WIDTH / sum(widths)
    pieces, x = [], 0.0
    for size, width in zip(sizes, widths, strict=True):
        pieces.append(Share(f"{x:.2f}", f"{width * scale:.2f}", round(100 * size / whole)))
        x += width * scale
    return pieces


def round_up(value: int, least: int) -> int:
    """The next of 1, 2, 4, 6, 8, 10, 20 … that is not smaller: each has a half that is round."""
    step = 1
    while True:
        for factor in (1, 2, 4, 6, 8):
            if max(value, least) <= step * factor:
                return step * factor
        step *= 10
