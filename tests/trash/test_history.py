from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlencode

import pytest
from django.test import Client

from duplicates import plan_changing
from libraries.models import LibraryRoot
from libraries.names import to_bytes, to_text
from tests.duplicates.plans import copies, item, library, planned
from tests.pages import text_of, words_of
from tests.trash.acts import acted, carry_out, items, trash_of
from tests.trash.acts import library as real_library
from tests.trash.trashed import carried_out, item_at, left, stayed
from trash.authorising import authorise_emptying
from trash.from_manifest import Told, undo_from
from trash.history import address_of, path_key, read_history
from trash.marking_undone import mark_undone
from trash.models import Act, TrashItem

pytestmark = pytest.mark.django_db


def told(library_id: int, path: str) -> list[str]:
    return [moment.words for moment in read_history(library_id, path).moments]


@pytest.fixture
def photos() -> LibraryRoot:
    made = library()
    copies(made, 1, "a.jpg", "old/a.jpg")
    return made


def test_a_key_is_of_the_bytes() -> None:
    assert path_key(b"caf\xe9") == path_key(to_text(b"caf\xe9"))
    assert path_key("café") != path_key(b"caf\xe9")
    assert len(path_key("x" * 4_000)) == 16


def test_everything_that_happened_is_told_in_time_order(photos: LibraryRoot) -> None:
    first, second = planned(), planned("hardlink")
    carried_out(first, actor="ada", days_ago=-1)
    left(item_at("old/a.jpg"), actor="otto")
    assert told(photos.pk, "old/a.jpg")[:2] == [
        f"Plan {first.pk} by otto: it goes (move to trash).",
        f"Plan {second.pk} by otto: it goes (replace by a hard link).",
    ]
    assert set(told(photos.pk, "old/a.jpg")[2:]) == {
        f"Plan {first.pk} was authorised by ada.",
        "Moved to the trash.",
        "Undoing was asked for by otto.",
        "Put back where it was.",
    }
    moments = read_history(photos.pk, "old/a.jpg").moments
    times = [moment.at for moment in moments if moment.at is not None]
    assert len(times) == len(moments) == 6
    assert times == sorted(times)
    assert moments[0].reason  # why the plan decided so
    assert moments[0].other == "photos: a.jpg"


def test_a_file_that_stays_has_a_history_too(photos: LibraryRoot) -> None:
    plan = planned()
    carried_out(plan)
    assert told(photos.pk, "a.jpg") == [f"Plan {plan.pk} by otto: it stays, and 1 copy goes."]


def test_what_was_taken_out_and_what_was_never_reached(photos: LibraryRoot) -> None:
    plan = planned()
    Act.objects.create(plan=plan, authorised_by="ada", status="cancelled", note="Stopped by ada.")
    assert told(photos.pk, "old/a.jpg")[1:] == [
        f"Plan {plan.pk} was authorised by ada.",
        "It ended before it came to this file.",
    ]
    other = planned()
    plan_changing.take_out(other.pk, [item(other, "old/a.jpg").pk], actor="otto")
    assert f"Plan {other.pk} by otto: it would have gone, and was taken out by hand." in told(photos.pk, "old/a.jpg")


def test_outcomes_have_their_reasons(photos: LibraryRoot) -> None:
    carried_out(planned())
    stayed(item_at("old/a.jpg"), "PLACE_TAKEN", "Something else is there.")
    moments = read_history(photos.pk, "old/a.jpg").moments
    (why,) = [moment for moment in moments if moment.code]
    assert (why.words, why.reason) == ("It could not be put back and stays in the trash.", "Something else is there.")
    rows = TrashItem.objects.all()
    rows.update(status="emptying")
    assert "It is being put back." in told(photos.pk, "old/a.jpg")  # its act is that of an undo
    rows.update(status="emptied")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("skipped", "Left as it was: it could not be proved, or may not be touched."),
        ("deleted", "Deleted for good."),
        ("intended", "About to be acted on. If that was cut off, the next run finds out what became of it."),
    ],
)
def test_each_outcome_has_its_words(photos: LibraryRoot, status: str, words: str) -> None:
    plan = planned()
    act = Act.objects.create(plan=plan, authorised_by="ada", status="running")
    TrashItem.objects.create(
        act=act, plan_file=item(plan, "old/a.jpg"), library=photos, path_key=path_key("old/a.jpg"), status=status,
        reason_code="VICTIM_CHANGED" if status == "skipped" else "", reason="It is larger by now.",
    )  # fmt: skip
    assert words in told(photos.pk, "old/a.jpg")


