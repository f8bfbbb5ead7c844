from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from accounts.models import Role, User
from duplicates import planning
from duplicates.models import Plan
from jobs.executing import drain
from libraries.models import LibraryFile
from tests import factories
from tests.browser.conftest import Visit
from tests.duplicates.plans import SHORTEST, copies, digest, item, library, paths, planned, rule_set, unsaved

pytestmark = pytest.mark.django_db

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
NO_SCRIPT: dict[str, Any] = {"java_script_enabled": False}


def operator() -> User:
    return factories.user("otto", Role.OPERATOR)


def line(page: Page, path: str) -> Locator:
    return page.locator(".plan-file").filter(has=page.locator(f"[title='{path}']"))


def some_copies() -> None:
    photos = library()
    copies(photos, 1, "a.jpg", "old/a.jpg", "old/deep/a.jpg", size=2_000_000)
    copies(photos, 2, "b.jpg", "old/b.jpg", size=1_000_000)


@pytest.mark.parametrize("options", [{}, PHONE, NO_SCRIPT], ids=["with JavaScript", "phone", "without"])
def test_a_plan_is_made_read_and_changed(visit: Visit, options: dict[str, Any]) -> None:
    some_copies()
    rule_set()
    page = visit(operator(), "/plans/", **options)
    page.get_by_role("link", name="Make a plan").click()
    page.get_by_label("Keep rules").select_option(label="tidy")
    page.get_by_role("button", name="Make this plan").click()
    page.wait_for_url(re.compile(r"/plans/\d+/"))
    plan = Plan.objects.get()
    drain("jobs")
    if options is NO_SCRIPT:
        page.reload()
    totals = page.get_by_label("Totals")
    expect(totals).to_contain_text("5.0 MB come back")
    expect(line(page, "a.jpg")).to_contain_text("stays")
    expect(line(page, "old/a.jpg")).to_contain_text("goes")
    line(page, "old/b.jpg").get_by_role("button", name="Take out").click()
    expect(totals).to_contain_text("4.0 MB come back")
    expect(line(page, "old/b.jpg")).to_contain_text("taken out")
    line(page, "old/deep/a.jpg").get_by_role("button", name="Keep this one").click()
    expect(line(page, "old/deep/a.jpg")).to_contain_text("stays")
    expect(line(page, "a.jpg")).to_contain_text("goes")
    assert paths(plan, "remove") == ["a.jpg", "old/a.jpg"]
    assert item(plan, "old/b.jpg").is_out
    page.get_by_role("link", name="By folder").click()
    expect(page.get_by_role("heading", name="Plan")).to_be_visible()
    page.get_by_text("Discard…").click()
    page.get_by_role("button", name="Discard this plan").click()
    expect(page.get_by_text("This plan is discarded.")).to_be_visible()
    plan.refresh_from_db()
    assert plan.status == "discarded"


def test_the_list_follows_a_plan_until_it_is_made(visit: Visit) -> None:
    some_copies()
    planning.make_plan(actor="otto", action="trash", rules=SHORTEST)
    page = visit(factories.user(), "/plans/")
    expect(page.locator("#plan-rows")).not_to_contain_text("Ready")
    drain("jobs")
    expect(page.locator("#plan-rows")).to_contain_text("Ready")
    expect(page.locator("#live[hx-trigger]")).to_have_count(0)


def test_a_choice_of_more_files_than_a_form_has_fields_makes_a_plan(visit: Visit, settings: Any) -> None:
    """As with three thousand files and Django's thousand fields, in small."""
    settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = 20
    LibraryFile.objects.bulk_create(unsaved(library(), 1, *(f"{number}/x" for number in range(30))))
    page = visit(operator(), f"/duplicates/blake3:{digest(1).hex()}/")
    page.get_by_role("link", name="Load more").click()
    expect(page.locator(".copy")).to_have_count(30)
    page.get_by_role("button", name="Keep only this one").first.click()
    page.get_by_role("button", name="Make a plan from this choice").click()
    page.wait_for_url(re.compile(r"/plans/\d+/"))
    choices = list(Plan.objects.get().choices.values())
    assert (choices.count("keep"), choices.count("remove")) == (1, 29)


def test_pages_fit_their_width_whatever_the_names_are(visit: Visit) -> None:
    photos = library("W" * 255)
    name = "<b>" + "W" * 240
    copies(photos, 1, f"{name}/{name}/{name}", f"x/{name}/{name}")
    rule_set("R" * 100)
    plan = planned(rule_set_name="R" * 100)
    page = visit(operator(), "/plans/")
    for address in ("/plans/", f"/plans/{plan.pk}/", f"/plans/{plan.pk}/?by=folder", "/plans/new/"):
        page.goto(address)
        for width in (1440, 1024, 390, 320):
            page.set_viewport_size({"width": width, "height": 800})
            wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wider <= 0, (address, width)
