from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from accounts.models import Role
from jobs.models import Job
from libraries.models import LibraryState
from tests import factories
from tests.browser.conftest import Visit
from tests.browser.stillness import HIDE, hold_still
from tests.browser.test_reach import look_at
from tests.duplicates.plans import copies, rule_set
from tests.site.overviews import a_consumer, everything, library

pytestmark = pytest.mark.django_db
NO_SCRIPT: dict[str, Any] = {"java_script_enabled": False}


def test_what_can_be_won_comes_after_the_page_by_itself(visit: Visit) -> None:
    copies(library(), 1, "a", "old/a", size=2_000)
    page = visit(factories.user(), "/")
    expect(page.locator("#to-win")).to_contain_text("2.0 kB")
    page.locator("#to-duplicates").click()
    page.wait_for_url("**/duplicates/")


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("is_known", [True, False], ids=["with duplicates and rules", "without"])
def test_while_it_is_counted_its_place_is_kept(visit: Visit, width: int, is_known: bool) -> None:
    photos = library()
    if is_known:
        copies(photos, 1, "a", "old/a", size=2_000)
        rule_set()
    page = visit(factories.user(), "/account/password/", viewport={"width": width, "height": 800})
    held: list[Route] = []
    page.route("**/?count=1", lambda route: held.append(route))
    with page.expect_request("**/?count=1"):
        page.goto("/")
    tile, skeleton = page.locator("#to-win"), page.locator("#to-win .skeleton")
    expect(skeleton).to_be_visible()
    before = tile.bounding_box()
    held[0].continue_()
    expect(skeleton).to_have_count(0)
    expect(tile).to_contain_text("2.0 kB" if is_known else "0 B")
    assert tile.bounding_box() == before


def test_without_javascript_it_is_counted_by_a_link(visit: Visit) -> None:
    copies(library(), 1, "a", "old/a", size=2_000)
    page = visit(factories.user(), "/", **NO_SCRIPT)
    page.get_by_role("link", name="Count it").click()
    expect(page.locator("#to-win")).to_contain_text("2.0 kB")


def test_an_open_page_follows_what_runs_and_stops_when_it_has_ended(visit: Visit) -> None:
    a_consumer()
    library()
    job, lease = factories.running_job("thumbnail", total_items=100)
    page = visit(factories.user("otto", Role.OPERATOR), "/")
    expect(page.locator("#runs")).to_contain_text("0 / 100")
    page.locator(f"#cancel-{job.pk}").focus()
    lease.renew(40, 100)
    LibraryState.objects.update(error_count=3)
    expect(page.locator("#runs")).to_contain_text("40 / 100")
    expect(page.locator("#needs")).to_contain_text("3 paths can't be read")
    expect(page.locator(f"#cancel-{job.pk}")).to_be_focused()
    lease.finish("completed")
    expect(page.locator("#runs")).to_contain_text("Nothing runs and nothing waits.")
    expect(page.locator("#overview-charts")).to_contain_text("1 completed")
    expect(page.locator("#overview")).not_to_have_attribute("hx-trigger", "every 3s")


def later(page: Page) -> None:
    """Time for a page where nothing runs to ask once."""
    page.clock.fast_forward(61_000)


def test_a_page_that_is_open_all_day_learns_what_came_meanwhile(visit: Visit) -> None:
    a_consumer()
    copies(library(), 1, "a", "old/a", size=2_000)
    page = visit(factories.user("otto", Role.OPERATOR), "/account/password/", viewport={"width": 1024, "height": 400})
    page.clock.install()
    page.goto("/")
    expect(page.locator("#to-duplicates")).to_be_visible()
    page.locator("#to-queue").focus()
    page.evaluate("scrollTo(0, 150)")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    LibraryState.objects.update(error_count=3)
    later(page)
    expect(page.locator("#needs")).to_contain_text("3 paths can't be read")
    assert len(asked) == 1
    expect(page.locator("#to-queue")).to_be_focused()
    assert page.evaluate("scrollY") == 150
    page.evaluate(HIDE, True)
    LibraryState.objects.update(error_count=4)
    later(page)
    assert len(asked) == 1, "nobody looks"
    page.evaluate(HIDE, False)
    expect(page.locator("#needs")).to_contain_text("4 paths can't be read")
    assert len(asked) == 2


def test_a_hidden_page_does_not_ask(visit: Visit) -> None:
    library()
    job, _lease = factories.running_job("thumbnail")
    page = visit(factories.user(), "/")
    expect(page.locator("#to-win .tile-note").first).to_contain_text("known after the first scan")
    page.evaluate(HIDE, True)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    # As the clock would: what is prevented is the asking, not the clock.
    page.evaluate("htmx.ajax('GET', '/', {source: document.getElementById('overview')})")
    Job.objects.filter(pk=job.pk).update(status="completed")
    assert asked == []
    page.evaluate(HIDE, False)
    expect(page.locator("#runs")).to_contain_text("Nothing runs")


@pytest.mark.parametrize("options", [{}, NO_SCRIPT], ids=["with JavaScript", "without"])
def test_a_job_is_cancelled_by_click(visit: Visit, options: dict[str, Any]) -> None:
    library()
    job, _lease = factories.running_job("thumbnail")
    page = visit(factories.user("otto", Role.OPERATOR), "/", **options)
    hold_still(page)
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("This job was cancelled.")).to_be_visible()
    assert Job.objects.get(pk=job.pk).status == "cancelled"


def test_a_new_admin_is_led_to_the_first_library(visit: Visit) -> None:
    page = visit(factories.user("ada", Role.ADMIN), "/")
    page.get_by_role("link", name="Begin").click()
    page.wait_for_url("**/first-steps/")


@pytest.mark.parametrize("colour", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 1024, 800, 390, 320])
def test_nothing_sticks_out(visit: Visit, width: int, colour: str) -> None:
    everything()
    library("W" * 255, size=10**12, mount="absent", mount_note="x" * 500)
    page = visit(factories.user("ada", Role.ADMIN), "/", viewport={"width": width, "height": 900}, color_scheme=colour)
    expect(page.locator("#to-win")).to_contain_text("groups")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("svg.share-bar rect").count() == 6
    for chart in page.locator("svg.chart-plot").all():
        box = chart.bounding_box()
        assert box is not None
        assert box["width"] > 150
    for head in page.locator(".card-head h2").all():
        box = head.bounding_box()
        assert box is not None
        assert box["height"] < 60, "a heading is not squeezed to a column"


@pytest.mark.parametrize("width", [1440, 390])
def test_axe_finds_nothing_where_there_is_much_of_everything(visit: Visit, width: int) -> None:
    everything()
    page = visit(factories.user("ada", Role.ADMIN), "/", viewport={"width": width, "height": 900})
    expect(page.locator("#to-win")).to_contain_text("groups")
    assert "\n".join(look_at(page, "/")) == ""


def test_the_bar_of_a_phone_has_the_overview_first(visit: Visit) -> None:
    page = visit(factories.user(), "/", viewport={"width": 390, "height": 800})
    items = page.locator(".bar > .bar-item, .bar > .more-sheet > .bar-item")
    expect(items).to_have_text(["Overview", "Duplicates", "Plans", "Jobs", "More"])
    expect(items.first).to_have_attribute("aria-current", "page")
