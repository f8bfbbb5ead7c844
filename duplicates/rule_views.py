"""The pages of keep rules: the sets there are, one to read or change, and the question before it is removed.

The page that changes a set works by sending its form: each button sends all rows with what to do next, and only "Save"
writes anything. HTMX sends the same form and swaps the same part.
"""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe
from django.views.decorators.vary import vary_on_headers
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

from accounts.guarding import person, role_required
from accounts.models import Role
from duplicates import rule_sets
from duplicates.models import Plan, RuleSet
from duplicates.rule_folders import Libraries
from duplicates.rule_forms import PER, Draft, kind_choices, ready_made_sets
from duplicates.rule_showing import read_preview, read_sets, words_of
from duplicates.rule_words import in_words
from duplicates.rules import MOST_RULES, parse

get_or_post = require_http_methods(["GET", "HEAD", "POST"])
#: Larger keys than any database gives.
LARGEST_ID = 2**63 - 1


@require_safe
def rule_list(request: HttpRequest) -> HttpResponse:
    libraries = Libraries()
    context = {
        "sets": read_sets(libraries.names),
        "ready_made": [
            (key, name, [in_words(rule, libraries.names) for rule in rules]) for key, name, rules in ready_made_sets()
        ],
        "may_act": person(request).may(Role.OPERATOR),
    }
    return render(request, "rules/list.html", context)


@get_or_post
@role_required(Role.OPERATOR)
@vary_on_headers("HX-Request")
def add(request: HttpRequest) -> HttpResponse:
    libraries = Libraries()
    if request.method == "POST":
        return _sent(request, libraries, None)
    draft = Draft.ready_made(request.GET.get("from", ""), libraries)
    return _editor(request, draft, libraries, None)


@get_or_post
@vary_on_headers("HX-Request")
def edit(request: HttpRequest, rule_set_id: int) -> HttpResponse:
    """Read by everybody; only operators get the form, and only theirs is taken."""
    rule_set = _find(rule_set_id)
    libraries = Libraries()
    if request.method == "POST":
        return _sent(request, libraries, rule_set)
    words, problem = words_of(rule_set, libraries.names)
    if not person(request).may(Role.OPERATOR):
        rules = None if problem else parse(rule_set.rules)
        context = {"rule_set": rule_set, "words": words, "problem": problem, "preview": rules and read_preview(rules)}
        return render(request, "rules/show.html", context)
    draft = Draft(rule_set.name, problem=problem) if problem else Draft.of(rule_set, libraries)
    return _editor(request, draft, libraries, rule_set)


@get_or_post
@role_required(Role.OPERATOR)
def remove(request: HttpRequest, rule_set_id: int) -> HttpResponse:
    rule_set = _find(rule_set_id)
    if request.method != "POST":
        words, problem = words_of(rule_set, Libraries().names)
        plan_count = Plan.objects.filter(rule_set_name=rule_set.name).count()
        context = {"rule_set": rule_set, "words": words, "problem": problem, "plan_count": plan_count}
        return render(request, "rules/remove.html", context)
    try:
        rule_sets.remove(rule_set_id, actor=person(request).username)
    except rule_sets.NotThere as gone:
        raise Http404(str(gone)) from None
    messages.success(request, _("The rules “%(name)s” are removed.") % {"name": rule_set.name})
    return redirect("rules:list")


def _find(rule_set_id: int) -> RuleSet:
    rule_set = RuleSet.objects.filter(pk=rule_set_id).first() if rule_set_id <= LARGEST_ID else None
    if rule_set is None:
        raise Http404(_("There is no such set of rules."))
    return rule_set


# --- Writing a set ------------------------------------------------------------------------------------------
def _sent(request: HttpRequest, libraries: Libraries, rule_set: RuleSet | None) -> HttpResponse:
    draft = Draft.sent(request.POST.dict())
    step = request.POST.get("do", "save")
    if step != "save":
        draft.take_step(step, request.POST.get("new", ""))
        return _editor(request, draft, libraries, rule_set)
    rules = draft.check(libraries)
    if not draft.has_problems:
        try:
            rule_set_id = rule_set.pk if rule_set else None
            saved = rule_sets.save(draft.name, rules, actor=person(request).username, rule_set_id=rule_set_id)
        except rule_sets.WrongName as problem:
            draft.name_problem = str(problem)
        except rule_sets.NotThere as gone:
            raise Http404(str(gone)) from None
        else:
            messages.success(request, _("The rules “%(name)s” are saved.") % {"name": saved.name})
            # HTMX would follow a redirect itself and put the whole list into the form's place.
            return HttpResponseClientRedirect(reverse("rules:list")) if HtmxDetails(request) else redirect("rules:list")
    return _editor(request, draft, libraries, rule_set, is_refused=True)


def _editor(
    request: HttpRequest, draft: Draft, libraries: Libraries, rule_set: RuleSet | None, is_refused: bool = False
) -> HttpResponse:
    """The form, with what its rules would do as far as they can be used."""
    # A row that was only just added has nothing in it yet: that is no mistake until somebody wants to save it.
    is_written = bool(draft.rows) and not any(row.is_blank for row in draft.rows)
    rules = draft.check(libraries, with_name=False) if is_written else []
    is_usable = is_written and not draft.problem and not any(row.problem for row in draft.rows)
    context: dict[str, Any] = {
        "draft": draft,
        "rule_set": rule_set,
        "address": reverse("rules:edit", args=[rule_set.pk]) if rule_set else reverse("rules:add"),
        "kinds": kind_choices(),
        "per_choices": PER,
        "is_refused": is_refused,
        "is_full": len(draft.rows) >= MOST_RULES,
        "has_libraries": bool(libraries.names),
        "preview": read_preview(parse(rules)) if is_usable else None,
    }
    if not HtmxDetails(request):
        return render(request, "rules/edit.html", context)
    answer = render(request, "rules/_editor.html", context)
    if is_refused:
        # What is wrong stands at the top, "Save" at the bottom.
        answer["HX-Reswap"] = "outerHTML show:top"
    return answer
