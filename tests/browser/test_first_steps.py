"""A new admin on the way from the login to the first duplicates, with a real consumer at work."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from pytest_django.fixtures import Settings

from accounts.models import Role
from dedupfs_site import first_run
from jobs.models import WorkerHeartbeat
from libraries.models import LibraryRoot, LibraryState
from tests import factories
from tests.browser.conftest import Visit
from tests.browser.stillness import hold_still, settle
from tests.conftest import Consumers
from tests.duplicates.contents import copies
from tests.tree import tree
from tests.waiting import until

pytestmark = pytest.mark.django_db
NO_SCRIPT: dict[str, Any] = {"java_script_enabled": False}
WIDE: dict[str, Any] = {"viewport": {"width": 1440, "height": 900}}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
NEW = "a longer stable name"
ASKS = re.compile("every")
MEGABYTE = 1_000_000


@pytest.fixture
def disk(tmp_path: Path, settings: Settings) -> Path:
    """Photos with copies: small ones, which are hashed by the scan itself, and large ones, which are read later."""
    settings.STATE_ROOT = tmp_path / "own"
    settings.LIBRARIES_ROOTS = [tmp_path / "disk"]
    (tmp_path / "own").mkdir()
    dice = random.Random(7)
    large = [dice.randbytes(MEGABYTE) for _ in range(4)]
    tree(tmp_path / "disk", {"photos/small.jpg": b"s" * 60_000, "photos/2024/small again.jpg": b"s" * 60_000})
    for number, content in enumerate(large):
        tree(tmp_path / "disk", {f"photos/{number}.jpg": content, f"photos/copies/{number}.jpg": content})
    os.mkdir(os.fsencode(tmp_path / "disk") + b"/caf\xe9")
    return tmp_path / "disk"


def come_back(page: Page, has_script: bool, selector: str) -> None:
    """With scripts the page shows it by itself; without, whoever loads it again sees it."""
    if has_script:
        expect(page.locator(selector)).to_be_visible(timeout=60_000)
        return

    def is_there() -> bool:
        page.get_by_role("link", name="Look again").or_(page.locator(selector)).first.wait_for()
        if page.locator(selector).count():
            return True
        page.get_by_role("link", name="Look again").click()
        return False

    until(is_there, selector)


def log_in(page: Page) -> None:
    page.get_by_label("Name").fill("ada")
    page.get_by_label("Password").fill(factories.PASSWORD)
    page.keyboard.press("Enter")
    page.get_by_label("New password", exact=True).fill(NEW)
    page.locator("[name=new_password2]").fill(NEW)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("First steps")


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("script", [{}, NO_SCRIPT], ids=["with JavaScript", "without"])
def test_from_the_login_to_the_first_duplicates(
    visit: Visit, disk: Path, start_consumer: Consumers, size: dict[str, Any], script: dict[str, Any]
) -> None:
    start_consumer()
    factories.user("ada", Role.ADMIN, must_change_password=True)
    page = visit(None, "/", **size, **script)
    log_in(page)
    expect(page.get_by_text("caf\\xe9")).to_be_visible()
    page.get_by_role("link", name="photos").click()
    expect(page.get_by_label("Name")).to_have_value("photos")
    page.get_by_role("button", name="Add and scan").click()
    expect(page.get_by_text("its first scan is asked for")).to_be_visible()
    come_back(page, not script, "#first-groups")
    come_back(page, not script, "#steps-progress :text('Scanned and compared.')")
    expect(page.locator("#first-steps")).not_to_have_attribute("hx-trigger", ASKS)
    expect(page.locator("#first-groups .find")).to_have_count(5)
    expect(page.locator("#first-groups")).to_contain_text("4.1 MB to win back in these")
    for number in (1, 2, 3):
        expect(page.locator("#tour")).to_contain_text(f"Hint {number} of 3")
        page.get_by_role("link", name="Next hint" if number < 3 else "Understood").click()
    expect(page.locator("#tour")).to_have_count(0)
    page.locator("#find-1").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(".jpg")
    page.goto("/first-steps/")
    expect(page.locator("#tour")).to_have_count(0)
    page.get_by_role("link", name="Make a plan").click()
    expect(page).to_have_url(re.compile("/plans/new/"))


def test_groups_appear_while_hashing_still_runs(visit: Visit, disk: Path, start_consumer: Consumers) -> None:
    """The small ones are found by the scan; the large ones take a minute at this pace, and nobody waits for it."""
    page = visit(factories.user("ada", Role.ADMIN), "/first-steps/")
    page.get_by_role("link", name="photos").click()
    page.get_by_role("button", name="Add and scan").click()
    expect(page.get_by_text("No consumer is alive")).to_be_visible()
    LibraryRoot.objects.update(read_bytes_per_second=100_000)
    start_consumer()
    expect(page.locator("#first-groups")).to_contain_text("small", timeout=60_000)
    expect(page.locator("#steps-progress")).to_contain_text("Reading the files that may have a twin")
    expect(page.locator("#first-steps")).to_have_attribute("hx-trigger", ASKS)
    expect(page.get_by_text("No consumer is alive")).to_have_count(0)


def test_the_page_asks_once_at_a_time_and_keeps_the_focus(visit: Visit, disk: Path) -> None:
    library = factories.library("photos", str(disk / "photos"), is_paused=False)
    LibraryState.objects.create(library=library)
    copies("1", "a.jpg", "b.jpg", in_library=library)
    page = visit(factories.user("otto", Role.OPERATOR), "/first-steps/?hint=2")
    page.get_by_role("button", name="Scan it now").click()
    page.goto("/first-steps/?hint=2")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.resource_type == "xhr" else None)
    page.locator("#hint-next").focus()
    WorkerHeartbeat.objects.create(worker_id="nas:7", hostname="nas")
    expect(page.get_by_text("No consumer is alive")).to_have_count(0)
    expect(page.locator("#hint-next")).to_be_focused()
    assert {url.partition("//")[2].partition("/")[2] for url in asked} == {"first-steps/?hint=2"}
    hold_still(page)
    page.keyboard.press("Enter")
    expect(page.locator("#tour")).to_contain_text("Hint 3 of 3")


def test_the_demo_is_tried_and_removed_by_click(visit: Visit, disk: Path, start_consumer: Consumers) -> None:
    first_run.decide_demo(wanted=True)
    start_consumer()
    page = visit(factories.user("ada", Role.ADMIN), "/first-steps/")
    page.get_by_role("button", name="Try it: scan the demo").click()
    expect(page.locator("#first-groups")).to_contain_text("left.wav", timeout=60_000)
    expect(page.locator("#steps-progress")).to_contain_text("Scanned and compared.", timeout=60_000)
    page.get_by_role("button", name="Remove the demo library").click()
    expect(page.get_by_text("The demo library is removed, with the files")).to_be_visible()
    expect(page.get_by_role("button", name="Set up the demo library")).to_be_visible()
    assert not first_run.demo_folder().exists()


def test_a_folder_is_chosen_by_keyboard_alone(visit: Visit, disk: Path) -> None:
    page = visit(factories.user("ada", Role.ADMIN), "/first-steps/")
    for name in ("photos", "copies"):
        page.get_by_role("link", name=name).focus()
        page.keyboard.press("Enter")
        expect(page.locator(".picker-here")).to_have_text(name)
    page.locator("#choosing a, #choosing input, #choosing button").first.focus()
    for _ in range(12):
        if page.evaluate("document.activeElement.id") == "add-and-scan":
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("“copies” is added")).to_be_visible()


@pytest.mark.parametrize("options", [{}, NO_SCRIPT], ids=["with JavaScript", "without"])
def test_the_add_form_takes_a_folder_from_the_picker(visit: Visit, disk: Path, options: dict[str, Any]) -> None:
    page = visit(factories.user("ada", Role.ADMIN), "/libraries/add/", **options)
    if not options:
        page.get_by_label("Name").fill("typed before")
    page.get_by_role("link", name="Browse…").click()
    expect(page.get_by_role("link", name="caf\\xe9")).to_be_visible()
    settle(page)
    page.get_by_role("link", name="caf\\xe9").click()
    expect(page.locator(".picker-here")).to_have_text("caf\\xe9")
    settle(page)
    page.get_by_role("link", name="Use this folder").click()
    expect(page.locator("#folder-field .path")).to_contain_text("caf\\xe9")
    expect(page.locator("#picker")).to_have_count(0)
    expect(page.get_by_label("Name")).to_have_value("caf\\xe9" if options else "typed before")
    page.get_by_role("button", name="Add this library").click()
    expect(page.get_by_text("is added. Scan it")).to_be_visible()
    assert LibraryRoot.objects.get().root_path == f"{disk}/caf\uf7e9"


@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_nothing_sticks_out_whatever_the_names_are(visit: Visit, disk: Path, settings: Settings, width: int) -> None:
    folder = os.fsencode(disk) + b"/" + b"W" * 250
    os.makedirs(folder + b"/" + b"caf\xe9<b>" + b"x" * 240)
    factories.library("L" * 255, os.fsdecode(folder + b"/in"))
    os.mkdir(folder + b"/in")
    library = factories.library("N" * 255, str(disk / "photos"), last_scanned_at="2026-01-01T00:00:00Z")
    LibraryState.objects.create(library=library)
    copies("1", "d/" * 50 + "M" * 250, "e/" * 50 + "M" * 250, in_library=library)
    page = visit(factories.user("ada", Role.ADMIN), "/first-steps/?folder=", viewport={"width": width, "height": 900})
    for address in (
        "/first-steps/?folder=",
        f"/first-steps/?folder={folder.hex()}",
        f"/libraries/pick/?folder={folder.hex()}",
        f"/libraries/add/picked/?folder={folder.hex()}",
    ):
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, address
