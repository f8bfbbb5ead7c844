"""Acts on pages: one act with its files, the forms that decide about it, and its proof."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe
from django.views.decorators.vary import vary_on_headers
from django_htmx.middleware import HtmxDetails

from accounts.guarding import person, role_required
from accounts.models import Role
from duplicates.facts import read_places
from frame.addresses import with_query
from libraries.errors import NotThere, Refused
from trash import authorising
from trash.act_results import as_items, items_of, only_skipped, page_after
from trash.models import Act
from trash.panel import alone, polling
from trash.proof_reading import NoProof, open_proof
from trash.showing import ShownAct, as_shown, shown

PAGE_ITEMS = 100
_KEY = re.compile(r"\d{1,18}", re.ASCII)
_CODE = re.compile(r"[A-Z_]{1,64}", re.ASCII)


# --- One act ----------------------------------------------------------------------------------------------
@require_safe
@vary_on_headers("HX-Request")
def detail(request: HttpRequest, act_id: int) -> HttpResponse:
    """An act and what became of each file; `only=skipped` and `reason=…` narrow that."""
    each = _find(act_id)
    rows = _rows(request, each.act)
    if HtmxDetails(request):
        return render(request, "acts/_item_rows.html", rows)
    return render(request, "acts/detail.html", {**alone(each, person(request)), **rows})


def _rows(request: HttpRequest, act: Act) -> dict[str, Any]:
    reason, is_skipped = request.GET.get("reason", ""), request.GET.get("only") == "skipped"
    after = request.GET.get("after", "0")
    if (reason and not _CODE.fullmatch(reason)) or not _KEY.fullmatch(after):
        raise Http404(_("This page of the list doesn't exist. Start again from its beginning."))
    rows = only_skipped(act, reason) if reason or is_skipped else items_of(act)
    page, next_after = page_after(rows, int(after), PAGE_ITEMS)
    return {
        "items": as_items(page, read_places()) if page else [],
        "next_address": with_query(request, after=str(next_after)) if next_after else "",
        "is_skipped": is_skipped or bool(reason),
        "reason": reason,
        "is_later": after != "0",
    }


@require_safe
@vary_on_headers("HX-Request")
def panel(request: HttpRequest, act_id: int) -> HttpResponse:
    """The figures of a living act. Where more than these has changed, the whole page is another one."""
    each = _find(act_id)
    if not HtmxDetails(request):
        return redirect("acts:detail", act_id)
    if not each.is_live or request.GET.get("seen") != each.token:
        return HttpResponse(headers={"HX-Refresh": "true"})
    return render(request, "acts/_poll.html", {"shown": each, "act": each.act, "is_oob": True, **polling(each)})


def _find(act_id: int) -> ShownAct:
    act = shown(Act.objects.filter(pk=act_id)).first()
    if act is None:
        raise Http404(_("There is no such act."))
    return as_shown([act])[0]


@require_safe
def proof(request: HttpRequest, act_id: int) -> FileResponse:  # noqa: ARG001  a view's signature
    """What was done to each file, as a file of its own; its SHA-256 stands in the logbook."""
    try:
        opened = open_proof(_find(act_id).act)
    except NoProof as missing:
        raise Http404(str(missing)) from None
    return FileResponse(opened, as_attachment=True, filename=f"act-{act_id}.jsonl", content_type="application/x-ndjson")


# --- Decisions --------------------------------------------------------------------------------------------
@require_POST
@role_required(Role.ADMIN)
def authorise(request: HttpRequest, plan_id: int) -> HttpResponse:
    """Only here, and with a token that was given the right, can a plan be let loose."""
    typed, seen = request.POST.get("files", ""), request.POST.get("seen", "")
    return _decide(request, lambda actor: authorising.authorise(plan_id, typed, actor=actor, seen=seen), plan_id)


@require_POST
@role_required(Role.OPERATOR)
def undo(request: HttpRequest, plan_id: int) -> HttpResponse:
    """Bring back whatever of a plan lies in the trash."""
    return _decide(request, lambda actor: authorising.ask_undo({"plan": plan_id}, actor=actor), plan_id)


@require_POST
@role_required(Role.ADMIN)
def stop(request: HttpRequest, act_id: int) -> HttpResponse:
    return _decide(request, lambda actor: authorising.stop(act_id, actor=actor), _plan_of(act_id), act_id)


@require_POST
@role_required(Role.ADMIN)
def pause(request: HttpRequest, act_id: int) -> HttpResponse:
    return _decide(request, lambda actor: authorising.pause(act_id, actor=actor), _plan_of(act_id), act_id)


@require_POST
@role_required(Role.ADMIN)
def resume(request: HttpRequest, act_id: int) -> HttpResponse:
    return _decide(request, lambda actor: authorising.resume(act_id, actor=actor), _plan_of(act_id), act_id)


def _plan_of(act_id: int) -> int | None:
    return _find(act_id).act.plan_id


def _decide(
    request: HttpRequest, verb: Callable[[str], Act], plan_id: int | None, act_id: int | None = None
) -> HttpResponse:
    """Carry out a verb for the person who asks; the page of the plan then shows what came of it."""
    try:
        verb(person(request).username)
    except Refused as refusal:
        messages.error(request, str(refusal))
    except NotThere as missing:
        raise Http404(str(missing)) from None
    return redirect("plans:detail", plan_id) if plan_id is not None else redirect("acts:detail", act_id)