def test_emptied_is_the_end(photos: LibraryRoot) -> None:
    carried_out(planned())
    left(item_at("old/a.jpg"), "empty", actor="ada")
    assert told(photos.pk, "old/a.jpg")[-2:] == ["Emptying was authorised by ada.", "Removed from the trash for good."]


@pytest.mark.usefixtures("everything_allowed")
def test_what_came_back_by_the_manifest_alone_is_told(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    photos = real_library(root, {"a": b"one", "b/copy": b"one"})
    acted()

    def mark(key: str, back: list[Told]) -> None:
        mark_undone(key, back, actor="ada")

    list(undo_from(os.fsencode(root / ".dedupfs-trash"), mark))
    assert (root / "b/copy").read_bytes() == b"one"
    moment = read_history(photos.pk, "b/copy").moments[-1]
    assert moment.words == "Put back where it was, by the manifest that lay beside it."
    assert moment.at is not None


@pytest.mark.usefixtures("everything_allowed")
def test_what_somebody_took_out_of_the_trash_is_not_told_as_removed(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    photos = real_library(root, {"a": b"one", "b/copy": b"one"})
    act = acted()
    (trash_of(root, act) / "files" / str(items(act)["b/copy"].plan_file_id)).rename(root / "b/copy")
    emptying = carry_out(authorise_emptying({"all": True}, 1, actor="ada"))
    assert (emptying.status, emptying.done_count, emptying.skipped_count) == ("completed", 0, 1)
    moment = read_history(photos.pk, "b/copy").moments[-1]
    assert moment.words == "It was not in the trash any more when it was to be emptied."
    assert (moment.code, moment.reason) == (
        "TRASH_GONE",
        "Somebody had taken it out of the trash, or removed it there.",
    )


# --- The page ---------------------------------------------------------------------------------------------
def test_a_path_is_given_as_text_or_as_bytes(viewer: Client) -> None:
    path = to_text(b"old/caf\xe9\n<b>.jpg")
    photos = library()
    copies(photos, 1, "a", path)
    carried_out(planned())
    by_hex = f"/trash/history/?library={photos.pk}&path_hex={to_bytes(path).hex()}"
    for address in (address_of(photos.pk, path), by_hex):
        html = text_of(viewer, address)
        assert "Moved to the trash." in words_of(html)
        assert "caf\\xe9\\n&lt;b&gt;.jpg" in html
        assert "/trash/undo/" not in html
    # Other bytes that look alike are another path.
    assert "Nothing has happened to it" in text_of(viewer, f"/trash/history/?library={photos.pk}&path=old/café")


def test_the_page_offers_undo_while_it_can(operator: Client, photos: LibraryRoot) -> None:
    address = address_of(photos.pk, "old/a.jpg")
    assert "No plan has named this file" in words_of(text_of(operator, address))
    carried_out(planned())
    assert "/trash/undo/" in text_of(operator, address)
    left(item_at("old/a.jpg"))
    assert "/trash/undo/" not in text_of(operator, address)


def test_what_is_no_path_is_not_found(viewer: Client, photos: LibraryRoot) -> None:
    for query in (
        {"library": "x", "path": "a"}, {"library": 999, "path": "a"}, {"library": photos.pk, "path": ""},
        {"library": photos.pk, "path": "a\0b"}, {"library": photos.pk, "path_hex": "zz"},
        {"library": photos.pk, "path_hex": "00"}, {"library": photos.pk, "path": "x" * 5_000},
    ):  # fmt: skip
        assert viewer.get(f"/trash/history/?{urlencode(query)}").status_code == 404, query
    assert viewer.get("/trash/history/")["Location"] == "/trash/"
    assert viewer.get(f"/trash/history/?library={photos.pk}&path=../../etc/passwd").status_code == 200


def test_a_group_leads_to_the_history_of_each_copy(viewer: Client, photos: LibraryRoot) -> None:
    html = text_of(viewer, f"/duplicates/blake3:{(1).to_bytes(32, 'big').hex()}/")
    assert f"/trash/history/?library={photos.pk}&amp;path=old%2Fa.jpg" in html
