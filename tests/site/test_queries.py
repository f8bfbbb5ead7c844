"""A page asks the database as often for many rows as for few."""

from __future__ import annotations

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client

from tests.pages import QueryCounter
from tests.site.whole_site import Site, add_rows, furnished_site, our_pages

pytestmark = pytest.mark.django_db

FEW, MANY = 2, 9
MOST = 40


def queries(site: Site) -> dict[str, int]:
    client = Client()
    client.force_login(site.admin)
    counts = {}
    for address in our_pages(site):
        client.get(address)  # what a first look writes down is not asked for again
        cache.clear()  # what took long is kept there, and how long it takes is not what is asked
        counter = QueryCounter()
        with connection.execute_wrapper(counter):
            client.get(address)
        counts[address] = counter.count
    return counts


def test_the_number_of_queries_does_not_grow_with_the_rows() -> None:
    site = furnished_site(FEW)
    few = queries(site)
    assert len(few) > 20
    assert {page: count for page, count in few.items() if count > MOST} == {}
    add_rows(site.admin, range(FEW, MANY))
    many = queries(site)
    assert few.keys() == many.keys()
    assert {page: (few[page], many[page]) for page in few if many[page] > few[page]} == {}
