"""Which kinds of job this installation can carry out: rooms above register theirs when Django starts."""

from __future__ import annotations

from typing import Any

from jobs.deciding import QUEUE, fill_slot, requeue_retryable
from jobs.executing import Handler, Queue, register_queue
from jobs.models import Job, JobQuerySet

_handlers: dict[str, Handler] = {}


def handles(kind: str, handler: Handler) -> None:
    """Let consumers carry out jobs of `kind`."""
    _handlers[kind] = handler


def is_handled(kind: str) -> bool:
    """Whether somebody here carries out jobs of `kind`: one that nobody does would only hold the slot."""
    return kind in _handlers


def _claimable() -> JobQuerySet:
    return Job.objects.filter(kind__in=list(_handlers))


def _handler_of(job: Any) -> Handler:
    return _handlers[job.kind]


register_queue(Queue(QUEUE, _claimable, _handler_of, tend=requeue_retryable, refill=fill_slot))
