from __future__ import annotations

import io
import os
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import pytest
from blake3 import blake3
from PIL import Image
from playwright.sync_api import Page, Request, Route, expect
from pytest_django import Settings

from accounts.models import Role
from libraries.models import LibraryFile, LibraryRoot
from tests import factories
from tests.browser.conftest import Visit
from tests.browser.stillness import settle
from tests.conftest import Consumers
from tests.indexing import indexed
from tests.thumbnails.made import failed, made
from tests.tree import tree
from tests.waiting import until
from thumbnails import admitting
from thumbnails.models import Thumbnail

pytestmark = pytest.mark.django_db

NO_SCRIPT: dict[str, Any] = {"java_script_enabled": False}
IS_SHOWN = "images => images.every(image => image.complete && image.naturalWidth > 0)"
LOOK_AT_EACH = (
    "images => { const left = images.filter(image => !image.complete || !image.naturalWidth);"
    " left[0]?.scrollIntoView(); return left.length === 0; }"
)
HEIGHTS = "rows => rows.map(row => row.offsetHeight)"
PLACES = "rows => rows.map(row => JSON.stringify(row.getBoundingClientRect()))"


@pytest.fixture(autouse=True)
def _thumb_root(tmp_path: Path, settings: Settings) -> None:
    """Where consumers of `start_consumer` look, too."""
    settings.THUMBNAIL_ROOT = tmp_path / "state" / "thumbs"


def jpeg(number: int) -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (400, 300), (number * 37 % 256, number * 91 % 256, 120)).save(data, "JPEG")
    return data.getvalue()


def pairs(root: Path, contents: dict[str, bytes]) -> list[LibraryFile]:
    """A library with each content twice; the first file of each, in the order of names."""
    tree(root, {f"{folder}/{name}": content for name, content in contents.items() for folder in ("a", "b")})
    library = indexed(root)
    LibraryRoot.objects.filter(pk=library.pk).update(last_scanned_at="2024-01-01 00:00:00+00:00")
    for name, content in contents.items():
        digest = {"hash_algorithm": "blake3", "content_hash": blake3(content).digest(), "needs_hash": False}
        LibraryFile.objects.filter(relative_path__endswith=f"/{name}").update(**digest)
    return list(LibraryFile.objects.filter(relative_path__startswith="a/").order_by("relative_path"))


def asks_of(page: Page) -> list[int]:
    """How many files each request asks for, from now on."""
    asked: list[int] = []

    def note(request: Request) -> None:
        if request.url.endswith("/thumbs/ask/"):
            asked.append((request.post_data or "").count("file="))

    page.on("request", note)
    return asked


def group(file: LibraryFile) -> str:
    return f"/duplicates/{file.hash_algorithm}:{bytes(file.content_hash or b'').hex()}/"


# --- The list ---------------------------------------------------------------------------------------------
def test_pictures_come_by_themselves_and_nothing_moves(visit: Visit, tmp_path: Path, start_consumer: Consumers) -> None:
    contents = {f"{number}.jpg": jpeg(number) for number in range(6)}
    pairs(tmp_path / "library", {**contents, "broken.jpg": b"no picture at all", "notes.txt": b"words"})
    page = visit(factories.user())
    asked = asks_of(page)
    page.goto("/duplicates/")
    expect(page.locator("[data-asked]")).to_have_count(7)
    assert asked[0] == 7, "one request for all that are seen"
    before = page.locator("[data-group]").evaluate_all(PLACES)
    start_consumer()
    expect(page.locator("img.thumb")).to_have_count(6)
    tile = page.locator(".picture.is-failed")
    expect(tile).to_have_attribute("title", re.compile("^No picture: .*damaged"))
    expect(page.locator("[data-thumb]")).to_have_count(0)
    assert page.locator("img.thumb").evaluate_all(IS_SHOWN)
    assert page.locator("[data-group]").evaluate_all(PLACES) == before

    asked.clear()
    page.reload()
    expect(page.locator("img.thumb")).to_have_count(6)
    expect(tile).to_have_count(1)
    assert asked == [1], "what is there comes with the page"


