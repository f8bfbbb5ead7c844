"""First steps: from an empty installation to the first duplicates, on one page."""

from __future__ import annotations

import os
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe
from django.views.decorators.vary import vary_on_headers
from django_htmx.middleware import HtmxDetails

from accounts.guarding import person, role_required
from accounts.models import Role
from dedupfs_site import first_run
from dedupfs_site.first_steps_forms import FirstLibraryForm
from dedupfs_site.first_steps_showing import HINTS, read_steps
from libraries import adding, picking, queueing
from libraries.errors import NotThere, Refused
from libraries.forms import ROLES
from libraries.models import LibraryRoot, ScanRequest
from libraries.names import to_display, to_text
from libraries.picker_views import folder_in

#: In the session of whoever has seen the hints or does not want them.
TOUR = "first_steps_tour"
DONE = "done"


# --- The page ---------------------------------------------------------------------------------------------
@require_safe
@vary_on_headers("HX-Request")
def show(request: HttpRequest) -> HttpResponse:
    """The page; while something is at work it asks for the part that changes, and only for that."""
    if request.GET.get("hint") == DONE:
        request.session[TOUR] = DONE
        return redirect("first_steps:show")
    context = _live(request)
    if HtmxDetails(request):
        return render(request, "first_steps/_answer.html", {**context, "is_oob": True})
    return _page(request, context)


@require_safe
def begin(request: HttpRequest) -> HttpResponse:
    """Where an admin goes who has just chosen a password: here if the installation is new, else as everybody."""
    has_own = any(not first_run.is_demo(library) for library in LibraryRoot.objects.kept())
    return redirect("home" if has_own or not person(request).may(Role.ADMIN) else "first_steps:show")


def _live(request: HttpRequest) -> dict[str, Any]:
    steps = read_steps()
    hint = _hint(request)
    is_touring = bool(steps["groups"]) and (hint is not None or request.session.get(TOUR) != DONE)
    number = hint or 1
    return {
        **steps,
        "here": reverse("first_steps:show") + (f"?hint={hint}" if hint else ""),
        "hint": HINTS[number - 1] if is_touring else None,
        "hint_number": number,
        "hint_count": len(HINTS),
        "may_act": person(request).may(Role.OPERATOR),
        "may_keep": person(request).may(Role.ADMIN),
    }


def _hint(request: HttpRequest) -> int | None:
    """Which hint the address asks for."""
    asked = request.GET.get("hint")
    if asked is None:
        return None
    if asked not in ("1", "2", "3"):
        raise Http404(_("There are three hints."))
    return int(asked)


def _page(request: HttpRequest, context: dict[str, Any], form: FirstLibraryForm | None = None) -> HttpResponse:
    is_choosing = context["may_keep"] and (context["own"] is None or form is not None or "folder" in request.GET)
    if is_choosing:
        context |= _choosing(request, form)
    return render(request, "first_steps/show.html", {**context, "is_choosing": is_choosing})


def _choosing(request: HttpRequest, form: FirstLibraryForm | None) -> dict[str, Any]:
    """The folder that is open is the one that is added."""
    sent = form.cleaned_data.get("folder") if form is not None else None
    picker = picking.read(sent or folder_in(request))
    if form is None and picker.can_add:
        form = FirstLibraryForm(initial={"folder": picker.key, "name": picker.suggested_name, "role": "normal"})
    return {
        "picker": picker,
        "form": form,
        "roles": ROLES,
        "address": f"{reverse('first_steps:show')}?folder=",
        "has_own_root": picking.has_own_root(),
    }


# --- What it does -----------------------------------------------------------------------------------------
@require_POST
@role_required(Role.ADMIN)
def add(request: HttpRequest) -> HttpResponse:
    """Add the folder and ask for its scan in one go."""
    form = FirstLibraryForm(request.POST)
    if form.is_valid():
        wanted, actor = form.cleaned_data, person(request).username
        try:
            library = adding.add(wanted["name"], wanted["folder"], actor=actor, role=wanted["role"])
            queueing.submit(library.pk, ScanRequest.Priority.HIGH, actor=actor)
        except Refused as refusal:
            form.refuse(refusal)
        else:
            said = _("“%(name)s” is added, and its first scan is asked for.") % {"name": to_display(library.name)}
            messages.success(request, said)
            return redirect("first_steps:show")
    return _page(request, _live(request), form)


@require_POST
@role_required(Role.OPERATOR)
def scan(request: HttpRequest, library_id: int) -> HttpResponse:
    try:
        queueing.submit(library_id, ScanRequest.Priority.HIGH, actor=person(request).username)
    except Refused as refusal:
        messages.error(request, str(refusal))
    except NotThere:
        raise Http404(_("There is no such library.")) from None
    return redirect("first_steps:show")


@require_POST
@role_required(Role.ADMIN)
def remove_demo(request: HttpRequest) -> HttpResponse:
    """One click: the demo is ours, and can be had again by one more."""
    try:
        kept = first_run.remove_demo(actor=person(request).username)
    except Refused as refusal:
        messages.error(request, str(refusal))
        return redirect("first_steps:show")
    except NotThere:
        raise Http404(_("There is no demo library.")) from None
    if kept:
        messages.warning(request, _what_stays(kept))
    else:
        messages.success(request, _("The demo library is removed, with the files that were made for it."))
    return redirect("libraries:list" if request.POST.get("from") == "library" else "first_steps:show")


def _what_stays(kept: list[str]) -> str:
    said = ngettext(
        "The demo library is removed. Its folder %(folder)s stays as it is: %(count)d file in it is not one that we "
        "made (%(first)s).",
        "The demo library is removed. Its folder %(folder)s stays as it is: %(count)d files in it are not ones that we "
        "made (%(first)s, …).",
        len(kept),
    )
    folder = to_display(str(first_run.demo_folder()))
    return said % {"count": len(kept), "folder": folder, "first": to_display(to_text(os.fsencode(kept[0])))}


@require_POST
@role_required(Role.ADMIN)
def bring_demo(request: HttpRequest) -> HttpResponse:
    """Set the demo library up and scan it."""
    actor = person(request).username
    try:
        library = first_run.bring_demo(actor=actor)
        queueing.submit(library.pk, ScanRequest.Priority.HIGH, actor=actor)
    except Refused as refusal:
        messages.error(request, str(refusal))
    return redirect("first_steps:show")
