"""Rows in the state a test needs, named by that state."""

from __future__ import annotations

from typing import Any

from accounts.models import Role, User
from database.clock import SecondsFromNow
from jobs.lease import Lease
from jobs.models import Job
from libraries.models import LibraryFile, LibraryRoot
from thumbnails.models import Thumbnail

PASSWORD = "correct horse battery"


def user(name: str = "vera", role: Role = Role.VIEWER, **fields: Any) -> User:
    return User.objects.create_user(name, PASSWORD, role=role, **fields)


def pending_job(kind: str = "scan", **fields: Any) -> Job:
    job = Job.objects.create(kind=kind, **fields)
    job.refresh_from_db()
    return job


def running_job(kind: str = "scan", **fields: Any) -> tuple[Job, Lease[Job]]:
    job = pending_job(kind, **fields)
    lease = Job.objects.filter(pk=job.pk).claim("factory")
    assert lease is not None
    job.refresh_from_db()
    return job, lease


def finished_job(kind: str = "scan", status: str = "completed", **fields: Any) -> Job:
    job, lease = running_job(kind, **fields)
    lease.finish(status, code="WORKER_FAILURE" if status == "failed" else None)
    job.refresh_from_db()
    return job


def expire(job: Any) -> None:
    """Let a row's lease run out, now."""
    type(job).objects.filter(pk=job.pk).update(lease_expires_at=SecondsFromNow(-1))


def library(name: str = "photos", root_path: str | None = None, **fields: Any) -> LibraryRoot:
    return LibraryRoot.objects.create(name=name, root_path=root_path or f"/libraries/{name}", **fields)


def library_file(path: str = "a.jpg", in_library: LibraryRoot | None = None, **fields: Any) -> LibraryFile:
    values = {"size_bytes": 1, "mtime_ns": 1, **fields}
    return LibraryFile.objects.create(library=in_library or library(), relative_path=path, **values)


def pending_thumbnail(key: str = "k", of: LibraryFile | None = None, **fields: Any) -> Thumbnail:
    source = of or library_file()
    values = {"media_type": "image", "format": "webp", "max_dimension": 320, **fields}
    return Thumbnail.objects.create(
        thumb_key=key,
        file=source,
        source_size_bytes=source.size_bytes,
        source_mtime_ns=source.mtime_ns,
        **values,
    )
