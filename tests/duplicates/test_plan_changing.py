from __future__ import annotations

import time

import pytest
from django.db import DatabaseError, transaction

from duplicates import plan_changing, planning
from duplicates.models import Plan, PlanFile, PlanFolder
from jobs.models import Job
from libraries.errors import NotThere, Refused
from libraries.models import LibraryRoot
from logbook.models import LogbookEvent
from tests.duplicates.plans import SHORTEST, check, copies, digest, item, library, paths, planned, run_sql, warning

pytestmark = pytest.mark.django_db


@pytest.fixture
def photos() -> LibraryRoot:
    return library()


@pytest.fixture
def plan(photos: LibraryRoot) -> Plan:
    """Two groups: `a` stays for two others, `b` for one."""
    copies(photos, 1, "a", "old/a", "old/deep/a", size=100)
    copies(photos, 2, "b", "old/b", size=10)
    return planned()


def events(plan: Plan) -> list[tuple[str, str | None]]:
    found = LogbookEvent.objects.about("plans", str(plan.pk)).exclude(event_type="status")
    return [(event.event_type, event.actor) for event in found if event.event_type != "planned"]


# --- Out and back -----------------------------------------------------------------------------------------
def test_taking_a_file_out_and_putting_it_back(plan: Plan) -> None:
    before = check(plan)
    out = item(plan, "old/b")
    plan_changing.take_out(plan.pk, [out.pk], actor="vera")
    told = check(plan)
    assert (told.group_count, told.remove_count, told.freed_bytes, told.keep_count) == (1, 2, 200, 3)
    assert paths(plan, "remove", is_out=True) == ["old/b"]
    assert PlanFolder.objects.get(plan=plan, folder="old").remove_count == 1
    plan_changing.put_back(plan.pk, [out.pk], actor="vera")
    assert check(plan) == before
    assert events(plan) == [("requested", "otto"), ("taken_out", "vera"), ("put_back", "vera")]


def test_taking_out_twice_changes_nothing_more(plan: Plan) -> None:
    out = item(plan, "old/b")
    plan_changing.take_out(plan.pk, [out.pk], actor="vera")
    told = check(plan)
    plan_changing.take_out(plan.pk, [out.pk], actor="vera")
    assert check(plan) == told


def test_a_name_that_stays_keeps_its_inode_s_space(photos: LibraryRoot) -> None:
    copies(photos, 1, "a")
    copies(photos, 1, "dd/1", "dd/2", inode=5, nlink=2)
    plan = planned()
    assert check(plan).freed_bytes == 1_000
    plan_changing.take_out(plan.pk, [item(plan, "dd/1").pk], actor="vera")
    told = check(plan)
    assert (told.remove_count, told.freed_bytes) == (1, 0)


def test_a_folder_is_taken_out_with_the_files_right_inside(plan: Plan) -> None:
    before = check(plan)
    folder = PlanFolder.objects.get(plan=plan, folder="old")
    assert plan_changing.take_folder_out(plan.pk, folder.pk, actor="vera") == 2
    told = check(plan)
    assert (told.group_count, told.remove_count) == (1, 1)
    assert paths(plan, "remove") == ["old/deep/a"]
    assert plan_changing.put_folder_back(plan.pk, folder.pk, actor="vera") == 2
    assert check(plan) == before


def test_warnings_follow_the_changes(photos: LibraryRoot) -> None:
    copies(photos, 1, "a.jpg", "far/a.jpg")
    copies(photos, 2, "far/a.xmp")
    plan = planned()
    assert warning(plan, "side_cars") is not None
    plan_changing.take_out(plan.pk, [item(plan, "far/a.jpg").pk], actor="vera")
    assert warning(plan, "side_cars") is None
    assert warning(plan, "reading") is None


