from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from pytest_django.fixtures import Settings

from accounts.models import Role
from database.clock import SecondsFromNow
from jobs.lease import Lease
from jobs.models import Job, WorkerHeartbeat
from libraries import queueing
from libraries.models import HashState, LibraryFile, LibraryRoot, LibraryState, ScanError, ScanRequest, ScanSession
from libraries.names import to_text
from tests import factories
from tests.browser.conftest import Visit
from tests.browser.stillness import hold_still, settle

pytestmark = pytest.mark.django_db

NO_SCRIPT: dict[str, Any] = {"java_script_enabled": False}
HIGH = ScanRequest.Priority.HIGH
#: 255 bytes without a place to break, some of them no text.
HOSTILE = to_text(b"caf\xe9<b>\n" + b"W" * 242 + b".jpg")
ASKS = re.compile(".")


def known(name: str = "photos", **state: Any) -> LibraryRoot:
    library = factories.library(name, f"/libraries/{name}")
    LibraryState.objects.create(library=library, **{"mount": "present", "checked_at": SecondsFromNow(-60), **state})
    return library


def scanning(library: LibraryRoot, **seen: Any) -> tuple[Lease[Job], ScanSession]:
    queueing.submit(library.pk, HIGH, actor="otto")
    lease = Job.objects.claim("nas:7")
    assert lease is not None
    started = {"started_at": SecondsFromNow(-100), "updated_at": SecondsFromNow(0)}
    return lease, ScanSession.objects.create(library=library, job_id=lease.row.pk, **started, **seen)


def saw(session: ScanSession, files: int) -> None:
    ScanSession.objects.filter(pk=session.pk).update(files_seen=files, updated_at=SecondsFromNow(0))


def end(lease: Lease[Job], session: ScanSession) -> None:
    done = {"status": "succeeded", "finished_at": SecondsFromNow(0)}
    ScanSession.objects.filter(pk=session.pk).update(**done)
    lease.finish("completed")
    HashState.objects.update(is_due=False)  # else the page waits for the hash job that follows


def operator() -> Any:
    return factories.user("otto", Role.OPERATOR)


def tops(page: Page, selector: str) -> list[float]:
    """Where parts of the page stand, from above, in whole pixels."""
    where = "all => all.map(e => Math.round(e.getBoundingClientRect().top))"
    found: list[float] = page.locator(selector).evaluate_all(where)
    return found


# --- Live -------------------------------------------------------------------------------------------------
def test_list_follows_a_scan_to_its_end_and_stops_asking(visit: Visit) -> None:
    library, _other = known(walked_files=1_000), known("zebra")
    lease, session = scanning(library, files_seen=100)
    page = visit(operator(), "/libraries/")
    row = page.locator(f"#library-{library.pk}")
    expect(row).to_contain_text("10 %")
    page.locator(f"[id='open-library-{library.pk}']").focus()
    before = tops(page, "tr[id^=library-]")
    saw(session, 420)
    expect(row).to_contain_text("42 %")
    expect(page.locator(f"[id='open-library-{library.pk}']")).to_be_focused()
    end(lease, session)
    expect(row.get_by_role("button", name="Scan")).to_be_visible()
    expect(page.locator("#running-now")).to_have_text("Nothing runs")
    expect(page.locator("#libraries")).not_to_have_attribute("hx-trigger", ASKS)
    assert tops(page, "tr[id^=library-]") == before


def test_library_page_shows_new_errors_when_the_scan_has_ended(visit: Visit) -> None:
    library = known(walked_files=1_000)
    lease, session = scanning(library, files_seen=100)
    page = visit(operator(), f"/libraries/{library.pk}/")
    saw(session, 500)
    expect(page.locator("#library-scan")).to_contain_text("500 of about 1,000 files")
    ScanError.objects.create(library=library, session=session, relative_path="locked", reason="denied")
    end(lease, session)
    expect(page.locator("#library-errors")).to_contain_text("locked")
    expect(page.locator("#library-scan")).to_contain_text("Succeeded")
    expect(page.get_by_role("button", name="Cancel scan")).to_have_count(0)
    expect(page.locator("#library-live")).not_to_have_attribute("hx-trigger", ASKS)


def test_queue_follows_what_runs_and_stops_asking(visit: Visit) -> None:
    library = known(walked_files=1_000)
    lease, session = scanning(library, files_seen=100)
    queueing.submit(known("second").pk, HIGH, actor="otto")
    page = visit(operator(), "/queue/")
    expect(page.locator("#queue")).to_contain_text("10 %")
    saw(session, 300)
    expect(page.locator("#queue")).to_contain_text("30 %")
    hold_still(page)
    page.get_by_role("button", name="Cancel second").click()
    expect(page.get_by_text("The scan of “second” is cancelled")).to_be_visible()
    end(lease, session)
    expect(page.locator("#queue")).to_contain_text("Nothing runs: the next")
    expect(page.locator("#queue")).not_to_have_attribute("hx-trigger", ASKS)
    expect(page.locator("#queue")).to_contain_text("Completed")


