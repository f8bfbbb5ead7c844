"""What lies in a folder is found along an index, on both databases: nobody waits for the rest of the library."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from duplicates import folder_pairs, listing, plan_changing, plan_folders
from duplicates.facts import read_places
from duplicates.filtering import Filter
from duplicates.folder_pairs import Side
from libraries.models import LibraryFile, LibraryRoot
from tests.duplicates.plans import item, library, planned, unsaved

pytestmark = pytest.mark.django_db
INDEX = {"sqlite": "ux_library_files_library_path", "postgresql": "ix_library_files_path_order"}


@pytest.fixture
def photos() -> LibraryRoot:
    """So many files that reading all of them is no way for either database."""
    photos = library()
    LibraryFile.objects.bulk_create(
        file for n in range(1_000) for file in unsaved(photos, n, f"keep/{n:04}.jpg", f"{n % 50:03}/b/{n}.jpg")
    )
    if connection.vendor == "postgresql":  # SQLite needs no figures for this, and would keep them for other tests
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE library_files")
    listing.page(Filter(), "size", None, 1)
    return photos


def plans_of(call: Callable[[], object], *words: str) -> list[str]:
    """How the statements are carried out that a call asks with these words in them."""
    with CaptureQueriesContext(connection) as queries:
        call()
    explain = "EXPLAIN QUERY PLAN" if connection.vendor == "sqlite" else "EXPLAIN"
    found = []
    for sql in [query["sql"] for query in queries if all(word in query["sql"] for word in words)]:
        with connection.cursor() as cursor:
            cursor.execute(f"{explain} {sql}".replace("%", "%%"), [])
            found.append("\n".join(str(row[-1]) for row in cursor.fetchall()))
    assert found
    return found


def assert_walks(plan: str) -> None:
    assert INDEX[connection.vendor] in plan, plan
    assert "Seq Scan on library_files" not in plan, plan


def test_groups_of_a_folder_are_found_from_its_files(photos: LibraryRoot) -> None:
    wanted = Filter(library=photos.pk, folder="007")
    for call in (lambda: listing.page(wanted, "size", None, 10), lambda: listing.totals(wanted)):
        plans = plans_of(call, "library_files", "007/")
        assert len(plans) == 2, "whether they are few, and the groups themselves"
        for plan in plans:
            assert_walks(plan)
    assert len(listing.page(wanted, "size", None, 100).groups) == 20


def test_a_folder_of_a_plan_is_walked(photos: LibraryRoot) -> None:
    for plan in plans_of(lambda: plan_folders.look_into([(photos.pk, "007/b")], "default"), "library_files"):
        assert_walks(plan)


def test_a_page_that_changes_a_plan_walks_one_folder(photos: LibraryRoot) -> None:
    plan = planned(group_keys=[f"blake3:{(7).to_bytes(32, 'big').hex()}"])
    chosen = item(plan, "keep/0007.jpg")
    call = partial(plan_changing.swap_keeper, plan.pk, chosen.pk, actor="otto")
    for each in plans_of(call, "SELECT relative_path FROM library_files", "007/b/"):
        assert_walks(each)


def test_files_of_a_pair_are_walked_and_go_on_in_the_order_of_paths(
    photos: LibraryRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_pairs, "PART_FILES", 7)
    side = Side(read_places()[photos.pk], "007", (), 0, 0, 0)
    found: list[str] = []
    after: int | None = None
    while rows := folder_pairs._below(side, after):
        for plan in plans_of(partial(folder_pairs._below, side, after), "ORDER BY", "007/"):
            assert_walks(plan)
        found += [path for _key, path, _size, _digest in rows]
        after = rows[-1][0]
    assert found == sorted(f"007/b/{n}.jpg" for n in range(7, 1_000, 50))


def test_many_folders_are_counted_the_same_in_one_go(photos: LibraryRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [(photos.pk, folder) for folder in ("", "keep", "007", "007/b", "none")]
    one_by_one = plan_folders.look_into(keys, "default")
    monkeypatch.setattr(plan_folders, "MOST_WALKED", 0)
    assert plan_folders.look_into(keys, "default") == one_by_one
    assert [inside.files for inside in one_by_one.values()] == [0, 1_000, 0, 20, 0]
