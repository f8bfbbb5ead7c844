from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.db.models.functions import Now
from playwright.sync_api import Page, expect

from accounts.models import Role
from database.clock import SecondsFromNow
from jobs.models import Job, WorkerHeartbeat
from logbook.models import LogbookEvent, write_event
from tests import factories
from tests.browser.conftest import Visit
from tests.browser.stillness import settle

pytestmark = pytest.mark.django_db

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
NO_SCRIPT: dict[str, Any] = {"java_script_enabled": False}


def many_jobs(count: int) -> list[str]:
    """Finished jobs, in the order in which the list shows them."""
    made = [
        job.pk for job in Job.objects.bulk_create([Job(kind="thumbnail", status="completed") for _ in range(count)])
    ]
    Job.objects.filter(pk__in=made).update(created_at=Now())
    return sorted(made, reverse=True)


def rows_of(page: Page) -> list[str]:
    """The jobs that are shown, once the page is there as a whole."""
    page.wait_for_load_state()
    ids: list[str] = page.locator("tr[id^='job-']").evaluate_all("rows => rows.map(row => row.id.slice(4))")
    return ids


# --- Load more --------------------------------------------------------------------------------------------
def test_load_more_appends_rows_until_the_end(visit: Visit) -> None:
    wanted = many_jobs(120)
    page = visit(factories.user())
    for shown in (75, 120):
        page.get_by_role("link", name="Load more").click()
        expect(page.locator("tr[id^='job-']")).to_have_count(shown)
        settle(page)
    expect(page.get_by_role("link", name="Load more")).to_have_count(0)
    assert rows_of(page) == wanted


def test_load_more_puts_the_page_into_the_address(visit: Visit) -> None:
    wanted = many_jobs(120)
    page = visit(factories.user(), "/jobs/?kind=thumbnail")
    entries = page.evaluate("history.length")
    page.get_by_role("link", name="Load more").click()
    expect(page).to_have_url(re.compile(r"/jobs/\?kind=thumbnail&cursor=."))
    expect(page.locator("tr[id^='job-']")).to_have_count(75)
    assert page.evaluate("history.length") == entries
    other = visit(factories.user("otto"), page.url)
    assert rows_of(other) == wanted[25:50]
    expect(other.get_by_role("link", name="Back to the newest")).to_be_visible()


def test_going_back_after_load_more_shows_a_whole_page(visit: Visit) -> None:
    many_jobs(60)
    page = visit(factories.user())
    page.get_by_role("link", name="Load more").click()
    expect(page.locator("tr[id^='job-']")).to_have_count(60)
    page.get_by_role("link", name="Skip to the content").focus()
    page.keyboard.press("Enter")
    with page.expect_navigation():
        page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
    expect(page.locator("tr[id^='job-']")).to_have_count(25)


def test_load_more_works_without_javascript(visit: Visit) -> None:
    wanted = many_jobs(120)
    page = visit(factories.user(), **NO_SCRIPT)
    seen = rows_of(page)
    while page.get_by_role("link", name="Load more").count():
        with page.expect_navigation():
            page.get_by_role("link", name="Load more").click()
        seen += rows_of(page)
    assert seen == wanted
    expect(page.get_by_role("link", name="Back to the newest")).to_be_visible()


def test_load_more_begins_to_refresh_a_running_row_that_it_brings(visit: Visit) -> None:
    old, lease = factories.running_job("scan")
    Job.objects.filter(pk=old.pk).update(created_at=SecondsFromNow(-60))
    many_jobs(50)
    page = visit(factories.user())
    expect(page.locator("#live")).not_to_have_attribute("hx-trigger", re.compile("."))
    page.get_by_role("link", name="Load more").click()
    lease.renew(1, 4)
    expect(page.locator(f"#job-{old.pk}")).to_contain_text("25 %")


# --- Live -------------------------------------------------------------------------------------------------
def test_running_row_refreshes_by_itself_and_stops_asking_when_it_ended(visit: Visit) -> None:
    job, lease = factories.running_job("scan")
    done = factories.finished_job("delete")
    page = visit(factories.user())
    row = page.locator(f"tr[id='job-{job.pk}']")
    expect(row).to_contain_text("Running")
    lease.renew(3, 4)
    expect(row).to_contain_text("75 %")
    expect(page.locator("#running-now")).to_have_text("Scan 75 %")
    lease.finish("completed")
    expect(row).to_contain_text("Completed")
    expect(page.locator("#running-now")).to_have_text("Nothing runs")
    expect(page.locator("#live")).not_to_have_attribute("hx-trigger", re.compile("."))
    assert rows_of(page) == [done.pk, job.pk]


