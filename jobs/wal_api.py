"""The write-ahead log over HTTP, as the protocol writes it."""

# Ninja gives every operation its request, needed or not.
# ruff: noqa: ARG001

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from django.conf import settings
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from ninja import Router, Schema, Status
from ninja.errors import HttpError
from pydantic import Field, StrictBool, StringConstraints

from accounts.guarding import ApiRequest, needs
from accounts.models import Role
from jobs import wal_deciding
from jobs.api import Asked, Problem, problems
from jobs.models import WalMaintenanceJob

router = Router(tags=["maintenance"])


class NewCheckpoint(Asked):
    mode: WalMaintenanceJob.Mode = WalMaintenanceJob.Mode.PASSIVE
    reason: Annotated[str, StringConstraints(strip_whitespace=True, max_length=500)] = ""
    force: StrictBool = Field(
        default=False, description="Also where one was completed a moment ago, or waits for its next try."
    )


class CheckpointOut(Schema):
    """One row of `wal_maintenance_jobs`, all of it. Times are UTC."""

    id: int
    requested_mode: WalMaintenanceJob.Mode
    status: WalMaintenanceJob.Status
    requested_by: str | None
    reason: str | None
    execute_after: datetime
    retry_count: int
    retry_after: datetime | None
    worker_id: str | None
    worker_heartbeat_at: datetime | None
    lease_expires_at: datetime | None
    checkpoint_busy: int | None
    checkpoint_log_frames: int | None
    checkpointed_frames: int | None
    error_code: str | None
    error_message: str | None
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class WalMetrics(Schema):
    """What there is to know of the log; with PostgreSQL `applies` is false and there is nothing else to know."""

    applies: bool
    detail: str = Field(description="Why it does not apply; empty where it does.")
    wal_bytes: int | None
    limit_bytes: int | None = Field(description="Past this size a checkpoint is asked for by itself; null: never.")
    interval_seconds: int
    wait_seconds: int = Field(description="How long until the next one may be asked for without force.")
    allowed_modes: list[WalMaintenanceJob.Mode]
    by_status: dict[str, int] = Field(description="Rows by status.")
    last_completed_at: datetime | None


@router.post(
    "/checkpoint",
    response={202: CheckpointOut, 429: Problem, **problems(401, 403, 409, 413, 422)},
    summary="Ask for a checkpoint",
)
@needs(Role.OPERATOR)
def ask_for_checkpoint(
    request: ApiRequest, response: HttpResponse, asked: NewCheckpoint | None = None
) -> Status[WalMaintenanceJob | Problem]:
    """202 with the row: a new one, or the one that waits or runs already.

    429 where one was completed a moment ago; `Retry-After` says for how many seconds to wait. 409 where the mode is not
    allowed, a weaker one runs right now, or the database is PostgreSQL.
    """
    wish = asked or NewCheckpoint()
    try:
        row = wal_deciding.request_checkpoint(wish.mode, by=request.auth.name, reason=wish.reason, is_forced=wish.force)
    except wal_deciding.TooSoon as refusal:
        response["Retry-After"] = str(refusal.seconds)
        return Status(429, Problem(detail=str(refusal)))
    return Status(202, row)


@router.get(
    "/checkpoint/latest",
    response={200: CheckpointOut, **problems(401, 403, 404, 409)},
    summary="The checkpoint that was asked for last",
)
@needs(Role.VIEWER)
def latest_checkpoint(request: HttpRequest) -> WalMaintenanceJob:
    if not wal_deciding.applies():
        raise wal_deciding.DoesNotApply(wal_deciding.does_not_apply())
    row = WalMaintenanceJob.objects.order_by("-id").first()
    if row is None:
        raise HttpError(404, "No checkpoint was asked for so far.")
    return row


@router.get("/metrics", response={200: WalMetrics, **problems(401, 403)}, summary="The log in figures")
@needs(Role.VIEWER)
def wal_metrics(request: HttpRequest) -> WalMetrics:
    applies = wal_deciding.applies()
    rows = WalMaintenanceJob.objects.all()
    return WalMetrics(
        applies=applies,
        detail="" if applies else wal_deciding.does_not_apply(),
        wal_bytes=wal_deciding.wal_bytes(),
        limit_bytes=settings.WAL_BYTES or None,
        interval_seconds=settings.WAL_INTERVAL_SECONDS,
        wait_seconds=wal_deciding.seconds_to_wait(),
        allowed_modes=[WalMaintenanceJob.Mode(mode) for mode in wal_deciding.allowed_modes()],
        by_status=dict(rows.order_by().values_list("status").annotate(count=Count("pk"))),
        last_completed_at=wal_deciding.last_completed().values_list("finished_at", flat=True).first(),
    )
