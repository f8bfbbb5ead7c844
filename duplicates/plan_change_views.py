"""The forms that make plans and change them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from accounts.guarding import person, role_required
from accounts.models import Role
from duplicates import plan_changing, planning
from duplicates.choosing import chosen_files, in_one_field, marked_groups
from duplicates.facts import read_places
from duplicates.filtering import MEDIA
from duplicates.listing import BadFilter, Filter
from duplicates.models import Action, Plan, RuleSet
from duplicates.plan_views import find
from duplicates.plan_words import ACTIONS, MEDIA_WORDS, filter_words
from jobs.errors import Refused
from libraries.errors import NotThere
from libraries.forms import SizeField
from libraries.models import LibraryRoot
from libraries.names import to_display


# --- A new one --------------------------------------------------------------------------------------------
@require_safe
@role_required(Role.OPERATOR)
def new(request: HttpRequest) -> HttpResponse:
    """Choose by which rules, for which groups, and what is done. The groups' page brings its filter along."""
    try:
        asked = _asked_filter(request.GET)
    except Refused as refusal:
        return _new_page(request, request.GET, "", str(refusal))
    return _new_page(request, request.GET, asked)


@require_POST
@role_required(Role.OPERATOR)
def create(request: HttpRequest) -> HttpResponse:
    asked = ""
    try:
        asked = _asked_filter(request.POST)
        groups = marked_groups(request.POST)
        if "marked" in request.POST and not groups:
            raise Refused(_("No group is marked."))
        rule_set = _rule_set(request.POST.get("rule_set", ""))
        action = request.POST.get("action") or Action.TRASH
        plan = planning.make_plan(
            actor=person(request).username,
            action=action,
            rules=rule_set.rules if rule_set else [],
            rule_set_name=rule_set.name if rule_set else "",
            filter=asked,
            group_keys=groups,
            choices=chosen_files(request.POST),
            removes_empty_folders="removes_empty_folders" in request.POST,
            # The box stands below one of the actions, and counts with that one alone.
            links_despite_metadata=action == Action.HARDLINK and "links_despite_metadata" in request.POST,
        )
    except Refused as refusal:
        return _new_page(request, request.POST, asked, str(refusal))
    return redirect("plans:detail", plan.pk)


def _rule_set(named: str) -> RuleSet | None:
    """By its number, as forms send it, or by its name."""
    if not named:
        return None
    found = None
    if named.isascii() and named.isdecimal() and len(named) < 19:
        found = RuleSet.objects.filter(pk=int(named)).first()
    found = found or RuleSet.objects.filter(name=named[:100]).first()
    if found is None:
        raise Refused(_("There is no rule set “%(name)s” any more.") % {"name": named[:100]})
    return found


def _asked_filter(sent: QueryDict) -> str:
    """A whole query string in `filter`, or its parts as fields of their own, with the size as people write it."""
    if "filter" in sent:
        return str(sent["filter"])
    parts = {name: str(sent[name]) for name in sent}
    if "least_size" in sent:
        parts["least_bytes"] = str(_size(str(sent["least_size"])))
    try:
        return Filter.parse(parts).query()
    except BadFilter as error:
        raise Refused(str(error)) from None


def _size(text: str) -> int:
    try:
        # Nothing written: everything but empty files.
        return int(SizeField(required=False).clean(text)) if text.strip() else 1
    except forms.ValidationError as error:
        raise Refused(" ".join(error.messages)) from None


def _new_page(request: HttpRequest, sent: QueryDict, asked: str, refusal: str = "") -> HttpResponse:
    groups, choices = marked_groups(sent), chosen_files(sent)
    context = {
        "refusal": refusal,
        "rule_sets": RuleSet.objects.all(),
        "actions": ACTIONS,
        "libraries": [(each.pk, to_display(each.name)) for each in LibraryRoot.objects.kept()],
        "media": [(name, MEDIA_WORDS.get(name, name)) for name in MEDIA],
        "sent": _sent(sent),
        "group_count": len(groups),
        "groups": ",".join(groups),
        "choice_count": len(choices),
        "choices": in_one_field(choices),
        "filter": asked,
        "filter_words": filter_words(asked, read_places()),
        "is_given": bool(groups or asked) and "least_size" not in sent,
    }
    return render(request, "plans/new.html", context, status=200)


