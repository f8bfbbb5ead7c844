"""The main path, step by step. Each step looks at the page for what came of it before the next one begins."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, expect

from tests import factories
from tests.browser.main_path_disk import SLOW_PACE, Photos
from tests.browser.main_path_hands import Hands
from tests.browser.stillness import hold_still

RULES = "Originals before copies"
#: Three of the last ten groups, counted from the end.
MARKED = (1, 2, 4)


def log_in(hands: Hands) -> None:
    page = hands.page
    hands.write(page.get_by_label("Name"), "ada")
    hands.write(page.get_by_label("Password"), factories.PASSWORD)
    hands.press(page.get_by_role("button", name="Log in"))
    hands.is_at("Overview")


def add_library(hands: Hands) -> None:
    """By the folder picker, with a pace at which reading takes minutes."""
    page = hands.page
    hands.press(page.get_by_role("link", name="Begin"))
    hands.is_at("First steps")
    hands.press(page.get_by_role("link", name="photos"))
    hands.sees(page.locator(".picker-here", has_text="photos"))
    hands.press(page.get_by_role("link", name="All settings"))
    hands.is_at("Add library")
    expect(page.get_by_label("Name")).to_have_value("photos")
    hands.tick(page.get_by_label("Take young files too"))
    hands.write(page.get_by_label("Read at most, per second"), SLOW_PACE)
    hands.press(page.get_by_role("button", name="Add this library"))
    hands.sees(page.get_by_text("is added. Scan it"))


# --- Scanning ---------------------------------------------------------------------------------------------
def scan(hands: Hands) -> None:
    page = hands.page
    hands.press(page.locator("#do-scan"))
    hands.sees(page.get_by_text("A scan is asked for"))
    hands.waits_for(page.locator("#library-scan .job-state", has_text="Succeeded"))


def watch_progress(hands: Hands) -> None:
    """What was read grows, before the eyes of whoever looks."""
    hands.enter("Queue")
    hands.waits_for(hands.page.locator("#slot-title", has_text="Hashing"))
    read = _fact(hands, "Bytes")
    hands.waits_for(read.filter(has_not_text=re.compile(r"^0 B")))
    before = read.inner_text()
    hands.waits_for(read.filter(has_not_text=before))


def _fact(hands: Hands, name: str) -> Locator:
    facts = hands.page.locator(".facts > div").filter(has=hands.page.locator("dt", has_text=re.compile(f"^{name}$")))
    return facts.locator("dd")


def cancel(hands: Hands) -> None:
    """It really runs, and would for minutes."""
    page = hands.page
    hold_still(page)
    hands.press(page.locator("#slot-job"))
    hands.sees(page.get_by_role("heading", level=1, name="Hash"))
    hands.waits_for(page.locator("#job-head .pill", has_text="Running"))
    hands.open(page.locator("#job-actions summary"))
    hands.write(page.get_by_label("Reason, for the logbook"), "far too slow")
    hands.press(page.get_by_role("button", name="Cancel this job"))
    hands.sees(page.get_by_text("This job was cancelled."))
    hands.sees(page.locator("#job-head .pill", has_text="Cancelled"))
    hands.sees(page.locator("#job-history").get_by_text("far too slow"))
    hands.enter("Queue")
    hands.sees(page.locator(".slot", has_text="Nothing runs"))


def scan_without_limit(hands: Hands) -> None:
    page = hands.page
    hands.enter("Libraries")
    hands.press(page.get_by_role("link", name="photos", exact=True))
    hands.is_at("photos")
    hands.press(page.locator("#to-settings"))
    hands.is_at("Settings")
    hands.write(page.get_by_label("Read at most, per second"), "0")
    hands.press(page.get_by_role("button", name="Save the settings"))
    hands.sees(page.get_by_text("The settings are saved."))
    scan(hands)
    hands.enter("Queue")
    nothing_waits = page.get_by_role("heading", name="Nothing waits", exact=True)
    at_rest = page.locator("#queue", has_text="Nothing runs", has=nothing_waits)
    hands.waits_for(at_rest.filter(has_text="Nothing waits to be hashed"))


# --- Deciding ---------------------------------------------------------------------------------------------
def write_rules(hands: Hands) -> None:
    page = hands.page
    hands.enter("Keep rules")
    hands.press(page.get_by_role("link", name=f"Start from this {RULES}"))
    hands.sees(page.get_by_role("button", name="Save the rules"))
    hands.press(page.get_by_role("button", name="Save the rules"))
    hands.sees(page.get_by_text(f"The rules “{RULES}” are saved."))


def read_groups(hands: Hands) -> list[str]:
    """The numbers of all groups, in the order of the list."""
    hands.enter("Duplicates")
    return [name[:3] for name in hands.read_to_the_end()]


def count_groups(hands: Hands, words: str) -> None:
    """The totals come after the page, or by a link."""
    hands.enter("Duplicates")
    if not hands.has_script:
        hands.press(hands.page.get_by_role("link", name="Count what is shown"))
    hands.sees(hands.page.locator("#summary", has_text=words))


def apply_rules(hands: Hands) -> None:
    """To three groups that are marked at the end of the list."""
    page = hands.page
    hands.mark(*MARKED)
    bar = page.locator("#marked")
    if hands.has_script:
        expect(bar).to_contain_text("3 groups")
    hands.turn_to_marked()
    hands.press(bar.get_by_role("button", name="Apply rules"))
    hands.waits_for(page.get_by_label("Totals"))


def read_plan(hands: Hands, photos: Photos) -> list[str]:
    """Which files go, as the plan says; the first copy of each stays."""
    page = hands.page
    chosen = sorted(photos.names[-place] for place in MARKED)
    expect(page.get_by_label("Totals")).to_contain_text("3 files would move to trash")
    expect(page.get_by_label("Totals")).to_contain_text("3 files stay")
    expect(_fact(hands, "Decided by")).to_have_text(RULES)
    assert _paths(hands, "is-kept") == [f"2024/{name}.bin" for name in chosen]
    going = [f"old/{name} copy.bin" for name in chosen]
    assert _paths(hands, "is-going") == going
    return going


def _paths(hands: Hands, state: str) -> list[str]:
    lines = hands.page.locator(f".plan-file.{state} .plan-path")
    return sorted(lines.evaluate_all("lines => lines.map((line) => line.title)"))


# --- Acting -----------------------------------------------------------------------------------------------
def allow_acting(hands: Hands) -> None:
    page = hands.page
    hands.sees(page.get_by_text("Acting on files is switched off."))
    hands.press(page.get_by_role("link", name="Open the settings"))
    hands.is_at("Settings")
    hands.tick(page.get_by_label("Plans may be carried out"))
    hands.press(page.get_by_role("button", name="Save these settings"))
    hands.sees(page.get_by_text("Saved.", exact=True))


def open_plan(hands: Hands) -> None:
    hands.enter("Plans")
    hands.press(hands.page.get_by_role("link", name=re.compile(r"^Plan \d+$")))
    hands.sees(hands.page.get_by_label("Totals"))


def authorise(hands: Hands) -> None:
    page = hands.page
    hands.write(page.get_by_label("Type the number of files"), "3")
    hands.press(page.get_by_role("button", name="Move 3 files to trash"))
    hands.waits_for(page.get_by_role("heading", name="The plan was carried out"))
    expect(_fact(hands, "In the trash now")).to_contain_text("3 files")
    expect(_fact(hands, "Skipped")).to_have_text("0")


def read_trash(hands: Hands) -> list[str]:
    hands.enter("Trash")
    return sorted(f"old/{name}" for name in hands.page.locator("[data-row] [data-open]").all_inner_texts())


def undo(hands: Hands) -> None:
    page = hands.page
    open_plan(hands)
    hands.open(page.locator("summary", has_text="Undo…"))
    hands.press(page.get_by_role("button", name="Put 3 files back"))
    hands.waits_for(page.locator(".act-past").get_by_role("link", name="Undone"))
    expect(_fact(hands, "In the trash now")).to_have_text("nothing")
