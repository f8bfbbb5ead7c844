"""Choices by hand: whoever marks every copy hears of it, and thousands of marks arrive."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext

from duplicates import planning
from duplicates.choosing import LastCopy, chosen_files, in_one_field, marked_groups, refuse_last_copies
from duplicates.models import Plan
from duplicates.rules import parse
from jobs.executing import drain
from libraries.models import LibraryFile, LibraryRoot
from tests import factories
from tests.duplicates.plans import copies, digest, library, paths, rule_set, unsaved
from tests.pages import words_of

pytestmark = pytest.mark.django_db

KEY = f"blake3:{digest(1).hex()}"
#: More than Django reads as fields of their own.
MANY = 3_000


def remove(*files: LibraryFile) -> dict[str, str]:
    return {str(file.pk): "remove" for file in files}


def plan_of(choices: dict[str, str], **wish: Any) -> Plan:
    return planning.make_plan(actor="otto", action="trash", choices=choices, **wish)


# --- The last copy ----------------------------------------------------------------------------------------
def test_marking_every_copy_is_refused_and_the_group_is_named() -> None:
    photos = library()
    one, two = copies(photos, 1, "a/IMG_1.jpg", "b/IMG_1.jpg")
    other, _kept = copies(photos, 2, "c", "d")
    with pytest.raises(LastCopy) as refusal:
        plan_of(remove(one, two, other))
    assert "“IMG_1.jpg”" in str(refusal.value)
    assert KEY in str(refusal.value)
    assert not Plan.objects.exists()
    plan_of({**remove(one, other), str(two.pk): "keep"})
    assert Plan.objects.count() == 1


def test_rules_do_not_make_up_for_it() -> None:
    """They would let one stay; yet somebody said that it should go."""
    rules = rule_set().rules
    with pytest.raises(LastCopy):
        plan_of(remove(*copies(library(), 1, "a", "b")), rules=rules)


def test_a_backup_does_not_count_as_the_copy_that_stays() -> None:
    backup = factories.library("nas", role=LibraryRoot.Role.BACKUP)
    one, two = copies(library(), 1, "a", "b")
    copies(backup, 1, "a")
    with pytest.raises(LastCopy):
        plan_of(remove(one, two))
    plan_of(remove(one))


@pytest.mark.parametrize("held", ["library", "folder", "rule"])
def test_what_stays_in_any_case_is_a_copy_that_stays(held: str) -> None:
    photos = library()
    safe = factories.library("safe", role="protected") if held == "library" else photos
    if held == "folder":
        LibraryRoot.objects.filter(pk=photos.pk).update(protected_folders="keep")
    rules: list[dict[str, Any]] = [{"kind": "never_touch", "folders": [{"library": photos.pk, "path": "keep"}]}]
    files = [*copies(photos, 1, "a"), *copies(safe, 1, "keep/a")]
    plan = plan_of(remove(*files), rules=rules if held == "rule" else [])
    drain("jobs")
    assert paths(plan, "remove") == ["a"]


def test_files_that_are_no_group_any_more_are_no_reason() -> None:
    """A plan that is made again: nothing can happen to them."""
    photos = library()
    alone, gone = copies(photos, 1, "alone", "gone")
    LibraryFile.objects.filter(pk=gone.pk).update(is_missing=True)
    plan_of(remove(alone, gone) | {"4711": "remove"})


def test_the_api_answers_422_and_names_the_field(operator: Client) -> None:
    files = copies(library(), 1, "a", "b")
    answer = operator.post("/api/v1/plans", {"choices": remove(*files)}, "application/json")
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("choices: Every copy of “a” is marked to go.")
    assert KEY in answer.json()["detail"]
    assert not Plan.objects.exists()


def test_few_questions_are_asked_however_many_are_marked() -> None:
    LibraryFile.objects.bulk_create(
        file for content in range(1, 2_001) for file in unsaved(library_once(), content, f"{content}/a", f"{content}/b")
    )
    marked = LibraryFile.objects.filter(relative_path__endswith="/a").values_list("pk", flat=True)
    with CaptureQueriesContext(connection) as asked:
        refuse_last_copies(dict.fromkeys(map(str, marked), "remove"), parse([]))
    assert len(asked) <= 10 + 1


def library_once() -> LibraryRoot:
    return LibraryRoot.objects.first() or library()


# --- Thousands of marks -----------------------------------------------------------------------------------
def test_thousands_of_files_chosen_by_hand_make_a_plan(operator: Client) -> None:
    photos = library()
    LibraryFile.objects.bulk_create(unsaved(photos, 1, *(f"{number}/x" for number in range(MANY))))
    first, *rest = LibraryFile.objects.order_by("pk").values_list("pk", flat=True)
    choices = {str(first): "keep", **{str(key): "remove" for key in rest}}
    answer = operator.post("/plans/create/", {"groups": KEY, "choices": in_one_field(choices), "action": "trash"})
    assert answer.status_code == 302
    plan = Plan.objects.get()
    assert (plan.choices, plan.group_keys) == (choices, [KEY])
    drain("jobs")
    plan.refresh_from_db()
    assert (plan.status, plan.keep_count, plan.remove_count) == ("ready", 1, MANY - 1)


def test_a_refused_choice_of_thousands_can_be_sent_again(operator: Client) -> None:
    LibraryFile.objects.bulk_create(unsaved(library(), 1, *(f"{number}/x" for number in range(MANY))))
    choices = {str(key): "remove" for key in LibraryFile.objects.values_list("pk", flat=True)}
    html = operator.post("/plans/create/", {"groups": KEY, "choices": in_one_field(choices)}).content.decode()
    assert "Every copy of “x” is marked to go." in words_of(html)
    assert html.count('type="hidden"') < 10
    assert f'name="choices" value="{in_one_field(choices)}"' in html
    assert f'name="groups" value="{KEY}"' in html
    assert f"{MANY} files were marked by hand" in words_of(html)
    assert not Plan.objects.exists()


def test_marks_are_read_from_one_field_or_from_many() -> None:
    assert chosen_files(QueryDict("choice-17=keep&choice-18=&choices=19:remove,,20:keep")) == {
        "17": "keep", "19": "remove", "20": "keep",
    }  # fmt: skip
    assert marked_groups(QueryDict("group=a&group=b&groups=c,d,")) == ["c", "d", "a", "b"]


@pytest.mark.parametrize("choices", ["17", "17:eat", "x:keep", ":", "17:keep:remove", "9" * 30 + ":keep"])
def test_what_is_no_choice_is_refused(operator: Client, choices: str) -> None:
    answer = operator.post("/plans/create/", {"groups": KEY, "choices": choices})
    assert answer.status_code == 200
    assert "By hand a file, known by its number, is kept or removed" in words_of(answer.content.decode())
    assert not Plan.objects.exists()
