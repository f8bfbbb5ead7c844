"""Ignoring all that a filter matches, and taking back just that."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from duplicates import ignoring, ignoring_all
from duplicates.filtering import Filter
from duplicates.models import IgnoredGroup
from jobs.errors import Refused
from libraries.models import LibraryFile, LibraryRoot
from logbook.models import LogbookEvent
from tests.duplicates.plans import copies, digest, library, unsaved
from tests.pages import text_of, words_of

pytestmark = pytest.mark.django_db

IMAGES = Filter.parse({"media": "image"})
ADDRESS = "/duplicates/ignore/matching/"


def groups(count: int, ending: str = "jpg", first: int = 1) -> list[str]:
    """Pairs of equal files; their keys."""
    where = LibraryRoot.objects.first() or library()
    wanted = range(first, first + count)
    LibraryFile.objects.bulk_create(
        file for number in wanted for file in unsaved(where, number, *(f"{side}/{number}.{ending}" for side in "ab"))
    )
    return [key(number) for number in wanted]


def key(number: int) -> str:
    return f"blake3:{digest(number).hex()}"


def ignored() -> set[str]:
    return {str(row) for row in IgnoredGroup.objects.all()}


def history(of: str) -> list[tuple[str, str | None]]:
    return [(event.event_type, event.actor) for event in LogbookEvent.objects.about(ignoring.ITEM, of)]


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every page is a transaction, and time is up after each."""
    monkeypatch.setattr(ignoring_all, "PAGE", 2)
    monkeypatch.setattr(ignoring_all, "SECONDS", 0.0)


# --- The verb ---------------------------------------------------------------------------------------------
def test_all_that_match_are_ignored_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ignoring_all, "PAGE", 2)
    images, _films = groups(5), groups(2, "mp4", first=50)
    batch = ignoring_all.ignore_matching(IMAGES, actor="otto", note=" logos ")
    assert ignored() == set(images)
    assert (batch.count, batch.is_all) == (5, True)
    assert set(IgnoredGroup.objects.values_list("note", "ignored_by")) == {("logos", "otto")}
    assert history(images[0]) == [("ignored", "otto")]
    assert LogbookEvent.objects.about(ignoring.ITEM, images[4]).get().payload_json == {"note": "logos"}


def test_undo_lists_just_that_batch_again() -> None:
    before, *others = groups(5)
    ignoring.ignore(before, actor="otto")
    batch = ignoring_all.ignore_matching(IMAGES, actor="otto")
    ignoring.ignore(key(99), actor="otto")
    ignoring.ignore(key(98), actor="vera")
    left = ignoring_all.undo(batch, actor="otto")
    assert ignored() == {before, key(99), key(98)}
    assert (left.count, left.is_all) == (0, True)
    assert history(others[0]) == [("ignored", "otto"), ("no longer ignored", "otto")]
    assert ignoring_all.undo(batch, actor="otto").is_all, "twice is once"


def test_nobody_undoes_what_somebody_else_ignored() -> None:
    groups(2)
    batch = ignoring_all.ignore_matching(IMAGES, actor="otto")
    ignoring_all.undo(batch, actor="vera")
    assert len(ignored()) == 2


def test_what_time_was_too_short_for_goes_on_as_the_same_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ignoring_all, "PAGE", 2)
    images = groups(5)
    batch = ignoring_all.ignore_matching(IMAGES, actor="otto", seconds=0.0)
    assert (batch.count, batch.is_all) == (2, False)
    rounds = 0
    while not batch.is_all:
        batch = ignoring_all.ignore_matching(IMAGES, actor="otto", after=batch.after, cursor=batch.cursor, seconds=0.0)
        rounds += 1
    assert (batch.count, rounds) == (5, 2)
    assert ignored() == set(images)
    ignoring_all.undo(batch, actor="otto")
    assert ignored() == set()


def test_without_a_filter_nothing_is_ignored() -> None:
    groups(2)
    for filter in (Filter(), Filter.parse({"ignored": "all"})):
        with pytest.raises(Refused, match="Set a filter first"):
            ignoring_all.ignore_matching(filter, actor="otto")
    with pytest.raises(Refused, match="note"):
        ignoring_all.ignore_matching(IMAGES, actor="otto", note="n" * 300)
    assert not ignored()


