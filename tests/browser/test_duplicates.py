from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from accounts.models import Role, User
from database.clock import SecondsFromNow
from duplicates.models import IgnoredGroup, Plan, RuleSet
from libraries.models import LibraryFile, LibraryRoot
from libraries.names import to_text
from tests import factories
from tests.browser.conftest import Visit

pytestmark = pytest.mark.django_db

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
NO_SCRIPT: dict[str, Any] = {"java_script_enabled": False}
HOSTILE = to_text(b"caf\xe9<b>\n" + b"W" * 242 + b".jpg")
LONG_AGO = 1_500_000_000 * 10**9


def operator() -> User:
    return factories.user("otto", Role.OPERATOR)


def scanned(name: str = "photos", **fields: Any) -> LibraryRoot:
    library = factories.library(name, **fields)
    LibraryRoot.objects.filter(pk=library.pk).update(last_scanned_at=SecondsFromNow(-60))
    return library


def digest(number: int) -> bytes:
    return number.to_bytes(32, "big")


def key(number: int) -> str:
    return f"blake3:{digest(number).hex()}"


def row_file(number: int, path: str, library: LibraryRoot, **fields: Any) -> LibraryFile:
    values = {"size_bytes": 1_000_000 + number, "mtime_ns": LONG_AGO, "hashed_at": None, "nlink": 1, **fields}
    return LibraryFile(
        library=library, relative_path=path, hash_algorithm="blake3", content_hash=digest(number),
        needs_hash=False, **values,
    )  # fmt: skip


def many_groups(count: int) -> list[str]:
    """Groups of two copies each, in the order in which the list shows them; the keys."""
    library = scanned()
    files = [row_file(number, f"{folder}/{number}.jpg", library) for number in range(count) for folder in ("a", "b")]
    LibraryFile.objects.bulk_create(files)
    return [key(number) for number in reversed(range(count))]


def rows_of(page: Page) -> list[str]:
    """The keys of the groups that are shown, once the page is there as a whole."""
    page.wait_for_load_state()
    found: list[str] = page.locator("[data-group]").evaluate_all(
        "rows => rows.map(row => row.id.replace('group-blake3-', 'blake3:'))"
    )
    return found


def row(page: Page, group: str) -> Any:
    return page.locator(f"[id='group-{group.replace(':', '-')}']")


# --- Paging -----------------------------------------------------------------------------------------------
def test_load_more_appends_groups_until_the_end_and_focus_goes_to_the_first_new_one(visit: Visit) -> None:
    wanted = many_groups(120)
    page = visit(operator(), "/duplicates/")
    for before, shown in ((15, 65), (65, 115), (115, 120)):
        page.get_by_role("link", name="Load more").click()
        expect(page.locator("[data-group]")).to_have_count(shown)
        expect(row(page, wanted[before])).to_be_focused()
    expect(page.get_by_role("link", name="Load more")).to_have_count(0)
    assert rows_of(page) == wanted


def test_load_more_works_without_javascript(visit: Visit) -> None:
    wanted = many_groups(120)
    page = visit(factories.user(), "/duplicates/", **NO_SCRIPT)
    seen = rows_of(page)
    while page.get_by_role("link", name="Load more").count():
        with page.expect_navigation():
            page.get_by_role("link", name="Load more").click()
        seen += rows_of(page)
    assert seen == wanted
    with page.expect_navigation():
        page.get_by_role("link", name="Back to the first").click()
    assert rows_of(page) == wanted[:15]


def test_totals_come_after_the_page_or_by_a_link(visit: Visit) -> None:
    many_groups(3)
    someone = factories.user()
    page = visit(someone, "/duplicates/")
    expect(page.locator("#summary")).to_contain_text("3 groups")
    page = visit(someone, "/duplicates/", **NO_SCRIPT)
    page.get_by_role("link", name="Count what is shown").click()
    expect(page.locator("#summary")).to_contain_text("3 groups")


