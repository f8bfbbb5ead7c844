"""The folder picker of the add-library form: folders to go through, and the form with the one that was picked."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers
from django_htmx.middleware import HtmxDetails

from accounts.guarding import role_required
from accounts.models import Role
from libraries import picking
from libraries.forms import LibraryForm
from libraries.views import settings_page


@require_safe
@role_required(Role.ADMIN)
@vary_on_headers("HX-Request")
def pick(request: HttpRequest) -> HttpResponse:
    """The folders in one of them; inside the form where that asks for it, else as a page of its own."""
    is_inline = bool(HtmxDetails(request))
    context = {
        "picker": picking.read(folder_in(request)),
        "address": f"{reverse('libraries:pick')}?folder=",
        "is_inline": is_inline,
        "may_use": True,
        "has_own_root": picking.has_own_root(),
    }
    return render(request, "libraries/_picker.html" if is_inline else "libraries/pick.html", context)


@require_safe
@role_required(Role.ADMIN)
def add_picked(request: HttpRequest) -> HttpResponse:
    """The form for a new library of the folder that was picked; an open form takes only its folder from here."""
    folder = folder_in(request)
    if folder is None:
        raise Http404(_("No folder was picked."))
    return settings_page(request, LibraryForm(None, picked=folder))


def folder_in(request: HttpRequest) -> bytes | None:
    """The folder that the address names. Whatever is sent, it lies at or below a root, or there is no such page."""
    key = request.GET.get("folder")
    if not key:
        return None
    try:
        return picking.parse(key)
    except picking.NoSuchFolder as refusal:
        raise Http404(str(refusal)) from None
