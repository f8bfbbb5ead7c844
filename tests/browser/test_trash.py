from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from accounts.models import Role, User
from libraries.models import LibraryFile, LibraryRoot
from tests import factories
from tests.browser.conftest import Visit
from tests.duplicates.plans import copies, library, planned, unsaved
from tests.trash.trashed import carried_out, item_at, stayed
from trash import switching
from trash.history import address_of
from trash.models import Act, TrashItem

pytestmark = pytest.mark.django_db

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
NO_SCRIPT: dict[str, Any] = {"java_script_enabled": False}


def operator() -> User:
    return factories.user("otto", Role.OPERATOR)


def some_trash() -> LibraryRoot:
    photos = library()
    copies(photos, 1, "a.jpg", "old/a.jpg", "old/deep/a.jpg", size=2_000_000)
    copies(photos, 2, "b.jpg", "old/b.jpg", size=1_000_000)
    carried_out(planned())
    return photos


def asked() -> list[int]:
    """Which files were marked when undo was asked for."""
    selection: dict[str, list[int]] = Act.objects.get(verb="undo").selection
    return selection["items"]


def keys(*paths: str) -> list[int]:
    return sorted(item_at(path).pk for path in paths)


def expect_asked(page: Page, *paths: str) -> None:
    expect(page.get_by_text(re.compile("put back as soon as a consumer is free"))).to_be_visible()
    assert asked() == keys(*paths)


# --- Undo a selection -------------------------------------------------------------------------------------
def test_a_selection_is_undone_by_keyboard(visit: Visit) -> None:
    some_trash()
    page = visit(operator(), "/trash/")
    expect(page.locator("#marked")).to_be_hidden()
    # The newest is the first row: j goes there, x marks it; then on to the next but one.
    for key in ("j", "x", "j", "j", "x"):
        page.keyboard.press(key)
    expect(page.locator("[data-marked]")).to_have_text("2 files, 3.0 MB")
    first, _second, third = TrashItem.objects.order_by("-pk").values_list("plan_file__relative_path", flat=True)
    page.keyboard.press("a")
    expect(page.locator("#undo-marked")).to_be_focused()
    page.keyboard.press("Enter")
    expect_asked(page, first, third)


def test_the_native_way_by_keyboard_works_as_well(visit: Visit) -> None:
    some_trash()
    page = visit(operator(), "/trash/")
    page.get_by_role("checkbox", name="Mark b.jpg").focus()
    page.keyboard.press("Space")
    expect(page.locator("[data-marked]")).to_have_text("1 file, 1.0 MB")
    page.keyboard.press("Enter")  # as in any form
    expect_asked(page, "old/b.jpg")


def test_a_selection_is_undone_by_touch(visit: Visit) -> None:
    some_trash()
    page = visit(operator(), "/trash/", **PHONE)
    for name in ("old/b.jpg", "old/deep/a.jpg"):
        mark = page.locator(f"#item-{item_at(name).pk} .mark")
        box = mark.bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) >= 44, "a finger needs room"
        mark.tap()
    expect(page.locator("[data-marked]")).to_have_text("2 files, 3.0 MB")
    page.locator("#undo-marked").tap()
    expect_asked(page, "old/b.jpg", "old/deep/a.jpg")


def test_a_selection_is_undone_without_javascript(visit: Visit) -> None:
    some_trash()
    page = visit(operator(), "/trash/", **NO_SCRIPT)
    page.get_by_role("checkbox", name="Mark b.jpg").check()
    page.locator("#undo-marked").click()
    expect_asked(page, "old/b.jpg")


