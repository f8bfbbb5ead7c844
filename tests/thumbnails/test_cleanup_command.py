"""`manage.py cleanup_thumbnails`, as a person runs it."""

from __future__ import annotations

import io
import os
import time
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from jobs import executing
from libraries.models import LibraryFile
from tests import factories
from tests.conftest import Manage
from tests.thumbnails.photos import photos, pictures_in, state_of
from tests.tree import tree
from thumbnails import evicting, store
from thumbnails.admitting import request
from thumbnails.keys import place_of
from thumbnails.models import Thumbnail

pytestmark = pytest.mark.django_db
GROUP = f"blake3:{'a' * 64}"


@pytest.fixture
def files(tmp_path: Path, thumb_root: Path) -> list[LibraryFile]:
    """Three files with pictures: one of a group, one alone, one that is missing by now; and a file without a row."""
    found = photos(tmp_path / "library", "a.jpg", "b.jpg", "c.jpg")
    content = {"needs_hash": False, "hash_algorithm": "blake3", "content_hash": bytes.fromhex("aa" * 32)}
    LibraryFile.objects.filter(pk=found[0].pk).update(**content)
    factories.library_file("twin.jpg", found[0].library, **content)
    found[0].refresh_from_db()
    request(found, group_keys={found[0].pk: GROUP})
    for _ in found:
        lease = Thumbnail.objects.claim("test")
        assert lease is not None
        store.save(place_of(lease.row), b"picture")
        lease.finish("ready", width=1, height=1, bytes_size=7)
    LibraryFile.objects.filter(pk=found[2].pk).update(is_missing=True)
    orphan = tree(thumb_root, {f"ab/ab/{'ab' * 32}.webp": b"lost"}) / f"ab/ab/{'ab' * 32}.webp"
    os.utime(orphan, (time.time() - 7200, time.time() - 7200))
    return found


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("cleanup_thumbnails", *arguments, stdout=out)
    return out.getvalue()


@pytest.fixture(autouse=True)
def _signals_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.stopping.listen", lambda: None)


def test_a_dry_run_tells_and_touches_nothing(files: list[LibraryFile], thumb_root: Path) -> None:
    before = pictures_in(thumb_root)
    assert run("--dry-run") == "1 thumbnails nobody needs and 1 files without a row would go.\n"
    assert run("--dry-run", "--group", GROUP) == "1 thumbnails would go.\n"
    assert pictures_in(thumb_root) == before
    assert Thumbnail.objects.count() == 3


def test_what_nobody_needs_goes_at_once(
    files: list[LibraryFile], tmp_path: Path, thumb_root: Path, run_manage: Manage
) -> None:
    before = state_of(tmp_path / "library")
    done = run_manage(
        "cleanup_thumbnails",
        env={"DEDUPFS_STATE_ROOT": str(tmp_path / "state"), "DEDUPFS_THUMBNAIL_CACHE_MB": "0"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1 thumbnails nobody needs went, 0 past the limit of the cache, and 1 files without a row.\n"
    assert [row.file_id for row in Thumbnail.objects.order_by("file_id")] == [file.pk for file in files[:2]]
    assert len(pictures_in(thumb_root)) == 2
    assert state_of(tmp_path / "library") == before


def test_one_group_goes_needed_or_not(files: list[LibraryFile], thumb_root: Path) -> None:
    assert run("--group", f" {GROUP.upper().replace('BLAKE3', 'blake3')}") == "1 thumbnails went.\n"
    assert not Thumbnail.objects.filter(group_key=GROUP).exists()
    request(files[:1], group_keys={files[0].pk: GROUP})
    assert "wait or are rendered" in run("--group", GROUP)
    with pytest.raises(CommandError, match="A group is written"):
        run("--group", "../x")


def test_a_clean_up_that_fails_is_told(files: list[LibraryFile], thumb_root: Path) -> None:
    place = place_of(Thumbnail.objects.get(group_key=GROUP))
    store.remove(place)
    (thumb_root / place).mkdir(parents=True)
    with pytest.raises(CommandError, match="EISDIR"):
        run("--group", GROUP)
    assert "1 thumbnails nobody needs went" in run(), "what failed before is not told again"
    Thumbnail.objects.filter(group_key=GROUP).update(thumb_key="0" * 64)
    with pytest.raises(CommandError, match="EISDIR"):
        run()


def test_all_of_it_goes_however_long_it_takes(
    files: list[LibraryFile], thumb_root: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turns of an executor, and of the cache, that end after each row."""
    monkeypatch.setattr(executing, "TURN_SECONDS", -1.0)
    monkeypatch.setattr(evicting, "BATCH", 1)
    monkeypatch.setattr(evicting, "MOST_BATCHES", 1)
    settings.THUMBNAIL_CACHE_BYTES = 1
    LibraryFile.objects.filter(pk=files[1].pk).update(is_missing=True)
    more = [factories.library_file(f"{number}.png", files[0].library) for number in range(2)]
    request(more)
    for _ in more:
        lease = Thumbnail.objects.claim("test")
        assert lease is not None
        lease.finish("ready", width=1, height=1, bytes_size=7)
    assert "2 thumbnails nobody needs went, 3 past the limit" in run()
    assert pictures_in(thumb_root) == []
