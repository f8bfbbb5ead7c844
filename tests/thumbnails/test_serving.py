from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from pytest_django import Settings

from database.clock import SecondsFromNow
from database.routing import EXECUTOR
from jobs.enforcing import transaction_on
from libraries.models import LibraryFile
from tests import factories
from tests.duplicates.plans import copies, library
from tests.pages import text_of
from tests.thumbnails.made import failed, made, picture
from thumbnails import admitting, serving
from thumbnails.models import Thumbnail

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("thumb_root")]


@pytest.fixture
def file() -> LibraryFile:
    return factories.library_file("a.jpg")


def address(thumbnail: Thumbnail) -> str:
    return f"/thumbs/{thumbnail.thumb_key}/"


@pytest.mark.parametrize("format", ["webp", "jpeg"])
@pytest.mark.parametrize("base", ["/thumbs/{}/", "/api/v1/thumbs/{}/content"], ids=["page", "API"])
def test_a_picture_is_kept_for_ever_and_never_guessed(
    viewer: Client, file: LibraryFile, format: str, base: str
) -> None:
    thumbnail = made(file, format=format)
    answer = viewer.get(base.format(thumbnail.thumb_key))
    assert (answer.status_code, answer["Content-Type"]) == (200, f"image/{format}")
    assert answer.content == picture(format=format, colour=file.pk * 40)
    assert answer["ETag"] == f'"{thumbnail.thumb_key}"'
    assert answer["Cache-Control"] == "private, max-age=31536000, immutable"
    assert answer["X-Content-Type-Options"] == "nosniff"
    head = viewer.head(address(thumbnail))
    assert (head.status_code, head.content, head["Content-Length"]) == (200, b"", str(thumbnail.bytes_size))


def test_whoever_has_it_gets_it_not_again_and_the_disk_is_not_asked(
    viewer: Client, file: LibraryFile, thumb_root: Path
) -> None:
    thumbnail = made(file)
    (thumb_root / (thumbnail.output_relpath or "")).unlink()
    for known in (f'"{thumbnail.thumb_key}"', f'"x", W/"{thumbnail.thumb_key}"', "*"):
        answer = viewer.get(address(thumbnail), headers={"If-None-Match": known})
        assert (answer.status_code, answer.content) == (304, b""), known
        assert "immutable" in answer["Cache-Control"]
    assert Thumbnail.objects.get().status == "ready"


def test_strangers_get_no_picture(file: LibraryFile) -> None:
    thumbnail = made(file)
    assert Client().get(address(thumbnail)).status_code == 302
    assert Client().get(f"/thumbs/of/{file.pk}/").status_code == 302
    assert Client().post("/thumbs/ask/", {"file": file.pk}).status_code == 302


@pytest.mark.parametrize("harm", ["gone", "empty", "a link", "its folder a link"])
def test_a_picture_that_is_gone_is_made_again(
    viewer: Client, file: LibraryFile, thumb_root: Path, tmp_path: Path, harm: str
) -> None:
    thumbnail = made(file)
    path = thumb_root / (thumbnail.output_relpath or "")
    if harm == "empty":
        path.write_bytes(b"")
    else:
        path.rename(tmp_path / path.name)
    if harm == "a link":
        path.symlink_to(tmp_path / path.name)
    elif harm == "its folder a link":
        path.parent.rmdir()
        path.parent.symlink_to(tmp_path)
    answer = viewer.get(address(thumbnail))
    assert (answer.status_code, answer["Content-Type"], answer["Cache-Control"]) == (202, "image/svg+xml", "no-store")
    assert int(answer["Retry-After"]) > 0
    assert b"<svg" in answer.content
    assert Thumbnail.objects.get().status == "pending"
    assert viewer.get(address(thumbnail)).status_code == 202


def test_a_row_that_names_no_place_is_found_by_its_key(viewer: Client, file: LibraryFile) -> None:
    thumbnail = made(file)
    Thumbnail.objects.update(output_relpath=None)
    assert viewer.get(address(thumbnail)).status_code == 200


def test_a_picture_of_what_the_file_was_is_not_made_again(viewer: Client, file: LibraryFile, thumb_root: Path) -> None:
    thumbnail = made(file)
    (thumb_root / (thumbnail.output_relpath or "")).unlink()
    LibraryFile.objects.update(mtime_ns=99)
    assert viewer.get(address(thumbnail)).status_code == 404
    assert Thumbnail.objects.get().status == "ready"


def test_a_picture_that_is_gone_waits_while_the_queue_is_full(
    viewer: Client, file: LibraryFile, thumb_root: Path, settings: Settings
) -> None:
    thumbnail = made(file)
    (thumb_root / (thumbnail.output_relpath or "")).unlink()
    settings.THUMBNAIL_CAPACITY = 0
    assert viewer.get(address(thumbnail)).status_code == 202


