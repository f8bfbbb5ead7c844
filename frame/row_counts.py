"""How many rows of a list are sent at once."""

from __future__ import annotations

from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails

#: About two screens full.
FIRST_ROWS = 25


def rows_at_once(request: HttpRequest, most: int, first: int = FIRST_ROWS) -> int:
    """A page begins with few rows and is there at once, however many there are; "load more" then brings `most`."""
    return most if HtmxDetails(request) else min(first, most)
