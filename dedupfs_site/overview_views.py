"""The overview: what could be won, what was, what needs a person, what runs, and how it went for thirty days."""

from __future__ import annotations

from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers
from django_htmx.middleware import HtmxDetails

from accounts.guarding import person
from accounts.models import Role, User
from dedupfs_site.overview_showing import count_to_win, read_charts, read_overview


@require_safe
@vary_on_headers("HX-Request")
def overview(request: HttpRequest) -> HttpResponse:
    """The page. Adding up what can be won may take a moment: the page asks for it afterwards (`?count`), and a page
    that is open while something runs gets it with all the rest that has changed."""
    user = person(request)
    is_part, is_counted = bool(HtmxDetails(request)), "count" in request.GET
    if is_part and is_counted:
        return render(request, "overview/_to_win.html", {"win": count_to_win(), "may_act": user.may(Role.OPERATOR)})
    # Every time on the page is compared with the database's clock; this row is there for certain.
    now = User.objects.filter(pk=user.pk).annotate(now=Now()).values_list("now", flat=True).get()
    context = {
        **read_overview(user, now, counts=is_part or is_counted),
        "may_act": user.may(Role.OPERATOR),
        "may_keep": user.may(Role.ADMIN),
        "is_oob": is_part,
    }
    # They change when something has ended: a page that followed it gets them as they are now, one on which nothing ran
    # (`?idle`) as they were kept.
    if not is_part or not context["is_live"]:
        is_fresh = is_part and "idle" not in request.GET
        context |= read_charts(context["samples"], now, is_fresh=is_fresh)
    return render(request, "overview/_live.html" if is_part else "overview/show.html", context)
