"""What runs now, for pages that have no other live part."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe
from django_htmx.middleware import HtmxDetails


@require_safe
def now(request: HttpRequest) -> HttpResponse:
    """The pill and the toasts; whoever comes by its address sees the jobs."""
    if not HtmxDetails(request):
        return redirect("jobs:list")
    return render(request, "frame/_running_now.html", {"is_oob": True})
