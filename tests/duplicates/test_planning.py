from __future__ import annotations

import time
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from duplicates import plan_making, plan_storing, planning
from duplicates.models import IgnoredGroup, Plan, PlanFile, PlanFolder
from duplicates.plan_folders import look_into
from jobs import deciding, stopping, working
from jobs.executing import drain
from jobs.models import Job
from jobs.working import Work
from libraries.errors import Refused
from libraries.models import LibraryRoot
from libraries.names import to_text
from logbook.models import LogbookEvent
from tests.duplicates.plans import SHORTEST, check, copies, digest, item, library, paths, planned

pytestmark = pytest.mark.django_db


# --- Asking -----------------------------------------------------------------------------------------------
def test_asking_saves_the_plan_and_a_dry_run_for_it() -> None:
    plan = planning.make_plan(
        actor="otto", action="trash", rules=SHORTEST, rule_set_name="tidy", filter="least_bytes=5"
    )
    job = Job.objects.get()
    assert (job.kind, job.dry_run, job.status, job.payload) == ("delete", True, "pending", {"plan_id": plan.pk})
    assert (plan.status, plan.job_id, plan.created_by, plan.filter) == ("planning", job.pk, "otto", "least_bytes=5")
    event = LogbookEvent.objects.about("plans", str(plan.pk)).get(event_type="requested")
    assert event.actor == "otto"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"action": "shred"}, "no action"),
        ({"rules": [{"kind": "keep_luckiest"}]}, "kind"),
        ({"rules": []}, "every file stays"),
        ({"filter": "least_bytes=many"}, "many"),
        ({"filter": "library=99"}, "not there any more"),
        ({"filter": "&".join(["a=1"] * 60)}, "more parts"),
        ({"group_keys": ["blake3:12"]}, "digits"),
        ({"choices": {"1": "shred"}}, "kept or removed"),
        ({"choices": {"x": "keep"}}, "known by its number"),
    ],
)
def test_what_can_not_be_planned_is_refused_in_words(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        planning.make_plan(**{"actor": "otto", "action": "trash", "rules": SHORTEST, **wrong})
    assert not Plan.objects.exists()
    assert not Job.objects.exists()


def test_a_consumer_makes_the_plan() -> None:
    copies(library(), 1, "a", "long/b")
    plan = planning.make_plan(actor="otto", action="hardlink", rules=SHORTEST)
    assert drain("jobs") == 1
    plan.refresh_from_db()
    job = Job.objects.get()
    assert (plan.status, job.status, job.processed_items, job.total_items) == ("ready", "completed", 1, 1)
    assert LogbookEvent.objects.about("plans", str(plan.pk)).filter(event_type="planned").exists()
    assert not Job.objects.exclude(pk=job.pk).exists()


# --- Dry runs that no plan waits for ------------------------------------------------------------------------
def test_a_job_that_would_remove_files_is_refused() -> None:
    Job.objects.create(kind="delete", dry_run=False)
    drain("jobs")
    job = Job.objects.get()
    assert (job.status, job.error_code) == ("failed", "NOT_AUTHORISED")


@pytest.mark.parametrize("payload", [{}, {"plan_id": "1"}, {"plan_id": True}, {"plan_id": 7}, []])
def test_a_dry_run_without_a_plan_fails_with_what_to_do(payload: Any) -> None:
    Job.objects.create(kind="delete", dry_run=True, payload=payload)
    drain("jobs")
    job = Job.objects.get()
    assert (job.status, job.error_code) == ("failed", "NO_PLAN")
    assert "manage.py plan" in (job.error_message or "")


def test_a_job_can_not_take_another_job_s_plan() -> None:
    copies(library(), 1, "a", "bb")
    plan = planning.make_plan(actor="otto", action="trash", rules=SHORTEST)
    deciding.cancel(Job.objects.get().pk, actor="otto")
    Job.objects.create(kind="delete", dry_run=True, payload={"plan_id": plan.pk})
    drain("jobs")
    plan.refresh_from_db()
    assert plan.status == "planning"
    assert not PlanFile.objects.exists()


# --- What it says -----------------------------------------------------------------------------------------
def test_every_file_of_a_touched_group_is_there_with_its_reason() -> None:
    photos = library()
    keeper, victim, other = copies(photos, 1, "a.jpg", "x/a.jpg", "x/y/a.jpg", size=70)
    copies(photos, 2, "same/1", "same/2")  # nothing decides between them
    plan = planned()
    assert (paths(plan, "keep"), paths(plan, "remove")) == (["a.jpg"], ["x/a.jpg", "x/y/a.jpg"])
    row = item(plan, "x/y/a.jpg")
    assert row.keeper is not None
    assert (row.keeper.file_id, row.file_id, row.action) == (keeper.pk, other.pk, "trash")
    assert (row.folder, row.size_bytes, row.mtime_ns, row.inode) == ("x/y", 70, 1, other.inode)
    assert (bytes(row.content_hash), row.library_id) == (digest(1), photos.pk)
    assert all(reason for reason in PlanFile.objects.values_list("reason", flat=True))
    assert (plan.group_count, plan.untouched_count, plan.left_out) == (1, 1, {"undecided": 2})
    assert victim.pk in PlanFile.objects.values_list("file_id", flat=True)
    assert check(plan).remove_bytes == 140


def test_hard_links_free_their_space_only_together() -> None:
    photos = library()
    copies(photos, 1, "a", size=100)
    copies(photos, 1, "dd/both1", "dd/both2", size=100, inode=5, nlink=2)
    copies(photos, 1, "dd/half", size=100, inode=6, nlink=2)  # its other name is in no library
    plan = planned()
    told = check(plan)
    assert (told.remove_count, told.remove_bytes, told.freed_bytes) == (3, 300, 100)


def test_folders_say_how_much_of_them_goes() -> None:
    photos = library()
    for content in range(3):
        copies(photos, content, f"{content}", f"old/{content}", f"old/deep/{content}")
    copies(photos, 9, "old/only-here")
    copies(photos, 10, "old-er/x", "0ld/x", "old0/x", is_missing=True)
    plan = planned()
    rows = {row.folder: (row.file_count, row.remove_count) for row in PlanFolder.objects.filter(plan=plan)}
    assert rows == {"old": (4, 3), "old/deep": (3, 3)}
    check(plan)


@pytest.mark.parametrize("page", [1, 2, 3, 500])
def test_folders_are_counted_whatever_stands_beside_and_below(page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duplicates.plan_folders.PAGE", page)
    photos = library()
    right = ["a", "b.jpg", "sub-x", "sub.jpg", "sub0", "z", "\uffff"]
    below = ["sub/1", "sub/2", "sub/deep/3", "sub/deep/4", "b/5"]
    for number, name in enumerate(right + below):
        copies(photos, number, f"old/{name}")
    copies(photos, 100, "old", "old-er/x", "old.txt", "old0/x", "old0")
    found = look_into([(photos.pk, "old"), (photos.pk, "old/sub"), (photos.pk, ""), (photos.pk, "none")], "default")
    assert [inside.files for inside in found.values()] == [7, 2, 3, 0]


def test_the_root_is_a_folder_too() -> None:
    photos = library()
    copies(photos, 1, "a", "bbb")
    copies(photos, 2, "sub/one", "sub/two", size=7)
    plan = planned()
    folder = PlanFolder.objects.get(plan=plan)
    assert (folder.folder, folder.file_count, folder.remove_count) == ("", 2, 1)


def test_names_that_are_no_text_are_planned_as_they_are() -> None:
    photos = library()
    hostile = to_text(b"caf\xe9\n/\xff.jpg")
    copies(photos, 1, "a", hostile)
    plan = planned()
    assert paths(plan, "remove") == [hostile]
    assert PlanFolder.objects.get(plan=plan).folder == to_text(b"caf\xe9\n")


def test_young_files_are_not_planned(settings: Settings) -> None:
    """DEDUPFS_YOUNG_HOURS"""
    photos, now = library(), time.time_ns()
    copies(photos, 1, "a", "dd/old")
    copies(photos, 1, "dd/written", mtime_ns=now - 3600 * 10**9)
    copies(photos, 1, "dd/moved", ctime_ns=now - 3600 * 10**9)
    plan = planned()
    assert paths(plan, "remove") == ["dd/old"]
    assert plan.left_out["young"] == 2
    settings.YOUNG_HOURS = 0
    assert paths(planned(), "remove") == ["dd/moved", "dd/old", "dd/written"]


def test_protected_places_and_backups_lose_nothing() -> None:
    normal, backup, guarded = library("normal"), library("backup"), library("guarded")
    LibraryRoot.objects.filter(pk=backup.pk).update(role="backup")
    LibraryRoot.objects.filter(pk=guarded.pk).update(role="protected")
    LibraryRoot.objects.filter(pk=normal.pk).update(protected_folders="holy")
    copies(normal, 1, "a", "holy/long-name", "gone/far/away")
    copies(backup, 1, "in/the/backup/it/is")
    copies(guarded, 1, "in/the/guarded/one/it/is")
    plan = planned()
    assert paths(plan, "remove") == ["gone/far/away"]
    assert plan.left_out == {"backup": 1, "protected_folder": 1, "protected_library": 1}


def test_empty_and_ignored_groups_need_to_be_asked_for() -> None:
    photos = library()
    copies(photos, 1, "e1", "e/long", size=0)
    copies(photos, 2, "i1", "i/long")
    IgnoredGroup.objects.create(hash_algorithm="blake3", content_hash=digest(2), ignored_by="vera")
    assert planned().group_count == 0
    assert paths(planned(filter="least_bytes=0"), "remove") == ["e/long"]
    assert paths(planned(filter="ignored=only"), "remove") == ["i/long"]


def test_marked_groups_and_choices_by_hand_go_before_the_filter_and_the_rules() -> None:
    photos = library()
    short, long = copies(photos, 1, "a", "a/long")
    copies(photos, 2, "b", "b/long")
    key = f"blake3:{digest(1).hex()}"
    choices = {str(short.pk): "remove", str(long.pk): "keep"}
    plan = planned(rules=[], group_keys=[key.upper().replace("BLAKE3", "blake3"), key], choices=choices)
    assert plan.group_keys == [key]
    assert (paths(plan, "keep"), paths(plan, "remove")) == (["a/long"], ["a"])
    assert paths(planned(group_keys=[key]), "remove") == ["a/long"]


def test_largest_files_come_first_and_files_of_one_content_together() -> None:
    photos = library()
    for content in range(6):
        copies(photos, content, f"{content}", f"far/{content}", size=10 + content)
    plan = planned()
    rows = PlanFile.objects.filter(plan=plan).order_by("pk").values_list("relative_path", flat=True)
    assert list(rows) == [path for n in range(5, -1, -1) for path in (f"{n}", f"far/{n}")]


def test_batches_of_any_size_make_the_same_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    photos = library()
    for content in range(40):
        copies(photos, content, f"{content}", f"d{content % 7}/{content}", f"d{content % 5}/x/{content}")
    whole = planned()
    monkeypatch.setattr(plan_making, "BATCH_FILES", 7)
    monkeypatch.setattr("duplicates.listing.PAGE", 3)
    parts = planned()
    columns = ("role", "relative_path", "reason", "keeper__relative_path")
    rows = [list(PlanFile.objects.filter(plan=plan).order_by("pk").values_list(*columns)) for plan in (whole, parts)]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 120
    assert check(parts) == check(whole)


def test_a_file_that_changes_its_content_meanwhile_is_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    photos = library()
    _, moving = copies(photos, 1, "a", "far/a", size=20)
    copies(photos, 2, "b", "far/b", size=10)
    monkeypatch.setattr(plan_making, "BATCH_FILES", 1)
    monkeypatch.setattr("duplicates.listing.PAGE", 1)
    insert = plan_storing.insert

    def insert_and_change(*given: Any) -> None:
        insert(*given)
        if given[1] and given[1][0][0][1] == digest(1):
            changing.append(given)

    changing: list[Any] = []
    advance = Work.advance

    def advance_and_change(work: Any, *given: Any, **more: Any) -> None:
        advance(work, *given, **more)
        if changing:
            changing.clear()
            type(moving).objects.filter(pk=moving.pk).update(content_hash=digest(2), size_bytes=10)

    monkeypatch.setattr(plan_storing, "insert", insert_and_change)
    monkeypatch.setattr(Work, "advance", advance_and_change)
    plan = planned()
    assert paths(plan, "remove") == ["far/a"]
    assert plan.left_out == {"changed": 3}


def test_planning_tells_how_far_it_is_while_it_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the row of its job, which the page reads; a lease alone would be renewed once in minutes."""
    photos = library()
    for content in range(5):
        copies(photos, content, f"{content}", f"far/{content}")
    monkeypatch.setattr(plan_making, "BATCH_FILES", 2)
    monkeypatch.setattr(working, "TELL_SECONDS", 0)
    told: list[Any] = []

    def look(place: str) -> None:
        if place == "plan_stored":
            told.extend(Job.objects.values_list("processed_items", "total_items"))

    monkeypatch.setattr(plan_making, "reach", look)
    planned()
    assert told == [(number, 5) for number in range(1, 6)]


# --- Stopping ---------------------------------------------------------------------------------------------
def test_a_cancelled_planning_writes_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    photos = library()
    for content in range(5):
        copies(photos, content, f"{content}", f"far/{content}")
    monkeypatch.setattr(plan_making, "BATCH_FILES", 2)
    insert, written = plan_storing.insert, []

    def insert_and_count(*given: Any) -> None:
        insert(*given)
        written.append(given)

    advance = Work.advance

    def advance_and_cancel(work: Any, *given: Any, **more: Any) -> None:
        advance(work, *given, **more)
        if len(written) == 2 and Job.objects.filter(status="running").exists():
            deciding.cancel(work.row.pk, actor="vera")

    monkeypatch.setattr(plan_storing, "insert", insert_and_count)
    monkeypatch.setattr(Work, "advance", advance_and_cancel)
    plan = planning.plan_now(planning.checked("trash", SHORTEST), actor="otto")
    assert plan.job is not None
    assert (plan.status, plan.job.status) == ("planning", "cancelled")
    assert PlanFile.objects.count() == 4


def test_a_stopped_planning_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    photos = library()
    for content in range(5):
        copies(photos, content, f"{content}", f"far/{content}")
    monkeypatch.setattr(plan_making, "BATCH_FILES", 2)
    monkeypatch.setattr(plan_storing, "MOST_CLEARED", 3)
    monkeypatch.setattr(plan_making, "reach", lambda point: stopping.request() if point == "plan_stored" else None)
    try:
        plan = planning.plan_now(planning.checked("trash", SHORTEST), actor="otto")
    finally:
        stopping._requested.clear()
    assert plan.job is not None
    assert plan.job.status == "retryable"
    assert PlanFile.objects.count() == 2
    monkeypatch.undo()
    deciding.requeue_retryable()
    drain("jobs")
    plan.refresh_from_db()
    assert (plan.status, plan.remove_count) == ("ready", 5)
    assert PlanFile.objects.count() == 10
    check(plan)