@pytest.mark.parametrize("options", [{}, NO_SCRIPT], ids=["with JavaScript", "without"])
def test_filter_is_in_the_address(visit: Visit, options: dict[str, Any]) -> None:
    many_groups(2)
    other = scanned("videos")
    LibraryFile.objects.bulk_create([row_file(7, f"{name}.mp4", other) for name in ("x", "y")])
    page = visit(factories.user(), "/duplicates/", **options)
    page.get_by_label("Type").select_option("video")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**/duplicates/?media=video")
    assert rows_of(page) == [key(7)]
    with page.expect_navigation():
        page.get_by_role("link", name="Clear").click()
    assert len(rows_of(page)) == 3


# --- Keys -------------------------------------------------------------------------------------------------
def test_keys_move_mark_preview_and_open(visit: Visit) -> None:
    wanted = many_groups(60)
    page = visit(operator(), "/duplicates/")
    bar = page.locator("#marked")
    expect(bar).to_be_hidden()
    for pressed in "jjxkx":
        page.keyboard.press(pressed)
    expect(row(page, wanted[0])).to_be_focused()
    expect(bar).to_contain_text("2 groups, 2.0 MB")
    page.keyboard.press("x")
    expect(bar).to_contain_text("1 group, 1.0 MB")
    page.keyboard.press("Space")
    preview = page.locator("#preview")
    expect(preview.get_by_role("button", name="Close")).to_be_focused()
    expect(preview).to_contain_text("59.jpg")
    page.keyboard.press("j")
    page.keyboard.press("Escape")
    expect(preview).to_be_hidden()
    expect(row(page, wanted[0])).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/duplicates/{wanted[1]}/")


def test_going_past_the_last_row_loads_more(visit: Visit) -> None:
    wanted = many_groups(55)
    page = visit(operator(), "/duplicates/")
    row(page, wanted[14]).focus()
    page.keyboard.press("j")
    expect(row(page, wanted[15])).to_be_focused()
    expect(page.locator("[data-group]")).to_have_count(55)


def test_what_comes_by_itself_meanwhile_leaves_the_focus_to_the_new_row(visit: Visit) -> None:
    wanted = many_groups(55)
    page = visit(operator(), "/duplicates/")
    held: list[Route] = []
    page.route(re.compile("cursor="), lambda route: held.append(route))
    row(page, wanted[14]).focus()
    with page.expect_request(re.compile("cursor=")):
        page.keyboard.press("j")
    with page.expect_response("**/duplicates/totals/**"):
        page.evaluate("htmx.ajax('GET', '/duplicates/totals/', {target: '#summary', swap: 'outerHTML'})")
    expect(page.locator("#summary.htmx-settling, #summary.htmx-swapping")).to_have_count(0)
    held[0].continue_()
    expect(row(page, wanted[15])).to_be_focused()


def test_keys_are_letters_while_one_types(visit: Visit) -> None:
    many_groups(2)
    page = visit(operator(), "/duplicates/")
    page.get_by_text("More filters").click()
    page.get_by_label("Extension").press_sequentially("jxk? ")
    expect(page.get_by_label("Extension")).to_have_value("jxk? ")
    expect(page.locator("#marked")).to_be_hidden()
    expect(page.locator("dialog[open]")).to_have_count(0)


# --- Marking ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("options", [PHONE, NO_SCRIPT], ids=["phone", "without javascript"])
def test_marked_groups_are_ignored_and_listed_again(visit: Visit, options: dict[str, Any]) -> None:
    wanted = many_groups(3)
    page = visit(operator(), "/duplicates/", **options)
    row(page, wanted[0]).get_by_role("checkbox").check()
    row(page, wanted[2]).get_by_role("checkbox").check()
    page.locator("#ignore-marked").click()
    expect(page.get_by_text("2 groups are ignored.")).to_be_visible()
    assert rows_of(page) == [wanted[1]]
    page.goto("/duplicates/?ignored=only")
    row(page, wanted[0]).get_by_role("checkbox").check()
    page.locator("#marked").get_by_role("button", name="Stop ignoring").click()
    expect(page.get_by_text("1 group is listed again.")).to_be_visible()
    assert IgnoredGroup.objects.get().content_hash == digest(0)


