"""The libraries' pages: the list, one library, its settings; and the forms that decide about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django.views.decorators.vary import vary_on_headers
from django_htmx.middleware import HtmxDetails

from accounts.guarding import person, role_required
from accounts.models import Role
from jobs.models import WorkerHeartbeat
from libraries import adding, changing, queueing, removing, scheduling
from libraries.errors import NotThere, Refused
from libraries.forms import ROLES, SCHEDULE_FIELDS, LibraryForm, ScheduleForm
from libraries.models import LibraryFile, LibraryRoot, ScanError, ScanRequest, ScanSession
from libraries.names import to_display
from libraries.paging import Listed, page_before
from libraries.showing import ShownLibrary, as_shown_sessions, read_libraries, read_slot

get_or_post = require_http_methods(["GET", "HEAD", "POST"])

RECENT_SCANS = 10
#: How many errors a library's own page shows, and how many each further page brings.
FIRST_ROWS = 10
PAGE_ROWS = 100


# --- The list ---------------------------------------------------------------------------------------------
@require_safe
@vary_on_headers("HX-Request")
def library_list(request: HttpRequest) -> HttpResponse:
    rows = read_libraries(LibraryRoot.objects.kept())
    hostnames = dict(WorkerHeartbeat.objects.alive().values_list("worker_id", "hostname"))
    context = {
        "rows": rows,
        "slot": read_slot(hostnames),
        "file_count": sum(row.state.file_count for row in rows),
        "total_bytes": sum(row.state.total_bytes for row in rows),
        "waiting_count": sum(row.request is not None and row.request.position > 0 for row in rows),
        "has_consumer": bool(hostnames),
        "may_act": person(request).may(Role.OPERATOR),
        "may_keep": person(request).may(Role.ADMIN),
        "is_live": any(row.is_active for row in rows),
        "is_oob": bool(HtmxDetails(request)),
    }
    return render(request, "libraries/_live_list.html" if HtmxDetails(request) else "libraries/list.html", context)


@require_POST
@role_required(Role.OPERATOR)
def scan_all(request: HttpRequest) -> HttpResponse:
    """Ask for every library that nobody has paused; one refusal doesn't stop the others."""
    asked = 0
    for library in LibraryRoot.objects.kept().filter(is_paused=False):
        try:
            queueing.submit(library.pk, ScanRequest.Priority.HIGH, actor=person(request).username)
            asked += 1
        except (Refused, NotThere) as refusal:
            messages.error(request, f"{to_display(library.name)}: {refusal}")
    words = ngettext("%(count)d library is in the queue.", "%(count)d libraries are in the queue.", asked)
    messages.success(request, words % {"count": asked})
    return redirect("libraries:list")


# --- One library ------------------------------------------------------------------------------------------
@require_safe
@vary_on_headers("HX-Request")
def detail(request: HttpRequest, library_id: int) -> HttpResponse:
    """A library with its scans and errors. A live page gets what changes; the errors once the scan has ended."""
    row = _find(library_id)
    is_live_part = bool(HtmxDetails(request))
    sessions = ScanSession.objects.filter(library=row.library).annotate(now=Now()).order_by("-id")
    scans = as_shown_sessions(sessions[:RECENT_SCANS], row.state)
    context: dict[str, Any] = {
        **_about(request, row),
        "scans": scans,
        "last_scan": row.scan or (scans[0] if scans else None),
        "is_oob": is_live_part,
    }
    if not (is_live_part and row.is_active):
        context |= {"errors": _errors(row.library, None, FIRST_ROWS), "failures": _failures(row, None, FIRST_ROWS)}
    return render(request, "libraries/_live_library.html" if is_live_part else "libraries/detail.html", context)


@require_safe
@vary_on_headers("HX-Request")
def errors(request: HttpRequest, library_id: int) -> HttpResponse:
    row = _find(library_id)
    context = {**_about(request, row), "errors": _errors(row.library, request.GET.get("before"), PAGE_ROWS)}
    return render(request, "libraries/_error_rows.html" if HtmxDetails(request) else "libraries/errors.html", context)


@require_safe
@vary_on_headers("HX-Request")
def failures(request: HttpRequest, library_id: int) -> HttpResponse:
    row = _find(library_id)
    context = {**_about(request, row), "failures": _failures(row, request.GET.get("before"), PAGE_ROWS)}
    template = "libraries/_failure_rows.html" if HtmxDetails(request) else "libraries/failures.html"
    return render(request, template, context)


def _find(library_id: int) -> ShownLibrary:
    found = read_libraries(LibraryRoot.objects.kept().filter(pk=library_id))
    if not found:
        raise Http404(_("There is no such library."))
    return found[0]


def _about(request: HttpRequest, row: ShownLibrary) -> dict[str, Any]:
    return {
        "row": row,
        "library": row.library,
        "may_act": person(request).may(Role.OPERATOR),
        "may_keep": person(request).may(Role.ADMIN),
        "time_zone": settings.TIME_ZONE,
    }


def _errors(library: LibraryRoot, before: str | None, size: int) -> Listed[ScanError]:
    return page_before(ScanError.objects.filter(library=library).annotate(now=Now()), before, size)


