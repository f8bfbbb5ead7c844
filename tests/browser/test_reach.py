"""Every page, with rows and without, light and dark: nothing that axe finds, a clean console, no foreign host."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tests import factories
from tests.browser.conftest import Visit
from tests.site.whole_site import Site, empty_site, furnished_site, our_pages

pytestmark = pytest.mark.django_db

#: WCAG 2.2 AA, and what those who made axe would do besides.
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
EVERYTHING = {"runOnly": {"type": "tag", "values": TAGS}}
#: The other theme is the same page in other colours.
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
NO_SUCH_PAGE = "/no-such-page/"
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


def found_by_axe(page: Page, where: str, rules: dict[str, Any] = EVERYTHING, part: str | None = None) -> list[str]:
    answer = Axe().run(page, context=part, options=rules)
    return [
        f"{where}: {violation['id']}: {node['target']} {node['failureSummary']}"
        for violation in answer.response["violations"]
        for node in violation["nodes"]
    ]


def look_at(page: Page, address: str, part: str | None = None) -> list[str]:
    """In both themes; the page is loaded once. `part` is a selector, where not the whole page is meant."""
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    found = found_by_axe(page, address, part=part)
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    return found + found_by_axe(page, f"{address} in the dark", COLOURS, part)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("options", [{}, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("make", [furnished_site, empty_site])
def test_axe_finds_nothing_and_nothing_leaves_the_host(
    visit: Visit, complaints: list[str], make: Any, options: dict[str, Any]
) -> None:
    site: Site = make()
    addresses = our_pages(site)
    page = visit(site.admin, addresses[0], **options)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    host = page.url.removesuffix(NO_SUCH_PAGE)
    wrong: list[str] = []
    for address in addresses:
        page.goto(address)
        if address == NO_SUCH_PAGE:
            complaints[:] = [line for line in complaints if "404" not in line]
        wrong += look_at(page, address)
        wrong += [f"{address}: {line}" for line in complaints]
        complaints.clear()
    assert "\n".join(wrong) == ""
    assert [url for url in asked if not url.startswith((f"{host}/", "data:"))] == []
    assert len(addresses) > 20


def test_a_stranger_s_pages_are_within_reach(visit: Visit) -> None:
    page = visit(None, "/account/login/")
    assert look_at(page, "login") == []
    page.get_by_label("Password").fill("wrong")
    page.get_by_label("Name").fill("nobody")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert look_at(page, "login refused") == []


def test_a_locked_login_is_within_reach(visit: Visit, complaints: list[str]) -> None:
    page = visit(None, "/account/login/")
    for _ in range(5):
        page.get_by_label("Name").fill("nobody")
        page.get_by_label("Password").fill("wrong")
        with page.expect_navigation():
            page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Too many wrong passwords")
    assert look_at(page, "locked") == []
    complaints.clear()  # the browser calls the answer's status an error


def test_the_page_of_a_first_password_is_within_reach(visit: Visit) -> None:
    newcomer = factories.user("nina", must_change_password=True)
    page = visit(newcomer, "/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Choose a password")
    assert look_at(page, "first password") == []


def refused(page: Page, words: str) -> list[str]:
    """What is wrong with a page that refuses something; whose only `h1` the words may be."""
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    expect(page.get_by_role("heading", name=words)).to_be_visible()
    return look_at(page, words)


def test_what_a_viewer_may_not_is_told_within_reach(visit: Visit, complaints: list[str]) -> None:
    page = visit(factories.user(), "/account/people/")
    assert refused(page, "Your role doesn't allow this") == []
    complaints.clear()


def test_what_a_stranger_does_not_find_is_told_within_reach(visit: Visit, complaints: list[str]) -> None:
    page = visit(None, NO_SUCH_PAGE)
    assert refused(page, "There is no such page") == []
    complaints.clear()


def test_the_page_of_an_error_is_within_reach(
    visit: Visit, complaints: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: Any, **__: Any) -> None:
        raise RuntimeError("on purpose")

    monkeypatch.setattr("dedupfs_site.overview_views.read_overview", breaks)
    page = visit(factories.user(), "/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Something went wrong")
    assert look_at(page, "error") == []
    complaints.clear()


# --- What opens, and what comes by itself -----------------------------------------------------------------
OPENED = [
    ("/duplicates/", "[data-dialog=keys]", "#keys"),
    ("/duplicates/", ".picture-link", "#preview"),
    ("/duplicates/", ".row-menu > summary", ".row-menu[open] .menu"),
    ("/duplicates/", "#everything > summary", "#everything .ask-panel"),
    ("/trash/", "[data-dialog=keys]", "#keys"),
    ("/trash/", ".row-menu > summary", ".row-menu[open] .menu"),
]


@pytest.mark.parametrize("options", [{}, PHONE], ids=["desk", "phone"])
def test_what_opens_is_within_reach(visit: Visit, options: dict[str, Any]) -> None:
    page = visit(furnished_site(each=1).admin, "/jobs/", **options)
    for address, opener, opened in OPENED:
        page.goto(address)
        page.locator(opener).first.click()
        expect(page.locator(opened).first).to_be_visible()
        # Below a panel lies, for as long as it is open, a part of what is behind it: axe would call that too small.
        assert look_at(page, address, opened) == []
    if options:
        page.locator(".more-sheet > summary").click()
        expect(page.locator(".more-panel")).to_be_visible()
        assert look_at(page, "more", ".more-panel") == []


def test_a_toast_is_within_reach(visit: Visit) -> None:
    job, lease = factories.running_job("scan")
    page = visit(factories.user(), f"/jobs/{job.pk}/")
    lease.finish("failed", code="WORKER_FAILURE", message="the disk is gone")
    expect(page.locator(".toast")).to_be_visible()
    assert look_at(page, "toast") == []


def test_axe_would_find_something(visit: Visit) -> None:
    """So that the tests above can fail."""
    page = visit(empty_site().admin, "/jobs/")
    page.evaluate("document.querySelector('main').innerHTML = '<img src=\"data:,\">'")
    assert any("image-alt" in line for line in found_by_axe(page, "spoilt"))


# --- By keyboard alone ------------------------------------------------------------------------------------
def tab_to(page: Page, wanted: Locator) -> None:
    """Press Tab until it has the focus; whoever has no mouse gets there in no other way."""
    for _ in range(200):
        if wanted.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{wanted} can't be reached by Tab")


def test_the_main_path_goes_by_keyboard_alone(visit: Visit) -> None:
    site = furnished_site()
    page = visit(site.admin, "/duplicates/")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/duplicates/blake3:*/")
    tab_to(page, page.get_by_role("radio", name="Keep").first)
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("radio", name="Remove").first).to_be_checked()
    button = page.get_by_role("button", name="Make a plan from this choice")
    expect(button).to_be_enabled()
    tab_to(page, button)
    page.keyboard.press("Enter")
    page.wait_for_url("**/plans/*/")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Plan")


#: What lies over the middle of the element that has the focus, if it is no part of it; nothing where all is well, and
#: null where the focus has left the page.
COVERED = """() => {
  const at = document.activeElement;
  if (at === document.body) return null;
  const box = at.getClientRects()[0];
  const over = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
  if (over && (at.contains(over) || over.contains(at))) return "";
  return `${at.outerHTML.slice(0, 90)} below ${over ? over.outerHTML.slice(0, 60) : "the edge of the window"}`;
}"""


def covered_by_tab(page: Page, key: str) -> list[str]:
    """Where the focus can't be seen on the way through the whole page."""
    found: list[str] = []
    for _ in range(400):
        page.keyboard.press(key)
        covering = page.evaluate(COVERED)
        if covering is None:
            return found
        found += [f"{key}: {covering}"] if covering else []
    raise AssertionError("the page has no end")


