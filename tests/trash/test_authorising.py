"""Who lets files be acted on, and what is refused: each verb with its rows, its job and its logbook event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from pytest_django.fixtures import Settings

from duplicates import plan_changing
from duplicates.models import Plan, PlanFile, group_key
from jobs import deciding
from jobs.models import Job
from libraries.errors import NotThere, Refused
from libraries.models import LibraryFile
from logbook.models import LogbookEvent, write_event
from tests.duplicates.plans import copies, digest, item, library, planned
from tests.trash.doors import allow, authorised, begun, ended, is_due, two_copies
from trash import authorising, switching
from trash.authorising import version_of
from trash.models import Act

pytestmark = pytest.mark.django_db


def events(table: str, key: Any) -> list[tuple[str, str | None]]:
    rows = LogbookEvent.objects.about(table, str(key)).exclude(event_type="status").order_by("pk")
    return [(event.event_type, event.actor) for event in rows]


def nothing_was_authorised(plan: Plan) -> bool:
    plan.refresh_from_db()
    is_quiet = not Act.objects.exists() and not Job.objects.filter(dry_run=False).exists()
    return plan.status == "ready" and is_quiet and ("authorised", "anna") not in events("plans", plan.pk)


# --- A plan -----------------------------------------------------------------------------------------------
def test_authorising_makes_an_act_its_job_and_an_event(settings: Settings) -> None:
    settings.ACT_GRACE_SECONDS = 60
    act = authorised()
    assert act.plan is not None
    assert act.job is not None
    assert (act.verb, act.status, act.plan.status, act.authorised_by) == ("act", "authorised", "authorised", "anna")
    assert (act.file_count, act.total_bytes) == (2, 4_000)
    assert (act.job.kind, act.job.dry_run, act.job.status) == ("delete", False, "pending")
    assert act.job.payload == {"act_id": act.pk, "verb": "act"}
    assert 55 < (act.starts_at - act.authorised_at).total_seconds() <= 61
    assert not is_due(act)
    event = LogbookEvent.objects.about("plans", str(act.plan_id)).get(event_type="authorised")
    assert event.actor == "anna"
    assert event.payload_json == {"files": 2, "size_bytes": 4_000, "act": act.pk}
    assert events("acts", act.pk) == [("authorised", "anna")]


def test_without_grace_it_is_due_at_once(settings: Settings) -> None:
    settings.ACT_GRACE_SECONDS = 0
    assert is_due(authorised())


@pytest.mark.parametrize("typed", ["2", " 2 ", "2,", 2])
def test_the_number_may_be_written_as_people_do(typed: int | str) -> None:
    allow()
    assert authorising.authorise(two_copies().pk, typed, actor="anna").file_count == 2


@pytest.mark.parametrize("typed", ["", "3", "two", "-2", "2.0", "٢", "9" * 5_000, 3, -2, 0])
def test_a_number_typed_wrong_authorises_nothing(typed: int | str) -> None:
    allow()
    plan = two_copies()
    with pytest.raises(Refused, match="it has 2 files to act on"):
        authorising.authorise(plan.pk, typed, actor="anna")
    assert nothing_was_authorised(plan)


@pytest.mark.parametrize("action", ["trash", "hardlink"])
def test_nothing_is_authorised_while_the_switch_is_off(action: str) -> None:
    plan = two_copies(action)
    with pytest.raises(Refused, match="switched off"):
        authorising.authorise(plan.pk, 2, actor="anna")
    assert nothing_was_authorised(plan)


def test_deleting_needs_its_own_switch_and_the_environment(settings: Settings) -> None:
    settings.ALLOW_REAL_DELETE = True
    plan = two_copies("delete")
    allow()
    with pytest.raises(Refused, match="Removing for good is switched off"):
        authorising.authorise(plan.pk, 2, actor="anna")
    allow(removing=True)
    settings.ALLOW_REAL_DELETE = False
    with pytest.raises(Refused, match="DEDUPFS_ALLOW_REAL_DELETE"):
        authorising.authorise(plan.pk, 2, actor="anna")
    assert nothing_was_authorised(plan)
    settings.ALLOW_REAL_DELETE = True
    assert authorising.authorise(plan.pk, 2, actor="anna").status == "authorised"


def test_a_plan_that_changed_since_it_was_read_is_refused() -> None:
    """By the number alone it would pass: one file stays instead of another."""
    allow()
    plan = two_copies()
    seen = version_of(plan)
    plan_changing.swap_keeper(plan.pk, item(plan, "old/a").pk, actor="otto")
    with pytest.raises(Refused, match="was changed since you opened it"):
        authorising.authorise(plan.pk, 2, actor="anna", seen=seen)
    assert nothing_was_authorised(plan)
    assert authorising.authorise(plan.pk, 2, actor="anna", seen=version_of(plan)).file_count == 2


def test_a_plan_from_which_files_were_taken_out_has_another_number() -> None:
    allow()
    plan = two_copies()
    plan_changing.take_out(plan.pk, [item(plan, "old/a").pk], actor="otto")
    with pytest.raises(Refused, match="it has 1 file to act on"):
        authorising.authorise(plan.pk, 2, actor="anna")
    assert authorising.authorise(plan.pk, 1, actor="anna").file_count == 1


@pytest.mark.parametrize("said", [1, 3])
def test_a_plan_whose_figures_are_not_those_of_its_files_is_refused(said: int) -> None:
    """By the number alone a person would let other files go than those that were counted."""
    allow()
    plan = two_copies()
    Plan.objects.filter(pk=plan.pk).update(remove_count=said)
    with pytest.raises(Refused, match=f"The plan says {said}, and has 2 files to act on"):
        authorising.authorise(plan.pk, said, actor="anna")
    assert nothing_was_authorised(plan)


def test_a_plan_in_which_nothing_goes_is_refused() -> None:
    allow()
    plan = two_copies()
    plan_changing.take_out(plan.pk, [item(plan, name).pk for name in ("old/a", "old/deep/a")], actor="otto")
    with pytest.raises(Refused, match="nothing to authorise"):
        authorising.authorise(plan.pk, 0, actor="anna")


def test_an_authorised_plan_can_not_be_changed_nor_discarded_nor_authorised_again() -> None:
    act = authorised()
    plan = act.plan
    assert plan is not None
    changes: list[Callable[[], object]] = [
        lambda: plan_changing.take_out(plan.pk, [item(plan, "old/a").pk], actor="otto"),
        lambda: plan_changing.swap_keeper(plan.pk, item(plan, "old/a").pk, actor="otto"),
        lambda: plan_changing.discard(plan.pk, actor="otto"),
    ]
    for change in changes:
        with pytest.raises(Refused, match="authorised"):
            change()
    with pytest.raises(Refused, match="authorised already, by anna"):
        authorising.authorise(plan.pk, 2, actor="otto")
    assert Act.objects.count() == 1
    assert PlanFile.objects.filter(plan=plan, is_out=True).count() == 0


@pytest.mark.parametrize(("status", "words"), [("planning", "not made yet"), ("discarded", "discarded")])
def test_only_a_plan_that_is_ready_can_be_authorised(status: str, words: str) -> None:
    allow()
    plan = Plan.objects.create(status=status, remove_count=2)
    with pytest.raises(Refused, match=words):
        authorising.authorise(plan.pk, 2, actor="anna")
    with pytest.raises(NotThere):
        authorising.authorise(plan.pk + 1, 2, actor="anna")


def test_a_plan_that_was_carried_out_is_neither_authorised_nor_discarded() -> None:
    act = ended(authorised())
    with pytest.raises(Refused, match="carried out already"):
        authorising.authorise(act.plan_id or 0, 2, actor="anna")
    with pytest.raises(Refused, match="stays as the record"):
        plan_changing.discard(act.plan_id or 0, actor="otto")


# --- Plans that meet --------------------------------------------------------------------------------------
def by_hand(choices: dict[str, str]) -> Plan:
    files = dict(LibraryFile.objects.values_list("relative_path", "pk"))
    return planned(rules=[], choices={str(files[path]): choice for path, choice in choices.items()})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"a": "keep", "b": "remove"}, {"a": "keep", "b": "remove"}),
        ({"a": "keep", "b": "remove"}, {"b": "keep", "a": "remove"}),
        ({"a": "keep", "b": "remove"}, {"b": "keep", "c": "remove"}),
        ({"b": "keep", "c": "remove"}, {"a": "keep", "b": "remove"}),
        ({"a": "keep", "b": "remove", "c": "remove"}, {"c": "keep", "a": "remove"}),
    ],
)
def test_two_plans_that_meet_in_a_file_that_goes_do_not_live_at_once(
    first: dict[str, str], second: dict[str, str]
) -> None:
    allow()
    copies(library(), 1, "a", "b", "c")
    one, two = by_hand(first), by_hand(second)
    act = authorising.authorise(one.pk, one.remove_count, actor="anna")
    with pytest.raises(Refused, match=f"Plan {one.pk}, authorised by anna, has files of this plan too"):
        authorising.authorise(two.pk, two.remove_count, actor="otto")
    two.refresh_from_db()
    assert two.status == "ready"
    assert events("plans", two.pk)[-1][0] != "authorised"
    assert Act.objects.count() == Job.objects.filter(dry_run=False).count() == 1
    authorising.stop(act.pk, actor="anna")
    assert authorising.authorise(two.pk, two.remove_count, actor="otto").status == "authorised"


def of_one_content(content: int) -> Plan:
    return planned(group_keys=[group_key("blake3", digest(content))])


def test_plans_of_other_contents_may_live_at_once() -> None:
    allow()
    photos = library()
    for content in (1, 2):
        copies(photos, content, f"{content}", f"old/{content}")
    for content in (1, 2):
        authorising.authorise(of_one_content(content).pk, 1, actor="anna")
    assert Act.objects.filter(status="authorised").count() == 2


def test_what_was_taken_out_of_a_plan_meets_nothing() -> None:
    allow()
    photos = library()
    for content in (1, 2):
        copies(photos, content, f"{content}", f"old/{content}")
    both, one = planned(), of_one_content(1)
    plan_changing.take_out(both.pk, [item(both, "old/1").pk], actor="otto")
    for plan in (both, one):
        authorising.authorise(plan.pk, 1, actor="anna")
    assert Act.objects.count() == 2


# --- Stop, pause, go on -----------------------------------------------------------------------------------
def test_stopped_in_time_it_is_as_if_nobody_had_asked() -> None:
    act = authorised()
    stopped = authorising.stop(act.pk, actor="otto")
    assert stopped.plan is not None
    assert stopped.job is not None
    assert (stopped.status, stopped.plan.status, stopped.job.status) == ("cancelled", "ready", "cancelled")
    assert stopped.finished_at is not None
    assert events("acts", act.pk)[-1] == ("stopped", "otto")
    assert authorising.authorise(stopped.plan.pk, 2, actor="anna").pk != act.pk


def test_one_that_has_begun_ends_when_its_files_are_settled() -> None:
    act = begun(authorised(), done=1)
    stopped = authorising.stop(act.pk, actor="anna")
    assert stopped.plan is not None
    assert stopped.job is not None
    assert (stopped.status, stopped.plan.status, stopped.job.status) == ("running", "authorised", "cancelled")


@pytest.mark.parametrize("verb", [authorising.stop, authorising.pause, authorising.resume])
def test_what_has_ended_can_not_be_decided_about(verb: Callable[..., Act]) -> None:
    act = ended(authorised())
    with pytest.raises(Refused, match="ended already"):
        verb(act.pk, actor="anna")
    with pytest.raises(NotThere):
        verb(act.pk + 1, actor="anna")


def test_a_paused_act_rests_until_it_is_resumed(settings: Settings) -> None:
    settings.ACT_GRACE_SECONDS = 0
    act = authorised()
    assert authorising.pause(act.pk, actor="otto").is_paused
    assert not is_due(act)
    with pytest.raises(Refused, match="paused already"):
        authorising.pause(act.pk, actor="otto")
    assert not authorising.resume(act.pk, actor="anna").is_paused
    assert is_due(act)
    with pytest.raises(Refused, match="not paused"):
        authorising.resume(act.pk, actor="anna")
    assert events("acts", act.pk)[1:] == [("paused", "otto"), ("resumed", "anna")]


def test_resuming_does_not_shorten_the_time_to_think(settings: Settings) -> None:
    settings.ACT_GRACE_SECONDS = 60
    act = authorised()
    authorising.pause(act.pk, actor="anna")
    resumed = authorising.resume(act.pk, actor="anna")
    assert resumed.starts_at == act.starts_at
    assert resumed.job is not None
    assert resumed.job.retry_after == act.starts_at
    assert not is_due(act)


def test_pausing_reaches_one_that_runs() -> None:
    act = begun(authorised(), done=1)
    paused = authorising.pause(act.pk, actor="anna")
    assert paused.job is not None
    assert (paused.is_paused, paused.job.status, paused.job.retry_after) == (True, "running", authorising.NEVER)


def test_a_paused_act_can_be_stopped() -> None:
    act = authorised()
    authorising.pause(act.pk, actor="anna")
    stopped = authorising.stop(act.pk, actor="anna")
    assert (stopped.status, stopped.is_paused) == ("cancelled", False)


# --- The trash --------------------------------------------------------------------------------------------
def test_undo_needs_no_switch_and_no_grace() -> None:
    act = ended(authorised(), skipped={"old/a": "VICTIM_CHANGED"})
    allow()
    undo = authorising.ask_undo({"plan": act.plan_id}, actor="otto")
    assert (undo.verb, undo.status, undo.plan_id, undo.file_count, undo.total_bytes) == (
        "undo", "authorised", act.plan_id, 1, 2_000,
    )  # fmt: skip
    assert undo.selection == {"plan": act.plan_id}
    assert is_due(undo)
    assert events("acts", undo.pk) == [("undo_asked", "otto")]


def test_undo_of_a_plan_waits_until_it_is_no_longer_carried_out() -> None:
    act = begun(authorised(), done=1)
    with pytest.raises(Refused, match="Cancel that first"):
        authorising.ask_undo({"plan": act.plan_id}, actor="otto")


def test_undo_of_nothing_says_so() -> None:
    act = ended(authorised(), skipped={"old/a": "VICTIM_GONE", "old/deep/a": "VICTIM_GONE"})
    with pytest.raises(Refused, match="nothing to undo"):
        authorising.ask_undo({"plan": act.plan_id}, actor="otto")
    with pytest.raises(NotThere):
        authorising.ask_undo({"plan": 999_999}, actor="otto")
    with pytest.raises(Refused):
        authorising.ask_undo({"everything": True}, actor="otto")


def test_emptying_needs_switch_environment_and_number(settings: Settings) -> None:
    settings.ALLOW_REAL_DELETE = False
    act = ended(authorised())
    wanted = {"plan": act.plan_id}
    with pytest.raises(Refused, match="switched off"):
        authorising.authorise_emptying(wanted, 2, actor="anna")
    allow(removing=True)
    with pytest.raises(Refused, match="DEDUPFS_ALLOW_REAL_DELETE"):
        authorising.authorise_emptying(wanted, 2, actor="anna")
    settings.ALLOW_REAL_DELETE = True
    for typed in (1, "", "three"):
        with pytest.raises(Refused, match="2 files are meant"):
            authorising.authorise_emptying(wanted, typed, actor="anna")
    assert not Act.objects.filter(verb="empty").exists()
    emptying = authorising.authorise_emptying(wanted, "2", actor="anna")
    assert (emptying.verb, emptying.file_count, emptying.total_bytes) == ("empty", 2, 4_000)
    assert not is_due(emptying)
    stopped = authorising.stop(emptying.pk, actor="anna")
    assert act.plan is not None
    act.plan.refresh_from_db()
    assert (stopped.status, act.plan.status) == ("cancelled", "done")


# --- A power cut ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("verb", ["stop", "pause", "switch", "cancel"])
def test_caution_18_a_person_s_word_to_stop_outlives_a_power_cut(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    """SQLite's 2 is FULL, 1 is NORMAL; the PostgreSQL of these tests has it off, as a deployment may."""
    act = authorised()
    seen: list[str] = []

    def watched(*args: Any, **kwargs: Any) -> None:
        seen.append(durability())
        write_event(*args, **kwargs)

    for module in (authorising, switching, deciding):
        monkeypatch.setattr(module, "write_event", watched)
    if verb == "switch":
        switching.change(actor="anna", is_acting_allowed=False, is_removing_allowed=False, empty_after_days=None)
    elif verb == "cancel":
        deciding.cancel(act.job_id or "", actor="anna")
    else:
        getattr(authorising, verb)(act.pk, actor="anna")
    assert set(seen) <= {"2", "on"}
    assert seen
    assert durability() in {"1", "off"}, "all else is as quick as before"


def durability() -> str:
    is_sqlite = connection.vendor == "sqlite"
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA synchronous" if is_sqlite else "SHOW synchronous_commit")
        return str(cursor.fetchone()[0])
