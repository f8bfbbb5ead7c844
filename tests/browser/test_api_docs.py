"""The page that describes the API comes from a library; what holds for our pages holds for it too."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests import factories
from tests.browser.conftest import Visit

pytestmark = pytest.mark.django_db

REFUSED = """() => {
  window.refused = [];
  document.addEventListener("securitypolicyviolation", (event) => window.refused.push(event.blockedURI));
}"""


def test_the_description_of_the_api_opens_without_a_complaint_and_asks_no_other_host(visit: Visit) -> None:
    page = visit(factories.user(), "/account/password/")
    host = page.url.removesuffix("/account/password/")
    page.add_init_script(f"({REFUSED})()")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto("/api/v1/docs")
    expect(page.locator(".opblock").first).to_be_visible()
    page.locator(".opblock-summary").first.click()
    expect(page.locator(".opblock-body").first).to_be_visible()
    page.wait_for_load_state("networkidle")
    assert [url for url in asked if not url.startswith((f"{host}/", "data:", "blob:"))] == []
    assert page.evaluate("window.refused") == []
