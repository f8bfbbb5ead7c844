"""The pages of the groups: the list, one group, what is exported; and the form that ignores groups."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, QueryDict, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe
from django.views.decorators.vary import vary_on_headers
from django_htmx.middleware import HtmxDetails

from accounts.guarding import person, role_required
from accounts.models import Role
from duplicates import exporting, group_files, ignoring, ignoring_all, listing, summary
from duplicates.choosing import marked_groups
from duplicates.group_forms import FURTHER, FilterForm, said_by
from duplicates.group_history import read_history
from duplicates.listing import BadCursor, BadFilter, BadGroupKey, Filter, GroupPage
from duplicates.models import DuplicateGroup, IgnoredGroup, RuleSet, group_key
from duplicates.plan_words import ACTIONS
from duplicates.showing import as_shown, media_of
from frame.addresses import with_query
from frame.row_counts import rows_at_once
from jobs.errors import Refused
from libraries.models import LibraryRoot
from libraries.showing import read_slot

PAGE_ROWS = 50
#: Rows of groups are high: so many are two screens.
FIRST_ROWS = 15
PREVIEW_FILES = 8
#: A page shows what is counted by then; the rest is counted by whoever comes next.
PATIENCE_SECONDS = 1.0
FIRST_ORDER = "copies"
#: Words of the address that say nothing about which groups are meant.
ASIDE = ("cursor", "totals")
#: In the session, for the next list that is shown: what was ignored in one go, so that it can be undone.
JUST_IGNORED = "just_ignored"


# --- The list ---------------------------------------------------------------------------------------------
@require_safe
@vary_on_headers("HX-Request")
def group_list(request: HttpRequest) -> HttpResponse:
    """A page of groups; a part of the list for "load more"."""
    if "" in request.GET.values():
        return redirect(_without_empty(request))
    try:
        filter, order = _wanted(request.GET)
        page = _page(filter, order, request.GET.get("cursor"), rows_at_once(request, PAGE_ROWS, FIRST_ROWS))
    except BadFilter as refusal:
        return _refused(request, str(refusal))
    rows = as_shown(page.groups)
    context = {
        **_acting(request),
        **_addresses(filter, order),
        "rows": rows,
        "filter": filter,
        "next_address": with_query(request, cursor=page.next_cursor, totals=None) if page.next_cursor else "",
        "is_short": page.is_short,
    }
    if HtmxDetails(request):
        return render(request, "duplicates/_rows.html", context)
    slot = read_slot({})
    context |= {
        **_filter_bar(said_by(filter), order),
        "is_narrow": filter.ignored == "only" or ignoring_all.is_narrow(filter),
        "is_later": "cursor" in request.GET,
        "is_complete": page.is_complete,
        "slot": slot,
        "nothing": "" if rows or page.next_cursor else _why_nothing(filter, slot is not None),
        "totals": listing.totals(filter) if "totals" in request.GET else None,
        "just_ignored": request.session.pop(JUST_IGNORED, None),
    }
    return render(request, "duplicates/list.html", context)


@require_safe
@vary_on_headers("HX-Request")
def totals(request: HttpRequest) -> HttpResponse:
    """The line that says what all of it amounts to. It may take a while, so the page asks for it afterwards."""
    try:
        filter, order = _wanted(request.GET)
    except BadFilter as refusal:
        raise Http404(str(refusal)) from None
    found, slot = listing.totals(filter), read_slot({})
    is_complete = summary.bring_up_to_date(seconds=0)
    context = {
        **_addresses(filter, order),
        "totals": found,
        "is_complete": is_complete,
        "slot": slot,
        "is_live": slot is not None or not is_complete,
    }
    return render(request, "duplicates/_summary.html", context)


def _wanted(params: QueryDict) -> tuple[Filter, str]:
    order = params.get("order", FIRST_ORDER)
    listing.find_order(order)
    return Filter.parse(params.dict()), order  # type: ignore[arg-type]


def _page(filter: Filter, order: str, cursor: str | None, size: int) -> GroupPage:
    try:
        return listing.page(filter, order, cursor, size, seconds=PATIENCE_SECONDS)
    except BadCursor:
        raise Http404(_("This page of the list doesn't exist. Start again from its beginning.")) from None


def _without_empty(request: HttpRequest) -> str:
    """A form sends its empty fields too; the address says only what was filled in."""
    query = QueryDict(mutable=True)
    for name, value in request.GET.dict().items():
        if value and (name, value) != ("order", FIRST_ORDER):
            query[name] = value
    return f"{request.path}?{query.urlencode()}" if query else request.path


def _refused(request: HttpRequest, refusal: str) -> HttpResponse:
    said = {name: value for name, value in request.GET.dict().items() if name not in (*ASIDE, "order")}
    order = request.GET.get("order", FIRST_ORDER)
    context = {**_acting(request), **_filter_bar(said, order), "refusal": refusal}
    return render(request, "duplicates/list.html", context, status=400)


def _filter_bar(said: dict[str, str], order: str) -> dict[str, Any]:
    form = FilterForm(said, order)
    return {
        "form": form,
        "first_fields": [form[name] for name in ("library", "media", "least_bytes", "order")],
        "further_fields": [form[name] for name in FURTHER if name != "spans"],
        "is_filtered": bool(said),
    }


def _addresses(filter: Filter, order: str) -> dict[str, str]:
    """Links to what is filtered: they say the filter and nothing else that stood in the address."""
    query = QueryDict(filter.query(), mutable=True)
    if order != FIRST_ORDER:
        query["order"] = order
    said = f"?{query.urlencode()}" if query else ""
    counted = query.copy()
    counted["totals"] = "1"
    return {
        "filter_query": filter.query(),
        "back": query.urlencode(),
        "first_address": f"{reverse('duplicates:list')}{said}",
        "count_address": f"{reverse('duplicates:list')}?{counted.urlencode()}",
        "totals_address": f"{reverse('duplicates:totals')}{said}",
        "csv_address": f"{reverse('duplicates:export', args=['csv'])}{said}",
        "json_address": f"{reverse('duplicates:export', args=['json'])}{said}",
    }


def _acting(request: HttpRequest) -> dict[str, Any]:
    """Who looks, and what they can apply to groups."""
    user = person(request)
    may_act = user.may(Role.OPERATOR)
    return {
        "may_act": may_act,
        "may_keep": user.may(Role.ADMIN),
        "rule_sets": list(RuleSet.objects.only("name")) if may_act else [],
        "actions": ACTIONS,
    }


def _why_nothing(filter: Filter, is_growing: bool) -> str:
    """Which of the empty pages it is."""
    libraries = LibraryRoot.objects.kept()
    if not libraries.exists():
        return "no_libraries"
    if filter != Filter():
        return "no_match"
    if is_growing:
        return "growing"
    if not libraries.filter(last_scanned_at__isnull=False).exists():
        return "not_scanned"
    return "all_ignored" if DuplicateGroup.objects.exists() else "no_groups"


# --- One group --------------------------------------------------------------------------------------------
@require_safe
@vary_on_headers("HX-Request")
def group(request: HttpRequest, group_key: str) -> HttpResponse:
    """The files of a group side by side, with what happened to it; further files for "load more"."""
    found = _find(group_key)
    page = _files(found, _after(request))
    context = {**_acting(request), "group": found, "page": page}
    if HtmxDetails(request):
        return render(request, "duplicates/_copies.html", context)
    first, last = group_files.proved_between(found)
    name = group_files.name_of(found)
    digest = {"hash_algorithm": found.hash_algorithm, "content_hash": bytes(found.content_hash)}
    context |= {
        "name": name,
        "media": media_of(name),
        "shown_picture": group_files.picture_of(found, name, page),
        "now": page.files[0].now,
        "digest_hex": bytes(found.content_hash).hex(),
        "proved_first": first,
        "proved_last": last,
        "ignored": IgnoredGroup.objects.filter(**digest).first(),
        "linked_count": found.file_count - found.inode_count,
        **read_history(found),
    }
    return render(request, "duplicates/group.html", context)


@require_safe
def preview(request: HttpRequest, group_key: str) -> HttpResponse:
    """What the list shows of a group without leaving it."""
    found = _find(group_key)
    page = group_files.page_of(found, size=PREVIEW_FILES)
    name = group_files.name_of(found)
    context = {
        "group": found,
        "page": page,
        "name": name,
        "media": media_of(name),
        "shown_picture": group_files.picture_of(found, name, page),
        "more_files": max(found.file_count - len(page.files), 0),
    }
    return render(request, "duplicates/_preview.html", context)


def _find(group_key: str) -> DuplicateGroup:
    try:
        found = listing.one(group_key, seconds=PATIENCE_SECONDS)
    except BadGroupKey as refusal:
        raise Http404(str(refusal)) from None
    if found is None:
        raise Http404(_("There is no such group: fewer than two files that are there have this content."))
    return found


def _files(found: DuplicateGroup, after: int) -> group_files.FilePage:
    page = group_files.page_of(found, after)
    if not page.files:
        raise Http404(_("This page of the list doesn't exist. Start again from its beginning."))
    return page


def _after(request: HttpRequest) -> int:
    text = request.GET.get("after", "0")
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise Http404(_("This page of the list doesn't exist. Start again from its beginning."))
    return int(text)


# --- Decisions --------------------------------------------------------------------------------------------
@require_POST
@role_required(Role.OPERATOR)
def ignore(request: HttpRequest) -> HttpResponse:
    """Ignore the groups that were marked, or stop it, and go back to where they were shown."""
    keys = marked_groups(request.POST)
    if not keys:
        messages.error(request, _("No group is marked: nothing was done."))
    else:
        try:
            messages.success(request, _ignore_all(request, keys))
        except (BadGroupKey, Refused) as refusal:
            messages.error(request, str(refusal))
    return redirect(_back(request, keys))


def _ignore_all(request: HttpRequest, keys: list[str]) -> str:
    """All of them or none; what was done, in words."""
    actor = person(request).username
    with transaction.atomic():
        for key in keys:
            if "undo" in request.POST:
                ignoring.stop_ignoring(key, actor=actor)
            else:
                ignoring.ignore(key, actor=actor, note=request.POST.get("note", ""))
    if "undo" in request.POST:
        words = ngettext("%(count)d group is listed again.", "%(count)d groups are listed again.", len(keys))
    else:
        words = ngettext("%(count)d group is ignored.", "%(count)d groups are ignored.", len(keys))
    return words % {"count": len(keys)}


@require_POST
@role_required(Role.OPERATOR)
def ignore_matching(request: HttpRequest) -> HttpResponse:
    """Ignore all that a filter matches, or stop it; as far as it goes in a few seconds."""
    actor = person(request).username
    try:
        filter = Filter.parse(QueryDict(request.POST.get("filter", "")).dict())
        if "undo" in request.POST:
            messages.success(request, _listed_again(*ignoring_all.list_again(filter, actor=actor)))
        else:
            note, cursor = request.POST.get("note", ""), request.POST.get("cursor") or None
            batch = ignoring_all.ignore_matching(
                filter, actor=actor, note=note, after=_number(request, "after"), cursor=cursor
            )
            request.session[JUST_IGNORED] = {**asdict(batch), "filter": filter.query(), "note": note}
    except (BadCursor, BadFilter, Refused) as refusal:
        messages.error(request, str(refusal))
    return redirect(_back(request, []))


@require_POST
@role_required(Role.OPERATOR)
def undo_ignoring(request: HttpRequest) -> HttpResponse:
    """Take back what was ignored in one go, and nothing that was ignored before."""
    after, upto = _number(request, "after"), _number(request, "upto")
    if after is None or upto is None:
        raise Http404(_("There is nothing to undo."))
    batch = ignoring_all.Batch(after, upto, 0)
    left = ignoring_all.undo(batch, actor=person(request).username)
    if left.is_all:
        messages.success(request, _("Undone: these groups are listed again."))
    else:
        request.session[JUST_IGNORED] = {**asdict(left), "is_all": True}
    return redirect(_back(request, []))


def _listed_again(count: int, is_all: bool) -> str:
    words = ngettext("%(count)d group is listed again.", "%(count)d groups are listed again.", count) % {"count": count}
    return words if is_all else f"{words} {_('There are more: press again to go on.')}"


def _number(request: HttpRequest, name: str) -> int | None:
    text = request.POST.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else None


def _back(request: HttpRequest, keys: list[str]) -> str:
    """The list as it was filtered, or the page of the one group."""
    if request.POST.get("from") == "group" and keys:
        try:
            return reverse("duplicates:group", args=[group_key(*listing.parse_group_key(keys[0]))])
        except BadGroupKey:
            pass
    query = QueryDict(request.POST.get("back", "")).urlencode()
    return f"{reverse('duplicates:list')}?{query}" if query else reverse("duplicates:list")


# --- Export -----------------------------------------------------------------------------------------------
@require_safe
def export(request: HttpRequest, form: str) -> HttpResponseBase:
    """All that is filtered, as it is read: neither memory nor a transaction holds the whole."""
    chosen = exporting.FORMATS.get(form)
    if chosen is None:
        raise Http404(_("Groups are exported as csv or json."))
    try:
        filter, order = _wanted(request.GET)
    except BadFilter as refusal:
        raise Http404(str(refusal)) from None
    headers = {"Content-Disposition": f'attachment; filename="{chosen.file_name}"'}
    return StreamingHttpResponse(chosen.write(filter, order), content_type=chosen.content_type, headers=headers)
