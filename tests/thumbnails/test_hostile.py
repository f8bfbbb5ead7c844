"""300 files that are damaged or made to do harm: each ends as a picture or as its own error, within the limits."""

from __future__ import annotations

import os
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from PIL import Image
from pytest_django import Settings

from tests.thumbnails.hostile import Hostile, bombs, damaged
from tests.thumbnails.pictures import opened, sample, shows_scene
from thumbnails import render_errors, render_pool
from thumbnails.render_pool import RenderError, close_all, render

CODES = {value for name, value in vars(render_errors).items() if name.isupper() and isinstance(value, str)}
#: A child that had to be killed is replaced, and the next one has to start in this time as well.
SECONDS = {"image": 5, "video": 6}
MEMORY_BYTES = 256 << 20
#: What the libraries themselves take, before there is a picture.
LIBRARIES_BYTES = 128 << 20
#: A busy machine needs a while to kill and to answer.
SLACK_SECONDS = 60


@pytest.fixture(autouse=True)
def _limits(settings: Settings) -> Iterator[None]:
    settings.THUMBNAIL_SECONDS = SECONDS
    settings.THUMBNAIL_MEMORY_BYTES = MEMORY_BYTES
    settings.THUMBNAIL_PIXELS = 100_000_000
    close_all()
    yield
    close_all()


class Watched:
    """What came of each file, and what the children took for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.codes: Counter[str] = Counter()
        self.failures: list[str] = []
        self.peak_bytes = 0
        self.longest = 0.0

    def render(self, number: int, hostile: Hostile) -> None:
        path = self.folder / str(number)
        path.write_bytes(hostile.data)
        if hostile.length:
            os.truncate(path, hostile.length)
        start = time.monotonic()
        with opened(path) as descriptor:
            outcome = self._outcome(descriptor, hostile)
        took = time.monotonic() - start
        self.longest = max(self.longest, took)
        self.codes[outcome] += 1
        if took > SECONDS[hostile.media_type] + SLACK_SECONDS:
            self.failures.append(f"{hostile.name} took {took:.1f} s")
        path.unlink()

    def _outcome(self, descriptor: int, hostile: Hostile) -> str:
        try:
            rendered = render(
                descriptor, media_type=hostile.media_type, format="webp", max_dimension=160, advance=self.look
            )
        except RenderError as error:
            if error.code not in CODES or not re.fullmatch(r"[A-Z].{8,400}\.", error.message):
                self.failures.append(f"{hostile.name}: {error.code} {error.message}")
            return error.code
        except Exception as error:
            self.failures.append(f"{hostile.name}: {error!r}")
            return repr(error)
        finally:
            self.look()
        if max(rendered.width, rendered.height) > 160 or not rendered.data:
            self.failures.append(f"{hostile.name}: {rendered[1:]}")
        return "ready"

    def look(self) -> None:
        for child in [*render_pool._idle, *render_pool._busy]:
            with suppress(OSError, AttributeError):
                status = Path(f"/proc/{child.pid}/status").read_text()
                peak = int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) << 10  # type: ignore[union-attr]
                self.peak_bytes = max(self.peak_bytes, peak)


def feed(folder: Path, files: list[Hostile]) -> Watched:
    watched = Watched(folder)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(watched.render, range(len(files)), files))
    print(
        len(files),
        "files:",
        dict(watched.codes),
        f"longest {watched.longest:.1f} s, peak {watched.peak_bytes >> 20} MB",
    )
    assert watched.failures == []
    assert sum(watched.codes.values()) == len(files)
    assert watched.peak_bytes < MEMORY_BYTES + LIBRARIES_BYTES
    with opened(folder / "good", sample("jpeg")) as good:
        wanted = {"format": "webp", "max_dimension": 160, "advance": lambda: None}
        assert shows_scene(render(good, media_type="image", **wanted).data)  # type: ignore[arg-type]
    return watched


@pytest.fixture
def random_() -> random.Random:
    seed = int(os.environ.get("DEDUPFS_TEST_SEED") or random.SystemRandom().randrange(2**32))
    print(f"DEDUPFS_TEST_SEED={seed}")
    return random.Random(seed)


def test_300_hostile_files_harm_nobody(tmp_path: Path, random_: random.Random) -> None:
    files = [*bombs(), *damaged(random_, each=15)]
    assert len(files) >= 300
    watched = feed(tmp_path, files)
    # It can fail: not all of them are refused, nor all rendered, and each limit is one that some of them meet.
    assert watched.codes["ready"] > 30
    met = {
        render_errors.DECODE_FAILED,
        render_errors.VIDEO_FAILED,
        render_errors.TOO_LARGE,
        render_errors.OUT_OF_MEMORY,
    }
    assert met | {render_errors.TIMED_OUT} <= set(watched.codes)


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_thousands_of_hostile_files_harm_nobody(tmp_path: Path, random_: random.Random) -> None:
    feed(tmp_path, list(damaged(random_, each=300)))


def test_the_parent_decodes_nothing_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a file does, it does to a child."""
    monkeypatch.setattr(Image, "open", None)
    with opened(tmp_path / "a", sample("jpeg")) as descriptor:
        render(descriptor, media_type="image", format="webp", max_dimension=9, advance=lambda: None)