def test_waiting_row_shows_when_it_starts(visit: Visit) -> None:
    job = factories.pending_job("hash")
    page = visit(factories.user())
    assert Job.objects.claim("nas-7") is not None
    expect(page.locator(f"tr[id='job-{job.pk}']")).to_contain_text("nas-7")


def test_focus_stays_on_a_row_that_refreshes(visit: Visit) -> None:
    job, lease = factories.running_job("scan")
    page = visit(factories.user())
    link = page.locator(f"[id='open-{job.pk}']")
    link.focus()
    lease.renew(1, 2)
    expect(page.locator("#job-rows")).to_contain_text("50 %")
    expect(link).to_be_focused()


def test_job_page_follows_the_job_to_its_end(visit: Visit) -> None:
    job, lease = factories.running_job("scan")
    page = visit(factories.user("otto", Role.OPERATOR), f"/jobs/{job.pk}/")
    expect(page.locator("#job-history li")).to_have_count(2)
    lease.renew(1, 2)
    expect(page.locator("#job-head")).to_contain_text("1 of 2 items")
    expect(page.locator("#job-head")).to_contain_text(lease.worker_id)
    lease.finish("failed", code="WORKER_FAILURE", message="the disk is gone")
    expect(page.locator("#job-history li")).to_have_count(3)
    expect(page.locator("#job-error")).to_contain_text("the disk is gone")
    expect(page.get_by_role("button", name="Try again as a new job")).to_be_visible()
    expect(page.locator("#job-head")).not_to_have_attribute("hx-trigger", re.compile("."))


def test_what_one_types_is_kept_while_the_page_refreshes(visit: Visit) -> None:
    job, lease = factories.running_job("scan")
    page = visit(factories.user("otto", Role.OPERATOR), f"/jobs/{job.pk}/")
    page.locator("#job-actions summary").click()
    page.get_by_label("Reason, for the logbook").fill("half a sent")
    lease.renew(1, 2)
    expect(page.locator("#job-head")).to_contain_text("1 of 2 items")
    expect(page.get_by_label("Reason, for the logbook")).to_have_value("half a sent")


def test_refresh_after_the_login_ended_leads_to_the_login(visit: Visit) -> None:
    factories.running_job("scan")
    page = visit(factories.user())
    Session.objects.all().delete()
    page.wait_for_url(re.compile("/account/login/"))
    expect(page.get_by_role("button", name="Log in")).to_be_visible()


def test_page_says_that_it_may_be_old_while_the_server_is_away(visit: Visit, complaints: list[str]) -> None:
    factories.running_job("scan")
    page = visit(factories.user())
    page.route("**/jobs/live/**", lambda route: route.abort())
    expect(page.locator("#offline")).to_be_visible()
    page.unroute("**/jobs/live/**")
    expect(page.locator("#offline")).to_be_hidden()
    assert complaints
    complaints.clear()


# --- Decisions --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("options", [{}, PHONE, NO_SCRIPT], ids=["desk", "phone", "without javascript"])
def test_cancel_by_click(visit: Visit, options: dict[str, Any]) -> None:
    job, _lease = factories.running_job("scan")
    page = visit(factories.user("otto", Role.OPERATOR), f"/jobs/{job.pk}/", **options)
    page.locator("#job-actions summary").click()
    page.get_by_label("Reason, for the logbook").fill("the wrong library")
    page.get_by_role("button", name="Cancel this job").click()
    expect(page.get_by_text("This job was cancelled.")).to_be_visible()
    expect(page.locator("#job-history")).to_contain_text("the wrong library")
    job.refresh_from_db()
    assert job.status == "cancelled"
    event = LogbookEvent.objects.about("jobs", job.pk).get(event_type="cancel")
    assert (event.actor, event.payload_json) == ("otto", {"reason": "the wrong library"})


def test_panel_closes_by_escape_and_by_a_click_elsewhere(visit: Visit) -> None:
    job = factories.pending_job()
    page = visit(factories.user("otto", Role.OPERATOR), f"/jobs/{job.pk}/")
    button = page.get_by_role("button", name="Cancel this job")
    summary = page.locator("#job-actions summary")
    summary.click()
    expect(button).to_be_visible()
    page.keyboard.press("Escape")
    expect(button).to_be_hidden()
    expect(summary).to_be_focused()
    summary.click()
    page.locator("h1").click()
    expect(button).to_be_hidden()


