from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from playwright.sync_api import expect

from accounts.models import Role
from jobs.models import WalMaintenanceJob, WorkerHeartbeat
from tests import factories
from tests.browser.conftest import Visit
from tests.jobs.checkpoints import carry_out, fill_log, on_sqlite
from tests.site.test_maintenance_page import everything

pytestmark = pytest.mark.django_db
NO_SCRIPT: dict[str, Any] = {"java_script_enabled": False}
#: What a hidden tab looks like to its page; a headless browser has no tabs to hide.
HIDE = """(is_hidden) => {
  Object.defineProperty(document, 'hidden', {value: is_hidden, configurable: true});
  document.dispatchEvent(new Event('visibilitychange'));
}"""


@on_sqlite
@pytest.mark.parametrize("options", [{}, NO_SCRIPT], ids=["with JavaScript", "without"])
def test_a_checkpoint_is_asked_for_by_click_and_followed(visit: Visit, options: dict[str, Any]) -> None:
    WorkerHeartbeat.objects.create(worker_id="nas:7", hostname="nas")
    fill_log()
    page = visit(factories.user("otto", Role.OPERATOR), "/maintenance/", **options)
    page.get_by_label("Restart").check()
    page.get_by_label("Reason").fill("before the backup")
    page.get_by_role("button", name="Write the log back").click()
    expect(page.get_by_text("A restart checkpoint is on its way.")).to_be_visible()
    expect(page.locator("#checkpoints")).to_contain_text("Pending")
    carry_out()
    if options:
        page.reload()
    else:
        page.get_by_label("Reason").fill("half a word")
    expect(page.locator("#checkpoints")).to_contain_text("Completed")
    if not options:
        expect(page.get_by_label("Reason")).to_have_value("half a word")


def test_a_hidden_page_does_not_ask_and_a_shown_one_does_at_once(visit: Visit) -> None:
    page = visit(factories.user(), "/maintenance/")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/maintenance/" in request.url else None)
    page.evaluate(HIDE, True)
    page.evaluate("htmx.trigger('#maintenance', 'shown')")
    WorkerHeartbeat.objects.create(worker_id="nas:7", hostname="nas")
    assert asked == []
    page.evaluate(HIDE, False)
    expect(page.get_by_text("No consumer is alive")).to_have_count(0)
    assert len(asked) == 1


@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_nothing_sticks_out(visit: Visit, width: int) -> None:
    everything()
    WalMaintenanceJob.objects.filter(status="completed").update(reason="W" * 500, requested_by="o" * 64)
    page = visit(factories.user("otto", Role.OPERATOR), "/maintenance/", viewport={"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if connection.vendor == "sqlite":
        box = page.locator("svg.chart-plot").bounding_box()
        assert box is not None
        assert box["width"] > 200
        page.locator("#wal-table-link").click()
        expect(page.locator("#wal-table tbody tr").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
