"""`scan --now`: this process carries a scan out itself, as an executor with a lease of its own.

Its job goes into the table already running, so no consumer can take it; the slot's unique index says whether another
scan or hash job has the turn.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from database.clock import SecondsFromNow
from jobs.deciding import QUEUE
from jobs.executing import carry_out_here, worker_name
from jobs.lease import Lease
from jobs.models import Job
from jobs.recovering import recover_all
from libraries.errors import Refused
from libraries.models import LibraryRoot, ScanRequest
from libraries.queueing import Gone, change_waiting, current, payload_of, scannable
from logbook.models import write_event


def scan_now(library: LibraryRoot, *, actor: str, accept_missing: bool = False) -> Job:
    """Scan one library in this process; return the job as it ended."""
    try:
        lease = _lease(library, actor, accept_missing=accept_missing)
    except Refused:
        # Whoever has the turn may have lost its life.
        recover_all(actor=actor)
        lease = _lease(library, actor, accept_missing=accept_missing)
    return _carry_out(lease)


def _lease(library: LibraryRoot, actor: str, *, accept_missing: bool) -> Lease[Job]:
    with transaction.atomic():
        request = _request_of(library, actor, accept_missing=accept_missing)
        lease = None if request.job_id else _start(request, actor)
    return lease or _claim(request.job_id)


def _start(request: ScanRequest, actor: str) -> Lease[Job]:
    payload = payload_of(request, accept_missing=request.accept_missing)
    lease = _running_job(Job.Kind.SCAN, payload, actor)
    ScanRequest.objects.filter(pk=request.pk).update(
        status="running", job=lease.row, started_at=Now(), updated_at=Now()
    )
    return lease


def _claim(job_id: str | None) -> Lease[Job]:
    """There is a job already, that nobody carries out: it waits, or was given back."""
    try:
        with transaction.atomic():
            Job.objects.filter(pk=job_id, status="retryable").update(status="pending", updated_at=Now())
    except IntegrityError:
        raise Refused(_held_by()) from None
    lease = Job.objects.filter(pk=job_id).claim(worker_name())
    if lease is None:
        raise Refused(_held_by())
    return lease


def hash_now(*, actor: str) -> Job:
    """Hash in this process whatever is due, by the job that waits or was given back if there is one; return it as it
    ended."""
    waiting = Job.objects.filter(kind=Job.Kind.HASH, status__in=("pending", "retryable"))
    # One that is pending has the turn.
    job_id = waiting.order_by("status", "created_at", "id").values_list("pk", flat=True).first()
    if job_id is not None:
        return _carry_out(_claim(job_id))
    with transaction.atomic():
        lease = _running_job(Job.Kind.HASH, {}, actor)
    return _carry_out(lease)


def _request_of(library: LibraryRoot, actor: str, *, accept_missing: bool) -> ScanRequest:
    """The request that waits for this library, or a new one: the queue's history tells of this scan too."""
    library = scannable(library.pk)
    waiting = current(library.pk)
    if waiting is None:
        waiting = ScanRequest.objects.create(
            library=library, priority=ScanRequest.Priority.HIGH, requested_by=actor[:150], accept_missing=accept_missing
        )
    elif accept_missing and not waiting.accept_missing and waiting.status == "pending":
        try:
            change_waiting(waiting, {"accept_missing": True})
        except Gone:
            raise Refused(_held_by()) from None
    waiting.refresh_from_db()
    return waiting


def _running_job(kind: str, payload: dict[str, Any], actor: str) -> Lease[Job]:
    worker_id = f"{worker_name()}:{uuid.uuid4().hex}"
    try:
        with transaction.atomic():
            job = Job.objects.create(
                kind=kind,
                status=Job.Status.RUNNING,
                payload=payload,
                worker_id=worker_id,
                worker_heartbeat_at=Now(),
                lease_expires_at=SecondsFromNow(settings.LEASE_SECONDS),
                started_at=Now(),
            )
            write_event("jobs", job.pk, "requested", actor=actor)
    except IntegrityError:
        raise Refused(_held_by()) from None
    return Lease(Job, job, worker_id)


def _held_by() -> str:
    holder = Job.objects.holding_slot().first()
    if holder is None:
        return "Another scan or hash job has the turn. Try again."
    who = "it waits for a consumer"
    if holder.worker_id:
        who = f"held by {holder.worker_id} since {holder.started_at:%H:%M:%S} UTC"
    if holder.lease_expires_at:
        who += f"; without a sign of life it is taken back at {holder.lease_expires_at:%H:%M:%S}"
    return f"The {holder.kind} job {holder.pk} has the turn ({who}). Let it end, cancel it, or leave out --now."


def _carry_out(lease: Lease[Job]) -> Job:
    carry_out_here(QUEUE, lease)
    return Job.objects.get(pk=lease.row.pk)
