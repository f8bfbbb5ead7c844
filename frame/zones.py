"""Times are shown in the zone of whoever looks: their browser says which one it is, in a cookie."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

#: Written by static/js/theme.js.
COOKIE = "dedupfs_zone"


@lru_cache(maxsize=1)
def _known() -> frozenset[str]:
    """All names there are, read once: a cookie's value is looked up here and never becomes a path."""
    return frozenset(available_timezones())


def zone_of(request: HttpRequest) -> ZoneInfo | None:
    """The browser's zone; None, which is the configured one, where it says nothing or nothing that is a zone."""
    name = request.COOKIES.get(COOKIE, "")
    return ZoneInfo(name) if name in _known() else None


class BrowserZoneMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with timezone.override(zone_of(request)):
            return self.get_response(request)
