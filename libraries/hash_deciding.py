"""What people decide about hashing: pause it and let it go on."""

from __future__ import annotations

from django.db import transaction
from django.db.models.functions import Now

from jobs.deciding import QUEUE
from jobs.doorbell import ring
from libraries.models import HashState
from libraries.queueing import promote
from logbook.models import write_event


def pause(*, actor: str) -> None:
    """Let a hash job end after the files it has in hand, and start none until `resume`."""
    _set(True, "paused", actor)


def resume(*, actor: str) -> None:
    """Let hashing go on where it was."""
    _set(False, "resumed", actor)
    promote()
    ring(QUEUE)


def _set(is_paused: bool, event: str, actor: str) -> None:
    with transaction.atomic():
        HashState.objects.get_or_create(pk=1)
        if HashState.objects.filter(pk=1).exclude(is_paused=is_paused).update(is_paused=is_paused, updated_at=Now()):
            write_event("hash_states", "1", event, actor=actor, title="hashing")
