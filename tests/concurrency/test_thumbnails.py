"""Real processes at the thumbnail queues: racing for the last place, and killed at every step."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.thumbnail_queue import ROWS
from database.clock import SecondsFromNow
from jobs.executing import drain
from libraries.models import LibraryFile
from tests import factories
from tests.concurrency.racing import release, start
from tests.thumbnails.photos import photos, pictures_in, state_of
from thumbnails import orphans
from thumbnails.admitting import request
from thumbnails.cleaning import schedule
from thumbnails.models import Thumbnail, ThumbnailCleanupJob
from thumbnails.render_pool import close_all

pytestmark = pytest.mark.django_db
RACERS = 8
GROUP = f"blake3:{'a' * 64}"

Race = Callable[..., list[list[str]]]


@pytest.fixture
def thumb_root(tmp_path: Path, settings: Any) -> Path:
    settings.THUMBNAIL_ROOT = tmp_path / "state" / "thumbs"
    (tmp_path / "state").mkdir(mode=0o700)
    return Path(settings.THUMBNAIL_ROOT)


@pytest.fixture
def environment(child_environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    return {
        **child_environment, "DEDUPFS_STATE_ROOT": str(tmp_path / "state"), "DEDUPFS_SQLITE_BUSY_SECONDS": "120"
    }  # fmt: skip


@pytest.fixture
def race(environment: dict[str, str], thumb_root: Path, tmp_path: Path) -> Race:
    """Run each `(verb, argument)` in a process of its own, all from the same moment on; return what each printed."""

    def run(*verbs: tuple[str, int], **more: str) -> list[list[str]]:
        gate = tmp_path / "go"
        gate.unlink(missing_ok=True)
        racers = [start("thumbnail_racer", {**environment, **more}, *each, gate) for each in verbs]
        return release(racers, gate)

    return run


def some_files(count: int, suffix: str = "jpg") -> list[LibraryFile]:
    library = factories.library(suffix)
    return [factories.library_file(f"{number}.{suffix}", library) for number in range(count)]


# --- Races ------------------------------------------------------------------------------------------------
def test_eight_that_race_for_the_last_place_get_one(race: Race) -> None:
    some_files(RACERS)
    printed = race(*[("ask_for_one", number) for number in range(RACERS)], DEDUPFS_THUMBNAIL_CAPACITY="1")
    assert printed == [["1"] * 8] * RACERS, "never two at once, and a refusal lasts only until the other has left"


def test_four_that_ask_for_the_same_get_the_same_rows(race: Race) -> None:
    some_files(300)
    printed = race(*[("ask_for_all", 0)] * 4, DEDUPFS_THUMBNAIL_CAPACITY="250")
    assert printed == [["250"]] * 4
    assert Thumbnail.objects.count() == 250


def test_eight_consumers_never_run_more_than_may(race: Race) -> None:
    request([*some_files(30), *some_files(10, "mp4")])
    printed = race(*[("claim", 0)] * RACERS, DEDUPFS_THUMBNAIL_IMAGES="2", DEDUPFS_THUMBNAIL_VIDEOS="1")
    seen = [line.split() for answers in printed for line in answers]
    assert len(seen) == 40
    assert max(int(count) for kind, count in seen if kind == "image") <= 2
    assert {count for kind, count in seen if kind == "video"} == {"1"}
    assert Thumbnail.objects.filter(status="ready").count() == 40


def test_several_that_schedule_the_same_never_fail(race: Race) -> None:
    race(*[("schedule", 0)] * 2, ("work", 0))
    assert ThumbnailCleanupJob.objects.count() == 20
    drain("thumbnail_cleanup")
    assert set(ThumbnailCleanupJob.objects.values_list("status", flat=True)) == {"completed"}


# --- SIGKILL ----------------------------------------------------------------------------------------------
def later(point: str) -> Any:
    """The same point, come to after others have ended well."""
    return pytest.param(point, marks=pytest.mark.torture)


RENDERING = [
    "claimed", "thumb_opened", "thumb_rendered", "thumb_written", "thumb_saved", "handled", "finished",
    later("thumb_written:2"), later("thumb_saved:3"), later("finished:3"),
]  # fmt: skip
CLEANING = [
    "claimed", "cleanup_picture_removed:2", "cleanup_rows_removed", "handled",
    later("cleanup_picture_removed:1"), later("cleanup_picture_removed:3"),
]  # fmt: skip


def kill(environment: dict[str, str], tmp_path: Path, point: str) -> None:
    """Work in a process that dies at `point`; then its leases run out."""
    gate = tmp_path / "go"
    gate.touch()
    victim = start("thumbnail_racer", {**environment, "DEDUPFS_CRASH_POINT": point}, "work", 0, gate)
    _, errors = victim.communicate(timeout=120)
    assert victim.returncode == -signal.SIGKILL, errors
    for model in (Thumbnail, ThumbnailCleanupJob):
        model.objects.filter(status="running").update(lease_expires_at=SecondsFromNow(-1))


def age_all(root: Path) -> None:
    long_ago = time.time() - orphans.YOUNG_SECONDS - 9
    for path in root.rglob("*"):
        os.utime(path, (long_ago, long_ago))


@pytest.mark.parametrize("point", RENDERING)
def test_a_killed_renderer_is_made_good_by_the_next(
    point: str, environment: dict[str, str], thumb_root: Path, tmp_path: Path
) -> None:
    files = photos(tmp_path / "library", "a.jpg", "b.jpg", "c.jpg")
    before = state_of(tmp_path / "library")
    request(files)
    kill(environment, tmp_path, point)
    drain("thumbnails")
    close_all()
    rows = list(Thumbnail.objects.all())
    assert [row.status for row in rows] == ["ready"] * 3
    for row in rows:
        assert (thumb_root / (row.output_relpath or "")).stat().st_size == row.bytes_size
    age_all(thumb_root)
    assert orphans.remove_orphans() == (1 if point.startswith("thumb_written") else 0), "its temporary file"
    assert pictures_in(thumb_root) == sorted(row.output_relpath or "" for row in rows)
    assert state_of(tmp_path / "library") == before


@pytest.mark.parametrize("point", CLEANING)
def test_a_killed_clean_up_is_made_good_by_the_next(
    point: str, environment: dict[str, str], thumb_root: Path, tmp_path: Path
) -> None:
    files = photos(tmp_path / "library", "a.jpg", "b.jpg", "c.jpg", "d.jpg")
    before = state_of(tmp_path / "library")
    request(files[:3], group_keys={file.pk: GROUP for file in files})
    request(files[3:])
    drain("thumbnails")
    close_all()
    schedule(GROUP, 0)
    kill(environment, tmp_path, point)
    drain("thumbnail_cleanup")
    assert ThumbnailCleanupJob.objects.get().status == "completed"
    (kept,) = Thumbnail.objects.all()
    assert kept.file_id == files[3].pk
    assert pictures_in(thumb_root) == [kept.output_relpath], "no orphan, either"
    assert state_of(tmp_path / "library") == before


@pytest.mark.parametrize("point", ["cleanup_picture_removed:2", later("evicted")])
def test_a_killed_eviction_leaves_nothing_that_does_not_mend_itself(
    point: str, environment: dict[str, str], thumb_root: Path, tmp_path: Path
) -> None:
    files = photos(tmp_path / "library", "a.jpg", "b.jpg", "c.jpg")
    request(files)
    drain("thumbnails")
    close_all()
    Thumbnail.objects.update(bytes_size=1 << 20)
    code = "import django; django.setup(); from thumbnails.evicting import evict; evict()"
    more = {"DEDUPFS_CRASH_POINT": point, "DEDUPFS_THUMBNAIL_CACHE_MB": "1"}
    victim = subprocess.run([sys.executable, "-c", code], env={**environment, **more}, timeout=120)
    assert victim.returncode == -signal.SIGKILL
    ended = subprocess.run([sys.executable, "-c", code], env={**environment, **more, "DEDUPFS_CRASH_POINT": ""})
    assert ended.returncode == 0
    (left,) = Thumbnail.objects.all()
    assert pictures_in(thumb_root) == [left.output_relpath]


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_fifty_thousand_rows_pass_through_in_bounded_memory(child_environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "benchmarks.thumbnail_queue", "flow", str(ROWS)]
    done = subprocess.run(command, env=child_environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["grown_mb"] < 40
