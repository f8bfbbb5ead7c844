"""Whoever walks the main path: by keyboard alone, by touch on a phone, or with JavaScript off.

All of them want the same things of a page. What they do for it differs, and so does how they wait: without scripts a
page shows something new only after it was loaded again.
"""

from __future__ import annotations

from typing import Any, ClassVar

from playwright.sync_api import Locator, Page, expect

from tests.browser.stillness import settle
from tests.waiting import until

#: Something that a consumer has to do first may take as long as this on a busy machine.
WORK_MILLISECONDS = 60_000
MOST_TABS = 400
#: The rooms of the story by their headings. On wide screens some are shown only inside another one.
ROOMS = {
    "Duplicates": "/duplicates/",
    "Keep rules": "/rules/",
    "Libraries": "/libraries/",
    "Plans": "/plans/",
    "Queue": "/queue/",
    "Trash": "/trash/",
}
OUTER = {"Keep rules": "Duplicates", "Queue": "Libraries", "Trash": "Plans"}
HAS_FOCUS = "element => element === document.activeElement"
ROW_WITH_FOCUS = "rows => rows.indexOf(document.activeElement.closest('[data-group]'))"


class Hands:
    """What is common to all of them."""

    options: ClassVar[dict[str, Any]] = {}
    has_script: ClassVar[bool] = True

    def __init__(self, page: Page) -> None:
        self.page = page
        self.rows = page.locator("[data-group]")
        self.more = page.get_by_role("link", name="Load more")

    # --- What hands do --------------------------------------------------------------------------------------
    def press(self, what: Locator) -> None:
        """A link or a button. What comes of it is looked for by the caller."""
        raise NotImplementedError

    def open(self, panel: Locator) -> None:
        """A panel that opens in place, by its summary."""
        self.press(panel)

    def write(self, field: Locator, words: str) -> None:
        raise NotImplementedError

    def tick(self, box: Locator) -> None:
        raise NotImplementedError

    def enter(self, room: str) -> None:
        """One of the rooms in the frame of every page."""
        link = self.page.locator(f".sidebar a[href='{ROOMS[room]}']")
        if not link.is_visible():
            self.enter(OUTER[room])
        self.press(link)
        self.is_at(room)

    # --- What eyes do ---------------------------------------------------------------------------------------
    def is_at(self, heading: str) -> None:
        """The page is there as a whole: before that its scripts hear no key."""
        expect(self.page.get_by_role("heading", level=1)).to_have_text(heading)
        self.page.wait_for_load_state("load")

    def sees(self, what: Locator) -> None:
        """Something that this page has, now that something was pressed."""
        expect(what).to_be_visible()
        self.page.wait_for_load_state("load")

    def waits_for(self, what: Locator) -> None:
        """Something that a consumer has to do first."""
        expect(what).to_be_visible(timeout=WORK_MILLISECONDS)
        self.page.wait_for_load_state("load")

    # --- The list of groups ---------------------------------------------------------------------------------
    def read_to_the_end(self) -> list[str]:
        """The names of all groups, page for page until there are no more."""
        while self.more.count():
            shown = self.rows.count()
            self.press(self.more)
            expect(self.rows.nth(shown)).to_be_visible()
            settle(self.page)
        return self.names()

    def names(self) -> list[str]:
        return self.rows.locator("[data-open]").all_inner_texts()

    def mark(self, *from_the_end: int) -> None:
        """Groups of the last page, 1 being the very last."""
        count = self.rows.count()
        for place in from_the_end:
            row = self.rows.nth(count - place)
            self.mark_row(count - place)
            expect(row.get_by_role("checkbox")).to_be_checked()

    def mark_row(self, index: int) -> None:
        raise NotImplementedError

    def turn_to_marked(self) -> None:
        """To what can be done with the marked groups."""


class Keyboard(Hands):
    """Tab, Enter, Space and letters; there is no mouse."""

    options = {"viewport": {"width": 1440, "height": 900}}

    def press(self, what: Locator) -> None:
        self._tab_to(what)
        self.page.keyboard.press("Enter")

    def write(self, field: Locator, words: str) -> None:
        self._tab_to(field)
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.type(words)
        expect(field).to_have_value(words)

    def tick(self, box: Locator) -> None:
        self._tab_to(box)
        self.page.keyboard.press("Space")
        expect(box).to_be_checked()

    def _tab_to(self, wanted: Locator) -> None:
        expect(wanted).to_be_visible()
        for _ in range(MOST_TABS):
            if wanted.evaluate(HAS_FOCUS):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"{wanted} can't be reached by Tab")

    def read_to_the_end(self) -> list[str]:
        """Going past the last row brings the next ones."""
        self.page.keyboard.press("j")
        expect(self.rows.first).to_be_focused()
        while True:
            shown = self.rows.count()
            self._go_to(shown - 1)
            if not self.more.count():
                return self.names()
            self.page.keyboard.press("j")
            expect(self.rows.nth(shown)).to_be_focused()

    def mark_row(self, index: int) -> None:
        self._go_to(index)
        self.page.keyboard.press("x")

    def _go_to(self, index: int) -> None:
        here = self.rows.evaluate_all(ROW_WITH_FOCUS)
        for _ in range(abs(index - here)):
            self.page.keyboard.press("j" if index > here else "k")
        expect(self.rows.nth(index)).to_be_focused()

    def turn_to_marked(self) -> None:
        """The bar comes after all rows, hundreds of stops away; a key leads there."""
        self.page.keyboard.press("a")
        expect(self.page.locator("#marked :focus")).to_have_count(1)


class Touch(Hands):
    """A finger on a phone."""

    options = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}

    def press(self, what: Locator) -> None:
        what.tap()

    def write(self, field: Locator, words: str) -> None:
        field.tap()
        field.fill(words)

    def tick(self, box: Locator) -> None:
        box.tap()
        expect(box).to_be_checked()

    def enter(self, room: str) -> None:
        bar = self.page.locator("nav.bar")
        link = bar.locator(f"a[href='{ROOMS[room]}']")
        if not link.is_visible():
            bar.get_by_text("More", exact=True).tap()
        link.tap()
        self.is_at(room)

    def mark_row(self, index: int) -> None:
        self.rows.nth(index).locator(".mark").tap()


class NoScript(Hands):
    """A mouse, and a browser that runs no script: every link and every button leads to a page."""

    options = {"viewport": {"width": 1024, "height": 800}, "java_script_enabled": False}
    has_script = False

    def press(self, what: Locator) -> None:
        with self.page.expect_navigation():
            what.click()

    def open(self, panel: Locator) -> None:
        panel.click()

    def write(self, field: Locator, words: str) -> None:
        field.fill(words)

    def tick(self, box: Locator) -> None:
        box.check()

    def waits_for(self, what: Locator) -> None:
        def is_there() -> bool:
            if what.is_visible():
                return True
            self.page.reload()
            return False

        until(is_there, str(what))

    def read_to_the_end(self) -> list[str]:
        names = self.names()
        while self.more.count():
            self.press(self.more)
            names += self.names()
        return names

    def mark_row(self, index: int) -> None:
        self.rows.nth(index).get_by_role("checkbox").check()
