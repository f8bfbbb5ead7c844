from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from accounts.models import Role
from tests import factories
from tests.browser.conftest import Visit
from tests.trash.doors import allow, begun, two_copies
from trash.models import Act

pytestmark = pytest.mark.django_db

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
NO_SCRIPT: dict[str, Any] = {"java_script_enabled": False}


@pytest.mark.parametrize("options", [PHONE, NO_SCRIPT], ids=["phone", "without JavaScript"])
def test_an_admin_authorises_by_typing_the_number_and_stops_in_time(visit: Visit, options: dict[str, Any]) -> None:
    allow()
    plan = two_copies()
    page = visit(factories.user("anna", Role.ADMIN), f"/plans/{plan.pk}/", **options)
    page.get_by_label("Type the number of files").fill("3")
    page.get_by_role("button", name="Move 2 files to trash").click()
    expect(page.get_by_text("The number typed is not the plan's")).to_be_visible()
    page.get_by_label("Type the number of files").fill("2")
    page.get_by_role("button", name="Move 2 files to trash").click()
    expect(page.get_by_text("nothing is done before")).to_be_visible()
    page.get_by_role("button", name="Stop: do nothing").click()
    expect(page.get_by_text("It was stopped")).to_be_visible()
    expect(page.get_by_label("Type the number of files")).to_be_visible()
    assert Act.objects.get().status == "cancelled"


def test_the_panel_counts_down_and_follows_until_it_runs(visit: Visit) -> None:
    allow()
    plan = two_copies()
    page = visit(factories.user("anna", Role.ADMIN), f"/plans/{plan.pk}/")
    page.get_by_label("Type the number of files").fill("2")
    page.get_by_role("button", name="Move 2 files to trash").click()
    seconds = page.locator("[data-countdown]")
    before = seconds.inner_text()
    expect(seconds).not_to_have_text(before)
    begun(Act.objects.get(), done=1)
    expect(page.get_by_text("The plan is being carried out")).to_be_visible()
    expect(page.locator("#act-live")).to_contain_text("2.0 kB of 4.0 kB")
    Act.objects.update(done_count=2, bytes_done=4_000)
    expect(page.locator("#act-live")).to_contain_text("4.0 kB of 4.0 kB")