def _sent(sent: Mapping[str, Any]) -> dict[str, str]:
    fields = (
        "rule_set", "action", "library", "folder", "media", "extension", "least_size", "spans",
        "removes_empty_folders", "links_despite_metadata",
    )  # fmt: skip
    return {name: str(sent.get(name) or "") for name in fields}


@require_POST
@role_required(Role.OPERATOR)
def again(request: HttpRequest, plan_id: int) -> HttpResponse:
    """The same wish anew: after a failure, or since the index has changed."""
    try:
        plan = planning.plan_again(find(plan_id).plan, actor=person(request).username)
    except Refused as refusal:
        messages.error(request, str(refusal))
        return redirect("plans:detail", plan_id)
    messages.success(request, _("Planned anew: this is the new plan."))
    return redirect("plans:detail", plan.pk)


# --- Changes ----------------------------------------------------------------------------------------------
@require_POST
@role_required(Role.OPERATOR)
def discard(request: HttpRequest, plan_id: int) -> HttpResponse:
    return _change(
        request, plan_id, lambda actor: plan_changing.discard(plan_id, actor=actor), _("This plan is discarded.")
    )


@require_POST
@role_required(Role.OPERATOR)
def take_out(request: HttpRequest, plan_id: int, item_id: int) -> HttpResponse:
    verb = plan_changing.take_out
    return _change(request, plan_id, lambda actor: verb(plan_id, [item_id], actor=actor), _("Taken out: it stays."))


@require_POST
@role_required(Role.OPERATOR)
def put_back(request: HttpRequest, plan_id: int, item_id: int) -> HttpResponse:
    verb = plan_changing.put_back
    return _change(request, plan_id, lambda actor: verb(plan_id, [item_id], actor=actor), _("Put back into the plan."))


@require_POST
@role_required(Role.OPERATOR)
def swap_keeper(request: HttpRequest, plan_id: int, item_id: int) -> HttpResponse:
    verb = plan_changing.swap_keeper
    said = _("Swapped: this file stays, and the one that stayed goes.")
    return _change(request, plan_id, lambda actor: verb(plan_id, item_id, actor=actor), said)


@require_POST
@role_required(Role.OPERATOR)
def take_folder_out(request: HttpRequest, plan_id: int, folder_id: int) -> HttpResponse:
    verb = plan_changing.take_folder_out
    said = _("The files of this folder are taken out: they stay.")
    return _change(request, plan_id, lambda actor: verb(plan_id, folder_id, actor=actor), said)


@require_POST
@role_required(Role.OPERATOR)
def put_folder_back(request: HttpRequest, plan_id: int, folder_id: int) -> HttpResponse:
    verb = plan_changing.put_folder_back
    said = _("The files of this folder are back in the plan.")
    return _change(request, plan_id, lambda actor: verb(plan_id, folder_id, actor=actor), said)


def _change(request: HttpRequest, plan_id: int, verb: Callable[[str], object], said: str) -> HttpResponse:
    """Carry out a verb for the person who asks, and show the place in the plan that they came from."""
    if not Plan.objects.filter(pk=plan_id).exists():
        raise Http404(_("There is no such plan."))
    try:
        verb(person(request).username)
        messages.success(request, said)
    except Refused as refusal:
        messages.error(request, str(refusal))
    except NotThere as missing:
        raise Http404(str(missing)) from None
    where = {name: request.POST[name] for name in ("by", "after") if request.POST.get(name)}
    anchor = request.POST.get("anchor", "")
    query = f"?{urlencode(where)}" if where else ""
    part = f"#{anchor}" if anchor.isascii() and anchor.isalnum() else ""
    return redirect(f"{reverse('plans:detail', args=[plan_id])}{query}{part}")
