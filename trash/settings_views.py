"""The settings page: what admins allow."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from accounts.guarding import person, role_required
from accounts.models import Role, User
from database.clock import Now
from libraries.errors import Refused
from trash import switching
from trash.models import Act
from trash.settings_forms import SwitchesForm
from trash.showing import as_shown, shown

FIELDS = ("is_acting_allowed", "is_removing_allowed", "empty_after_days")
MOST_LIVING = 10


@require_http_methods(["GET", "HEAD", "POST"])
@role_required(Role.ADMIN)
def show(request: HttpRequest) -> HttpResponse:
    now = switching.switches()
    if request.method != "POST":
        return _page(request, SwitchesForm(initial={name: getattr(now, name) for name in FIELDS}))
    form = SwitchesForm(request.POST)
    if not form.is_valid():
        return _page(request, form)
    try:
        switching.change(actor=person(request).username, **{name: form.cleaned_data[name] for name in FIELDS})
    except Refused as refusal:
        form.add_error(None, str(refusal))
        return _page(request, form)
    messages.success(request, _("Saved."))
    return redirect("settings:show")


def _page(request: HttpRequest, form: SwitchesForm) -> HttpResponse:
    context = {
        "form": form,
        "switches": switching.switches(),
        "now": User.objects.filter(pk=person(request).pk).annotate(now=Now()).values_list("now", flat=True).get(),
        "is_in_environment": settings.ALLOW_REAL_DELETE,
        "variable": switching.VARIABLE,
        "grace_seconds": settings.ACT_GRACE_SECONDS,
        "living": as_shown(list(shown(Act.objects.filter(status__in=Act.LIVING).order_by("-pk"))[:MOST_LIVING])),
    }
    return render(request, "trash/settings.html", context)