def test_all_loaded_rows_are_marked_and_unmarked_by_one_box(visit: Visit) -> None:
    many_groups(3)
    page = visit(operator(), "/duplicates/")
    page.get_by_label("Mark all that are loaded").check()
    expect(page.locator("#marked")).to_contain_text("3 groups, 3.0 MB")
    page.get_by_role("button", name="Unmark").click()
    expect(page.locator("#marked")).to_be_hidden()
    expect(page.get_by_label("Mark all that are loaded")).not_to_be_checked()


@pytest.mark.parametrize("options", [PHONE, NO_SCRIPT], ids=["phone", "without javascript"])
def test_rules_are_applied_to_the_marked_and_to_everything(visit: Visit, options: dict[str, Any]) -> None:
    wanted = many_groups(3)
    RuleSet.objects.create(name="oldest", rules=[{"kind": "keep_oldest"}])
    page = visit(operator(), "/duplicates/?media=image", **options)
    row(page, wanted[1]).get_by_role("checkbox").check()
    page.locator("#marked").get_by_role("button", name="Apply rules").click()
    page.wait_for_url(re.compile(r"/plans/\d+/"))
    plan = Plan.objects.get()
    assert (plan.group_keys, plan.rule_set_name, plan.filter, plan.created_by) == ([wanted[1]], "oldest", "", "otto")
    page.goto("/duplicates/?media=image")
    page.locator("#everything summary").click()
    page.locator("#everything").get_by_role("button", name="Apply rules").click()
    page.wait_for_url(re.compile(r"/plans/\d+/"))
    plan = Plan.objects.latest("id")
    assert (plan.group_keys, plan.filter) == ([], "media=image")


# --- A group ----------------------------------------------------------------------------------------------
def three_copies() -> list[LibraryFile]:
    photos, backup = scanned(), scanned("nas", role="backup")
    places = ((photos, "2019/italy/IMG_1.jpg"), (photos, "2019/copies/IMG_1.jpg"), (backup, "all/IMG_1.jpg"))
    return [_saved(row_file(1, path, library, inode=number, device=1)) for number, (library, path) in enumerate(places)]


def _saved(file: LibraryFile) -> LibraryFile:
    file.save()
    return file


@pytest.mark.parametrize("options", [PHONE, NO_SCRIPT], ids=["phone", "without javascript"])
def test_choice_by_hand_makes_a_plan(visit: Visit, options: dict[str, Any]) -> None:
    files = three_copies()
    page = visit(operator(), f"/duplicates/{key(1)}/", **options)
    page.locator(f"#copy-{files[1].pk}").get_by_label("Remove").check()
    if options is not NO_SCRIPT:
        expect(page.locator("[data-chosen]")).to_have_text("1 of 3 copies go, 1.0 MB comes back")
    page.get_by_role("button", name="Make a plan from this choice").click()
    page.wait_for_url(re.compile(r"/plans/\d+/"))
    plan = Plan.objects.get()
    assert plan.group_keys == [key(1)]
    assert plan.choices[str(files[1].pk)] == "remove"
    assert plan.choices.get(str(files[0].pk), "keep") == "keep"


