"""The plans' pages that are read: the list, one plan by its files or by its folders, and the same as CSV."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from django.db.models import Count, F, Q
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers
from django_htmx.middleware import HtmxDetails

from accounts.guarding import person
from accounts.models import Role
from duplicates.exporting import harmless_csv
from duplicates.facts import read_places
from duplicates.models import Plan, PlanFile, PlanFolder, group_key
from duplicates.plan_showing import ShownPlan, as_folders, as_shown, blocks, shown
from frame.addresses import with_query
from frame.row_counts import rows_at_once
from libraries.names import to_bytes, to_display
from libraries.paging import page_before

PAGE_PLANS = 50
LIVE_ROWS = 100
PAGE_FILES = 150
#: To begin with; a content has two or more of them.
FIRST_FILES = 50
PAGE_FOLDERS = 100
EXPORT_ROWS = 1_000
_KEY = re.compile(r"\d{1,18}", re.ASCII)
_FOLDER_KEY = re.compile(r"(\d{1,19})-(\d{1,18})", re.ASCII)


# --- The list ---------------------------------------------------------------------------------------------
@require_safe
@vary_on_headers("HX-Request")
def plan_list(request: HttpRequest) -> HttpResponse:
    page = page_before(shown(_light()), request.GET.get("before"), rows_at_once(request, PAGE_PLANS))
    rows = as_shown(page.rows)
    before = str(page.next_before) if page.next_before else None
    context = {
        "rows": rows,
        "next_address": with_query(request, before=before) if before else "",
        "is_older": not page.is_first,
        "may_act": person(request).may(Role.OPERATOR),
        **_polling(rows),
    }
    return render(request, "plans/_more.html" if HtmxDetails(request) else "plans/list.html", context)


@require_safe
def live(request: HttpRequest) -> HttpResponse:
    """The rows a page shows that may have changed, and whether to ask again."""
    asked = [int(key) for key in request.GET.getlist("id")[:LIVE_ROWS] if _KEY.fullmatch(key)]
    rows = as_shown(list(shown(_light().filter(pk__in=asked))))
    return render(request, "plans/_live_rows.html", {"rows": rows, "is_oob": True, **_polling(rows)})


def _light() -> Any:
    """A plan without what may be large in it."""
    return Plan.objects.defer("choices", "warnings", "job__payload")


def _polling(rows: list[ShownPlan]) -> dict[str, Any]:
    """Ask often while one is being made, seldom while one waits, never otherwise."""
    is_running = any(row.is_live and row.job is not None and row.job.is_running for row in rows)
    return {"is_live": any(row.is_live for row in rows), "every": "2s" if is_running else "5s"}


# --- One plan ---------------------------------------------------------------------------------------------
@require_safe
@vary_on_headers("HX-Request")
def detail(request: HttpRequest, plan_id: int) -> HttpResponse:
    """A plan by its files, or with `by=folder` by its folders. While it is made, the page asks how far that is."""
    row = find(plan_id)
    after, is_by_folder = request.GET.get("after"), request.GET.get("by") == "folder"
    if HtmxDetails(request) and after is None:
        return _progress(request, row)
    context = about(request, row)
    context |= _folders(request, row, after) if is_by_folder else _files(request, row, after)
    template = "plans/_folder_rows.html" if is_by_folder else "plans/_file_rows.html"
    return render(request, template if HtmxDetails(request) else "plans/detail.html", context)


def _progress(request: HttpRequest, row: ShownPlan) -> HttpResponse:
    """What changes while it is made; once it is, the whole page is another one."""
    if row.is_live:
        return render(request, "plans/_live_plan.html", {**about(request, row), "is_oob": True})
    return HttpResponse(headers={"HX-Refresh": "true"})


def find(plan_id: int) -> ShownPlan:
    plan = shown(Plan.objects.filter(pk=plan_id)).first()
    if plan is None:
        raise Http404(_("There is no such plan."))
    return as_shown([plan])[0]


def about(request: HttpRequest, row: ShownPlan) -> dict[str, Any]:
    return {
        "row": row,
        "plan": row.plan,
        "by": "folder" if request.GET.get("by") == "folder" else "",
        "may_act": person(request).may(Role.OPERATOR),
        "after": request.GET.get("after", ""),
        **_polling([row]),
    }


def _files(request: HttpRequest, row: ShownPlan, after: str | None) -> dict[str, Any]:
    """A page of rows; a content that would be cut in two begins the next page, unless it fills a whole one."""
    start, size = _parsed(_KEY, after), rows_at_once(request, PAGE_FILES, FIRST_FILES)
    found = list(_items(row.plan).filter(pk__gt=int(start[0]) if start else 0)[: size + 1])
    page = _whole(found) if len(found) > size else found
    is_more = len(page) < len(found)
    before = PlanFile.objects.filter(plan=row.plan, pk=int(start[0])).first() if start else None
    return {
        "blocks": blocks(page, row.libraries, continues=before),
        "next_address": with_query(request, after=str(page[-1].pk)) if is_more else "",
    }


def _whole(found: list[PlanFile]) -> list[PlanFile]:
    last = _content(found[-1])
    page = [item for item in found if _content(item) != last]
    return page or found[:-1]


def _content(item: PlanFile) -> tuple[str, bytes]:
    return item.hash_algorithm, bytes(item.content_hash)


def _items(plan: Plan) -> Any:
    return PlanFile.objects.filter(plan=plan).select_related("keeper").order_by("pk")


def _folders(request: HttpRequest, row: ShownPlan, after: str | None) -> dict[str, Any]:
    """What loses most comes first; those that were taken out stand at the end."""
    rows = PlanFolder.objects.filter(plan=row.plan)
    loses = Q(remove_count__gt=0)
    counts = rows.aggregate(
        folder_count=Count("pk", filter=loses),
        emptied_count=Count("pk", filter=loses & Q(remove_count__gte=F("file_count"))),
    )
    start = _parsed(_FOLDER_KEY, after)
    ordered = rows.order_by("by_bytes", "pk")
    if start:
        size, key = -int(start[0]), int(start[1])
        ordered = ordered.filter(Q(by_bytes__gt=size) | Q(by_bytes=size, pk__gt=key))
    size = rows_at_once(request, PAGE_FOLDERS)
    found = list(ordered[: size + 1])
    page = found[:size]
    cursor = f"{page[-1].remove_bytes}-{page[-1].pk}" if len(found) > size else None
    return {
        "folders": as_folders(page, row.libraries),
        **counts,
        "next_address": with_query(request, after=cursor) if cursor else "",
    }


def _parsed(form: re.Pattern[str], after: str | None) -> tuple[str, ...] | None:
    if after is None:
        return None
    found = form.fullmatch(after)
    if found is None:
        raise Http404(_("This page of the plan doesn't exist. Start again from its beginning."))
    return found.groups() or (found[0],)


# --- As CSV -----------------------------------------------------------------------------------------------
class _Line:
    """What `csv` writes into: each line is handed on at once."""

    def write(self, text: str) -> str:
        return text


@require_safe
def export(request: HttpRequest, plan_id: int) -> StreamingHttpResponse:  # noqa: ARG001  a view's signature
    """Every file of the plan, read page by page: no transaction is held open however slowly it is fetched."""
    plan = find(plan_id).plan
    headers = {"Content-Disposition": f'attachment; filename="plan-{plan.pk}.csv"'}
    return StreamingHttpResponse(_lines(plan), content_type="text/csv; charset=utf-8", headers=headers)


def _lines(plan: Plan) -> Iterator[str]:
    write_row, places, after = harmless_csv(_Line()), read_places(), 0
    yield write_row(
        ["group_key", "role", "action", "taken_out", "library", "path", "path_hex", "size_bytes", "mtime_ns", "inode",
         "keeper_library", "keeper_path", "reason"]
    )  # fmt: skip
    while page := list(_items(plan).filter(pk__gt=after)[:EXPORT_ROWS]):
        for item in page:
            keeper = item.keeper
            yield write_row([
                group_key(item.hash_algorithm, item.content_hash), item.role, item.action or "", int(item.is_out),
                _name(item.library_id, places), to_display(item.relative_path), to_bytes(item.relative_path).hex(),
                item.size_bytes, item.mtime_ns, "" if item.inode is None else item.inode % 2**64,
                _name(keeper.library_id, places) if keeper else "",
                to_display(keeper.relative_path) if keeper else "", to_display(item.reason),
            ])  # fmt: skip
        after = page[-1].pk


def _name(library: int, places: dict[int, Any]) -> str:
    return to_display(places[library].name) if library in places else f"#{library}"
