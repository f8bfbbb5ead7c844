"""What tests of pages and of the API have in common: who asks, and what they read."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from django.test import Client

from accounts.models import ApiToken, Role
from tests import factories

HTMX = {"HX-Request": "true"}
#: How a page says that something was a moment ago, however slow the test was.
AGO = r"(?:just now|\d+ s ago)"


def logged_in(role: Role) -> Client:
    client = Client()
    client.force_login(factories.user(role.value, role))
    return client


def with_token(role: Role) -> Client:
    """A script with a token of this role."""
    _, secret = ApiToken.issue(factories.user(role.value, role), "script", role)
    return Client(headers={"Authorization": f"Bearer {secret}"})


def text_of(client: Client, address: str, **headers: str) -> str:
    answer = client.get(address, headers=headers)
    assert answer.status_code == 200, answer.status_code
    return answer.content.decode()


def words_of(html: str) -> str:
    """What a person reads of it."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", html)))


class QueryCounter:
    """For `connection.execute_wrapper`: how many statements there were."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, execute: Any, sql: str, *more: Any) -> Any:
        self.count += 1
        return execute(sql, *more)
