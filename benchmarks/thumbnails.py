"""What does a thumbnail of a 12 megapixel photograph cost, against the least it can cost and against libvips?"""

from __future__ import annotations

import io
import json
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.report import Section, table
from benchmarks.scratch import run

SIZE, DIMENSION = (4000, 3000), 320
TRIES, QUICK_TRIES = 41, 9
#: Renders of each thread when one is held against two.
EACH = 60
#: Of the floor's CPU time; and never as much as libvips takes.
REACH = 1.15
FLOOR, OURS, POOL, VIPS = "Pillow floor", "ours, in process", "ours, through the pool", "pyvips"
Measured = Callable[[], float]


def measure(*, is_quick: bool) -> Iterator[Section]:
    with tempfile.TemporaryDirectory(prefix="dedupfs-bench-") as folder:
        environment = {
            **os.environ, "DEDUPFS_STATE_ROOT": folder, "DJANGO_SETTINGS_MODULE": "dedupfs_site.settings",
        }  # fmt: skip
        tries = QUICK_TRIES if is_quick else TRIES
        found = json.loads(run("benchmarks.thumbnails", environment, folder, str(tries)))
    head = ["to", "by", "CPU ms", "of the floor", "goal"]
    rows = [row for format, figures in found["cpu"].items() for row in _rows(format, figures)]
    what = (
        f"A JPEG of {SIZE[0]} by {SIZE[1]} pixels ({found['bytes'] / 1e6:.1f} MB, warm) to {DIMENSION} pixels, median "
        f"of {tries} interleaved rounds; all threads and processes counted. The floor is Pillow's `draft()`, "
        "`reducing_gap=1`, bicubic, and the same encoder with the same settings. "
        + (f"pyvips {found['vips']}." if found["vips"] else "pyvips is not installed.")
    )
    body = f"{what}\n\n{table(head, rows)}\n\n{table(['the pool', 'figure'], _pool_rows(found))}"
    yield Section("Thumbnails", body)


def _rows(format: str, figures: dict[str, float]) -> Iterator[list[str]]:
    floor, vips = figures[FLOOR], figures.get(VIPS)
    for name, milliseconds in figures.items():
        share = milliseconds / floor
        goal = ""
        if name in (OURS, POOL):
            allowed = vips is None or milliseconds < vips
            verdict = "MISSED" if not allowed else "reached" if share <= REACH else "allowed"
            goal = f"{REACH}, never above pyvips: {verdict}"
        yield [format, name, f"{milliseconds:.1f}", f"**{share:.2f}**", goal]


def _pool_rows(found: dict[str, Any]) -> list[list[str]]:
    return [
        ["CPU a picture that it adds, ms (median of differences within a round)", f"{found['added']:.2f}"],
        ["a picture of 16 by 12 pixels through it, wall ms", f"{found['tiny']:.2f}"],
        ["the same in process, wall ms", f"{found['tiny_in_process']:.2f}"],
        ["a first picture, with the start of its child, wall ms", f"{found['start']:.0f}"],
        ["pictures a second, one child", f"{found['one']:.1f}"],
        ["pictures a second, two children", f"{found['two']:.1f} (**{found['two'] / found['one']:.2f}** times)"],
        ["peak memory of a child, MB", f"{found['peak']:.0f}"],
    ]


# --- In a process of its own --------------------------------------------------------------------------------
def _look(folder: Path, tries: int) -> dict[str, Any]:
    import django

    django.setup()
    from thumbnails import render_pool

    path = _photograph(folder / "photograph.jpg")
    source = os.open(path, os.O_RDONLY)
    vips = _vips()
    found: dict[str, Any] = {"bytes": path.stat().st_size, "vips": vips and vips.__version__, "cpu": {}}
    start = time.perf_counter()
    _through_pool(source, "webp")
    found["start"] = (time.perf_counter() - start) * 1000
    added: list[float] = []
    for format in ("webp", "jpeg"):
        contenders = _contenders(path, source, format, vips)
        rounds = _interleaved(contenders, tries)
        added += [pool - ours for pool, ours in zip(rounds[POOL], rounds[OURS], strict=True)]
        found["cpu"][format] = {name: statistics.median(times) for name, times in rounds.items()}
    found["added"] = statistics.median(added)
    found |= _tiny(folder, tries) | {"one": _speed(source, 1), "two": _speed(source, 2)}
    found["peak"] = max(_peak_bytes(child.pid) for child in render_pool._idle) / 1e6
    return found


