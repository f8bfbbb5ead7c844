from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from accounts.models import Role, User
from duplicates import folder_pairs, overlapping
from duplicates.models import FolderPair, Plan
from frame.row_counts import FIRST_ROWS
from jobs.executing import drain
from tests import factories
from tests.browser.conftest import Visit
from tests.duplicates.plans import paths
from tests.duplicates.test_overlapping import index, search

pytestmark = pytest.mark.django_db

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
NO_SCRIPT: dict[str, Any] = {"java_script_enabled": False}
FILES = {"old/a": b"aa", "old/b": b"bb", "new/a": b"aa", "new/moved/b": b"bb", "new/c": b"c"}


def operator() -> User:
    return factories.user("otto", Role.OPERATOR)


@pytest.mark.parametrize("options", [{}, PHONE, NO_SCRIPT], ids=["with JavaScript", "phone", "without"])
def test_folders_are_searched_compared_and_planned(visit: Visit, options: dict[str, Any]) -> None:
    index(factories.library("photos"), FILES)
    page = visit(operator(), "/duplicates/folders/", **options)
    page.locator("#do-first-search").click()
    expect(page.get_by_text("A search is asked for.")).to_be_visible()
    assert drain(overlapping.QUEUE) == 1
    if options is NO_SCRIPT:
        page.reload()
    expect(page.locator("#folder-pairs")).to_contain_text("1 pair")
    pair = FolderPair.objects.get()
    expect(page.locator(f"#pair-{pair.pk}")).to_contain_text("Everything in A is also in B")
    page.locator(f"#open-pair-{pair.pk}").click()
    expect(page.get_by_role("heading", name="Files that lie in both")).to_be_visible()
    page.locator("#show-right").click()
    expect(page.get_by_role("heading", name="Files that lie only in B")).to_be_visible()
    page.locator("#plan-left").click()
    page.wait_for_url(re.compile(r"/plans/\d+/"))
    drain("jobs")
    assert paths(Plan.objects.get(), "remove") == ["old/a", "old/b"]


def test_more_pairs_load_below(visit: Visit) -> None:
    index(factories.library("photos"), FILES)
    search()
    pair = FolderPair.objects.get()
    values = FolderPair.objects.values(*(field.attname for field in FolderPair._meta.fields if not field.generated))
    row = {**values.get(), "id": None}
    FolderPair.objects.bulk_create(FolderPair(**row) for _ in range(folder_pairs.PAGE_PAIRS + 4))
    page = visit(factories.user(), "/duplicates/folders/")
    expect(page.locator(".pair")).to_have_count(FIRST_ROWS)
    page.locator("#load-more-pairs").click()
    expect(page.locator(".pair")).to_have_count(folder_pairs.PAGE_PAIRS + 5)
    expect(page.locator("#load-more-pairs")).to_have_count(0)
    assert pair.search.pairs.count() == folder_pairs.PAGE_PAIRS + 5


def test_pages_fit_their_width_whatever_the_names_are(visit: Visit) -> None:
    name = "<b>" + "W" * 200
    index(factories.library("W" * 255), {f"{side}/{name}/{name}/{number}": b"x" for side in "ab" for number in "12"})
    search()
    page = visit(operator(), "/duplicates/folders/")
    for address in ("/duplicates/folders/", f"/duplicates/folders/{FolderPair.objects.latest('pk').pk}/"):
        page.goto(address)
        for width in (1440, 1024, 390, 320):
            page.set_viewport_size({"width": width, "height": 800})
            wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wider <= 0, (address, width)