def test_a_large_plan_says_that_its_warnings_are_older(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duplicates.plan_warnings.MOST_ANEW", 1)
    plan_changing.take_out(plan.pk, [item(plan, "old/b").pk], actor="vera")
    plan_changing.put_back(plan.pk, [item(plan, "old/b").pk], actor="vera")
    plan.refresh_from_db()
    assert [each["code"] for each in plan.warnings].count("older") == 1
    assert warning(plan, "emptied") is not None


# --- The keeper -------------------------------------------------------------------------------------------
def test_swapping_the_keeper_turns_the_group_around(plan: Plan) -> None:
    before = check(plan)
    plan_changing.swap_keeper(plan.pk, item(plan, "old/deep/a").pk, actor="vera")
    told = check(plan)
    assert told == before
    assert paths(plan, "keep") == ["b", "old/deep/a"]
    assert paths(plan, "remove") == ["a", "old/a", "old/b"]
    went = item(plan, "a")
    assert (went.keeper_id, went.action) == (item(plan, "old/deep/a").pk, "trash")
    assert "old/deep/a" in went.reason
    # The root had no place among the folders before.
    root = PlanFolder.objects.get(plan=plan, folder="")
    assert (root.file_count, root.remove_count) == (2, 1)
    assert ("keeper_swapped", "vera") in events(plan)


def test_swapping_back_and_forth_is_as_before(plan: Plan) -> None:
    before = check(plan)
    plan_changing.swap_keeper(plan.pk, item(plan, "old/a").pk, actor="vera")
    plan_changing.swap_keeper(plan.pk, item(plan, "a").pk, actor="vera")
    assert check(plan) == before
    assert paths(plan, "keep") == ["a", "b"]


def test_a_file_that_was_taken_out_can_become_the_keeper(plan: Plan) -> None:
    plan_changing.take_out(plan.pk, [item(plan, "old/a").pk], actor="vera")
    plan_changing.swap_keeper(plan.pk, item(plan, "old/a").pk, actor="vera")
    check(plan)
    assert paths(plan, "remove") == ["a", "old/b", "old/deep/a"]


@pytest.mark.parametrize("why", ["protected", "backup", "folder", "young"])
def test_a_keeper_that_may_not_go_is_not_swapped(photos: LibraryRoot, why: str) -> None:
    copies(photos, 1, "holy/a", "holy/far/a")
    plan = planned()
    if why == "folder":
        LibraryRoot.objects.filter(pk=photos.pk).update(protected_folders="holy")
    elif why == "young":
        PlanFile.objects.filter(plan=plan).update(ctime_ns=time.time_ns())
    else:
        LibraryRoot.objects.filter(pk=photos.pk).update(role=why)
    before = check(plan)
    with pytest.raises(Refused, match="holy/a stays"):
        plan_changing.swap_keeper(plan.pk, item(plan, "holy/far/a").pk, actor="vera")
    assert check(plan) == before
    assert paths(plan, "keep") == ["holy/a"]


# --- Refusals ---------------------------------------------------------------------------------------------
def test_what_is_not_there_or_stays_anyway_is_refused(plan: Plan, photos: LibraryRoot) -> None:
    copies(photos, 7, "c", "far/c")
    other = planned(filter="least_bytes=1000")
    for verb in (plan_changing.take_out, plan_changing.put_back):
        with pytest.raises(Refused):
            verb(plan.pk, [item(plan, "a").pk], actor="vera")
        with pytest.raises(NotThere):
            verb(plan.pk, [item(other, "far/c").pk], actor="vera")
    with pytest.raises(Refused):
        plan_changing.swap_keeper(plan.pk, item(plan, "a").pk, actor="vera")
    with pytest.raises(NotThere):
        plan_changing.swap_keeper(plan.pk, item(other, "far/c").pk, actor="vera")
    with pytest.raises(NotThere):
        plan_changing.take_folder_out(plan.pk, PlanFolder.objects.get(plan=other).pk, actor="vera")
    with pytest.raises(NotThere):
        plan_changing.discard(10**6, actor="vera")


def test_a_discarded_plan_can_not_be_changed(plan: Plan) -> None:
    plan_changing.discard(plan.pk, actor="vera")
    with pytest.raises(Refused, match="discarded"):
        plan_changing.take_out(plan.pk, [item(plan, "old/b").pk], actor="vera")
    with pytest.raises(Refused):
        plan_changing.discard(plan.pk, actor="vera")
    assert ("discarded", "vera") in events(plan)


def test_discarding_a_plan_that_is_being_made_cancels_its_job() -> None:
    plan = planning.make_plan(actor="otto", action="trash", rules=SHORTEST)
    plan_changing.discard(plan.pk, actor="vera")
    plan.refresh_from_db()
    assert (plan.status, Job.objects.get().status) == ("discarded", "cancelled")


# --- What the database refuses by itself --------------------------------------------------------------------
def refused(sql: str, values: list[object]) -> None:
    with pytest.raises(DatabaseError), transaction.atomic():
        run_sql(sql, list(values))


def test_the_database_refuses_a_group_without_a_keeper(plan: Plan) -> None:
    keeper, victim, stranger = item(plan, "a"), item(plan, "old/a"), item(plan, "b")
    remove = "UPDATE plan_files SET role = 'remove', action = 'trash', keeper_id = %s WHERE id = %s"
    refused(remove, [victim.pk, keeper.pk])  # for one that goes
    refused(remove, [keeper.pk, keeper.pk])  # for itself
    refused(remove, [stranger.pk, keeper.pk])  # for other content
    refused(remove, [10**6, victim.pk])
    refused("UPDATE plan_files SET keeper_id = NULL WHERE id = %s", [victim.pk])
    refused("UPDATE plan_files SET keeper_id = %s WHERE id = %s", [stranger.pk, victim.pk])
    refused("UPDATE plan_files SET content_hash = %s WHERE id = %s", [digest(9), keeper.pk])
    refused("DELETE FROM plan_files WHERE id = %s", [keeper.pk])
    check(plan)


def test_the_database_refuses_a_new_row_without_its_keeper(plan: Plan, photos: LibraryRoot) -> None:
    copies(photos, 1, "x/another")
    victim = item(plan, "old/a")
    columns = "plan_id, role, hash_algorithm, content_hash, file_id, library_id, relative_path, size_bytes, mtime_ns"
    insert = (
        f"INSERT INTO plan_files ({columns}, folder, reason, is_out, action, keeper_id)"
        " VALUES (%s, 'remove', 'blake3', %s, 999, %s, 'x', 1, 1, '', '', %s, 'trash', %s)"
    )
    for keeper in (None, victim.pk, item(plan, "b").pk, 10**6):
        refused(insert, [plan.pk, digest(1), photos.pk, False, keeper])
    run_sql(insert, [plan.pk, digest(1), photos.pk, False, item(plan, "a").pk])  # it is not the columns


def test_a_keeper_of_another_plan_is_none(plan: Plan) -> None:
    other = planned()
    refused("UPDATE plan_files SET keeper_id = %s WHERE id = %s", [item(other, "a").pk, item(plan, "old/a").pk])