def test_more_marks_than_a_form_has_fields_travel_together(visit: Visit, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = 20
    LibraryFile.objects.bulk_create(unsaved(library(), 1, "x", *(f"{number}/x" for number in range(120))))
    carried_out(planned())
    page = visit(operator(), "/trash/")
    expect(page.locator("[data-row]")).to_have_count(25)
    page.get_by_role("link", name="Load more").click()
    expect(page.locator("[data-row]")).to_have_count(120)
    page.locator("[data-mark-all] input").check()
    expect(page.locator("[data-marked]")).to_contain_text("120 files")
    page.locator("#undo-marked").click()
    expect(page.get_by_text("120 files are put back")).to_be_visible()
    assert len(asked()) == 120


# --- Following --------------------------------------------------------------------------------------------
def test_the_page_follows_an_undo_to_its_end(visit: Visit) -> None:
    some_trash()
    page = visit(operator(), "/trash/")
    page.locator(f"#item-{item_at('old/b.jpg').pk}").get_by_role("button", name="Undo").click()
    expect(page.locator("#trash-live")).to_contain_text("Undo waits for a consumer")
    act = Act.objects.get(verb="undo")
    rows = TrashItem.objects.filter(pk=item_at("old/b.jpg").pk)
    rows.update(status="undoing", left_by=act)
    rows.update(status="undone")
    Act.objects.filter(pk=act.pk).update(status="running")
    Act.objects.filter(pk=act.pk).update(status="completed", done_count=1, finished_at=act.authorised_at)
    expect(page.locator("[data-row]")).to_have_count(2)
    expect(page.locator("#trash-live")).to_contain_text("1 file is back")
    expect(page.locator("#trash-live[hx-trigger]")).to_have_count(0)


def test_what_is_marked_meanwhile_is_not_thrown_away(visit: Visit) -> None:
    some_trash()
    act = Act.objects.create(verb="undo", authorised_by="otto", selection={"all": True}, status="running", file_count=1)
    page = visit(operator(), "/trash/")
    page.get_by_role("checkbox", name="Mark b.jpg").check()
    Act.objects.filter(pk=act.pk).update(status="completed", finished_at=act.authorised_at)
    expect(page.get_by_role("link", name="Show the trash as it is now")).to_be_visible()
    expect(page.get_by_role("checkbox", name="Mark b.jpg")).to_be_checked()


# --- Removing for good ------------------------------------------------------------------------------------
@pytest.mark.parametrize("options", [{}, PHONE, NO_SCRIPT], ids=["with JavaScript", "phone", "without"])
def test_an_admin_types_the_number(visit: Visit, settings: Any, options: dict[str, Any]) -> None:
    settings.ALLOW_REAL_DELETE = True
    switching.change(actor="ada", is_acting_allowed=True, is_removing_allowed=True, empty_after_days=None)
    some_trash()
    page = visit(factories.user("ada", Role.ADMIN), "/trash/", **options)
    page.get_by_text("Empty…").click()
    page.locator("#empty-all").click()
    page.get_by_label("Type the number of files").fill("2")
    page.locator("#empty-now").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was done")
    page.get_by_label("Type the number of files").fill("3")
    page.locator("#empty-now").click()
    expect(page.locator("#trash-live")).to_contain_text("Emptying begins in a moment")
    assert Act.objects.get(verb="empty").selection == {"all": True}


# --- How it is built --------------------------------------------------------------------------------------
def test_pages_fit_their_width_whatever_the_names_are(visit: Visit) -> None:
    long = "<b>" + "W" * 240
    photos = library("W" * 255)
    copies(photos, 1, f"{long}/{long}/{long}", f"x/{long}/{long}")
    carried_out(planned(), actor="u" * 150)
    item = TrashItem.objects.select_related("plan_file").get()
    stayed(item, "PLACE_TAKEN", "R" * 400, actor="u" * 150)
    LibraryFile.objects.update(is_missing=True)
    page = visit(factories.user("ada", Role.ADMIN), "/trash/")
    history = address_of(photos.pk, item.plan_file.relative_path)
    for address in ("/trash/", "/trash/?last=1", "/trash/empty/?filter=", history):
        page.goto(address)
        for width in (1440, 1024, 390, 320):
            page.set_viewport_size({"width": width, "height": 800})
            wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wider <= 0, (address, width)


def test_everything_has_a_name_and_ids_are_unique(visit: Visit) -> None:
    photos = some_trash()
    stayed(item_at("old/a.jpg"), "LAST_COPY", "No other copy.", "empty")
    page = visit(factories.user("ada", Role.ADMIN), "/trash/")
    for address in ("/trash/", "/trash/?last=1", "/trash/empty/?filter=", address_of(photos.pk, "old/a.jpg")):
        page.goto(address)
        assert page.evaluate(NAMELESS) == [], address
        assert page.evaluate(TWICE) == [], address
        expect(page.get_by_role("heading", level=1)).to_have_count(1)


NAMELESS = """() => {
  const named = (each) => each.textContent.trim() || each.getAttribute("aria-label") || (each.labels || []).length;
  const every = document.querySelectorAll("main :is(button, a, select, summary, input:not([type=hidden]))");
  return [...every].filter((each) => !named(each)).map((each) => each.outerHTML);
}"""
TWICE = """() => {
  const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
  return ids.filter((id, index) => ids.indexOf(id) !== index);
}"""