def _failures(row: ShownLibrary, before: str | None, size: int) -> Listed[LibraryFile]:
    """Files that are there and could not be read."""
    failed: QuerySet[LibraryFile] = LibraryFile.objects.filter(
        library=row.library, hash_error_count__gt=0, is_missing=False
    )
    shown = ("relative_path", "size_bytes", "hash_error_count", "hash_last_error", "hash_last_error_at")
    return page_before(failed.only(*shown, "hash_retry_after").annotate(now=Now()), before, size)


# --- Decisions --------------------------------------------------------------------------------------------
@require_POST
@role_required(Role.OPERATOR)
def scan(request: HttpRequest, library_id: int) -> HttpResponse:
    """Ask for a scan; `accept_missing` says that files which are gone are really gone."""
    accepts = "accept_missing" in request.POST
    high = ScanRequest.Priority.HIGH
    return _decide(
        request,
        library_id,
        lambda actor: queueing.submit(library_id, high, actor=actor, accept_missing=accepts),
        _("A scan is asked for. It begins as soon as a consumer is free."),
    )


@require_POST
@role_required(Role.OPERATOR)
def pause(request: HttpRequest, library_id: int) -> HttpResponse:
    said = _("Paused: it is not scanned or hashed by itself until it is resumed.")
    return _decide(request, library_id, lambda actor: changing.pause(library_id, actor=actor), said)


@require_POST
@role_required(Role.OPERATOR)
def resume(request: HttpRequest, library_id: int) -> HttpResponse:
    said = _("Resumed: its schedule counts again.")
    return _decide(request, library_id, lambda actor: changing.resume(library_id, actor=actor), said)


def _decide(request: HttpRequest, library_id: int, verb: Callable[[str], object], said: str) -> HttpResponse:
    """Carry out a verb for the person who asks, say what came of it, and show the page they came from."""
    try:
        verb(person(request).username)
        messages.success(request, said)
    except Refused as refusal:
        messages.error(request, str(refusal))
    except NotThere:
        raise Http404(_("There is no such library.")) from None
    is_from_list = request.POST.get("from") == "list"
    return redirect("libraries:list") if is_from_list else redirect("libraries:detail", library_id)


@get_or_post
@role_required(Role.ADMIN)
def remove(request: HttpRequest, library_id: int) -> HttpResponse:
    """Ask once, then let its rows go; its files are not touched."""
    row = _find(library_id)
    if request.method != "POST":
        return render(request, "libraries/remove.html", _about(request, row))
    unseen = "even_if_unseen" in request.POST
    try:
        removing.remove(library_id, actor=person(request).username, even_if_unseen=unseen)
    except Refused as refusal:
        return render(request, "libraries/remove.html", {**_about(request, row), "refusal": str(refusal)})
    except NotThere:
        raise Http404(_("There is no such library.")) from None
    said = _("“%(name)s” is being removed: its rows go, its files stay.")
    messages.success(request, said % {"name": to_display(row.library.name)})
    return redirect("libraries:list")


# --- Settings ---------------------------------------------------------------------------------------------
@get_or_post
@role_required(Role.ADMIN)
def add(request: HttpRequest) -> HttpResponse:
    form = LibraryForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        wanted = form.cleaned_data
        try:
            library = adding.add(wanted["name"], wanted["path"], actor=person(request).username, **form.values())
        except Refused as refusal:
            _say_at(form, refusal, "path")
        else:
            messages.success(request, _("“%(name)s” is added. Scan it to fill the index.") % {"name": library.name})
            return redirect("libraries:detail", library.pk)
    return settings_page(request, form)


@get_or_post
@role_required(Role.ADMIN)
def settings_of(request: HttpRequest, library_id: int) -> HttpResponse:
    row = _find(library_id)
    form = LibraryForm(request.POST if request.method == "POST" else None, library=row.library)
    if request.method == "POST" and form.is_valid():
        try:
            changing.change(library_id, actor=person(request).username, name=form.cleaned_data["name"], **form.values())
        except Refused as refusal:
            _say_at(form, refusal, None)
        except NotThere:
            raise Http404(_("There is no such library.")) from None
        else:
            messages.success(request, _("The settings are saved."))
            return redirect("libraries:detail", library_id)
    return settings_page(request, form, **_about(request, row))


def _say_at(form: LibraryForm, refusal: Refused, field: str | None) -> None:
    """A refusal that knows its field is shown there."""
    named = getattr(refusal, "field", None)
    form.add_error(named if named in form.fields else field, str(refusal))


def settings_page(request: HttpRequest, form: LibraryForm, **context: Any) -> HttpResponse:
    context |= {"form": form, "roles": ROLES, "roots": settings.LIBRARIES_ROOTS, **_next_runs(form)}
    return render(request, "libraries/settings.html", context)


@require_safe
@role_required(Role.ADMIN)
def schedule(request: HttpRequest) -> HttpResponse:
    """When a schedule that is being typed would run."""
    return render(request, "libraries/_next_runs.html", _next_runs(ScheduleForm(request.GET)))


def _next_runs(form: ScheduleForm) -> dict[str, Any]:
    """The next run of what the form says, as far as it says something that can be used."""
    context: dict[str, Any] = {"time_zone": settings.TIME_ZONE, "schedule_form": form}
    if not form.is_bound:
        library = getattr(form, "library", None)
        return {**context, "next_run": library.next_scan_at if library else None}
    if form.is_valid() or not {"schedule", *SCHEDULE_FIELDS.values()} & set(form.errors):
        context["next_run"] = scheduling.next_run(*form.times(), timezone.now())
    return context