def test_the_last_copy_can_not_be_chosen_in_the_browser(visit: Visit) -> None:
    files = three_copies()
    page = visit(operator(), f"/duplicates/{key(1)}/")
    button = page.get_by_role("button", name="Make a plan from this choice")
    expect(button).to_be_disabled()
    expect(page.locator(f"#copy-{files[2].pk}").get_by_label("Remove")).to_be_disabled()
    for file in files[:2]:
        page.locator(f"#copy-{file.pk}").get_by_label("Remove").check()
    expect(page.locator("[data-chosen]")).to_contain_text("One copy must stay")
    expect(button).to_be_disabled()
    page.locator(f"#copy-{files[0].pk}").get_by_role("button", name="Keep only this one").click()
    expect(page.locator("[data-chosen]")).to_contain_text("1 of 3 copies go")
    expect(button).to_be_enabled()


def test_group_is_ignored_with_a_note_and_undone(visit: Visit) -> None:
    three_copies()
    page = visit(operator(), f"/duplicates/{key(1)}/")
    page.get_by_text("Ignore…").click()
    page.get_by_label("Note").fill("logos")
    page.get_by_role("button", name="Ignore this group").click()
    expect(page.locator("#ignored")).to_contain_text("logos")
    page.get_by_role("button", name="Stop ignoring").click()
    expect(page.locator("#ignored")).to_have_count(0)
    expect(page.locator(".timeline li")).to_have_count(2)


def test_more_copies_load_below_and_keep_what_was_chosen(visit: Visit) -> None:
    library = scanned()
    LibraryFile.objects.bulk_create([row_file(1, f"{number}/x", library) for number in range(30)])
    page = visit(operator(), f"/duplicates/{key(1)}/")
    first = page.locator(".copy").first
    first.get_by_label("Remove").check()
    page.get_by_role("link", name="Load more").click()
    expect(page.locator(".copy")).to_have_count(30)
    expect(page.locator(".copy").nth(24)).to_be_focused()
    expect(first.get_by_label("Remove")).to_be_checked()
    expect(page.locator("[data-chosen]")).to_contain_text("1 of 30 copies go")


# --- By touch ---------------------------------------------------------------------------------------------
def test_everything_is_reached_by_touch(visit: Visit) -> None:
    wanted = many_groups(3)
    page = visit(operator(), "/duplicates/", **PHONE)
    row(page, wanted[0]).locator(".picture-link").tap()
    expect(page.locator("#preview")).to_contain_text("2.jpg")
    page.locator("#preview").get_by_role("button", name="Close").tap()
    page.get_by_role("button", name="Keys").tap()
    page.locator("#keys").get_by_role("button", name="Close").tap()
    row(page, wanted[0]).locator(".mark").tap()
    expect(page.locator("#marked")).to_contain_text("1 group")
    page.get_by_role("button", name="Unmark").tap()
    row(page, wanted[0]).locator(".row-menu summary").tap()
    row(page, wanted[0]).get_by_role("button", name="Ignore").tap()
    expect(page.get_by_text("1 group is ignored.")).to_be_visible()
    assert rows_of(page) == wanted[1:]


# --- The look ---------------------------------------------------------------------------------------------
def test_pages_fit_their_width_whatever_the_names_are(visit: Visit, complaints: list[str]) -> None:
    library, other = scanned("W" * 255, role="protected"), scanned("other")
    RuleSet.objects.create(name="R" * 100, rules=[])
    deep = "/".join([HOSTILE] * 9)
    files = [row_file(1, path, where) for where in (library, other) for path in (deep, HOSTILE, f"x/{HOSTILE}")]
    LibraryFile.objects.bulk_create(files)
    page = visit(operator(), "/duplicates/")
    for address in ("/duplicates/", f"/duplicates/{key(1)}/", "/duplicates/?folder=x", "/duplicates/?media=video"):
        page.goto(address)
        for box in page.locator("[data-mark]").all():
            box.check()
        for width in (1440, 1024, 390, 320):
            page.set_viewport_size({"width": width, "height": 800})
            wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wider <= 0, (address, width)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
    # The browser says so of the filter that can't be used; nothing else may be there.
    assert [words for words in complaints if "400 (Bad Request)" not in words] == []
    complaints.clear()
