"""The handler of `delete` jobs: a dry run makes a plan (`duplicates.planning`); any other carries out what was
authorised, by its verb."""

from __future__ import annotations

import logging
from contextlib import suppress

from django.db import DatabaseError, InterfaceError
from django.db.models.functions import Now

from database.routing import EXECUTOR
from duplicates import planning
from jobs.errors import LeaseLost, Stopping
from jobs.executing import Outcome
from jobs.models import Job
from jobs.working import Work
from libraries.errors import Refused
from trash import settling, witness
from trash.acting import Acting
from trash.emptying import Emptying
from trash.errors import ActFailed, ActVoid
from trash.item_storing import recording
from trash.locking import Busy, Held, giving_way, held
from trash.models import Act
from trash.undoing import Undoing

logger = logging.getLogger(__name__)
NOT_AUTHORISED = planning.NOT_AUTHORISED
ENDED = "ACT_ENDED"


def carry_out(work: Work[Job]) -> Outcome | None:
    if work.row.dry_run:
        return planning.carry_out(work)
    act = Act.objects.using(EXECUTOR).select_related("plan").filter(job_id=work.row.pk).first()
    if act is None:
        return Outcome("failed", NOT_AUTHORISED, "Nobody has authorised this job; no file was touched.")
    if not act.is_living:
        return _ended(act)  # it died after the act had ended, before anybody noted that its job had
    try:
        with held(doing=str(act)) as lock:
            is_older = witness.heed()
            settling.settle_all()
            act.refresh_from_db(using=EXECUTOR)
            return _ended(act) if is_older else _run(work, act, lock)
    except Busy as reason:
        raise giving_way(reason) from None
    except LeaseLost:
        _settle_for_others()
        raise


def _run(work: Work[Job], act: Act, lock: Held) -> Outcome | None:
    try:
        if act.verb == Act.Verb.ACT:
            Acting(work, act, lock).run()
        else:
            _begin(work, act)
            witness.keep()
            (Undoing if act.verb == Act.Verb.UNDO else Emptying)(work, act).run()
            settling.end_settled(lock, act, Act.Status.COMPLETED, "", work=work)
    except ActFailed as error:
        status = Act.Status.VOID if isinstance(error, ActVoid) else Act.Status.FAILED
        return _failed(work, act, lock, status, error.code, error.message)
    except Refused as error:
        # It was switched off meanwhile.
        return _failed(work, act, lock, Act.Status.FAILED, "SWITCHED_OFF", str(error))
    return None


def _begin(work: Work[Job], act: Act) -> None:
    with recording(work):
        rows = Act.objects.using(EXECUTOR).filter(pk=act.pk, status=Act.Status.AUTHORISED)
        rows.update(status=Act.Status.RUNNING, updated_at=Now())


def _failed(work: Work[Job], act: Act, lock: Held, status: str, code: str, words: str) -> Outcome:
    if not settling.end_settled(lock, act, status, words, work=work):
        # The disk went away in the middle of it: the chore ends the act when it is back.
        logger.warning("%s failed and can't be settled yet: %s", act, words)
    return Outcome("failed", code, words)


def _ended(act: Act) -> Outcome | None:
    if act.status == Act.Status.COMPLETED:
        return None
    return Outcome("failed", ENDED, act.note or f"It is {act.status}; nothing more is done.")


def _settle_for_others() -> None:
    """The claim is lost, most often since somebody cancelled the job: what is in between is settled at once. That
    needs the lock alone, and whoever else has it does it as well."""
    with suppress(Busy, Stopping, LeaseLost, DatabaseError, InterfaceError, OSError):
        settling.settle_all()
        settling.end_ended()