def test_all_that_ended_stays_on_the_screen_while_something_runs(visit: Visit) -> None:
    """The queue's page asks again every 3 s; what was loaded of the history is on a page that does not."""
    scanning(known(walked_files=1_000), files_seen=100)
    over = {"library": known("many"), "status": "completed", "completed_at": SecondsFromNow(-60)}
    ScanRequest.objects.bulk_create([ScanRequest(**over) for _ in range(80)])
    page = visit(operator(), "/queue/")
    rows = page.locator("section[aria-labelledby='history-name'] tbody tr:not(.more-row)")
    expect(rows).to_have_count(25)
    hold_still(page)
    page.get_by_role("link", name="Show all that ended").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Ended scans")
    for shown in (75, 80):
        page.get_by_role("link", name="Load more").click()
        expect(rows).to_have_count(shown)
        settle(page)
    expect(page.get_by_role("link", name="Load more")).to_have_count(0)
    expect(page).to_have_url(re.compile(r"/queue/history/\?cursor=."))
    expect(page.locator("#content [hx-trigger]")).to_have_count(0)


# --- By click and without JavaScript ----------------------------------------------------------------------
@pytest.mark.parametrize("options", [{}, NO_SCRIPT], ids=["with JavaScript", "without"])
def test_a_library_is_added_scanned_and_removed_by_click(
    visit: Visit, options: dict[str, Any], tmp_path: Path, settings: Settings
) -> None:
    settings.LIBRARIES_ROOTS = [tmp_path]
    folder = tmp_path / "photos"
    folder.mkdir()
    factories.library("music")  # without any, one is led to the first steps
    page = visit(factories.user("ada", Role.ADMIN), "/libraries/", **options)
    page.get_by_role("link", name="Add library").click()
    page.get_by_label("Name").fill("photos")
    page.get_by_label("Folder", exact=True).fill(str(tmp_path / "nowhere"))
    page.get_by_role("button", name="Add this library").click()
    expect(page.locator("#id_path_error")).to_contain_text("no folder that can be read")
    expect(page.get_by_label("Name")).to_have_value("photos")
    page.get_by_label("Folder", exact=True).fill(str(folder))
    page.get_by_role("button", name="Add this library").click()
    expect(page.get_by_text("“photos” is added")).to_be_visible()
    page.get_by_role("button", name="Scan", exact=True).click()
    expect(page.get_by_text("A scan is asked for")).to_be_visible()
    page.get_by_role("link", name="Remove…").click()
    page.get_by_role("button", name="Remove this library").click()
    expect(page.get_by_role("link", name="photos")).to_have_count(0)
    assert folder.is_dir()


def test_next_run_shows_while_the_schedule_is_typed(visit: Visit) -> None:
    page = visit(factories.user("ada", Role.ADMIN), "/libraries/add/")
    page.get_by_label("At the times of a cron expression").check()
    page.get_by_label("Cron expression", exact=True).fill("30 2 * * 0")
    expect(page.locator("#next-runs")).to_contain_text("02:30:00 UTC")
    page.get_by_label("Cron expression", exact=True).fill("61 * * * *")
    expect(page.locator("#next-runs")).to_contain_text("61 * * * *")


def test_load_more_appends_errors(visit: Visit) -> None:
    library = known()
    session = ScanSession.objects.create(library=library, status="succeeded")
    ScanError.objects.bulk_create(
        ScanError(library=library, session=session, relative_path=f"{number}", reason="denied") for number in range(30)
    )
    page = visit(factories.user(), f"/libraries/{library.pk}/")
    page.locator("#load-more-errors").click()
    expect(page.locator("#library-errors .path")).to_have_count(30)
    expect(page.locator("#load-more-errors")).to_have_count(0)
    assert page.url.endswith(f"/libraries/{library.pk}/"), "a part of this page only"


# --- The look ---------------------------------------------------------------------------------------------
def everything() -> LibraryRoot:
    """Libraries in every state, with names that are as long as they can be."""
    WorkerHeartbeat.objects.create(worker_id="nas:7", hostname="nas" * 30)
    library = known("W" * 255, walked_files=1_000, gone_count=12_034, file_count=40_000, error_count=3)
    LibraryRoot.objects.filter(pk=library.pk).update(root_path="/libraries/" + "/".join([HOSTILE] * 7))
    for mount in ("absent", "empty", "different", "unknown"):
        known(mount, mount=mount, mount_note="x" * 300)
    _lease, session = scanning(library, files_seen=500)
    ScanError.objects.create(library=library, session=session, relative_path=HOSTILE, reason="y" * 400, is_folder=True)
    ScanError.objects.create(library=library, session=session, relative_path="/".join([HOSTILE] * 9), reason="denied")
    failed = {"size_bytes": 1, "mtime_ns": 1, "hash_error_count": 3, "hash_last_error": "z" * 400}
    LibraryFile.objects.create(library=library, relative_path=HOSTILE, **failed)
    for name in ("absent", "empty"):
        queueing.submit(LibraryRoot.objects.get(name=name).pk, HIGH, actor="o" * 150)
    LibraryRoot.objects.filter(name="empty").update(is_paused=True)
    over = {"status": "failed", "completed_at": SecondsFromNow(-60), "started_at": SecondsFromNow(-90)}
    ScanRequest.objects.create(library=library, error="e" * 500, **over)
    return library


@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_pages_fit_their_width_whatever_the_names_are(visit: Visit, width: int) -> None:
    library = everything()
    page = visit(factories.user("ada", Role.ADMIN), "/libraries/", viewport={"width": width, "height": 800})
    own = f"/libraries/{library.pk}/"
    addresses = ["/libraries/", own, "/queue/", "/queue/history/", "/libraries/add/"]
    addresses += [f"{own}settings/", f"{own}remove/", f"{own}errors/"]
    for address in addresses:
        page.goto(address)
        wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        inner = page.locator(".table-wrap").evaluate_all("all => all.filter(e => e.scrollWidth > e.clientWidth).length")
        assert (wider, inner) == (0, 0), address
        expect(page.get_by_role("heading", level=1)).to_be_visible()
