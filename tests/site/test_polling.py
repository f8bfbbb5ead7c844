"""What runs refreshes in one request per page, not in one per row."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tests.site.whole_site import furnished_site, our_pages

pytestmark = pytest.mark.django_db

POLLS = re.compile(r'hx-trigger="[^"]*\bevery\b')


def test_no_page_asks_again_in_more_than_one_place() -> None:
    site = furnished_site()
    client = Client()
    client.force_login(site.admin)
    found = {address: len(POLLS.findall(client.get(address).content.decode())) for address in our_pages(site)}
    assert {address: count for address, count in found.items() if count > 1} == {}
    assert sum(found.values()) > 6, "most kinds of rows are at work somewhere"
