from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from libraries.models import LibraryFile
from tests import factories
from tests.duplicates.plans import copies, library, planned
from tests.pages import HTMX, QueryCounter, text_of
from tests.thumbnails.made import failed, made
from thumbnails.models import Thumbnail

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("thumb_root")]

TILE = re.compile(r'<span class="picture [^>]*>.*?</span>', re.DOTALL)


def ask(client: Client, *files: LibraryFile, status: int = 200, **more: Any) -> Any:
    answer = client.post("/thumbs/ask/", {"file": [file.pk for file in files], **more})
    assert answer.status_code == status, answer.content
    return answer.json()


def key(content: int) -> str:
    return f"blake3:{content:064x}"


# --- Asking for all that is looked at ---------------------------------------------------------------------
def test_one_request_tells_of_all_tiles_and_asks_for_what_is_missing(viewer: Client) -> None:
    where = library()
    (there,), (new,), (text,) = (copies(where, n, name) for n, name in enumerate(("a.jpg", "b.png", "c.txt"), 1))
    (broken,) = copies(where, 4, "d.gif")
    (lost,) = copies(where, 5, "e.jpg", is_missing=True)
    thumbnail = made(there)
    failed(broken)
    answer = ask(viewer, there, new, text, broken, lost)
    assert answer["is_full"] is False
    pictures = answer["pictures"]
    assert pictures[str(there.pk)] == {
        "status": "ready", "address": f"/thumbs/{thumbnail.thumb_key}/", "width": 320, "height": 240,
    }  # fmt: skip
    assert pictures[str(new.pk)] == {"status": "waiting"}
    assert pictures[str(text.pk)] == {"status": "none"}
    assert pictures[str(broken.pk)]["status"] == "failed"
    assert "damaged" in pictures[str(broken.pk)]["why"]
    assert pictures[str(lost.pk)] == {"status": "failed", "why": "The file is not there any more."}
    row = Thumbnail.objects.get(file=new)
    assert (row.status, row.group_key, row.max_dimension) == ("pending", key(2), 320)
    assert not Thumbnail.objects.filter(file__in=[text, lost]).exists()


