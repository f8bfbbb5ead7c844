"""No page weighs more than 150 kB without its pictures: the document, its styles and its scripts, as sent."""

from __future__ import annotations

import gzip
import re
from functools import cache
from typing import Any

import pytest
from django.contrib.staticfiles import finders
from django.test import Client

from tests.site.whole_site import furnished_site, our_pages

pytestmark = pytest.mark.django_db

MOST_BYTES = 150_000
#: Enough for a full page of every list that comes in pages.
ROWS = 60
PARTS = re.compile(r'<(?:link rel="stylesheet" href|script src)="/static/([^"]+)"')


@cache
def _part(name: str) -> int:
    """WhiteNoise sends these compressed."""
    path = finders.find(name)
    assert isinstance(path, str), name
    with open(path, "rb") as file:
        return len(gzip.compress(file.read(), 9))


def weight(answer: Any) -> int:
    parts = set(PARTS.findall(_text(answer)))
    assert len(parts) >= 3
    return len(answer.content) + sum(map(_part, parts))


def _text(answer: Any) -> str:
    is_packed = answer.get("Content-Encoding") == "gzip"
    return (gzip.decompress(answer.content) if is_packed else answer.content).decode()


def test_no_page_is_heavy() -> None:
    site = furnished_site(ROWS)
    client = Client(headers={"Accept-Encoding": "gzip"})
    client.force_login(site.admin)
    weights = {address: weight(client.get(address)) for address in our_pages(site)}
    assert {address: bytes for address, bytes in weights.items() if bytes > MOST_BYTES} == {}
