"""What became of files that somebody was acting on when he died: the disk knows, and is asked.

A row that says `intended` means that nobody knows. Whoever has the lock knows that nobody is in the middle of it, looks
where the file is, and writes it down. A file that was moved and whose keeper is still there stays in the trash; any
other goes back. A row of which nothing was done stays `intended` while its act lives, and is taken up again by it; the
rows that are left when an act ends are taken away.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet

from database.routing import EXECUTOR
from jobs.living import register_chore
from jobs.models import Job
from jobs.working import Work
from trash import ending
from trash.locking import Busy, Held, held
from trash.models import Act, TrashItem
from trash.settling_intended import settle_intended
from trash.settling_left import settle_left

logger = logging.getLogger(__name__)
#: How a job ended → how its act does.
_ENDED = {
    Job.Status.COMPLETED: Act.Status.COMPLETED,
    Job.Status.FAILED: Act.Status.FAILED,
    Job.Status.CANCELLED: Act.Status.CANCELLED,
}


# --- Everything that is open ------------------------------------------------------------------------------
def settle_all() -> int:
    """Settle every open row that can be; return how many. Raises `Busy` where another acts at this moment."""
    with held(doing="settling") as lock:
        return settle_intended(lock) + settle_left(lock)


def tend() -> None:
    """What every consumer does now and then: settle, and end what has ended. Another who is at it does it too."""
    if not TrashItem.objects.using(EXECUTOR).filter(status__in=TrashItem.OPEN).exists() and not _ended().exists():
        return
    with suppress(Busy):
        settle_all()
        end_ended()


def end_ended() -> int:
    """End every act whose job has ended; return how many. Raises `Busy` where another acts at this moment."""
    if not _ended().exists():
        return 0
    count = 0
    with held(doing="settling") as lock:
        for act in _ended().select_related("job", "plan").order_by("pk"):
            count += end_settled(lock, act, *_how(act))
    return count


def end_settled(lock: Held, act: Act, status: str, note: str, *, work: Work[Any] | None = None) -> bool:
    """Settle what an act has left and end it, if its disks are there to be asked. Whoever calls holds the lock."""
    settle_intended(lock, act, is_over=True)
    settle_left(lock)
    open_rows = TrashItem.objects.using(EXECUTOR).filter(Q(act=act) | Q(left_by=act), status__in=TrashItem.OPEN)
    if open_rows.exists():
        logger.warning("%s can't be ended: files of it are on a disk that is not there, or in another's hand", act)
        return False
    ending.end(act, status, note, work=work)
    return True


def _ended() -> QuerySet[Act]:
    over = Q(job__isnull=True) | Q(job__status__in=list(_ENDED))
    return Act.objects.using(EXECUTOR).filter(over, status__in=Act.LIVING)


def _how(act: Act) -> tuple[str, str]:
    if act.job is None:
        return Act.Status.FAILED, "Its job is gone."
    status = _ENDED[Job.Status(act.job.status)]
    note = act.job.error_message or "" if status == Act.Status.FAILED else ""
    # What never began can't have been completed.
    is_begun = act.status == Act.Status.RUNNING or status != Act.Status.COMPLETED
    return (status, note) if is_begun else (Act.Status.FAILED, "Its job ended before it began.")


def register() -> None:
    register_chore("settling", lambda: settings.SWEEP_SECONDS, tend)
