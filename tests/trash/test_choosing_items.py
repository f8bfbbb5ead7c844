"""Which files of the trash a selection means, and what may stand in one."""

from __future__ import annotations

from typing import Any

import pytest

from libraries.errors import Refused
from tests.duplicates.plans import copies, library, planned
from tests.trash.trashed import carried_out, item_at
from trash import choosing_items
from trash.models import TrashItem

PATHS = ["old/b.jpg", "old/deep/c.jpg", "older/d.jpg", "OLD/e.jpg", "o_d/f.jpg"]


def lying(**selection: Any) -> list[str]:
    rows = choosing_items.lying(selection)
    return sorted(rows.values_list("plan_file__relative_path", flat=True))


@pytest.mark.django_db
def test_each_selection_means_its_files() -> None:
    photos = library()
    copies(photos, 1, "a", *PATHS)
    first = planned()
    carried_out(first, days_ago=40)
    copies(photos, 2, "b", "old/new.jpg")
    second = planned()
    carried_out(second, days_ago=2)
    everything = sorted([*PATHS, "old/new.jpg"])
    assert lying(all=True) == everything
    assert lying(plan=first.pk) == sorted(PATHS)
    assert lying(plan=second.pk) == ["old/new.jpg"]
    assert lying(folder=[photos.pk, "old"]) == ["old/b.jpg", "old/deep/c.jpg", "old/new.jpg"]
    assert lying(folder=[photos.pk, "/old/deep/"]) == ["old/deep/c.jpg"]
    assert lying(folder=[photos.pk, "o_d"]) == ["o_d/f.jpg"]
    assert lying(folder=[photos.pk, ""]) == everything
    assert lying(folder=[photos.pk + 1, ""]) == []
    assert lying(older_than_days=30) == sorted(PATHS)
    assert lying(older_than_days=41) == []
    keys = [item_at("old/b.jpg").pk, item_at("old/new.jpg").pk]
    assert lying(items=[*keys, keys[0]]) == ["old/b.jpg", "old/new.jpg"]
    assert choosing_items.figures(choosing_items.lying({"all": True})) == (6, 6_000)


@pytest.mark.django_db
def test_what_left_or_is_on_its_way_is_not_meant() -> None:
    copies(library(), 1, "a", *PATHS)
    plan = planned()
    carried_out(plan)
    for path, statuses in {
        "old/b.jpg": ["undoing", "undone"],
        "older/d.jpg": ["emptying", "emptied"],
        "OLD/e.jpg": ["undoing"],
    }.items():
        for status in statuses:
            TrashItem.objects.filter(pk=item_at(path).pk).update(status=status)
    assert lying(all=True) == ["o_d/f.jpg", "old/deep/c.jpg"]
    assert choosing_items.deleted_for_good({"plan": plan.pk}) == 1
    assert choosing_items.deleted_for_good({"items": [item_at("old/b.jpg").pk]}) == 0


@pytest.mark.parametrize(
    "selection",
    [
        {},
        None,
        [],
        "all",
        {"all": True, "plan": 1},
        {"everything": True},
        {"all": False},
        {"all": "yes"},
        {"items": []},
        {"items": [True]},
        {"items": ["1"]},
        {"items": [0]},
        {"items": [2**63]},
        {"items": list(range(1, 10_002))},
        {"plan": "12"},
        {"plan": -1},
        {"folder": "old"},
        {"folder": [1]},
        {"folder": [1, "a/../b"]},
        {"folder": [1, "a\0"]},
        {"folder": [1, 5]},
        {"folder": [1, "x" * 5000]},
        {"older_than_days": -1},
        {"older_than_days": 1.5},
        {"older_than_days": 10**9},
    ],
)
def test_a_selection_that_is_none_is_refused_with_words(selection: Any) -> None:
    with pytest.raises(Refused) as caught:
        choosing_items.checked(selection)
    assert len(str(caught.value)) > 20


def test_a_selection_has_one_written_form() -> None:
    assert choosing_items.checked({"items": [3, 1, 3]}) == {"items": [1, 3]}
    assert choosing_items.checked({"folder": (2, "/a//b/")}) == {"folder": [2, "a/b"]}


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        ({"items": [1]}, "1 chosen file"),
        ({"items": [1, 2]}, "2 chosen files"),
        ({"plan": 12}, "the files of plan 12"),
        ({"folder": [1, "a/b\n"]}, "the files from a/b\\n"),
        ({"folder": [1, ""]}, "the files from the whole library"),
        ({"older_than_days": 30}, "what has been in the trash for more than 30 days"),
        ({"all": True}, "everything in the trash"),
    ],
)
def test_a_selection_is_told_in_words(selection: Any, words: str) -> None:
    assert choosing_items.described(selection) == words
