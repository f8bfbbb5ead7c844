"""The logbook: everything that happened, newest first."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers
from django_htmx.middleware import HtmxDetails

from database.keyset import UnknownCursor, newest_first
from frame.addresses import Choice, choices, with_query
from frame.row_counts import rows_at_once
from logbook.models import LogbookEvent, LogbookItem
from logbook.showing import as_shown, kind_words, shown

PAGE_ROWS = 50


@require_safe
@vary_on_headers("HX-Request")
def event_list(request: HttpRequest) -> HttpResponse:
    """All events, or those about one kind of thing."""
    types = item_types()
    chosen = request.GET.get("item_type", "")
    if chosen and chosen not in types:
        raise Http404(_("The logbook knows nothing of this kind."))
    events = shown(LogbookEvent.objects.all())
    if chosen:
        events = events.filter(item_type=chosen)
    cursor = request.GET.get("cursor")
    try:
        size = rows_at_once(request, PAGE_ROWS)
        page = newest_first(events, columns=("id",), cursor=cursor, size=size, parse=int)
    except UnknownCursor:
        raise Http404(_("This page of the logbook doesn't exist. Start again from the newest event.")) from None
    context = {
        "events": as_shown(page.rows),
        "next_address": with_query(request, cursor=page.next_cursor) if page.next_cursor else "",
        "newest_address": with_query(request, cursor=None),
        "is_older": cursor is not None,
        "chosen": chosen,
        "type_choices": _type_choices(request, types),
    }
    return render(request, "logbook/_rows.html" if HtmxDetails(request) else "logbook/list.html", context)


def item_types() -> list[str]:
    """Every kind of thing in the logbook: one step in the index for each, however many rows there are."""
    found: list[str] = []
    rows = LogbookItem.objects.order_by("item_type").values_list("item_type", flat=True)
    while (following := rows.filter(item_type__gt=found[-1] if found else "").first()) is not None:
        found.append(following)
    return found


def _type_choices(request: HttpRequest, types: list[str]) -> list[Choice]:
    return choices(request, "item_type", [("", _("All")), *((each, kind_words(each)) for each in types)])