def test_error_can_be_copied(visit: Visit) -> None:
    job, lease = factories.running_job()
    lease.finish("failed", code="WORKER_FAILURE", message="Errno 5 <b>\n  on disk")
    page = visit(factories.user(), f"/jobs/{job.pk}/", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "Errno 5 <b>\n  on disk"


# --- The frame --------------------------------------------------------------------------------------------
ADDRESSES = ["/jobs/", "/jobs/?status=failed&kind=delete", "/jobs/{job}/", "/jobs/workers/", "/logbook/"]


def everything() -> Job:
    """Something of every sort, with long names."""
    job, lease = factories.running_job("scan", payload={"root": "/libraries/" + "long name " * 20})
    lease.finish("failed", code="WORKER_FAILURE", message="Traceback\n" + "no/space/" * 60)
    factories.running_job("hash")
    many_jobs(60)
    write_event("supervisor", "consumer", "consumer_restarted", exit=-9)
    WorkerHeartbeat.objects.create(worker_id="nas-with-a-rather-long-name:4711", hostname="nas" * 15, pid=4711)
    return job


@pytest.mark.parametrize("width", [1440, 1024, 800, 390, 320])
@pytest.mark.parametrize("colour", ["light", "dark"])
def test_pages_fit_their_width_and_the_console_stays_clean(visit: Visit, width: int, colour: str) -> None:
    job = everything()
    page = visit(factories.user("ada", Role.ADMIN), viewport={"width": width, "height": 800}, color_scheme=colour)
    for address in ADDRESSES:
        page.goto(address.format(job=job.pk))
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0, (
            address
        )
        expect(page.get_by_role("heading", level=1)).to_be_visible()


def test_narrow_screens_have_the_bar_and_wide_ones_the_sidebar(visit: Visit) -> None:
    page = visit(factories.user(), **PHONE)
    bar, sidebar = page.locator(".bar"), page.locator(".sidebar")
    expect(bar).to_be_visible()
    expect(sidebar).to_be_hidden()
    bar.get_by_text("More").tap()
    expect(bar.get_by_role("link", name="API tokens")).to_be_visible()
    bar.get_by_role("link", name="Logbook").tap()
    page.wait_for_url("**/logbook/")
    page.set_viewport_size({"width": 800, "height": 800})
    expect(bar).to_be_hidden()
    expect(sidebar).to_be_visible()
    assert sidebar.evaluate("element => element.getBoundingClientRect().width") == 220


def test_dark_theme_is_kept_and_set_before_the_page_shows(visit: Visit) -> None:
    page = visit(factories.user(), color_scheme="light")
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(ground)
    page.locator(".sidebar").get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    dark = page.evaluate(ground)
    assert dark != light
    page.add_init_script(
        """new MutationObserver((_, watch) => {
             if (!document.body) return;
             window.themeAtFirst = document.documentElement.dataset.theme;
             watch.disconnect();
           }).observe(document, {childList: true, subtree: true});"""
    )
    page.goto("/logbook/")
    assert page.evaluate("window.themeAtFirst") == "dark"
    assert page.evaluate(ground) == dark
    expect(page.locator(".sidebar").get_by_role("button", name="Dark")).to_have_attribute("aria-pressed", "true")
    page.locator(".sidebar").get_by_role("button", name="As the system").click()
    page.reload()
    assert page.evaluate(ground) == light


@pytest.mark.parametrize("colour", ["light", "dark"])
def test_system_theme_is_followed_without_javascript(visit: Visit, colour: str) -> None:
    page = visit(factories.user(), color_scheme=colour, **NO_SCRIPT)
    expect(page.locator(".sidebar [data-theme-switch]")).to_be_hidden()
    expected = {"light": "rgb(246, 247, 249)", "dark": "rgb(15, 18, 22)"}[colour]
    expect(page.locator("html")).to_have_css("background-color", expected)


def test_keyboard_can_skip_to_the_content_and_sees_exact_times(visit: Visit) -> None:
    factories.finished_job()
    page = visit(factories.user())
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    moment = page.locator("#job-rows time").first
    moment.focus()
    shown = moment.evaluate("element => getComputedStyle(element, '::after').content")
    assert shown.strip('"') == moment.get_attribute("title")
