"""Keys of one letter: they work on both lists, and can be switched off."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit
from tests.site.whole_site import furnished_site

pytestmark = pytest.mark.django_db

LISTS = ["/duplicates/", "/trash/"]
ROWS = ":is(.group-row, .trash-row)"


def switch(page: Page) -> None:
    """By the button: the key that opens the dialog may be off."""
    page.get_by_role("button", name="Keys").click()
    page.get_by_role("checkbox", name="Single-letter keys").click()
    page.keyboard.press("Escape")
    expect(page.locator("dialog[open]")).to_have_count(0)


def press_all(page: Page) -> None:
    for key in ("j", "x", "?"):
        page.keyboard.press(key)


@pytest.mark.parametrize("address", LISTS)
def test_keys_of_one_letter_act_until_they_are_switched_off(visit: Visit, address: str) -> None:
    page = visit(furnished_site(each=1).admin, address)
    press_all(page)
    expect(page.locator("#keys")).to_be_visible()
    expect(page.locator(f"{ROWS}.is-marked")).to_have_count(1)
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    expect(page.locator(".mark-tools :focus")).to_have_count(1)
    switch(page)
    page.reload()
    press_all(page)
    expect(page.locator("#keys")).to_be_hidden()
    expect(page.locator(f"{ROWS}.is-marked, {ROWS}:focus")).to_have_count(0)
    switch(page)
    page.keyboard.press("j")
    expect(page.locator(ROWS).first).to_be_focused()


def test_the_switch_holds_on_the_other_list_and_in_other_tabs(visit: Visit) -> None:
    page = visit(furnished_site(each=1).admin, LISTS[0])
    other = page.context.new_page()
    other.goto(LISTS[1])
    switch(page)
    expect(other.locator("html")).to_have_attribute("data-keys", "off")
    other.keyboard.press("j")
    expect(other.locator(f"{ROWS}:focus")).to_have_count(0)


def test_without_the_letters_a_row_is_opened_by_tab_and_enter(visit: Visit) -> None:
    page = visit(furnished_site(each=1).admin, "/duplicates/")
    switch(page)
    page.locator("[data-open]").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/duplicates/blake3:*/")
