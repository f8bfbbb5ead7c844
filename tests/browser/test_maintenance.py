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
