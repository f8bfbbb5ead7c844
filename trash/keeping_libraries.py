"""A library can't be removed while files of it are acted on: what moved last would lie in a trash nobody knows of."""

from __future__ import annotations

from django.db import connections
from django.db.models import Max
from django.utils.translation import gettext as _

from database.routing import POLICY
from duplicates.models import PlanFile
from jobs.models import Job
from libraries.errors import Refused
from trash.choosing_items import lying
from trash.models import Act, TrashItem
from trash.objects import LOCK


def refuse_removal(library_id: int, *, even_if_unseen: bool) -> int | None:
    """Raise `Refused` while an act that has files of it lives; else return the newest act there is: one that comes and
    goes while the library's disk is looked at is told by that.

    Where the disk is away for good, an act that was stopped can never end. So it holds nobody back who says that
    nothing can be seen there.
    """
    _wait_for_authorising()
    living = Act.objects.filter(status__in=Act.LIVING)
    if even_if_unseen:
        living = living.filter(job__status__in=Job.UNFINISHED)
    for act in living.order_by("pk"):
        if _has_files(act, library_id):
            words = _(
                "%(act)s, asked for by %(who)s, has files of this library and has not ended. "
                "Stop it or wait for its end, then remove the library."
            )
            raise Refused(words % {"act": str(act).capitalize(), "who": act.authorised_by})
    newest: int | None = Act.objects.aggregate(newest=Max("pk"))["newest"]
    return newest


def _wait_for_authorising() -> None:
    """SQLite has one writer; on PostgreSQL somebody may authorise at this moment."""
    if connections[POLICY].vendor == "postgresql":
        with connections[POLICY].cursor() as cursor:
            cursor.execute(LOCK)


def _has_files(act: Act, library_id: int) -> bool:
    """Also one that only stays: without it nothing of its group may go."""
    if act.verb == Act.Verb.ACT:
        files = PlanFile.objects.filter(plan=act.plan, library_id=library_id, is_out=False)
        return files.exists()
    taking = TrashItem.objects.filter(left_by=act, library_id=library_id, status__in=TrashItem.OPEN)
    return taking.exists() or lying(act.selection).filter(library_id=library_id).exists()
