"""Pages that change by themselves, for tests that click: no hand is so quick that it meets the moment of the change,
but a program is."""

from __future__ import annotations

from playwright.sync_api import Page, expect

#: What a hidden tab looks like to its page; a headless browser has no tabs to hide.
HIDE = """(is_hidden) => {
  Object.defineProperty(document, 'hidden', {value: is_hidden, configurable: true});
  document.dispatchEvent(new Event('visibilitychange'));
}"""
#: What htmx asks for, and what it has put into the page and not made its own yet.
UNSETTLED = ".htmx-request, .htmx-swapping, .htmx-settling, .htmx-added"


def settle(page: Page) -> None:
    """Wait until htmx knows what is new: before that a click on it leads to another page."""
    expect(page.locator(UNSETTLED)).to_have_count(0)


def hold_still(page: Page) -> None:
    """Let the page ask for nothing more, until the next one: what is replaced between the press of a button and its
    release is not clicked."""
    page.evaluate(HIDE, True)
    settle(page)