def test_a_disk_that_fails_is_no_reason_to_make_pictures_again(
    viewer: Client, file: LibraryFile, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> int:
        raise OSError(5, "Input/output error")

    thumbnail = made(file)
    monkeypatch.setattr(serving, "open_picture", fail)
    answer = viewer.get(address(thumbnail))
    assert (answer.status_code, answer["Content-Type"], answer["Cache-Control"]) == (503, "image/svg+xml", "no-store")
    assert Thumbnail.objects.get().status == "ready"
    assert "can't be read" in caplog.text


@pytest.mark.parametrize("key", ["%00", "x" * 64, "A" * 64, "a" * 63, "a" * 65, "%EF%BF%BD"])
@pytest.mark.parametrize("base", ["/thumbs/{}/", "/api/v1/thumbs/{}", "/api/v1/thumbs/{}/content"])
def test_what_is_no_key_is_not_found(viewer: Client, base: str, key: str) -> None:
    assert viewer.get(base.format(key)).status_code == 404


def test_what_is_refused_is_not_kept(viewer: Client, file: LibraryFile) -> None:
    answer = viewer.get(address(made(file)), headers={"If-Match": '"another"'})
    assert answer.status_code == 412
    assert "immutable" not in answer.get("Cache-Control", "")


def test_what_is_not_there_is_no_picture(viewer: Client, file: LibraryFile) -> None:
    admitting.request([file])
    assert viewer.get(address(Thumbnail.objects.get())).status_code == 202
    never = failed(factories.library_file("b.jpg", file.library))
    assert viewer.get(address(never)).status_code == 404
    assert viewer.get("/thumbs/nothing/").status_code == 404
    assert viewer.post(address(never)).status_code in (403, 405)


def test_a_look_is_noted_at_most_once_an_hour(viewer: Client, file: LibraryFile) -> None:
    thumbnail = made(file)
    viewer.get(address(thumbnail))
    assert Thumbnail.objects.get().last_used_at == thumbnail.last_used_at
    Thumbnail.objects.update(last_used_at=SecondsFromNow(-4000))
    old = Thumbnail.objects.get().last_used_at
    viewer.get(address(thumbnail))
    assert Thumbnail.objects.get().last_used_at > old


def test_a_look_at_what_the_browser_has_already_is_noted_too(viewer: Client) -> None:
    first, second = copies(library(), 1, "a.jpg", "b.jpg")
    thumbnail, other = made(first), made(second)
    known = {"If-None-Match": f'"{thumbnail.thumb_key}"'}
    for where, status in ((address(thumbnail), 304), ("/duplicates/", 200)):
        Thumbnail.objects.update(last_used_at=SecondsFromNow(-4000))
        assert viewer.get(where, headers=known).status_code == status
        used = Thumbnail.objects.filter(last_used_at__gt=SecondsFromNow(-60))
        assert list(used) == [thumbnail], f"not {other}, which was not shown"


def test_nobody_waits_for_a_note_that_somebody_looked(viewer: Client) -> None:
    (file, _) = copies(library(), 1, "a.jpg", "b.jpg")
    thumbnail = made(file)
    viewer.get("/duplicates/")
    Thumbnail.objects.update(last_used_at=SecondsFromNow(-4000))
    began = time.monotonic()
    with suppress(InterruptedError), transaction_on("cleanup"):
        Thumbnail.objects.using(EXECUTOR).filter(pk=thumbnail.pk)._raw_delete(EXECUTOR)
        assert viewer.get(address(thumbnail)).status_code == 200
        assert f"/thumbs/{thumbnail.thumb_key}/" in text_of(viewer, "/duplicates/")
        raise InterruptedError
    assert time.monotonic() - began < 5
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            assert cursor.execute("PRAGMA busy_timeout").fetchone() == (settings.SQLITE_BUSY_SECONDS * 1000,)
    viewer.get(address(thumbnail))
    assert Thumbnail.objects.filter(last_used_at__gt=SecondsFromNow(-60)).exists(), "the next look is noted"


# --- Without JavaScript -----------------------------------------------------------------------------------
def test_a_page_without_javascript_gets_a_drawing_and_later_the_picture(viewer: Client, file: LibraryFile) -> None:
    where = f"/thumbs/of/{file.pk}/?size=320"
    first = viewer.get(where)
    assert (first.status_code, first["Content-Type"], first["Cache-Control"]) == (200, "image/svg+xml", "no-store")
    assert Thumbnail.objects.get().status == "pending"
    thumbnail = made(file)
    second = viewer.get(where)
    assert (second["Content-Type"], second["Cache-Control"]) == ("image/webp", "private, no-cache")
    assert viewer.get(where, headers={"If-None-Match": second["ETag"]}).status_code == 304
    assert second["ETag"] == f'"{thumbnail.thumb_key}"'


@pytest.mark.parametrize("name", ["notes.txt", "a"])
def test_what_no_picture_can_be_made_of_gets_a_drawing_and_no_row(viewer: Client, name: str) -> None:
    other = factories.library_file(name)
    assert viewer.get(f"/thumbs/of/{other.pk}/")["Content-Type"] == "image/svg+xml"
    assert not Thumbnail.objects.exists()


def test_there_are_two_sizes_and_no_more(viewer: Client, file: LibraryFile) -> None:
    assert viewer.get(f"/thumbs/of/{file.pk}/?size=640").status_code == 200
    for size in ("0", "321", "-1", "x", "99999999999999999999"):
        assert viewer.get(f"/thumbs/of/{file.pk}/?size={size}").status_code == 404
    assert viewer.get("/thumbs/of/999999/").status_code == 404
    assert Thumbnail.objects.get().max_dimension == 640
