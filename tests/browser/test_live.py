"""What all live parts have in common: when they ask, what they leave alone, what they say at the end."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from accounts.models import Role, User
from jobs import deciding
from jobs.lease import Lease
from jobs.models import Job, WorkerHeartbeat
from libraries import queueing
from libraries.models import ScanRequest
from tests import factories
from tests.browser.conftest import Visit
from tests.browser.stillness import HIDE

pytestmark = pytest.mark.django_db

QUIET_PAGE = "/account/tokens/"


def otto() -> User:
    return factories.user("otto", Role.OPERATOR)


def started_by(actor: str) -> Lease[Job]:
    """A scan that somebody asked for and a worker carries out."""
    queueing.submit(factories.library().pk, ScanRequest.Priority.HIGH, actor=actor)
    lease = Job.objects.claim("nas:7")
    assert lease is not None
    return lease


def opened(visit: Visit, user: User, address: str, **options: Any) -> Page:
    """A page whose clock `later` can put forward."""
    page = visit(user, "/account/password/", **options)
    page.clock.install()
    page.goto(address)
    return page


def later(page: Page) -> None:
    """Time for every part of the page to ask once."""
    page.clock.fast_forward(61_000)


def asked(page: Page) -> list[str]:
    found: list[str] = []
    page.on("request", lambda request: found.append(request.url) if request.resource_type == "xhr" else None)
    return found


# --- Asking -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("address", ["/jobs/", QUIET_PAGE])
def test_a_hidden_tab_does_not_ask_and_asks_once_when_it_is_seen_again(visit: Visit, address: str) -> None:
    lease = started_by("otto")
    page = opened(visit, otto(), address)
    page.evaluate(HIDE, True)
    found = asked(page)  # only now: until it was hidden it may have asked
    later(page)
    assert found == []
    lease.finish("completed")
    page.evaluate(HIDE, False)
    expect(page.locator("#running-now")).to_contain_text("Nothing runs")
    assert len(found) == 1


def test_the_page_of_the_maintenance_asks_at_once_when_it_is_seen_again(visit: Visit) -> None:
    page = opened(visit, factories.user(), "/maintenance/")
    page.evaluate(HIDE, True)
    found = asked(page)
    WorkerHeartbeat.objects.create(worker_id="nas:7", hostname="nas")
    later(page)
    assert found == []
    page.evaluate(HIDE, False)
    expect(page.get_by_text("No consumer is alive")).to_have_count(0)
    assert len(found) == 1


def test_a_page_asks_in_one_request_for_all_that_it_shows(visit: Visit) -> None:
    for _ in range(5):
        factories.running_job("thumbnail")
    page = opened(visit, otto(), "/jobs/")
    found = asked(page)
    with page.expect_response("**/jobs/live/**"):
        later(page)
    expect(page.locator("#running-now")).to_contain_text("5 jobs run")
    assert [url for url in found if "/now/" in url] == []
    assert len([url for url in found if "/jobs/live/" in url]) >= 1


def test_a_page_without_live_parts_asks_only_while_something_runs(visit: Visit) -> None:
    lease = started_by("somebody else")
    page = opened(visit, otto(), QUIET_PAGE)
    expect(page.locator("#running-now[data-active]")).to_have_count(1)
    lease.finish("completed")
    later(page)
    expect(page.locator("#running-now")).to_contain_text("Nothing runs")
    expect(page.locator("#running-now[data-active]")).to_have_count(0)
    expect(page.locator(".toast")).to_have_count(0)


# --- Toasts -----------------------------------------------------------------------------------------------
def test_what_somebody_started_is_told_when_it_ends_on_whichever_page(visit: Visit) -> None:
    lease = started_by("otto")
    page = opened(visit, otto(), QUIET_PAGE)
    height = page.evaluate("document.documentElement.scrollHeight")
    lease.finish("completed")
    later(page)
    toast = page.get_by_role("status").filter(has_text="The scan of photos is done.")
    expect(toast).to_be_visible()
    assert page.evaluate("document.documentElement.scrollHeight") == height
    page.get_by_role("button", name="Dismiss").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".toast")).to_have_count(0)
    expect(page.locator("#content")).to_be_focused()


def test_what_ended_between_two_pages_is_told_on_the_next(visit: Visit) -> None:
    lease = started_by("otto")
    page = opened(visit, otto(), QUIET_PAGE)
    lease.finish("failed", code="WORKER_FAILURE")
    page.goto("/account/password/")
    expect(page.locator(".toast.is-danger")).to_contain_text("The scan of photos failed.")
    page.goto(QUIET_PAGE)
    expect(page.locator("#running-now")).to_be_visible()
    expect(page.locator(".toast")).to_have_count(0)


def test_what_somebody_watched_is_told_elsewhere(visit: Visit) -> None:
    job, lease = factories.running_job("thumbnail")
    page = opened(visit, factories.user(), f"/jobs/{job.pk}/")
    expect(page.locator("[data-watch]")).to_have_count(1)
    page.goto(QUIET_PAGE)
    lease.finish("completed")
    later(page)
    expect(page.locator(".toast")).to_contain_text("Done: Thumbnail.")
    page.locator(".toast").get_by_role("link", name="Show").click()
    page.wait_for_url(re.compile(f"/jobs/{job.pk}/"))


def test_what_was_cancelled_is_not_told(visit: Visit) -> None:
    lease = started_by("otto")
    page = opened(visit, otto(), QUIET_PAGE)
    deciding.cancel(lease.row.pk, actor="otto", reason="")
    later(page)
    expect(page.locator("#running-now")).to_contain_text("Nothing runs")
    expect(page.locator(".toast")).to_have_count(0)
    page.wait_for_function("sessionStorage.getItem('dedupfs-watched') === ''")


# --- Nothing jumps ----------------------------------------------------------------------------------------
def test_focus_and_scroll_stay_where_they_are_when_a_part_refreshes(visit: Visit) -> None:
    lease = started_by("otto")
    WorkerHeartbeat.objects.create(worker_id="nas:7", hostname="nas")
    page = opened(visit, otto(), "/queue/", viewport={"width": 1000, "height": 300})
    time = page.locator("#queue .exact").first
    time.focus()
    page.evaluate("scrollTo(0, 60)")
    top = page.evaluate("scrollY")
    page.evaluate("document.querySelector('#queue').dataset.old = ''")
    later(page)
    expect(page.locator("#queue[data-old]")).to_have_count(0)
    expect(page.locator("#queue .exact").first).to_be_focused()
    assert page.evaluate("scrollY") == top
    lease.finish("completed")


def test_the_browser_s_zone_is_told_to_the_server(visit: Visit) -> None:
    job = factories.finished_job("thumbnail", "completed")
    page = opened(visit, factories.user(), f"/jobs/{job.pk}/", timezone_id="Asia/Kolkata")
    page.reload()
    expect(page.locator("time.exact").first).to_have_attribute("title", re.compile("IST$"))
