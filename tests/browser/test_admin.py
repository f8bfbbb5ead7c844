"""Django's admin in a real browser: a clean console under our policy, our theme, nothing wider than the screen."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from accounts.models import Role
from tests import factories
from tests.browser.conftest import Visit
from tests.browser.test_reach import look_at
from tests.site import table_rows
from tests.site.table_rows import MAKERS

pytestmark = pytest.mark.django_db

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
DESK: dict[str, Any] = {"viewport": {"width": 1440, "height": 900}}


def surface(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.documentElement).backgroundColor"))


def is_too_wide(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))


def test_every_list_and_every_row_opens_with_a_clean_console_and_fits_a_phone(visit: Visit) -> None:
    page = visit(factories.user("ada", Role.ADMIN), "/admin/", **PHONE)
    wide = []
    for number, (model, make) in enumerate(MAKERS.items()):
        make(number)
        page.goto(f"/admin/{model._meta.app_label}/{model._meta.model_name}/")
        wide += [page.url] if is_too_wide(page) else []
        page.locator("#result_list tbody th a").first.click()
        page.wait_for_url("**/change/*")
        wide += [page.url] if is_too_wide(page) else []
    assert wide == []


@pytest.mark.parametrize("options", [DESK, PHONE], ids=["desk", "phone"])
def test_axe_finds_nothing_in_our_dress_of_the_admin(visit: Visit, options: dict[str, Any]) -> None:
    job = table_rows.scan_request(0).job
    table_rows.trash_item(1)
    addresses = [
        "/admin/", "/admin/jobs/", "/admin/jobs/job/", "/admin/jobs/job/?q=nothing", "/admin/trash/trashitem/",
        f"/admin/jobs/job/{job.pk if job else ''}/change/",
    ]  # fmt: skip
    page = visit(factories.user("ada", Role.ADMIN), addresses[0], **options)
    wrong = []
    for address in addresses:
        page.goto(address)
        wrong += look_at(page, address)
    assert "\n".join(wrong) == ""


def test_the_theme_that_was_chosen_on_our_pages_rules_here_too(visit: Visit) -> None:
    boss = factories.user("ada", Role.ADMIN)
    page = visit(boss, "/jobs/", color_scheme="light", **DESK)
    page.get_by_role("button", name="Dark").click()
    dark = surface(page)
    page.goto("/admin/jobs/job/")
    assert surface(page) == dark
    page.get_by_role("button", name="Light").click()
    light = surface(page)
    assert light != dark
    page.goto("/jobs/")
    assert surface(page) == light


def test_rows_are_searched_filtered_chosen_and_followed(visit: Visit) -> None:
    boss = factories.user("ada", Role.ADMIN)
    request = table_rows.scan_request(0)
    factories.pending_job("hash")
    key = str(request.job_id)
    page = visit(boss, "/admin/jobs/job/", **DESK)
    page.get_by_role("link", name="Failed", exact=True).click()
    expect(page.locator("#result_list tbody tr")).to_have_count(1)
    page.get_by_role("link", name="Clear the filters").click()
    page.get_by_role("searchbox").fill(key)
    page.keyboard.press("Enter")
    expect(page.locator("#result_list tbody tr")).to_have_count(1)
    page.wait_for_load_state()  # before that its scripts count nothing
    page.locator("#action-toggle").check()
    expect(page.locator(".action-counter")).to_have_text("1 of 1 selected")
    page.get_by_role("link", name="photos-0").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("photos-0")
    page.locator("summary", has_text="Tables").click()
    page.get_by_role("navigation", name="Tables").get_by_role("link", name="Scan requests").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Scan requests")
    page.get_by_role("link", name="DedupFS").click()
    page.wait_for_url(lambda url: not url.rstrip("/").endswith("scanrequest"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
