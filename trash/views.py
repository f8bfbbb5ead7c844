"""The trash's pages that are read: what lies there, what is done about it now, and the history of a path."""

from __future__ import annotations

from typing import Any

from django.db.models.functions import Now
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers
from django_htmx.middleware import HtmxDetails

from accounts.guarding import person
from accounts.models import Role
from frame.addresses import with_query
from frame.row_counts import rows_at_once
from libraries.models import LibraryRoot
from libraries.names import PATH_CHARACTERS, to_display, to_text
from trash import listing
from trash.filtering import BadFilter, TrashFilter
from trash.history import read_history
from trash.leaving import asks_every, read_leaving
from trash.showing import ShownAct
from trash.space import last_copies, read_space
from trash.switching import switches, why_not_remove

PAGE_ITEMS = 100
#: Sent by the page when the last act that it follows has ended: `static/js/trash.js` loads the list anew.
CHANGED = "trash-changed"


# --- What lies there --------------------------------------------------------------------------------------
@require_safe
@vary_on_headers("HX-Request")
def trash_list(request: HttpRequest) -> HttpResponse:
    """A page of files, the newest first; a part of the list for "load more"."""
    try:
        filter = TrashFilter.parse(request.GET)
    except BadFilter as refusal:
        return _refused(request, str(refusal))
    days = switches().empty_after_days
    page = listing.page(filter, _before(request), rows_at_once(request, PAGE_ITEMS), days)
    next_before = str(page.next_before) if page.next_before else None
    context = {
        **_acting(request),
        **_filter_bar(filter),
        "rows": page.rows,
        "is_short": page.is_short,
        "next_address": with_query(request, before=next_before) if next_before else "",
    }
    if HtmxDetails(request):
        return render(request, "trash/_rows.html", context)
    context |= {
        **_leaving(read_leaving()),
        "space": read_space(),
        "last": last_copies(),
        "empty_after_days": days,
        "is_later": "before" in request.GET,
    }
    return render(request, "trash/list.html", context)


def _before(request: HttpRequest) -> int | None:
    text = request.GET.get("before")
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise Http404(_("This page of the list doesn't exist. Start again from its beginning."))
    return int(text)


def _refused(request: HttpRequest, refusal: str) -> HttpResponse:
    context = {**_acting(request), **_filter_bar(TrashFilter()), "refusal": refusal, "space": read_space()}
    return render(request, "trash/list.html", context, status=400)


def _acting(request: HttpRequest) -> dict[str, Any]:
    user = person(request)
    may_empty = user.may(Role.ADMIN)
    return {
        "may_undo": user.may(Role.OPERATOR),
        "may_empty": may_empty,
        "cannot_empty": why_not_remove() if may_empty else "",
    }


def _filter_bar(filter: TrashFilter) -> dict[str, Any]:
    libraries = LibraryRoot.objects.order_by("name").values_list("pk", "name")
    return {
        "filter": filter,
        "back": filter.query(),
        "is_filtered": filter != TrashFilter(),
        "libraries": [(key, to_display(name)) for key, name in libraries],
    }


# --- What is done about it --------------------------------------------------------------------------------
@require_safe
def live(request: HttpRequest) -> HttpResponse:
    """The acts that a page follows, and whether to ask again."""
    acts = read_leaving()
    answer = render(request, "trash/_live.html", {**_acting(request), **_leaving(acts), "is_answer": True})
    if not asks_every(acts):
        answer["HX-Trigger"] = CHANGED
    return answer


def _leaving(acts: list[ShownAct]) -> dict[str, Any]:
    return {"acts": acts, "every": asks_every(acts)}


# --- One path ---------------------------------------------------------------------------------------------
@require_safe
def history(request: HttpRequest) -> HttpResponse:
    """What ever happened to the file at a path of a library; `path` as it is stored, or `path_hex`, its bytes."""
    if "path" not in request.GET and "path_hex" not in request.GET:
        return redirect(reverse("trash:list"))
    library = _library(request.GET.get("library", ""))
    path = _path(request)
    context = {
        **_acting(request),
        "library": library,
        "path": path,
        "name": to_display(path.rpartition("/")[2]),
        "history": read_history(library.pk, path),
    }
    return render(request, "trash/history.html", context)


def _library(text: str) -> LibraryRoot:
    found = None
    if text.isascii() and text.isdecimal() and len(text) <= 18:
        found = LibraryRoot.objects.filter(pk=int(text)).annotate(now=Now()).first()
    if found is None:
        raise Http404(_("There is no such library. Open the history of a file from the trash or from its group."))
    return found


def _path(request: HttpRequest) -> str:
    """Raises 404 for what can be no path: nothing ever happened there."""
    path = request.GET.get("path", "")
    if written := request.GET.get("path_hex", ""):
        try:
            path = to_text(bytes.fromhex(written))
        except ValueError:
            raise Http404(_("“path_hex” is the path's bytes in hexadecimal digits, two for each.")) from None
    path = path.strip("/")
    if not path or "\0" in path or len(path) > PATH_CHARACTERS:
        raise Http404(_("Say which file, by its path below the library's root."))
    return path
