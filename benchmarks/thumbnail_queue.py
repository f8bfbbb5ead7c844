"""What the thumbnail queue costs beside rendering, and whether 50,000 rows pass through it in bounded memory.

The consumer claims, opens, stores and records; the decoding happens in child processes. So the processor time of the
consumer's own process over that of its children is the overhead, taken within one run.
"""

from __future__ import annotations

import io
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from threading import Thread
from typing import Any

from benchmarks.options import Options
from benchmarks.report import Section, table
from benchmarks.scratch import installation, run

LARGE = (4000, 3000)
LARGE_ROWS, QUICK_LARGE_ROWS = 200, 60
ROWS, QUICK_ROWS = 50_000, 2_000
#: As many as a page asks for.
ASKED = 200
GOAL = 0.15


def measure(options: Options) -> Iterable[Section]:
    large, rows = (QUICK_LARGE_ROWS, QUICK_ROWS) if options.is_quick else (LARGE_ROWS, ROWS)
    lines = []
    for vendor in ("sqlite", "postgresql"):
        with installation(vendor) as environment:
            cost = json.loads(run("benchmarks.thumbnail_queue", environment, "cost", str(large)))
        with installation(vendor) as environment:
            flow = json.loads(run("benchmarks.thumbnail_queue", environment, "flow", str(rows)))
        lines.append(
            [
                vendor,
                f"{cost['consumer_ms']:.1f} ms",
                f"{cost['render_ms']:.1f} ms",
                f"**{cost['consumer_ms'] / cost['render_ms']:.1%}**",
                f"{cost['speed_up']:.2f}",
                f"{flow['admit_ms']:.2f} ms",
                f"{flow['row_ms']:.1f} ms",
                f"{flow['grown_mb']:.0f} MB",
            ]
        )
    head = [
        "database", "consumer, a row", "rendering, a row", f"overhead (goal < {GOAL:.0%})", "two threads over one",
        "admitting a row", f"a row of {rows:,}", "memory grown",
    ]  # fmt: skip
    what = (
        f"{large} JPEGs of 12 megapixels to 320 px WebP, processor time of the consumer (claims, writes, storing) "
        f"and of its renderers; and {rows:,} tiny pictures, asked for {ASKED} at a time and drained by two threads: "
        "wall time, and how much the consumer's memory grew from the first thousand rows to the last."
    )
    return [Section("Thumbnail queue", f"{what}\n\n{table(head, lines)}")]


# --- In the installation --------------------------------------------------------------------------------------
def _picture(size: tuple[int, int]) -> bytes:
    """Something between a flat colour and noise, as photographs are."""
    from PIL import Image

    dice = random.Random(5)
    small = Image.frombytes(
        "RGB", (size[0] // 8 or 1, size[1] // 8 or 1), dice.randbytes(3 * (size[0] // 8) * (size[1] // 8))
    )
    data = io.BytesIO()
    small.resize(size, Image.Resampling.BICUBIC).save(data, "JPEG", quality=85)
    return data.getvalue()


def _files(folder: Path, picture: bytes, count: int) -> list[Any]:
    from libraries.models import LibraryFile, LibraryRoot

    library = LibraryRoot.objects.create(name="bench", root_path=str(folder))
    rows = []
    for number in range(count):
        path = folder / f"{number % 100}" / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(picture)
        info = path.stat()
        rows.append(
            LibraryFile(
                library=library,
                relative_path=str(path.relative_to(folder)),
                size_bytes=info.st_size,
                mtime_ns=info.st_mtime_ns,
                is_missing=False,
            )
        )
    LibraryFile.objects.bulk_create(rows, batch_size=1000)
    return list(LibraryFile.objects.order_by("pk"))


def _admit(files: list[Any]) -> float:
    from thumbnails.admitting import request

    began = time.perf_counter()
    for start in range(0, len(files), ASKED):
        request(files[start : start + ASKED])
    return time.perf_counter() - began


def _drain(threads: int) -> float:
    from django.db import connections

    from jobs.executing import drain_all

    def work() -> None:
        drain_all("thumbnails")
        connections.close_all()

    began = time.perf_counter()
    workers = [Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return time.perf_counter() - began


def _cost(folder: Path, count: int) -> dict[str, float]:
    from thumbnails.models import Thumbnail
    from thumbnails.render_pool import close_all

    files = _files(folder, _picture(LARGE), count)
    _admit(files[:4])
    _drain(2)  # the children are there, and everything is loaded
    close_all()
    children = _children_seconds()
    half = len(files) // 2
    _admit(files[4:half])
    began = time.process_time()
    alone = _drain(1) / (half - 4)
    own = (time.process_time() - began) / (half - 4)
    close_all()
    rendering = (_children_seconds() - children) / (half - 4)
    _admit(files[half:])
    together = _drain(2) / (count - half)
    close_all()
    assert Thumbnail.objects.filter(status="ready").count() == count
    return {"consumer_ms": own * 1000, "render_ms": rendering * 1000, "speed_up": alone / together}


def _flow(folder: Path, count: int) -> dict[str, float]:
    from thumbnails.models import Thumbnail
    from thumbnails.render_pool import close_all

    files = _files(folder, _picture((64, 48)), count)
    early = min(1000, count // 4)
    _admit(files[:early])
    _drain(2)
    before = _memory_mb()
    rest = files[early:]
    admit = _admit(rest)
    took = _drain(2)
    grown = _memory_mb() - before
    close_all()
    assert Thumbnail.objects.filter(status="ready").count() == count
    return {"admit_ms": admit / len(rest) * 1000, "row_ms": took / len(rest) * 1000, "grown_mb": grown}


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _memory_mb() -> float:
    """The most this process has ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _main() -> None:
    import django

    os.environ.setdefault("DEDUPFS_THUMBNAIL_CACHE_MB", "0")
    django.setup()
    what, count = {"cost": _cost, "flow": _flow}[sys.argv[1]], int(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="dedupfs-bench-") as folder:
        json.dump(what(Path(folder), count), sys.stdout)


if __name__ == "__main__":
    _main()
