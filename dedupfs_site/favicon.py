"""The icon of the tab, for browsers that ask for it unasked: pages name it themselves, JSON and pictures can't."""

from __future__ import annotations

from functools import cache

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe

DAY = 86_400


@login_not_required
@require_safe
@cache_control(public=True, max_age=DAY)
def favicon(_request: HttpRequest) -> HttpResponse:
    return HttpResponse(_drawing(), content_type="image/svg+xml")


@cache
def _drawing() -> bytes:
    return (settings.BASE_DIR / "static" / "favicon.svg").read_bytes()
