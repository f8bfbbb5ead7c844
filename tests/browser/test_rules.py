from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from accounts.models import Role, User
from duplicates import rule_sets
from duplicates.models import RuleSet
from tests import factories
from tests.browser.conftest import Visit
from tests.browser.stillness import settle
from tests.duplicates.plans import copies, library

pytestmark = pytest.mark.django_db

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
NO_SCRIPT: dict[str, Any] = {"java_script_enabled": False}


def operator() -> User:
    return factories.user("otto", Role.OPERATOR)


def rows(page: Page) -> Locator:
    return page.locator(".rule-row")


def press(page: Page, name: str) -> None:
    """A button of the form, which each of them brings anew."""
    settle(page)
    page.get_by_role("button", name=name).click()


def add(page: Page, kind: str) -> None:
    """Add a rule; it is the last one then."""
    there = rows(page).count()
    page.get_by_label("Kind of the next rule").select_option(kind)
    press(page, "Add rule")
    expect(rows(page)).to_have_count(there + 1)


@pytest.mark.parametrize("options", [{}, PHONE, NO_SCRIPT], ids=["with JavaScript", "phone", "without"])
def test_rules_are_added_moved_taken_away_and_saved(visit: Visit, options: dict[str, Any]) -> None:
    copies(library("Photos"), 1, "2019/a.jpg", "old/deep/a.jpg")
    page = visit(operator(), "/rules/", **options)
    page.get_by_role("link", name="New set of rules").click()
    page.get_by_label("Name").fill("Photos first")
    add(page, "keep_oldest")
    add(page, "keep_in")
    page.get_by_label(re.compile("Keep in folders")).fill("Photos/2019")
    add(page, "keep_copies")
    press(page, "Move rule 2 up")
    expect(rows(page).nth(0)).to_contain_text("Keep in folders")
    expect(page.get_by_label(re.compile("Keep in folders"))).to_have_value("Photos/2019")
    press(page, "Move rule 2 down")
    expect(rows(page).nth(2)).to_contain_text("Keep the oldest")
    press(page, "Take rule 2 away")
    expect(rows(page)).to_have_count(2)
    press(page, "Show what they would do")
    expect(page.locator("#rule-preview")).to_contain_text("1 would go, 1 would stay")
    assert not RuleSet.objects.exists()
    press(page, "Save the rules")
    page.wait_for_url("**/rules/")
    expect(page.get_by_text("The rules “Photos first” are saved.")).to_be_visible()
    saved = RuleSet.objects.get()
    assert [rule["kind"] for rule in saved.rules] == ["keep_in", "keep_oldest"]
    assert (saved.name, saved.created_by) == ("Photos first", "otto")


def test_only_the_form_changes_while_rules_are_moved_and_focus_stays(visit: Visit) -> None:
    rule_set = rule_sets.save("Mine", [{"kind": "keep_oldest"}, {"kind": "keep_shortest_path"}], actor="ada")
    page = visit(operator(), f"/rules/{rule_set.pk}/")
    page.evaluate("document.body.dataset.same = 'page'")
    press(page, "Move rule 2 up")
    expect(rows(page).nth(0)).to_contain_text("shortest path")
    expect(page.locator("body[data-same=page]")).to_have_count(1)
    expect(page.locator("#up-2")).to_be_disabled()
    press(page, "Move rule 1 down")
    expect(rows(page).nth(1)).to_contain_text("shortest path")
    expect(page.locator("#down-2")).to_be_disabled()
    assert RuleSet.objects.get().rules == [{"kind": "keep_oldest"}, {"kind": "keep_shortest_path"}]


@pytest.mark.parametrize("options", [{}, NO_SCRIPT], ids=["with JavaScript", "without"])
def test_return_saves_and_what_is_wrong_comes_into_view(visit: Visit, options: dict[str, Any]) -> None:
    rule_set = rule_sets.save("Mine", [{"kind": "keep_copies", "count": 2}], actor="ada")
    page = visit(operator(), f"/rules/{rule_set.pk}/", **{"viewport": {"width": 1000, "height": 400}, **options})
    count = page.locator("#value-1")
    count.fill("many")
    page.get_by_role("button", name="Save the rules").click()
    expect(page.get_by_role("alert")).to_be_in_viewport()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was saved")
    assert RuleSet.objects.get().rules == [{"kind": "keep_copies", "count": 2}]
    settle(page)
    count.fill("3")
    count.press("Enter")
    page.wait_for_url("**/rules/")
    assert RuleSet.objects.get().rules == [{"kind": "keep_copies", "count": 3}]


def test_a_set_is_removed_after_a_question(visit: Visit) -> None:
    rule_sets.save("Mine", [{"kind": "keep_oldest"}], actor="ada")
    page = visit(operator(), "/rules/")
    page.get_by_role("link", name=re.compile("^Remove")).click()
    page.get_by_role("button", name=re.compile("^Remove")).click()
    expect(page.get_by_text("No rules yet")).to_be_visible()
    assert not RuleSet.objects.exists()


def test_viewers_read_rules(visit: Visit) -> None:
    rule_set = rule_sets.save("Mine", [{"kind": "keep_oldest"}], actor="ada")
    page = visit(factories.user(), f"/rules/{rule_set.pk}/")
    expect(page.get_by_text("Keep the oldest")).to_be_visible()
    expect(page.get_by_role("button", name="Save the rules")).to_have_count(0)
