from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests import factories
from tests.browser.conftest import Visit

pytestmark = pytest.mark.django_db

WIDTHS = "cells => cells.map(cell => cell.getBoundingClientRect().width)"


@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_what_an_event_is_about_stands_in_a_line_however_long_its_name_is(visit: Visit, width: int) -> None:
    factories.pending_thumbnail("f" * 64)
    page = visit(factories.user(), "/logbook/", viewport={"width": width, "height": 900})
    expect(page.locator("td.about").first).to_contain_text("thumbnail")
    assert min(page.locator("td.about").evaluate_all(WIDTHS)) > 150
