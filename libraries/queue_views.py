"""The scan queue's page: what runs, what waits, what came of the rest; and hashing, which shares the slot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.db.models.functions import Now
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe
from django.views.decorators.vary import vary_on_headers
from django_htmx.middleware import HtmxDetails

from accounts.guarding import person, role_required
from accounts.models import Role
from database.keyset import Page, UnknownCursor
from frame.addresses import with_query
from frame.row_counts import FIRST_ROWS, rows_at_once
from jobs.models import WorkerHeartbeat
from libraries import hash_deciding, queueing
from libraries.errors import NotThere, Refused
from libraries.models import ScanRequest
from libraries.names import to_display
from libraries.showing import ShownRequest, holds_slot, in_line, read_hash_state, read_slot

PAGE_ROWS = 50


@require_safe
@vary_on_headers("HX-Request")
def queue(request: HttpRequest) -> HttpResponse:
    """The whole queue; while something is active the page asks for the same again, without its frame."""
    context = {**_queue(), "may_act": person(request).may(Role.OPERATOR), "is_oob": bool(HtmxDetails(request))}
    return render(request, "libraries/_live_queue.html" if HtmxDetails(request) else "libraries/queue.html", context)


def _queue() -> dict[str, Any]:
    hostnames = dict(WorkerHeartbeat.objects.alive().values_list("worker_id", "hostname"))
    slot = read_slot(hostnames)
    hashing = read_hash_state()
    pending = queueing.pending().select_related("library", "job").annotate(now=Now())
    waiting = [each for each in in_line(pending) if not holds_slot(each.request)]
    history = queueing.history_page(None, FIRST_ROWS)
    hash_waits = (slot is None or slot.is_scan) and queueing.hashing_waits()
    return {
        "slot": slot,
        "hashing": hashing,
        "is_hashing": slot is not None and not slot.is_scan,
        "hash_waits": hash_waits,
        "line": _line(waiting, hash_waits),
        **_shown_history(history),
        "has_more_history": history.next_cursor is not None,
        "alive_count": len(hostnames),
        "is_live": slot is not None or bool(waiting) or hash_waits,
    }


def _line(waiting: list[ShownRequest], hash_waits: bool) -> list[tuple[int, ShownRequest | None]]:
    """Who gets the slot when, with their places: hashing, which has no request, stands as None behind what people ask
    for. A paused library's request keeps its row but has no place."""
    manual = [each for each in waiting if each.is_manual]
    scheduled = [each for each in waiting if not each.is_manual]
    before = sum(each.position > 0 for each in manual)
    return [
        *((each.position, each) for each in manual),
        *([(before + 1, None)] if hash_waits else []),
        *((each.position and each.position + hash_waits, each) for each in scheduled),
    ]


@require_safe
@vary_on_headers("HX-Request")
def history(request: HttpRequest) -> HttpResponse:
    """All that ended lately, page by page: the queue's page shows the newest of it, and takes back what is loaded into
    it whenever it asks again."""
    cursor = request.GET.get("cursor")
    try:
        page = queueing.history_page(cursor, rows_at_once(request, PAGE_ROWS))
    except UnknownCursor:
        raise Http404(_("This page of the list doesn't exist. Start again from the newest scan.")) from None
    context = {
        **_shown_history(page),
        "next_address": with_query(request, cursor=page.next_cursor) if page.next_cursor else "",
        "is_older": cursor is not None,
    }
    template = "libraries/_history_rows.html" if HtmxDetails(request) else "libraries/history.html"
    return render(request, template, context)


def _shown_history(page: Page[ScanRequest]) -> dict[str, Any]:
    shown = [ShownRequest(each, each.now) for each in page.rows]  # type: ignore[attr-defined]
    return {"history": shown, "history_hours": settings.SCAN_HISTORY_HOURS}


@require_POST
@role_required(Role.OPERATOR)
def cancel(request: HttpRequest, request_id: str) -> HttpResponse:
    # PostgreSQL has no way to even ask about a NUL.
    wish = queueing.get(request_id) if "\x00" not in request_id else None
    if wish is None:
        raise Http404(_("There is no such scan request."))
    try:
        queueing.cancel(request_id, actor=person(request).username)
        said = _("The scan of “%(name)s” is cancelled. What it had found stays.")
        messages.success(request, said % {"name": to_display(wish.library.name)})
    except (Refused, NotThere) as refusal:
        messages.error(request, str(refusal))
    is_from_library = request.POST.get("from") == "library"
    return redirect("libraries:detail", wish.library_id) if is_from_library else redirect("queue:show")


@require_POST
@role_required(Role.OPERATOR)
def pause_hash(request: HttpRequest) -> HttpResponse:
    return _decide_hash(request, hash_deciding.pause, _("Hashing is paused. What is hashed stays."))


@require_POST
@role_required(Role.OPERATOR)
def resume_hash(request: HttpRequest) -> HttpResponse:
    return _decide_hash(request, hash_deciding.resume, _("Hashing goes on as soon as the slot is free."))


def _decide_hash(request: HttpRequest, verb: Callable[..., None], said: str) -> HttpResponse:
    try:
        verb(actor=person(request).username)
        messages.success(request, said)
    except Refused as refusal:
        messages.error(request, str(refusal))
    return redirect("queue:show")
