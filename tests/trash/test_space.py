from __future__ import annotations

import pytest

from duplicates.models import DuplicateGroup
from libraries.models import LibraryFile
from tests.duplicates.plans import copies, library, planned
from tests.trash.trashed import carried_out, item_at, left
from trash.models import Act
from trash.space import LastCopies, freed_bytes, gained, in_trash, last_copies, read_space

pytestmark = pytest.mark.django_db


def emptied(space: object, **fields: object) -> Act:
    return Act.objects.create(verb="empty", authorised_by="ada", space=space, status="completed", **fields)


def test_the_three_figures_are_three() -> None:
    photos = library()
    copies(photos, 1, "a", "old/a", size=2_000)
    plan = planned()
    copies(photos, 2, "b", "c", size=700)
    assert read_space().reclaimable_bytes == 2_700
    carried_out(plan)
    emptied({"uuid-1": [1_000, 5_500]})
    space = read_space()
    assert (space.reclaimable_bytes, space.is_reclaimable_exact) == (700, True)
    assert (space.trashed_bytes, space.trashed_count) == (2_000, 1)
    assert space.freed_bytes == 4_500
    assert DuplicateGroup.objects.count() == 1


def test_freed_is_what_the_filesystems_told_of_removing_for_good() -> None:
    copies(library(), 1, "a", "old/a")
    plan = planned("delete")
    emptied({"uuid-1": [100, 400], "uuid-2": [50, 60]})
    emptied({"uuid-1": [400, 300]})  # somebody else wrote meanwhile
    emptied({})
    Act.objects.create(plan=plan, authorised_by="ada", status="completed", space={"uuid-1": [0, 7]})
    Act.objects.create(verb="undo", authorised_by="ada", status="completed", space={"uuid-1": [0, 9_000]})
    assert freed_bytes() == 317
    assert gained(None) == 0


def test_moving_to_trash_frees_nothing() -> None:
    copies(library(), 1, "a", "old/a")
    carried_out(planned(), space={"uuid-1": [0, 9_000]})
    assert freed_bytes() == 0
    assert in_trash() == (1_000, 1)


def test_last_copies_are_counted_and_their_return_is_seen() -> None:
    photos = library()
    copies(photos, 1, "a", "old/a", "older/a")
    copies(photos, 2, "b", "old/b")
    carried_out(planned())
    assert last_copies() == LastCopies(0, True)
    LibraryFile.objects.filter(relative_path="a").update(is_missing=True)
    assert last_copies() == LastCopies(2, True)
    LibraryFile.objects.filter(relative_path="a").update(is_missing=False, needs_hash=True)
    assert last_copies() == LastCopies(2, True)  # it may have other bytes by now
    left(item_at("old/a"))
    assert last_copies() == LastCopies(0, True)  # the one that is back is a copy of the other one


def test_counting_gives_up_in_time_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trash.searching.FIRST_WINDOW", 2)
    copies(library(), 1, "a", *(f"old/{number}" for number in range(9)))
    carried_out(planned())
    LibraryFile.objects.update(is_missing=True)
    assert last_copies(seconds=-1) == LastCopies(2, False)
    assert last_copies() == LastCopies(9, True)
