"""Jobs over HTTP: what a script reads, what a person decides, and what a worker elsewhere reports."""

# Ninja gives every operation its request, needed or not.
# ruff: noqa: ARG001

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from ninja.errors import HttpError
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StrictBool, StrictInt, StringConstraints

from accounts.guarding import ApiRequest, needs
from accounts.models import Role
from database.keyset import UnknownCursor, newest_first
from jobs import deciding
from jobs.doorbell import ring
from jobs.lease import Lease
from jobs.models import Job
from jobs.recovering import recover

PAGE_SIZE = 50
LARGEST_PAGE = 200
#: The longest lease that can be asked for; the same bound as DEDUPFS_LEASE_SECONDS has.
LONGEST_LEASE_SECONDS = 86400
LARGEST_COUNT = 2**63 - 1
PAYLOAD_CHARACTERS = 65536

router = Router(tags=["jobs"])


def _small_enough(payload: dict[str, Any]) -> dict[str, Any]:
    if len(json.dumps(payload)) > PAYLOAD_CHARACTERS:
        raise ValueError(f"the payload may have at most {PAYLOAD_CHARACTERS} characters as JSON")
    return payload


def whole(value: Any) -> Any:
    """`5.0` is an integer in JSON, whose numbers have one type only; `"5"` and `true` are not."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WorkerId = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=128, pattern=r"\S"),
    Field(description="Use a fresh one for each claim: it is the fence that keeps a late write out."),
]
# The bounds stand before the validator: behind it they would be checked, but not described.
Count = Annotated[StrictInt, Field(ge=0, le=LARGEST_COUNT), BeforeValidator(whole)]
LeaseSeconds = Annotated[StrictInt, Field(ge=1, le=LONGEST_LEASE_SECONDS), BeforeValidator(whole)]
Payload = Annotated[dict[str, Any], AfterValidator(_small_enough)]


class Problem(Schema):
    """Every answer that isn't a success: one sentence for a person."""

    detail: str


class Asked(Schema):
    """What a caller sends. Unknown fields are refused: a mistyped `dry_run` must not become a real run."""

    model_config = ConfigDict(extra="forbid")


class JobOut(Schema):
    """One row of `jobs`, all of it. Times are UTC."""

    id: str
    kind: Job.Kind
    status: Job.Status
    dry_run: bool
    worker_id: str | None
    worker_heartbeat_at: datetime | None
    lease_expires_at: datetime | None
    progress: float
    total_items: int | None
    processed_items: int
    payload: Any
    error_code: str | None
    error_message: str | None
    attempts: int
    retry_after: datetime | None
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class JobPage(Schema):
    items: list[JobOut]
    next_cursor: str | None = Field(description="`cursor` for the next page; null on the last one.")


class JobFilter(Schema):
    limit: int = Field(PAGE_SIZE, ge=1, le=LARGEST_PAGE)
    cursor: str | None = Field(None, description="`next_cursor` of the page before.")
    kind: Job.Kind | None = None
    status: Job.Status | None = None


class NewJob(Asked):
    kind: Job.Kind
    dry_run: StrictBool = False
    payload: Payload = Field(default_factory=dict)


class Reason(Asked):
    reason: Annotated[str, StringConstraints(strip_whitespace=True, max_length=500)] = ""


class Claim(Asked):
    worker_id: WorkerId
    lease_seconds: LeaseSeconds | None = Field(
        None, description="How long the claim holds without a heartbeat; the server's setting where left out."
    )


class Heartbeat(Asked):
    worker_id: WorkerId
    lease_seconds: LeaseSeconds | None = Field(None, description="As in the claim; a longer lease is asked for anew.")
    processed_items: Count | None = Field(None, description="How many are done; progress never goes backwards.")
    total_items: Count | None = None


class Finish(Asked):
    worker_id: WorkerId
    status: Literal["completed", "failed", "retryable"]
    error_code: Annotated[str, StringConstraints(strip_whitespace=True, max_length=64)] | None = None
    error_message: Annotated[str, StringConstraints(max_length=10_000)] | None = None


class Recovered(Schema):
    recovered: int


def problems(*codes: int) -> dict[int, type[Problem]]:
    return dict.fromkeys(codes, Problem)


def find(job_id: str) -> Job:
    try:
        return Job.objects.get(pk=job_id)
    except Job.DoesNotExist:
        raise HttpError(404, f"There is no job {job_id[:80]!r}.") from None