def test_asking_takes_the_same_number_of_queries_for_2_and_200_tiles(
    viewer: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    where = library()
    files = [copies(where, number, f"{number}.jpg")[0] for number in range(200)]
    ask(viewer, *files)
    with connection.execute_wrapper(counted := QueryCounter()):
        ask(viewer, *files[:2])
    with django_assert_num_queries(counted.count):
        ask(viewer, *files)
    assert Thumbnail.objects.count() == 200


def test_a_full_queue_says_so_and_tells_what_there_is(viewer: Client, settings: Settings) -> None:
    where = library()
    (there,), (first,), (second,) = (copies(where, n, f"{n}.jpg") for n in range(3))
    made(there)
    settings.THUMBNAIL_CAPACITY = 1
    answer = ask(viewer, there, first, second)
    assert answer["is_full"] is True
    assert [answer["pictures"][str(file.pk)]["status"] for file in (there, first, second)] == [
        "ready", "waiting", "waiting",
    ]  # fmt: skip
    assert Thumbnail.objects.filter(status="pending").count() == 1


@pytest.mark.parametrize(
    "sent",
    [{}, {"file": "x"}, {"file": "-1"}, {"file": "1" * 19}, {"file": "1", "size": "99"}, {"file": ["1"] * 201}],
    ids=["nothing", "a word", "below zero", "too large", "another size", "too many"],
)
def test_nonsense_is_refused(viewer: Client, sent: dict[str, Any]) -> None:
    assert viewer.post("/thumbs/ask/", sent).status_code == 400
    assert not Thumbnail.objects.exists()


def test_files_that_nobody_knows_are_not_there(viewer: Client) -> None:
    answer = viewer.post("/thumbs/ask/", {"file": ["123456"]}).json()
    assert answer["pictures"]["123456"]["status"] == "failed"


# --- The list ---------------------------------------------------------------------------------------------
def test_the_list_has_what_is_there_and_room_for_what_is_not(viewer: Client) -> None:
    where = library()
    there, waiting = copies(where, 1, "a.jpg", "b.jpg"), copies(where, 2, "c.mp4", "d.mp4")
    copies(where, 3, "e.txt", "f.txt")
    thumbnail = made(there[0])
    html = text_of(viewer, "/duplicates/")
    tiles = {re.search(r'data-media="(\w+)"', tile)[1]: tile for tile in TILE.findall(html)}  # type: ignore[index]
    assert f'src="/thumbs/{thumbnail.thumb_key}/" width="320" height="240" alt="" loading="lazy"' in tiles["image"]
    assert "data-thumb" not in tiles["image"]
    assert f'data-thumb="{waiting[0].pk}" data-size="320"' in tiles["video"]
    assert f'<noscript><img class="thumb" src="/thumbs/of/{waiting[0].pk}/?size=320"' in tiles["video"]
    assert "<img" not in tiles["document"]
    assert "data-thumb" not in tiles["document"]
    assert 'action="/thumbs/ask/"' in html
    assert not Thumbnail.objects.exclude(status="ready").exists(), "a page asks for nothing by itself"
    assert "<noscript><img" not in viewer.get("/duplicates/", headers=HTMX).content.decode()


def test_the_picture_of_any_copy_will_do(viewer: Client) -> None:
    first, second = copies(library(), 1, "a.jpg", "b.jpg")
    thumbnail = made(second)
    assert f"/thumbs/{thumbnail.thumb_key}/" in text_of(viewer, "/duplicates/")
    LibraryFile.objects.filter(pk=second.pk).update(content_hash=b"x" * 32)
    assert "/thumbs/" + thumbnail.thumb_key not in text_of(viewer, f"/thumbs/of/{first.pk}/")


def test_the_list_costs_the_same_number_of_queries_for_2_and_15_pictures(
    viewer: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    where = library()
    for number in range(2):
        made(copies(where, number, f"{number}.jpg", f"{number} copy.jpg")[0])
    text_of(viewer, "/duplicates/")
    with connection.execute_wrapper(counted := QueryCounter()):
        text_of(viewer, "/duplicates/")
    for number in range(2, 15):
        made(copies(where, number, f"{number}.jpg", f"{number} copy.jpg")[0])
    text_of(viewer, "/duplicates/")
    with django_assert_num_queries(counted.count):
        html = text_of(viewer, "/duplicates/")
    assert html.count('<img class="thumb"') == 15


# --- A group ----------------------------------------------------------------------------------------------
def test_a_group_has_one_large_picture_and_a_small_one_until_it_is_there(viewer: Client) -> None:
    file, _ = copies(library(), 1, "hills.jpg", "hills (1).jpg")
    html = text_of(viewer, f"/duplicates/{key(1)}/")
    assert f'data-thumb="{file.pk}" data-size="640"' in html
    assert html.count('class="picture ') == 1
    small = made(file)
    for where in (f"/duplicates/{key(1)}/", f"/duplicates/{key(1)}/preview/"):
        html = text_of(viewer, where)
        assert f'src="/thumbs/{small.thumb_key}/"' in html
        assert f'data-thumb="{file.pk}" data-size="640" data-alt="hills.jpg"' in html
    large = made(file, 640)
    html = text_of(viewer, f"/duplicates/{key(1)}/")
    assert f'src="/thumbs/{large.thumb_key}/" width="640" height="480" alt="hills.jpg"' in html
    assert "data-thumb" not in html


def test_originals_are_for_those_who_may_act(viewer: Client, operator: Client) -> None:
    files = copies(library(), 1, "a.jpg", "b.jpg")
    shown, hidden = (text_of(client, f"/duplicates/{key(1)}/") for client in (operator, viewer))
    for file in files:
        assert f'href="/thumbs/original/{file.pk}/" target="_blank" rel="noopener"' in shown
    assert "/thumbs/original/" not in hidden


# --- A plan -----------------------------------------------------------------------------------------------
def test_a_plan_has_a_picture_for_each_content_and_the_originals(
    viewer: Client, operator: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    where = library()
    kept, going = copies(where, 1, "a.jpg", "longer/a.jpg")
    copies(where, 2, "b.txt", "longer/b.txt")
    address = f"/plans/{planned().pk}/"
    assert f'data-thumb="{kept.pk}" data-size="320"' in text_of(viewer, address)
    with connection.execute_wrapper(counted := QueryCounter()):
        text_of(operator, address)
    thumbnail = made(going)
    with django_assert_num_queries(counted.count):
        html = text_of(operator, address)
    assert f'src="/thumbs/{thumbnail.thumb_key}/"' in html
    assert html.count('class="picture ') == 2
    for file in (kept, going):
        assert f'href="/thumbs/original/{file.pk}/"' in html
    assert "/thumbs/original/" not in text_of(viewer, address)
    assert 'action="/thumbs/ask/"' in html


def test_a_plan_of_files_that_the_index_lost_is_still_shown(operator: Client) -> None:
    where = library()
    copies(where, 1, "a.jpg", "longer/a.jpg")
    plan = planned()
    factories.library_file("other.jpg", where)
    LibraryFile.objects.filter(content_hash__isnull=False).delete()
    assert "a.jpg" in text_of(operator, f"/plans/{plan.pk}/")
