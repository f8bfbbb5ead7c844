from __future__ import annotations

from typing import Any

import pytest

from duplicates.models import Plan
from duplicates.plan_warnings import side_car_paths
from duplicates.plan_words import described
from libraries.models import HashRun, LibraryState
from libraries.names import to_text
from tests import factories
from tests.duplicates.plans import copies, library, planned, warning

pytestmark = pytest.mark.django_db


def words(plan: Plan, code: str) -> str:
    found = described(warning(plan, code))
    assert found is not None
    return " ".join([found.title, found.text, *found.examples])


# --- Side-cars --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("beside", ["IMG_1.xmp", "IMG_1.AAE", "IMG_1.HEIC.xmp", "IMG_1.MOV", "IMG_1.HEIC.json"])
def test_side_cars_left_behind_are_named(beside: str) -> None:
    photos = library()
    copies(photos, 1, "IMG_1.HEIC", "old/IMG_1.HEIC")
    copies(photos, 2, f"old/{beside}")
    copies(photos, 3, "IMG_1.xmp")  # beside the one that stays
    plan = planned()
    found = warning(plan, "side_cars")
    assert found == {"code": "side_cars", "count": 1, "examples": [{"library": "photos", "path": f"old/{beside}"}]}
    assert f"photos: old/{beside}" in words(plan, "side_cars")


@pytest.mark.parametrize(
    ("name", "beside"),
    [
        ("a.jpg", "b.xmp"),  # another's
        ("a.mp4", "a.mov"),  # a film beside a film
        ("a.txt", "a.xmp"),  # no picture
        ("a.jpg", "deep/a.xmp"),  # another folder
    ],
)
def test_files_of_others_are_no_side_cars(name: str, beside: str) -> None:
    photos = library()
    copies(photos, 1, name, f"old/{name}")
    copies(photos, 2, f"old/{beside}")
    assert warning(planned(), "side_cars") is None


def test_side_cars_that_go_themselves_or_are_missing_are_not_left_behind() -> None:
    photos = library()
    copies(photos, 1, "a.jpg", "old/a.jpg")
    copies(photos, 2, "a.xmp", "old/a.xmp")
    copies(photos, 3, "old/a.aae", is_missing=True)
    assert warning(planned(), "side_cars") is None


def test_side_cars_are_counted_and_the_first_are_named() -> None:
    photos = library()
    for number in range(5):
        copies(photos, number, f"{number}.jpg", f"old/{number}.jpg", f"old/{number}.jpeg")
        copies(photos, 100 + number, f"old/{number}.xmp")
    found = warning(planned(), "side_cars")
    assert found is not None
    assert (found["count"], len(found["examples"])) == (5, 3)


def test_names_that_are_no_text_have_side_cars_too() -> None:
    photos = library()
    hostile = to_text(b"caf\xe9/IMG.jpg")
    copies(photos, 1, "a.jpg", hostile)
    copies(photos, 2, to_text(b"caf\xe9/IMG.xmp"))
    assert "caf\\xe9/IMG.xmp" in words(planned(), "side_cars")


def test_where_side_cars_would_be() -> None:
    assert "x/a.xmp" in side_car_paths("x/a.jpg")
    assert "x/a.jpg.XMP" in side_car_paths("x/a.jpg")
    assert "a.mov" in side_car_paths("a.heic")
    assert "a.mov" not in side_car_paths("a.mov")
    assert side_car_paths(".jpg") == side_car_paths("x/noending") == []


# --- Libraries --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("state", "code", "said"),
    [
        ({"is_writable": False}, "not_writable", "can't be written to"),
        ({"mount": "absent"}, "not_mounted", "its folder is not there"),
        ({"mount": "different"}, "not_mounted", "another disk"),
        ({"mount": "unknown"}, "not_seen", "Nobody has looked"),
    ],
)
def test_a_library_in_which_nothing_can_be_done_is_named(state: dict[str, Any], code: str, said: str) -> None:
    copies(library("old disk", **state), 1, "a", "far/a")
    plan = planned()
    found = warning(plan, code)
    assert found is not None
    assert (found["count"], found["library"]) == (1, "old disk")
    assert said in words(plan, code)


def test_a_library_that_only_keeps_is_not_warned_of() -> None:
    keeps, loses = library("keeps", is_writable=False), library("loses")
    copies(keeps, 1, "a")
    copies(loses, 1, "far/a")
    assert warning(planned(), "not_writable") is None


def test_a_keeper_in_another_library_is_said() -> None:
    keeps, loses = library("keeps"), library("loses")
    copies(keeps, 1, "a")
    copies(loses, 1, "far/a")
    plan = planned()
    found = warning(plan, "keeper_elsewhere")
    assert found == {"code": "keeper_elsewhere", "count": 1, "examples": [{"library": "loses", "path": "far/a"}]}
    assert warning(plan, "hardlink_filesystems") is None


def test_hard_links_across_filesystems_and_libraries_are_said() -> None:
    keeps, loses = library("keeps"), library("loses", filesystems={"": "uuid-1", "far": "uuid-2"})
    copies(keeps, 1, "a")
    copies(loses, 1, "far/a", "same/disk/a")
    plan = planned("hardlink")
    libraries, filesystems = warning(plan, "hardlink_libraries"), warning(plan, "hardlink_filesystems")
    assert libraries is not None
    assert filesystems is not None
    assert (libraries["count"], filesystems["count"]) == (2, 1)
    assert filesystems["examples"] == [{"library": "loses", "path": "far/a"}]


def test_filesystems_without_a_name_are_told_apart_by_their_device() -> None:
    photos = library(filesystems={})
    copies(photos, 1, "a", device=1)
    copies(photos, 1, "far/a", device=2)
    found = warning(planned("hardlink"), "hardlink_filesystems")
    assert found is not None
    assert found["count"] == 1


# --- The rest ---------------------------------------------------------------------------------------------
def test_folders_that_would_become_empty_are_counted_and_named() -> None:
    photos = library()
    copies(photos, 1, "a", "old/a")
    copies(photos, 2, "b", "half/b")
    copies(photos, 3, "half/only")
    plan = planned()
    assert warning(plan, "emptied") == {
        "code": "emptied",
        "count": 1,
        "examples": [{"library": "photos", "path": "old"}],
    }
    assert "1 folder would become empty" in words(plan, "emptied")


def test_reading_again_is_reckoned_by_the_last_hash_job() -> None:
    photos = library()
    copies(photos, 1, "a", "old/a", "old/er/a", size=1_000_000)
    plan = planned()
    assert warning(plan, "reading") == {
        "code": "reading",
        "bytes": 3_000_000,
        "bytes_per_second": 100_000_000,
        "is_measured": False,
    }
    assert "assumed" in words(plan, "reading")
    HashRun.objects.create(job=factories.finished_job("hash"), bytes_done=10_000_000, busy_seconds=100.0)
    again = planned()
    assert "for about 30 s" in words(again, "reading")
    assert "measured" in words(again, "reading")


def test_what_was_left_out_is_said_with_its_reason() -> None:
    photos = library()
    LibraryState.objects.update(mount="present")
    type(photos).objects.update(protected_folders="holy")
    copies(photos, 1, "a", "old/a", "holy/a")
    plan = planned()
    assert warning(plan, "left_out") == {"code": "left_out", "why": "protected_folder", "count": 1}
    assert "1 copy stays because their folder is protected" in words(plan, "left_out")


def test_a_warning_of_another_version_is_passed_over() -> None:
    assert described({"code": "from the future"}) is None
    assert described("nonsense") is None
