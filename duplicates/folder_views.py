"""The pages of folders that share content: the list of pairs, one pair, and the forms that search and plan."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe
from django.views.decorators.vary import vary_on_headers
from django_htmx.middleware import HtmxDetails

from accounts.guarding import person, role_required
from accounts.models import Role
from duplicates import folder_pairs, overlapping
from duplicates.folder_pairs import BOTH, LEFT, LISTS, RIGHT, BadCursor, ShownPair
from duplicates.folder_planning import plan_for
from duplicates.models import DuplicateGroup
from frame.row_counts import rows_at_once
from jobs.models import WorkerHeartbeat
from libraries.errors import Refused
from libraries.models import LibraryRoot
from libraries.names import to_display

#: A key fits a column of 64 bits.
LARGEST = 2**63 - 1


# --- The list ---------------------------------------------------------------------------------------------
@require_safe
@vary_on_headers("HX-Request")
def folder_list(request: HttpRequest) -> HttpResponse:
    """The pairs of the last search. A part of the list for "load more"; what a search has changed for a live page."""
    searches = folder_pairs.read_searches()
    cursor = request.GET.get("after")
    try:
        page = folder_pairs.page(searches.shown, cursor, rows_at_once(request, folder_pairs.PAGE_PAIRS))
    except BadCursor:
        raise _no_such_page() from None
    context = {
        "searches": searches,
        "page": page,
        "is_later": cursor is not None,
        "may_act": person(request).may(Role.OPERATOR),
    }
    if cursor is not None and HtmxDetails(request):
        return render(request, "folders/_rows.html", context)
    context |= {
        "has_consumer": WorkerHeartbeat.objects.alive().exists(),
        "has_library": LibraryRoot.objects.kept().exists(),
        "has_groups": bool(page.pairs) or DuplicateGroup.objects.exists(),
        "is_oob": bool(HtmxDetails(request)),
    }
    return render(request, "folders/_live.html" if HtmxDetails(request) else "folders/list.html", context)


@require_POST
@role_required(Role.OPERATOR)
def search(request: HttpRequest) -> HttpResponse:
    overlapping.ask(person(request).username)
    messages.success(request, _("A search is asked for. It begins as soon as a consumer is free."))
    return redirect("folders:list")


# --- One pair ---------------------------------------------------------------------------------------------
@require_safe
@vary_on_headers("HX-Request")
def pair(request: HttpRequest, pair_id: int) -> HttpResponse:
    """What both folders have, and what only one of them has: three lists, one at a time."""
    shown = _find(pair_id)
    which = request.GET.get("list", BOTH)
    if which not in LISTS:
        raise _no_such_page()
    try:
        files = folder_pairs.files(shown, which, _after(request))
    except BadCursor:
        raise _no_such_page() from None
    context = {
        "shown": shown,
        "which": which,
        "files": files,
        "lists": _lists(shown),
        "is_later": "after" in request.GET,
        "may_act": person(request).may(Role.OPERATOR),
        "searches": folder_pairs.read_searches(),
    }
    return render(request, "folders/_files.html" if HtmxDetails(request) else "folders/pair.html", context)


@require_POST
@role_required(Role.OPERATOR)
def plan(request: HttpRequest, pair_id: int) -> HttpResponse:
    """A plan that takes from one folder what the other has as well."""
    shown = _find(pair_id)
    try:
        made = plan_for(shown, actor=person(request).username, remove_from=request.POST.get("from", LEFT))
    except Refused as refusal:
        messages.error(request, str(refusal))
        return redirect("folders:pair", pair_id)
    return redirect("plans:detail", made.pk)


def _find(pair_id: int) -> ShownPair:
    shown = folder_pairs.one(pair_id) if pair_id <= LARGEST else None
    if shown is None:
        raise Http404(_("There is no such pair. A new search may have found others: look at the list."))
    return shown


def _after(request: HttpRequest) -> int | None:
    text = request.GET.get("after")
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise _no_such_page()
    return int(text)


def _no_such_page() -> Http404:
    return Http404(_("This page of the list doesn't exist. Start again from its beginning."))


def _lists(shown: ShownPair) -> list[dict[str, Any]]:
    """What one can choose between, with how many there are; what both have is counted as the left one has it."""
    left, right = (to_display(each.folder or each.place.name) for each in (shown.left, shown.right))
    names = {
        BOTH: (_("In both"), shown.left.files - shown.left.only_files),
        LEFT: (_("Only in A"), shown.left.only_files),
        RIGHT: (_("Only in B"), shown.right.only_files),
    }
    titles = {BOTH: "", LEFT: left, RIGHT: right}
    return [{"key": key, "name": name, "count": count, "title": titles[key]} for key, (name, count) in names.items()]
