"""The scan queue over HTTP: ask for a scan, look at what waits, runs and has ended, cancel.

Two routers: `scan_router` belongs below `/libraries`, `router` below `/scan-requests`.
"""

# Ninja gives every operation its request, needed or not.
# ruff: noqa: ARG001

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Path, Query, Router, Schema, Status
from ninja.errors import HttpError
from pydantic import Field, StrictBool

from accounts.guarding import ApiRequest, needs
from accounts.models import Role
from database.keyset import UnknownCursor
from jobs.api import LARGEST_PAGE, PAGE_SIZE, Asked, problems
from libraries import queueing
from libraries.errors import NotThere, Refused
from libraries.models import ScanRequest

LARGEST_ID = 2**63 - 1

scan_router = Router(tags=["scan requests"])
router = Router(tags=["scan requests"])
LibraryId = Annotated[int, Path(ge=1, le=LARGEST_ID)]


class ScanProgress(Schema):
    scanned_paths: int
    total_paths: int = Field(description="What the scan before saw; 0 where there was none, until this one has ended.")
    percentage: float = Field(description="0 while the total is 0, never more than 100.")


class ScanResult(Schema):
    added_count: int
    changed_count: int
    removed_count: int
    failed_count: int = Field(description="Paths that could not be read.")


class ScanRequestOut(Schema):
    """One row of `scan_requests`. Times are UTC."""

    id: str
    library_id: int
    priority: ScanRequest.Priority = Field(description="1 was asked for by somebody, 0 by a schedule.")
    status: ScanRequest.Status
    requested_by: str
    accept_missing: bool
    job_id: str | None = Field(description="The job that carries it out, once it has had its turn.")
    attempts: int
    created_at: datetime
    started_at: datetime | None = Field(description="Of the last attempt.")
    completed_at: datetime | None
    progress: ScanProgress | None = Field(description="null before it was started.")
    result: ScanResult | None = Field(description="null before it has ended, and where it was never started.")
    error: str | None

    @staticmethod
    def resolve_progress(row: ScanRequest) -> ScanProgress | None:
        if row.started_at is None:
            return None
        share = min(row.scanned_paths / row.total_paths, 1.0) if row.total_paths > 0 else 0.0
        return ScanProgress(
            scanned_paths=row.scanned_paths, total_paths=row.total_paths, percentage=round(share * 100, 1)
        )

    @staticmethod
    def resolve_result(row: ScanRequest) -> ScanResult | None:
        is_over = row.status not in ScanRequest.ACTIVE
        return ScanResult.from_orm(row) if is_over and row.started_at is not None else None


class ScanQueue(Schema):
    pending: list[ScanRequestOut] = Field(description="In the order in which they get their turn.")
    processing: list[ScanRequestOut]
    history: list[ScanRequestOut] = Field(description="What ended lately, newest first.")
    next_cursor: str | None = Field(description="`cursor` for the next page of the history; null on the last one.")


class HistoryAsked(Schema):
    limit: int = Field(PAGE_SIZE, ge=1, le=LARGEST_PAGE, description="How much of the history.")
    cursor: str | None = Field(None, description="`next_cursor` of the page of the history before.")


class NewScan(Asked):
    accept_missing: StrictBool = Field(
        False, description="Believe the scan even where it finds a large share of the files gone."
    )


@scan_router.post(
    "/{int:library_id}/scan",
    response={202: ScanRequestOut, **problems(401, 403, 404, 409, 413, 422)},
    summary="Ask for a scan of a library",
)
@needs(Role.OPERATOR)
def submit_scan(request: ApiRequest, library_id: LibraryId, asked: NewScan | None = None) -> Status[ScanRequest]:
    """Answers at once, with the request that waits or runs already where there is one. 409 for a paused library."""
    accepts = asked.accept_missing if asked else False
    try:
        found = queueing.submit(library_id, ScanRequest.Priority.HIGH, actor=request.auth.name, accept_missing=accepts)
    except NotThere as error:
        raise HttpError(404, str(error)) from None
    return Status(202, found)


@router.get("", response={200: ScanQueue, **problems(401, 403, 422)}, summary="The scan queue and its history")
@needs(Role.VIEWER)
def list_scan_requests(request: HttpRequest, asked: Query[HistoryAsked]) -> dict[str, Any]:
    """The history goes by pages; what waits and runs is told whole with each."""
    try:
        ended = queueing.history_page(asked.cursor, asked.limit)
    except UnknownCursor as error:
        raise HttpError(422, f"cursor: {error}") from None
    return {
        "pending": list(queueing.pending()),
        "processing": list(queueing.processing()),
        "history": ended.rows,
        "next_cursor": ended.next_cursor,
    }


@router.get("/{request_id}", response={200: ScanRequestOut, **problems(401, 403, 404)}, summary="Read one scan request")
@needs(Role.VIEWER)
def get_scan_request(request: HttpRequest, request_id: str) -> ScanRequest:
    found = queueing.get(request_id)
    if found is None:
        raise HttpError(404, f"There is no scan request {request_id[:80]!r}.")
    return found


@router.post(
    "/{request_id}/cancel",
    response={200: ScanRequestOut, **problems(400, 401, 403, 404)},
    summary="Cancel a scan request",
)
@needs(Role.OPERATOR)
def cancel_scan_request(request: ApiRequest, request_id: str) -> ScanRequest:
    """400 where it has ended already. A running scan stops; whatever it still writes is refused."""
    try:
        return queueing.cancel(request_id, actor=request.auth.name)
    except NotThere as error:
        raise HttpError(404, str(error)) from None
    except Refused as error:
        raise HttpError(400, str(error)) from None
