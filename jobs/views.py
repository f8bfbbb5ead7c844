"""The jobs' pages: the list, one job, the workers; and the forms that decide about a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.db.models import TextChoices
from django.db.models.functions import Now
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe
from django.views.decorators.vary import vary_on_headers
from django_htmx.middleware import HtmxDetails

from accounts.guarding import person, role_required
from accounts.models import Role
from database.clock import SecondsFromNow
from database.keyset import Page, UnknownCursor, newest_first
from frame.addresses import choices, with_query
from frame.row_counts import rows_at_once
from jobs import deciding
from jobs.errors import Refused
from jobs.forms import JobFilter, ReasonForm
from jobs.health import recent_restarts
from jobs.models import Job, WorkerHeartbeat
from jobs.showing import ShownJob, as_shown, shown
from logbook.models import LogbookEvent
from logbook.showing import as_shown as events_as_shown
from logbook.showing import shown as shown_events

PAGE_ROWS = 50
#: A live page asks about the rows it shows; more than these don't fit into an address.
LIVE_ROWS = 100
WORKER_ROWS = 200
RESTART_ROWS = 50
DAY_SECONDS = 86400


# --- The list ---------------------------------------------------------------------------------------------
@require_safe
@vary_on_headers("HX-Request")
def job_list(request: HttpRequest) -> HttpResponse:
    filters = JobFilter(request.GET)
    if not filters.is_valid():
        raise Http404(_("There is no such kind or status of jobs."))
    cursor = request.GET.get("cursor")
    page = _page(filters.conditions(), cursor, rows_at_once(request, PAGE_ROWS))
    rows = as_shown(page.rows)
    context = {
        "rows": rows,
        "next_address": with_query(request, cursor=page.next_cursor) if page.next_cursor else "",
        "newest_address": with_query(request, cursor=None),
        "is_older": cursor is not None,
        "is_filtered": bool(filters.conditions()),
        "kind_choices": choices(request, "kind", _or_all(Job.Kind)),
        "status_choices": choices(request, "status", _or_all(Job.Status)),
        **_polling(rows),
    }
    return render(request, "jobs/_more.html" if HtmxDetails(request) else "jobs/list.html", context)


def _or_all(words: type[TextChoices]) -> list[tuple[str, str]]:
    return [("", _("All")), *((value, str(label)) for value, label in words.choices)]


@require_safe
def live(request: HttpRequest) -> HttpResponse:
    """The rows a page shows that may have changed, and whether to ask again."""
    asked = [key for key in request.GET.getlist("id")[:LIVE_ROWS] if _is_possible(key)]
    rows = as_shown(list(shown(Job.objects.filter(pk__in=asked)).defer("payload")))
    return render(request, "jobs/_live_rows.html", {"rows": rows, "is_oob": True, **_polling(rows)})


def _page(conditions: dict[str, str], cursor: str | None, size: int) -> Page[Job]:
    jobs = shown(Job.objects.filter(**conditions)).defer("payload")
    try:
        return newest_first(jobs, columns=("created_at", "id"), cursor=cursor, size=size, parse=_possible_key)
    except UnknownCursor:
        raise Http404(_("This page of the list doesn't exist. Start again from the newest job.")) from None


def _polling(rows: list[ShownJob]) -> dict[str, Any]:
    """Ask often while something runs, seldom while something waits, never when everything has ended."""
    is_running = any(row.is_running for row in rows)
    return {"is_live": any(row.is_live for row in rows), "every": "2s" if is_running else "5s"}


def _possible_key(key: str) -> str:
    if not _is_possible(key):
        raise ValueError("not a job's id")
    return key


def _is_possible(key: str) -> bool:
    """Whether a text could be the id of a job; PostgreSQL has no way to even ask about a NUL."""
    return 0 < len(key) <= 36 and "\x00" not in key


# --- One job ----------------------------------------------------------------------------------------------
@require_safe
@vary_on_headers("HX-Request")
def detail(request: HttpRequest, job_id: str) -> HttpResponse:
    """A job with its history. A live page says which event it has seen, and gets only what is newer."""
    row = _find(job_id)
    events = events_as_shown(list(shown_events(LogbookEvent.objects.about("jobs", row.job.pk))))
    last_event = str(events[-1].event.pk) if events else ""
    context = {
        "row": row,
        "job": row.job,
        "events": events[::-1],
        "last_event": last_event,
        "may_act": person(request).may(Role.OPERATOR),
        "has_news": request.GET.get("seen") != last_event,
        "is_oob": bool(HtmxDetails(request)),
        **_polling([row]),
    }
    return render(request, "jobs/_live_job.html" if HtmxDetails(request) else "jobs/detail.html", context)


def _find(job_id: str) -> ShownJob:
    job = shown(Job.objects.filter(pk=job_id)).first() if _is_possible(job_id) else None
    if job is None:
        raise Http404(_("There is no job with this id."))
    return as_shown([job])[0]


# --- Decisions --------------------------------------------------------------------------------------------
@require_POST
@role_required(Role.OPERATOR)
def cancel(request: HttpRequest, job_id: str) -> HttpResponse:
    form = ReasonForm(request.POST)
    if not form.is_valid():
        messages.error(request, _("The reason is too long; nothing was done."))
        return redirect("jobs:detail", job_id)
    reason = form.cleaned_data["reason"]
    return _decide(
        request,
        job_id,
        lambda actor: deciding.cancel(job_id, actor=actor, reason=reason),
        _("This job was cancelled."),
    )


@require_POST
@role_required(Role.OPERATOR)
def reset(request: HttpRequest, job_id: str) -> HttpResponse:
    return _decide(
        request,
        job_id,
        lambda actor: deciding.reset(job_id, actor=actor),
        _("This job is back in the queue."),
    )


@require_POST
@role_required(Role.OPERATOR)
def retry(request: HttpRequest, job_id: str) -> HttpResponse:
    return _decide(
        request,
        job_id,
        lambda actor: deciding.retry(job_id, actor=actor),
        _("Started again: this is the new job."),
    )


def _decide(request: HttpRequest, job_id: str, verb: Callable[[str], Job], said: str) -> HttpResponse:
    """Carry out a verb for the person who asks, say what came of it, and show the job it was about."""
    target = _find(job_id).job.pk
    try:
        target = verb(person(request).username).pk
        messages.success(request, said)
    except Refused as refusal:
        messages.error(request, str(refusal))
    return redirect("jobs:detail", target)


# --- Workers ----------------------------------------------------------------------------------------------
@require_safe
def workers(request: HttpRequest) -> HttpResponse:
    """Who is alive, who holds the slot, and how often consumers had to be started again."""
    consumers = _consumers()
    restarts = shown_events(recent_restarts())
    holder = shown(Job.objects.holding_slot()).defer("payload").first()
    context = {
        "consumers": consumers,
        "alive_count": sum(state == "alive" for _worker, state in consumers),
        "silent_count": sum(state == "silent" for _worker, state in consumers),
        "slot": as_shown([holder])[0] if holder else None,
        "restart_count": restarts.count(),
        "restarts": events_as_shown(list(restarts[:RESTART_ROWS])),
    }
    return render(request, "jobs/workers.html", context)


def _consumers() -> list[tuple[WorkerHeartbeat, str]]:
    """Consumers seen in the last day, the latest first, each alive, silent or stopped."""
    seen = WorkerHeartbeat.objects.filter(last_seen_at__gte=SecondsFromNow(-DAY_SECONDS)).annotate(now=Now())
    alive = WorkerHeartbeat.objects.alive()
    names = set(alive.values_list("pk", flat=True))
    latest = seen.order_by("-last_seen_at", "worker_id")[:WORKER_ROWS]
    return [(worker, _life_of(worker, worker.pk in names)) for worker in latest]


def _life_of(worker: WorkerHeartbeat, is_alive: bool) -> str:
    if worker.stopped_at is not None:
        return "stopped"
    return "alive" if is_alive else "silent"