def test_pictures_of_the_next_page_come_too_and_only_where_one_looks(visit: Visit, tmp_path: Path) -> None:
    files = pairs(tmp_path / "library", {f"{number:03}.jpg": jpeg(number) for number in range(40)})
    page = visit(factories.user(), "/duplicates/")
    expect(page.locator("[data-asked]").first).to_be_visible()
    assert 0 < Thumbnail.objects.count() < 15
    page.get_by_role("link", name="Load more").click()
    expect(page.locator("[data-group]")).to_have_count(40)
    last = page.locator("[data-thumb]").last
    last.scroll_into_view_if_needed()
    expect(last).to_have_attribute("data-asked", "")
    for file in files:
        made(file)
    expect(page.locator("[data-group]").last.locator("img.thumb")).to_be_visible()


def test_two_hundred_groups_are_not_held_up_by_their_pictures(visit: Visit, tmp_path: Path) -> None:
    contents = {f"{number:03}.jpg": jpeg(number) + bytes([number]) for number in range(200)}
    for file in pairs(tmp_path / "library", contents):
        made(file)
    page = visit(factories.user("otto", Role.OPERATOR))
    held: list[Route] = []
    is_used = False
    page.route(re.compile("/thumbs/[0-9a-f]{64}/"), lambda route: route.continue_() if is_used else held.append(route))
    page.goto("/duplicates/", wait_until="domcontentloaded")
    for shown in (65, 115, 165, 200):
        page.get_by_role("link", name="Load more").click()
        expect(page.locator("[data-group]")).to_have_count(shown)
        settle(page)
    page.locator("[data-mark]").last.check()
    expect(page.locator("[data-marked]")).to_contain_text("1 group")
    assert held, "no picture was sent yet, and all the same the list could be read and used"
    before = page.locator("[data-group]").evaluate_all(HEIGHTS)

    is_used = True
    for route in held:
        route.continue_()
    expect(page.locator("img.thumb")).to_have_count(200)
    until(lambda: page.locator("img.thumb").evaluate_all(LOOK_AT_EACH), "all pictures")
    assert page.locator("[data-group]").evaluate_all(HEIGHTS) == before, "nothing moved"


NOTE_ASKS = """
window.asked = []; window.answered = 0;
const really = window.fetch;
window.fetch = (...all) => { asked.push(Date.now()); return really(...all).finally(() => { answered += 1; }); };
"""


def let_pass(page: Page, steps: int) -> list[int]:
    """Let three seconds of the page's time pass with each step; when it has asked by then, in milliseconds."""
    for _ in range(steps):
        page.clock.run_for(3_000)
        while page.evaluate("asked.length > answered"):
            pass
    asked: list[int] = page.evaluate("asked")
    return asked


def test_a_page_that_waits_asks_less_and_less_and_one_that_nobody_sees_not_at_all(visit: Visit, tmp_path: Path) -> None:
    pairs(tmp_path / "library", {"1.jpg": jpeg(1)})
    page = visit(factories.user())
    page.clock.install()
    # From here on its time passes only by steps, however slow the machine is.
    page.clock.pause_at(page.evaluate("Date.now() / 1000 + 3600"))
    page.add_init_script(NOTE_ASKS)
    page.goto("/duplicates/")
    expect(page.locator("[data-watched]")).to_have_count(1)
    asked = let_pass(page, 30)
    waits = [later - earlier for earlier, later in pairwise(asked)]
    assert waits[0] < 6_000
    assert all(10_000 < wait < 20_000 for wait in waits[-2:])
    assert len(asked) < 25
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    assert let_pass(page, 15) == asked
    page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    assert len(let_pass(page, 1)) > len(asked)


def test_a_picture_that_is_gone_when_it_is_fetched_comes_when_it_is_made_again(
    visit: Visit, tmp_path: Path, settings: Settings
) -> None:
    (file,) = pairs(tmp_path / "library", {"1.jpg": jpeg(1)})
    page = visit(factories.user(), "/duplicates/")
    statuses: list[int] = []

    def lose_first(route: Route) -> None:
        # No look at the database here: the browser's callbacks would open a connection that nobody closes.
        if not statuses:
            (picture,) = settings.THUMBNAIL_ROOT.rglob("*.webp")
            picture.unlink()
        answer = route.fetch()
        statuses.append(answer.status)
        route.fulfill(response=answer)

    page.route(re.compile("/thumbs/[0-9a-f]{64}/"), lose_first)
    expect(page.locator("[data-asked]")).to_have_count(1)
    made(file)
    expect(page.locator("[data-again]")).to_have_count(1)
    expect(page.locator("img.thumb")).to_have_count(0)
    made(file)
    expect(page.locator("img.thumb")).to_have_js_property("naturalWidth", 320)
    assert statuses == [202, 200]


