"""The maintenance page: SQLite's write-ahead log, what lags behind, and what waits for another try."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.db.models.functions import Now
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe
from django.views.decorators.vary import vary_on_headers
from django_htmx.middleware import HtmxDetails

from accounts.guarding import person, role_required
from accounts.models import Role, User
from dedupfs_site.maintenance_forms import CheckpointForm, SpanForm
from dedupfs_site.maintenance_showing import read_maintenance
from frame.addresses import choices, with_query
from jobs import wal_deciding
from jobs.errors import Refused
from jobs.models import WalMaintenanceJob


@require_safe
@vary_on_headers("HX-Request")
def show(request: HttpRequest) -> HttpResponse:
    """The page; while it is open it asks for the same again, without its frame and its form."""
    asked = SpanForm(request.GET)
    if not asked.is_valid():
        raise Http404(_("The page can show the last day or the last week."))
    user = person(request)
    # Every time on the page is compared with the database's clock; this row is there for certain.
    now = User.objects.filter(pk=user.pk).annotate(now=Now()).values_list("now", flat=True).get()
    is_live = bool(HtmxDetails(request))
    context = {
        **read_maintenance(asked.cleaned_data["span"], now),
        **_addresses(request, is_table=asked.cleaned_data["table"]),
        "is_oob": is_live,
        "may_act": user.may(Role.OPERATOR),
    }
    if not is_live:
        context["form"] = CheckpointForm(initial={"mode": "passive"})
    return render(request, "maintenance/_live.html" if is_live else "maintenance/show.html", context)


def _addresses(request: HttpRequest, *, is_table: bool) -> dict[str, Any]:
    return {
        "is_table": is_table,
        "here": with_query(request),
        "table_address": with_query(request, table=None if is_table else "1"),
        "spans": choices(request, "span", [("", _("24 hours")), ("week", _("7 days"))]),
    }


@require_POST
@role_required(Role.OPERATOR)
def ask_for_checkpoint(request: HttpRequest) -> HttpResponse:
    form = CheckpointForm(request.POST)
    if not wal_deciding.applies():
        messages.error(request, wal_deciding.does_not_apply())
    elif not form.is_valid():
        messages.error(request, " ".join(str(each) for errors in form.errors.values() for each in errors))
    else:
        _ask(request, form.cleaned_data)
    return redirect("maintenance:show")


def _ask(request: HttpRequest, wish: dict[str, Any]) -> None:
    try:
        row = wal_deciding.request_checkpoint(
            wish["mode"], by=person(request).username, reason=wish["reason"], is_forced=wish["force"]
        )
    except Refused as refusal:
        messages.error(request, str(refusal))
        return
    if row.status == WalMaintenanceJob.Status.RETRYABLE:
        said = _("A %(mode)s checkpoint was busy before and waits for its next try. Force it to try at once.")
        messages.warning(request, said % {"mode": row.requested_mode})
    else:
        messages.success(request, _("A %(mode)s checkpoint is on its way.") % {"mode": row.requested_mode})
