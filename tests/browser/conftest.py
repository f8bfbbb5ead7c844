"""A real browser before a real server: Debian's chromium, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright
from pytest_django.live_server_helper import LiveServer

from accounts.models import User
from tests.browser.server_rest import connections_counted

# Playwright's synchronous API runs an event loop in this thread, which Django would take for a mistake.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"

HERE = Path(__file__).parent
CHROMIUM = "chromium"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
#: How long a page may take to show what it should, on a machine that is busy with other tests.
PATIENCE_MILLISECONDS = 60_000


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All but the main path are about pages, whatever database is behind them, and take long: on PostgreSQL `make test`
    leaves them out."""
    for item in items:
        if item.path.parent == HERE and item.path.name != "test_main_path.py":
            item.add_marker(pytest.mark.browser)


class Visit(Protocol):
    def __call__(self, user: User | None, address: str = ..., **options: Any) -> Page: ...


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Ended with its module: while it lives, its event loop is in the way of other tests."""
    program = shutil.which(CHROMIUM)
    if program is None:
        raise FileNotFoundError("The browser tests need chromium (on Debian: apt-get install chromium).")
    expect.set_options(timeout=PATIENCE_MILLISECONDS)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture
def complaints() -> list[str]:
    """What the browser's console said in red; a test may take out what it provoked itself."""
    return []


@pytest.fixture
def visit(browser: Browser, live_server: LiveServer, complaints: list[str]) -> Iterator[Visit]:
    """Open a page as somebody. The console must stay clean; what the policy (CSP) refuses would be there too."""
    contexts: list[BrowserContext] = []

    def open_page(user: User | None, address: str = "/jobs/", **options: Any) -> Page:
        context = browser.new_context(base_url=live_server.url, **options)
        context.set_default_timeout(PATIENCE_MILLISECONDS)
        contexts.append(context)
        if user is not None:
            context.add_cookies(
                [{"name": settings.SESSION_COOKIE_NAME, "value": _session(user), "url": live_server.url}]
            )
        page = context.new_page()
        page.on("console", _collect(complaints))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        return page

    with connections_counted(live_server) as counted:
        yield open_page
        for context in contexts:
            context.close()
        counted.wait_for_the_last()
    assert complaints == []


def _session(user: User) -> str:
    client = Client()
    client.force_login(user)
    return client.cookies[settings.SESSION_COOKIE_NAME].value


def _collect(complaints: list[str]) -> Callable[[ConsoleMessage], None]:
    def collect(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    return collect
