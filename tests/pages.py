"""What tests of pages have in common: who looks, and what they read."""

from __future__ import annotations

import re
from html import unescape

from django.test import Client

from accounts.models import Role
from tests import factories

HTMX = {"HX-Request": "true"}


def logged_in(role: Role) -> Client:
    client = Client()
    client.force_login(factories.user(role.value, role))
    return client


def text_of(client: Client, address: str, **headers: str) -> str:
    answer = client.get(address, headers=headers)
    assert answer.status_code == 200, answer.status_code
    return answer.content.decode()


def words_of(html: str) -> str:
    """What a person reads of it."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", html)))
