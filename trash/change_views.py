"""The trash's forms: bring files back, and remove them for good."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST

from accounts.guarding import person, role_required
from accounts.models import Role
from frame.templatetags.human import count_words
from libraries.errors import NotThere, Refused
from trash import choosing_items
from trash.authorising import ask_undo, authorise_emptying
from trash.filtering import BadFilter, TrashFilter
from trash.listing import selection_of
from trash.models import Act
from trash.switching import why_not_remove


@require_POST
@role_required(Role.OPERATOR)
def undo(request: HttpRequest) -> HttpResponse:
    """Bring back what was marked, or all that a filter means."""
    try:
        act = ask_undo(_selection(request.POST), actor=person(request).username)
    except (BadFilter, NotThere, Refused) as refusal:
        messages.error(request, str(refusal))
    else:
        messages.success(request, _asked(act))
    return redirect(_back(request.POST))


def _asked(act: Act) -> str:
    words = ngettext(
        "%(count)s file is put back as soon as a consumer is free.",
        "%(count)s files are put back as soon as a consumer is free.",
        act.file_count,
    )
    return words % {"count": count_words(act.file_count)}


@require_http_methods(["GET", "HEAD", "POST"])
@role_required(Role.ADMIN)
def empty(request: HttpRequest) -> HttpResponse:
    """First how many files it would be; then, once an admin has typed that number, the act."""
    sent = request.POST if request.method == "POST" else request.GET
    try:
        selection = choosing_items.checked(_selection(sent))
        if "typed" not in request.POST:
            return _ask(request, selection)
        act = authorise_emptying(selection, request.POST["typed"], actor=person(request).username)
    except (BadFilter, NotThere) as refusal:
        messages.error(request, str(refusal))
    except Refused as refusal:
        if "typed" in request.POST:
            return _ask(request, selection, str(refusal))
        messages.error(request, str(refusal))
    else:
        words = ngettext(
            "%(count)s file will be removed for good. You can still stop it.",
            "%(count)s files will be removed for good. You can still stop it.",
            act.file_count,
        )
        messages.success(request, words % {"count": count_words(act.file_count)})
    return redirect(_back(sent))


def _ask(request: HttpRequest, selection: Mapping[str, Any], refusal: str = "") -> HttpResponse:
    files, size = choosing_items.figures(choosing_items.lying(selection))
    context = {
        "refusal": refusal,
        "what": choosing_items.described(selection),
        "selection": json.dumps(selection),
        "file_count": files,
        "size_bytes": size,
        "cannot_empty": why_not_remove(),
        "back": request.POST.get("back", request.GET.get("back", "")),
        "back_address": _back(request.POST or request.GET),
    }
    return render(request, "trash/empty.html", context)


# --- What a form means ------------------------------------------------------------------------------------
def _selection(sent: QueryDict) -> dict[str, Any]:
    """`selection` as it was shown before, the marks, an age, or all that a filter means."""
    if "selection" in sent:
        return _read(str(sent["selection"]))
    if "marked" in sent:
        return _marked(sent)
    if "older_than_days" in sent:
        return {"older_than_days": _whole(str(sent["older_than_days"]))}
    if "filter" in sent:
        return selection_of(TrashFilter.parse(QueryDict(str(sent["filter"]))))
    raise Refused(_("Say which files of the trash are meant."))


def _read(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    return choosing_items.checked(found)


def _marked(sent: QueryDict) -> dict[str, Any]:
    """`item=…` for each, or all of them in `items`: Django reads a thousand fields and no more."""
    keys = [part for value in sent.getlist("items") for part in value.split(",") if part] + sent.getlist("item")
    if not keys:
        raise Refused(_("No file is marked: nothing was done."))
    return {"items": [_whole(key) for key in keys]}


def _whole(text: str) -> int:
    said = text.strip()
    if not (said.isascii() and said.isdecimal() and len(said) <= 18):
        raise Refused(_("“%(text)s” is no whole number.") % {"text": text[:80]})
    return int(said)


def _back(sent: QueryDict) -> str:
    """The list as it was filtered."""
    query = QueryDict(str(sent.get("back", ""))).urlencode()
    return f"{reverse('trash:list')}?{query}" if query else reverse("trash:list")
