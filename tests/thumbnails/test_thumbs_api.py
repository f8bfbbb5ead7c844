"""The thumbnail endpoints of `/api/v1`, by their addresses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from accounts.models import Role
from database.clock import SecondsFromNow
from jobs.executing import drain
from libraries.models import LibraryFile
from logbook.models import LogbookEvent
from tests import factories
from tests.pages import with_token
from tests.thumbnails.photos import photos
from thumbnails.keys import place_of
from thumbnails.models import Thumbnail, ThumbnailCleanupJob
from thumbnails.render_pool import close_all

pytestmark = pytest.mark.django_db
THUMBS = "/api/v1/thumbs"
GROUP = f"blake3:{'a' * 64}"


@pytest.fixture
def viewer() -> Client:
    return with_token(Role.VIEWER)


@pytest.fixture
def file(tmp_path: Path, thumb_root: Path) -> LibraryFile:
    return photos(tmp_path / "library", "a.jpg")[0]


def post(client: Client, path: str, body: Any) -> Any:
    return client.post(THUMBS + path, json.dumps(body), content_type="application/json")


def ask(client: Client, file: LibraryFile, **more: Any) -> Any:
    return post(client, "/request", {"file_id": file.pk, **more})


def test_a_picture_is_asked_for_looked_at_and_fetched(viewer: Client, file: LibraryFile) -> None:
    answer = ask(viewer, file, group_key=GROUP.upper().replace("BLAKE3", "blake3"), max_dimension=200, format="jpeg")
    assert answer.status_code == 202, answer.content
    told = answer.json()
    assert (told["status"], told["file_id"], told["group_key"]) == ("pending", file.pk, GROUP)
    assert (told["max_dimension"], told["format"], told["media_type"]) == (200, "jpeg", "image")
    assert told["created_at"].endswith("Z")
    key = told["thumb_key"]
    assert viewer.get(f"{THUMBS}/{key}/content").status_code == 202
    drain("thumbnails")
    close_all()
    row = viewer.get(f"{THUMBS}/{key}").json()
    assert (row["status"], row["width"], row["height"]) == ("ready", 64, 48)
    content = viewer.get(f"{THUMBS}/{key}/content")
    body = b"".join(content) if content.streaming else content.content
    assert (content.status_code, content["Content-Type"], len(body)) == (200, "image/jpeg", row["bytes_size"])
    assert content["X-Content-Type-Options"] == "nosniff"
    assert ask(viewer, file, max_dimension=200, format="jpeg").json()["status"] == "ready"


def test_a_picture_that_is_gone_from_the_disk_is_made_again(
    viewer: Client, file: LibraryFile, thumb_root: Path
) -> None:
    key = ask(viewer, file).json()["thumb_key"]
    drain("thumbnails")
    close_all()
    (thumb_root / place_of(Thumbnail.objects.get())).unlink()
    assert viewer.get(f"{THUMBS}/{key}/content").status_code == 202
    assert viewer.get(f"{THUMBS}/{key}").json()["status"] == "pending"


def test_a_failed_one_says_why(viewer: Client, file: LibraryFile) -> None:
    key = ask(viewer, file).json()["thumb_key"]
    lease = Thumbnail.objects.claim("test")
    assert lease is not None
    lease.finish("failed", code="THUMB_DECODE_FAILED", message="It is damaged.", retry_after=SecondsFromNow(60))
    answer = viewer.get(f"{THUMBS}/{key}/content")
    assert (answer.status_code, answer.json()) == (404, {"detail": "It is damaged."})
    told = ask(viewer, file).json()
    assert (told["status"], told["error_code"]) == ("failed", "THUMB_DECODE_FAILED")


def test_past_the_capacity_it_says_so(viewer: Client, file: LibraryFile, settings: Settings) -> None:
    settings.THUMBNAIL_CAPACITY = 0
    answer = ask(viewer, file)
    assert answer.status_code == 429
    assert "wait already" in answer.json()["detail"]
    assert not Thumbnail.objects.exists()


def test_what_can_not_be_asked_for_is_refused_in_words(viewer: Client, file: LibraryFile) -> None:
    text = factories.library_file("notes.txt", file.library)
    gone = factories.library_file("gone.jpg", file.library, is_missing=True)
    assert ask(viewer, text).status_code == 422
    assert ask(viewer, gone).status_code == 409
    assert post(viewer, "/request", {"file_id": 10**9}).status_code == 404
    wrong: list[dict[str, Any]] = [
        {"max_dimension": 5}, {"max_dimension": 5000}, {"format": "gif"}, {"group_key": "x"}, {"typo": 1},
        {"file_id": "7"}, {"file_id": 0}, {"max_dimension": True},
    ]  # fmt: skip
    for each in wrong:
        assert ask(viewer, file, **each).status_code == 422, each
    assert not Thumbnail.objects.exists()


def test_a_key_of_a_file_is_no_group(viewer: Client, file: LibraryFile) -> None:
    assert ask(viewer, file, group_key="file:999").json()["group_key"] == f"file:{file.pk}"


def test_unknown_keys_are_not_found(viewer: Client) -> None:
    for key in ("x", "a" * 64, "..", "%2e%2e%2fetc"):
        assert viewer.get(f"{THUMBS}/{key}").status_code == 404
        assert viewer.get(f"{THUMBS}/{key}/content").status_code == 404


def test_a_groups_thumbnails_are_removed_by_an_operator(viewer: Client, file: LibraryFile) -> None:
    assert post(viewer, "/cleanup/group", {"group_key": GROUP}).status_code == 403
    operator = with_token(Role.OPERATOR)
    for wrong in ({}, {"group_key": ""}, {"group_key": "blake3:1"}, {"group_key": "../x"}):
        assert post(operator, "/cleanup/group", wrong).status_code == 422
    answer = post(operator, "/cleanup/group", {"group_key": f" {GROUP.upper()} "})
    assert answer.status_code == 202, answer.content
    assert (answer.json()["group_key"], answer.json()["status"]) == (GROUP, "pending")
    drain("thumbnail_cleanup")
    assert ThumbnailCleanupJob.objects.get().status == "completed"
    assert LogbookEvent.objects.get(event_type="requested").actor == "operator via token script"


def test_the_figures_tell_what_waits(viewer: Client, file: LibraryFile, settings: Settings) -> None:
    empty = viewer.get(f"{THUMBS}/metrics").json()
    assert (empty["queue_depth"], empty["cleanup_lag_seconds"], empty["oldest_pending_seconds"]) == (0, 0, 0)
    settings.THUMBNAIL_CAPACITY = 9
    ask(viewer, file)
    for dimension in (100, 200):
        ask(viewer, file, max_dimension=dimension)
    Thumbnail.objects.update(updated_at=SecondsFromNow(-90))
    for status, retry in (("failed", 60), ("failed", -1)):
        lease = Thumbnail.objects.claim("test")
        assert lease is not None
        lease.finish(status, retry_after=SecondsFromNow(retry))
    ThumbnailCleanupJob.objects.create(group_key=GROUP, execute_after=SecondsFromNow(-30))
    told = viewer.get(f"{THUMBS}/metrics").json()
    assert told["thumbnails"] == {"pending": 1, "running": 0, "ready": 0, "failed": 2}
    assert (told["queue_depth"], told["queue_capacity"]) == (1, 9)
    assert (told["retry_due"], told["retry_waiting"]) == (1, 1)
    assert 90 <= told["oldest_pending_seconds"] < 150
    assert (told["cleanups"]["pending"], told["cleanup_due"]) == (1, 1)
    assert 30 <= told["cleanup_lag_seconds"] < 90
    assert told["concurrency"] == {"image": 2, "video": 1}


def test_strangers_are_refused(file: LibraryFile) -> None:
    stranger = Client()
    assert ask(stranger, file).status_code == 401
    for path in ("/metrics", "/x", "/x/content"):
        assert stranger.get(THUMBS + path).status_code == 401
    assert post(stranger, "/cleanup/group", {"group_key": GROUP}).status_code == 401