def test_all_that_match_are_listed_again() -> None:
    images, films = groups(3), groups(2, "mp4", first=50)
    for each in (*images, *films):
        ignoring.ignore(each, actor="vera")
    assert ignoring_all.list_again(IMAGES, actor="otto") == (3, True)
    assert ignored() == set(films)
    assert history(images[0]) == [("ignored", "vera"), ("no longer ignored", "otto")]


# --- The page ---------------------------------------------------------------------------------------------
def hidden(html: str, button: str) -> dict[str, str]:
    """What the form with this button sends."""
    form = next(each for each in re.findall(r"<form.*?</form>", html, flags=re.S) if f'id="{button}"' in each)
    return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))


def test_the_page_offers_it_for_a_filter_alone(operator: Client, viewer: Client) -> None:
    groups(1)
    assert "Ignore all…" in text_of(operator, "/duplicates/?media=image")
    for client, address in ((operator, ""), (operator, "?ignored=all"), (viewer, "?media=image")):
        assert "Ignore all…" not in text_of(client, f"/duplicates/{address}")
    ignoring.ignore(key(1), actor="otto")
    assert "List all again…" in text_of(operator, "/duplicates/?ignored=only")


def test_the_page_says_how_many_and_takes_it_back(operator: Client) -> None:
    images = groups(60)
    groups(1, "mp4", first=90)
    sent = {"filter": "media=image", "back": "media=image&order=size", "note": "logos"}
    answer = operator.post(ADDRESS, sent, follow=True)
    assert answer.redirect_chain == [("/duplicates/?media=image&order=size", 302)]
    html = answer.content.decode()
    assert ignored() == set(images)
    assert "60 groups are ignored" in words_of(html)
    assert "Go on" not in html
    assert "60 groups are ignored" not in text_of(operator, "/duplicates/"), "said once"
    answer = operator.post("/duplicates/ignore/undo/", hidden(html, "undo-ignoring"), follow=True)
    assert "these groups are listed again" in answer.content.decode()
    assert not ignored()


@pytest.mark.usefixtures("small_pages")
def test_the_page_goes_on_where_time_was_up(operator: Client) -> None:
    images = groups(5)
    html = operator.post(ADDRESS, {"filter": "media=image", "note": "logos"}, follow=True).content.decode()
    assert "2 groups are ignored" in words_of(html)
    assert "More groups match" in html
    while 'id="ignore-more"' in html:
        html = operator.post(ADDRESS, hidden(html, "ignore-more"), follow=True).content.decode()
    assert "5 groups are ignored" in words_of(html)
    assert ignored() == set(images)
    assert set(IgnoredGroup.objects.values_list("note", flat=True)) == {"logos"}
    while 'id="undo-ignoring"' in html:
        html = operator.post("/duplicates/ignore/undo/", hidden(html, "undo-ignoring"), follow=True).content.decode()
    assert not ignored()


def test_the_page_lists_all_again(operator: Client) -> None:
    for each in groups(3):
        ignoring.ignore(each, actor="vera")
    answer = operator.post(ADDRESS, {"filter": "ignored=only", "undo": "1", "back": "ignored=only"}, follow=True)
    assert "3 groups are listed again." in answer.content.decode()
    assert not ignored()


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({}, "Set a filter first"),
        ({"filter": "media=nonsense"}, "nonsense"),
        ({"filter": "media=image", "note": "n" * 300}, "A note may have 255 characters"),
        ({"filter": "media=image", "cursor": "nowhere"}, "cursor"),
    ],
)
def test_the_page_says_what_is_refused(operator: Client, sent: dict[str, Any], said: str) -> None:
    groups(1)
    answer = operator.post(ADDRESS, {**sent, "back": "//evil.example/"}, follow=True)
    assert answer.redirect_chain[0][0].startswith("/duplicates/?")
    assert said in words_of(answer.content.decode())
    assert not ignored()


def test_viewers_ignore_nothing_and_nonsense_is_not_found(operator: Client, viewer: Client) -> None:
    copies(library(), 1, "a.jpg", "b.jpg")
    assert viewer.post(ADDRESS, {"filter": "media=image"}).status_code == 403
    assert viewer.post("/duplicates/ignore/undo/", {"after": "0", "upto": "9"}).status_code == 403
    for sent in ({}, {"after": "0"}, {"after": "x", "upto": "9"}, {"after": "0", "upto": "9" * 30}):
        assert operator.post("/duplicates/ignore/undo/", sent).status_code == 404
    assert operator.get(ADDRESS).status_code == 405
    assert not ignored()