def _photograph(path: Path) -> Path:
    """Slopes, edges and grain, so that it takes as many bytes as a camera's does."""
    from PIL import Image, ImageChops

    slope = Image.linear_gradient("L").resize(SIZE)
    round_ = Image.radial_gradient("L").resize(SIZE)
    grain = Image.effect_noise(SIZE, 28)
    bands = [ImageChops.add(each, grain, 1.6) for each in (slope, round_, ImageChops.invert(slope))]
    Image.merge("RGB", bands).save(path, "JPEG", quality=90)
    return path


def _vips() -> Any:
    """Where it is installed; what it has to say of each step would cost it time."""
    logging.getLogger("pyvips").setLevel(logging.WARNING)
    with suppress(ImportError, OSError):
        return import_module("pyvips")
    return None


def _contenders(path: Path, source: int, format: str, vips: Any) -> dict[str, Measured]:
    from PIL import Image

    from thumbnails import images
    from thumbnails.source import Source

    def floor() -> None:
        with Image.open(path) as image:
            image.thumbnail((DIMENSION, DIMENSION), Image.Resampling.BICUBIC, reducing_gap=1.0)
            options = images.WEBP if format == "webp" else images.JPEG
            image.save(io.BytesIO(), format.upper(), **options)

    def ours() -> None:
        reader = Source(source, most_at_once=1 << 28)
        images.render(reader, format=format, max_dimension=DIMENSION, most_pixels=10**8)

    def by_vips() -> None:
        image = vips.Image.thumbnail(str(path), DIMENSION, height=DIMENSION)
        if format == "webp":
            image.write_to_buffer(".webp", Q=images.WEBP["quality"], effort=images.WEBP["method"], keep="none")
        else:
            image.write_to_buffer(".jpg", Q=images.JPEG["quality"], keep="none")

    found: dict[str, Measured] = {FLOOR: lambda: _cpu(floor), OURS: lambda: _cpu(ours)}
    found[POOL] = lambda: _cpu_with_child(lambda: _through_pool(source, format))
    if vips:
        found[VIPS] = lambda: _cpu(by_vips)
    return found


def _interleaved(contenders: dict[str, Measured], tries: int) -> dict[str, list[float]]:
    """Milliseconds of each, in an order that turns with every round; the first round warms up."""
    found: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for number in range(tries + 1):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            milliseconds = contenders[name]()
            if number:
                found[name].append(milliseconds)
    return found


def _cpu(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1000


def _cpu_with_child(work: Callable[[], Any]) -> float:
    from thumbnails import render_pool

    # The kernel's clock of another process; see clock_getcpuclockid(3).
    clock = ~render_pool._idle[-1].pid << 3 | 2
    start = time.clock_gettime(clock)
    ours = _cpu(work)
    return ours + (time.clock_gettime(clock) - start) * 1000


def _through_pool(source: int, format: str) -> None:
    from thumbnails.render_pool import render

    render(source, media_type="image", format=format, max_dimension=DIMENSION, advance=lambda: None)


def _tiny(folder: Path, tries: int) -> dict[str, float]:
    """A picture that costs next to nothing shows what handing it over costs."""
    from PIL import Image

    from thumbnails import images
    from thumbnails.source import Source

    path = folder / "tiny.bmp"
    Image.new("RGB", (16, 12)).save(path)
    source = os.open(path, os.O_RDONLY)
    limits: Any = {"format": "jpeg", "max_dimension": DIMENSION, "most_pixels": 1000}
    works = {
        "tiny": lambda: _through_pool(source, "jpeg"),
        "tiny_in_process": lambda: images.render(Source(source, most_at_once=1000), **limits),
    }
    found = _interleaved({name: lambda work=work: _wall(work) for name, work in works.items()}, tries * 5)  # type: ignore[misc]
    return {name: statistics.median(times) for name, times in found.items()}


def _wall(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


def _speed(source: int, threads: int) -> float:
    with ThreadPoolExecutor(threads) as workers:
        list(workers.map(lambda _: _through_pool(source, "webp"), range(threads * 2)))
        start = time.perf_counter()
        list(workers.map(lambda _: _through_pool(source, "webp"), range(threads * EACH)))
        return threads * EACH / (time.perf_counter() - start)


def _peak_bytes(process: int) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    json.dump(_look(Path(sys.argv[1]), int(sys.argv[2])), sys.stdout)