def test_a_page_without_javascript_has_pictures(visit: Visit, tmp_path: Path) -> None:
    (file,) = pairs(tmp_path / "library", {"1.jpg": jpeg(1)})
    someone = factories.user()
    page = visit(someone, "/duplicates/", **NO_SCRIPT)
    expect(page.locator("img.thumb")).to_be_visible()
    assert Thumbnail.objects.get().status == "pending"
    made(file)
    page = visit(someone, "/duplicates/", **NO_SCRIPT)
    assert page.locator("img.thumb").evaluate("image => image.naturalWidth") == 320


# --- A group ----------------------------------------------------------------------------------------------
def test_a_group_says_what_becomes_of_its_picture(visit: Visit, tmp_path: Path, settings: Settings) -> None:
    file, other, broken = pairs(tmp_path / "library", {f"{number}.jpg": jpeg(number) for number in range(3)})
    someone = factories.user()
    settings.THUMBNAIL_CAPACITY = 1
    admitting.request([other])
    page = visit(someone, group(file))
    expect(page.locator(".picture")).to_contain_text("Many pictures are waiting")
    settings.THUMBNAIL_CAPACITY = 100
    page.reload()
    expect(page.locator(".picture")).to_contain_text("Its picture is being made.")
    made(file, 640)
    expect(page.get_by_role("img", name="0.jpg")).to_be_visible()
    expect(page.locator(".picture")).to_have_text("")
    failed(broken, dimension=640)
    page.goto(group(broken))
    expect(page.locator(".picture")).to_contain_text("No picture: It can't be decoded")


def test_a_preview_shows_the_small_picture_until_the_large_one_is_there(visit: Visit, tmp_path: Path) -> None:
    (file,) = pairs(tmp_path / "library", {"1.jpg": jpeg(1)})
    made(file)
    page = visit(factories.user(), "/duplicates/")
    page.locator(".picture-link").click()
    large = page.locator("#preview-body img.thumb")
    expect(large).to_have_attribute("width", "320")
    made(file, 640)
    expect(large).to_have_attribute("width", "640")
    expect(large).to_have_count(1)


# --- Originals --------------------------------------------------------------------------------------------
def test_originals_are_shown_played_or_saved_and_never_run(visit: Visit, tmp_path: Path) -> None:
    contents = {"a.jpg": jpeg(1), "b.webm": _video(tmp_path / "b.webm"), "c.html": b"<script>alert(1)</script>" * 9}
    picture, video, html = pairs(tmp_path / "library", contents)
    page = visit(factories.user("otto", Role.OPERATOR), group(picture))
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Open the original").first.click()
    expect(opened.value.locator("img")).to_have_js_property("naturalWidth", 400)

    page.goto(f"/thumbs/original/{video.pk}/")
    # The page is sandboxed: nothing in it may wait for something.
    until(lambda: page.locator("video").evaluate("video => video.readyState >= 2"), "the video")
    assert page.locator("video").evaluate("video => video.duration") == pytest.approx(2, abs=0.3)
    page.locator("video").evaluate("video => { video.currentTime = 1.5; }")
    until(lambda: page.locator("video").evaluate("video => !video.seeking"), "the place in the video")

    page.goto(group(html))
    with page.expect_download() as saved:
        page.get_by_role("link", name="Open the original").first.click()
    assert saved.value.suggested_filename == "c.html"
    assert os.path.getsize(saved.value.path()) == len(contents["c.html"])


def _video(path: Path) -> bytes:
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libvpx", rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(20):
            image = Image.new("RGB", (64, 48), (number * 12, 90, 90))
            frame = av.VideoFrame.from_image(image)  # type: ignore[no-untyped-call]
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path.read_bytes()
