"""Takes the pictures of README.md: a DedupFS of its own, with the demo library, before Debian's chromium.

    make screenshots

Nothing of an installation is touched: state folder, port and password are new, and gone afterwards. What the pictures
show is done as a person would do it: log in, scan, make a plan, authorise it. They are written to docs/images.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
WIDTH = 1280
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking"]
PATIENCE_SECONDS = 90
NEW_PASSWORD = "only for these pictures"  # noqa: S105  of a server that lives for a minute
RULES = [
    {"kind": "keep_in", "folders": [{"library": 1, "path": "Photos"}, {"library": 1, "path": "Recordings"}]},
    {"kind": "avoid_name", "pattern": "*(copy)*"},
    {"kind": "keep_shortest_path"},
]
RULE_SET = "Originals first"
#: Thumbnails are asked for when they come into view, and then have to be rendered and loaded.
IS_PAINTED = """() => [...document.querySelectorAll("[data-thumb], img")].every((each) =>
    each.getBoundingClientRect().top > innerHeight || (!("thumb" in each.dataset) && each.naturalWidth !== 0))"""
DECODE = "() => Promise.all([...document.images].filter((each) => each.complete).map((each) => each.decode()))"
#: A filesystem in memory has no UUID that a picture would show to everybody.
MEMORY = Path("/dev/shm")  # noqa: S108


# --- A DedupFS of its own ---------------------------------------------------------------------------------


@dataclass
class Running:
    """A started `manage.py up`, and how commands reach the same state."""

    environment: dict[str, str]
    log: Path
    process: subprocess.Popen[bytes]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.environment['PORT']}"

    @property
    def output(self) -> str:
        return self.log.read_text(encoding="utf-8")

    @property
    def password(self) -> str:
        found = re.search(r"^ +password +(\S+)$", self.output, re.MULTILINE)
        if found is None:
            raise SystemExit(f"No password was printed:\n{self.output}")
        return found[1]

    def is_ready(self) -> bool:
        if self.process.poll() is not None:
            raise SystemExit(f"DedupFS has ended by itself:\n{self.output}")
        return "DedupFS is ready at" in self.output

    def manage(self, *words: str, told: str = "") -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=ROOT,
            env=self.environment,
            input=told,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        if done.returncode != 0:
            raise SystemExit(f"manage.py {' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout


@contextmanager
def running(folder: Path) -> Iterator[Running]:
    environment = {name: value for name, value in os.environ.items() if not _is_setting(name)}
    environment |= {
        "DEDUPFS_STATE_ROOT": str(folder / "state"),
        "PORT": str(_free_port()),
        "DEDUPFS_ACT_GRACE_SECONDS": "0",
        "DEDUPFS_SWEEP_SECONDS": "1",
    }
    log = folder / "log"
    with log.open("wb") as output:
        command = [sys.executable, "manage.py", "up"]
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
    up = Running(environment, log, process)
    try:
        _until(up.is_ready, "DedupFS to be ready")
        yield up
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=PATIENCE_SECONDS)


def _is_setting(name: str) -> bool:
    return name.startswith("DEDUPFS_") or name in ("DATABASE_URL", "HUEY_URL", "PORT", "DJANGO_SETTINGS_MODULE")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _until(look: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not look():
        if time.monotonic() > deadline:
            raise SystemExit(f"Waited in vain for {what}.")
        time.sleep(0.1)


# --- What a person does -----------------------------------------------------------------------------------


def log_in(page: Page, password: str) -> None:
    page.goto("/")
    page.get_by_label("Name").fill("admin")
    page.get_by_label("Password").fill(password)
    page.keyboard.press("Enter")
    page.get_by_label("New password", exact=True).fill(NEW_PASSWORD)
    page.locator("[name=new_password2]").fill(NEW_PASSWORD)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Try it: scan the demo").click()
    expect(page.locator("#steps-progress")).to_contain_text("Scanned and compared.")


def allow_acting(page: Page) -> None:
    page.goto("/settings/")
    page.locator("[name=is_acting_allowed]").check()
    page.get_by_role("button", name="Save these settings").click()


def make_plan(page: Page, folder: str = "") -> None:
    page.goto("/plans/new/")
    page.get_by_label("Keep rules").select_option(label=RULE_SET)
    page.get_by_label("Library").select_option(label="Demo")
    page.get_by_label("Folder", exact=True).fill(folder)
    page.get_by_role("button", name="Make this plan").click()
    expect(page.get_by_label("Type the number of files")).to_be_visible()


def carry_out(page: Page) -> None:
    asked = re.search(r"\d+", page.locator("label[for=act-files]").inner_text())
    if asked is None:
        raise SystemExit("The page of the plan asks for no number.")
    page.get_by_label("Type the number of files").fill(asked[0])
    page.locator("#act button.button-danger").click()
    expect(page.locator("#act").get_by_text("Undo…")).to_be_visible()


@contextmanager
def before(up: Running, browser: Browser) -> Iterator[Page]:
    """A page of the browser that knows the address; both are closed afterwards."""
    try:
        page = browser.new_page(base_url=up.address, timezone_id="UTC", color_scheme="light", reduced_motion="reduce")
        page.set_default_timeout(PATIENCE_SECONDS * 1000)
        yield page
    finally:
        browser.close()


# --- Pictures ---------------------------------------------------------------------------------------------


def take(page: Page, name: str, height: int) -> None:
    """What is open now, as much of it as a window of that height shows."""
    page.set_viewport_size({"width": WIDTH, "height": height})
    for toast in page.locator(".toast [data-dismiss]").all():
        toast.click()
    page.evaluate("() => { scrollTo(0, 0); document.activeElement?.blur(); }")
    _until(lambda: page.evaluate(IS_PAINTED), f"what {name} shows")
    page.evaluate(DECODE)
    with Image.open(io.BytesIO(page.screenshot(animations="disabled"))) as shot:
        target = IMAGES / f"{name}.webp"
        shot.convert("RGB").save(target, "WEBP", quality=82, method=6)
    print(f"{target.relative_to(ROOT)}  {target.stat().st_size / 1000:.0f} kB")


def take_all(up: Running, page: Page) -> None:
    log_in(page, up.password)
    up.manage("rules", "save", RULE_SET, "--file", "-", told=json.dumps(RULES))
    allow_acting(page)
    page.goto("/duplicates/")
    take(page, "groups", 692)
    page.locator("a[data-open]").first.click()
    copy = page.locator(".copy").filter(has_text="Photos/2023")
    copy.get_by_role("button", name="Keep only this one").click()
    take(page, "group", 800)
    make_plan(page, folder="Photos")
    take(page, "plan", 1344)
    carry_out(page)
    page.goto("/trash/")
    take(page, "trash", 624)
    make_plan(page)
    page.goto("/")
    take(page, "overview", 632)
    page.emulate_media(color_scheme="dark")
    take(page, "overview-dark", 632)


def main() -> None:
    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("The pictures need chromium (on Debian: apt-get install chromium).")
    expect.set_options(timeout=PATIENCE_SECONDS * 1000)
    IMAGES.mkdir(exist_ok=True)
    memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    with (
        tempfile.TemporaryDirectory(prefix="dedupfs-pictures-", dir=memory) as folder,
        running(Path(folder)) as up,
        sync_playwright() as playwright,
        before(up, playwright.chromium.launch(executable_path=program, args=ARGUMENTS)) as page,
    ):
        take_all(up, page)


if __name__ == "__main__":
    main()