def long_pages(site: Site) -> list[str]:
    return [
        "/jobs/",
        "/duplicates/",
        f"/duplicates/{site.keys['group_key']}/",
        f"/plans/{site.keys['plan_id']}/",
        "/trash/",
    ]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("width", [390, 1440])
def test_nothing_covers_what_has_the_focus(visit: Visit, width: int) -> None:
    """The header, the bar of a phone, a plan's totals and the bar of marks stay where they are while a page scrolls."""
    site = furnished_site(each=1)
    page = visit(site.admin, "/jobs/", viewport={"width": width, "height": 600}, reduced_motion="reduce")
    wrong: list[str] = []
    for address in long_pages(site):
        page.goto(address)
        for mark in page.locator("[data-mark]").all()[:1]:
            mark.check()
        page.evaluate("document.activeElement.blur()")
        for key in ("Tab", "Shift+Tab"):
            wrong += [f"{address}: {line}" for line in covered_by_tab(page, key)]
    assert "\n".join(wrong) == ""


# --- On paper ---------------------------------------------------------------------------------------------
#: The width of A4 between its margins.
PAPER: dict[str, Any] = {"viewport": {"width": 718, "height": 1000}, "color_scheme": "dark"}


#: What one clicks, marks or fills in.
TOOLS = ".sidebar, .bar, .top-side, .mark-bar, #content :is(.button, button, select, input, textarea, [role=search])"


def printed_pages(site: Site) -> list[str]:
    keys = site.keys
    plan, act, group = f"/plans/{keys['plan_id']}/", f"/acts/{keys['act_id']}/", f"/duplicates/{keys['group_key']}/"
    return ["/", "/logbook/", "/duplicates/", group, "/trash/", plan, f"{plan}?by=folder", act]


def test_reports_are_printed_black_on_white_and_without_what_one_clicks(visit: Visit) -> None:
    site = furnished_site()
    page = visit(site.admin, "/logbook/", **PAPER)
    for address in printed_pages(site):
        page.goto(address)
        # A mark raises the bar, which would lie over the rows.
        for mark in page.locator("[data-mark]").all()[:1]:
            mark.check()
        page.emulate_media(media="print")
        shown = page.locator(TOOLS).filter(visible=True)
        assert shown.evaluate_all("all => all.map((one) => one.outerHTML.slice(0, 120))") == [], address
        expect(page.locator("html")).to_have_css("background-color", "rgb(255, 255, 255)")
        expect(page.locator("h1")).to_have_css("color", "rgb(0, 0, 0)")
        written = "all => all.map((link) => getComputedStyle(link, '::after').content).filter((c) => c.includes('/'))"
        assert page.locator("#content a").evaluate_all(written) == [], address
        cut = "all => all.filter((t) => t.scrollWidth > t.clientWidth + 1).map((t) => t.className)"
        assert page.locator(".table-wrap, .content").evaluate_all(cut) == [], address
        page.emulate_media(media="screen")