# --- Reading ----------------------------------------------------------------------------------------------
@router.get("", response={200: JobPage, **problems(401, 403, 422)}, summary="List jobs, newest first")
@needs(Role.VIEWER)
def list_jobs(request: HttpRequest, asked: Query[JobFilter]) -> JobPage:
    """Pages by cursor: no job is listed twice and none is left out, whatever is added meanwhile."""
    rows = Job.objects.all()
    if asked.kind:
        rows = rows.filter(kind=asked.kind)
    if asked.status:
        rows = rows.filter(status=asked.status)
    try:
        page = newest_first(rows, columns=("created_at", "id"), cursor=asked.cursor, size=asked.limit)
    except UnknownCursor as error:
        raise HttpError(422, f"cursor: {error}") from None
    return JobPage(items=[JobOut.from_orm(row) for row in page.rows], next_cursor=page.next_cursor)


# --- Deciding ---------------------------------------------------------------------------------------------
# The fixed paths stand before `/{job_id}`: Django takes the first that fits.
@router.post("", response={201: JobOut, **problems(401, 403, 409, 413, 422)}, summary="Create a job")
@needs(Role.OPERATOR)
def create_job(request: ApiRequest, asked: NewJob) -> Status[Job]:
    """409 where a scan or hash job is active already, or where policy forbids this one."""
    return Status(
        201,
        deciding.enqueue(asked.kind, actor=request.auth.name, dry_run=asked.dry_run, payload=asked.payload),
    )


@router.post(
    "/recover-stale",
    response={200: Recovered, **problems(401, 403)},
    summary="Take back jobs whose lease ran out",
)
@needs(Role.OPERATOR)
def recover_stale(request: ApiRequest) -> Recovered:
    return Recovered(recovered=recover(Job.objects.all(), actor=request.auth.name))


@router.post(
    "/scan-hash/claim",
    response={200: JobOut, 204: None, **problems(401, 403, 413, 422)},
    summary="Claim the scan or hash job that waits",
)
@needs(Role.OPERATOR)
def claim_scan_hash(request: HttpRequest, asked: Claim) -> Status[Job | None]:
    """200 with the job, now running under `worker_id`; 204 without a body where none is due."""
    due = Job.objects.filter(kind__in=Job.SLOT_KINDS)
    lease = due.claim(asked.worker_id, seconds=asked.lease_seconds, fence=asked.worker_id)
    return Status(204, None) if lease is None else Status(200, lease.row)


@router.get("/{job_id}", response={200: JobOut, **problems(401, 403, 404)}, summary="Read one job")
@needs(Role.VIEWER)
def get_job(request: HttpRequest, job_id: str) -> Job:
    return find(job_id)


@router.post(
    "/{job_id}/cancel",
    response={200: JobOut, **problems(401, 403, 404, 409, 413, 422)},
    summary="Cancel a job",
)
@needs(Role.OPERATOR)
def cancel_job(request: ApiRequest, job_id: str, asked: Reason | None = None) -> Job:
    """Its worker learns of it at its next heartbeat; whatever it still writes is refused."""
    find(job_id)
    return deciding.cancel(job_id, actor=request.auth.name, reason=asked.reason if asked else "")


@router.post(
    "/{job_id}/reset",
    response={200: JobOut, **problems(401, 403, 404, 409, 413, 422)},
    summary="Put a retryable job back in the queue",
)
@needs(Role.OPERATOR)
def reset_job(request: ApiRequest, job_id: str, asked: Reason | None = None) -> Job:
    find(job_id)
    return deciding.reset(job_id, actor=request.auth.name, reason=asked.reason if asked else "")


# --- Carrying out, by a worker elsewhere ------------------------------------------------------------------
@router.post(
    "/{job_id}/heartbeat",
    response={200: JobOut, **problems(401, 403, 404, 409, 413, 422)},
    summary="Prolong a claim and report progress",
)
@needs(Role.OPERATOR)
def heartbeat_job(request: HttpRequest, job_id: str, asked: Heartbeat) -> Job:
    """409 means: the claim is lost, stop now and write nothing more."""
    find(job_id)
    done = asked.processed_items
    if done is None and asked.total_items is not None:
        done = 0  # only the total is news; what was done already stays
    Lease.of(Job, job_id, asked.worker_id).renew(done, asked.total_items, seconds=asked.lease_seconds)
    return find(job_id)


@router.post(
    "/{job_id}/finish",
    response={200: JobOut, **problems(401, 403, 404, 409, 413, 422)},
    summary="Give a claimed job its outcome",
)
@needs(Role.OPERATOR)
def finish_job(request: HttpRequest, job_id: str, asked: Finish) -> Job:
    """409 means: the claim is lost, and this outcome is not recorded."""
    find(job_id)
    lease = Lease.of(Job, job_id, asked.worker_id)
    lease.finish(asked.status, code=asked.error_code or None, message=asked.error_message or None)
    ring(deciding.QUEUE)  # its slot is free
    return find(job_id)
