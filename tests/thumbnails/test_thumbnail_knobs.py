"""The knobs of thumbnails, turned as people turn them: in the environment of a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Manage
from tests.thumbnails.pictures import flat_png, sample
from thumbnails.models import ThumbnailCleanupJob

pytestmark = pytest.mark.django_db

RENDER = """
import os, signal, sys
from pathlib import Path
from thumbnails.render_pool import RenderError, close_all, render
def once():
    file = os.open({path!r}, os.O_RDONLY)
    try:
        render(file, media_type={media!r}, format="webp", max_dimension=64, advance=lambda: None)
    except RenderError as error:
        return error.code
    finally:
        os.close(file)
    return "fine"
print(once())
if {is_frozen}:
    for task in Path("/proc/self/task").iterdir():
        for child in (task / "children").read_text().split():
            os.kill(int(child), signal.SIGSTOP)
    print(once())
close_all()
"""


def rendered(run_manage: Manage, path: Path, media: str = "image", *, is_frozen: bool = False, **env: str) -> list[str]:
    program = RENDER.format(path=str(path), media=media, is_frozen=is_frozen)
    done = run_manage("shell", "--no-imports", "-c", program, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_limits_of_a_picture(run_manage: Manage, tmp_path: Path) -> None:
    large = tmp_path / "large.png"
    large.write_bytes(flat_png(9_000, 8_000))
    assert rendered(run_manage, large) == ["fine"]
    assert rendered(run_manage, large, DEDUPFS_THUMBNAIL_MEGAPIXELS="71") == ["THUMB_TOO_LARGE"]
    assert rendered(run_manage, large, DEDUPFS_THUMBNAIL_MEMORY_MB="128") == ["THUMB_OUT_OF_MEMORY"]


def test_the_time_of_a_video(run_manage: Manage, tmp_path: Path) -> None:
    video = tmp_path / "video.mp4"
    video.write_bytes(sample("mp4"))
    answers = rendered(run_manage, video, "video", is_frozen=True, DEDUPFS_THUMBNAIL_VIDEO_SECONDS="15")
    assert answers == ["fine", "THUMB_TIMED_OUT"]


def test_how_long_pictures_of_a_dissolved_group_are_kept(run_manage: Manage) -> None:
    program = "from thumbnails.cleaning import schedule; schedule('file:1')"
    for hours in (3, 0):
        done = run_manage("shell", "--no-imports", "-c", program, env={"DEDUPFS_THUMBNAIL_CLEANUP_HOURS": str(hours)})
        assert done.returncode == 0, done.stderr
        job = ThumbnailCleanupJob.objects.get()
        assert abs((job.execute_after - job.updated_at).total_seconds() - hours * 3600) < 60
