"""Beside the database lies a witness of what was done: by it an older database is noticed that somebody put in place by
hand, also where no manifest is left in any trash.

It names the last change of an act that this state folder has seen, as the logbook has it. That one is only ever added
to, so a database whose logbook knows nothing of that change is older than it, or another one: then what is approved in
it may have been carried out already, or withdrawn. It is written before an act touches its first file, and by every
consumer now and then.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django.db import connections

from database import sqlite_files
from database.durable import durable_transaction
from database.routing import EXECUTOR, POLICY
from jobs.living import register_chore
from logbook.models import LogbookEvent
from trash.locking import Busy, held
from trash.models import Act
from trash.restored import STATEMENTS

NAME = "acts.witness"
logger = logging.getLogger(__name__)
#: Each of these is on the disk when it is committed. An approval is not: a power cut may take it away again, and the
#: database would seem older than it is.
_DURABLE = [status.value for status in Act.Status if status != Act.Status.AUTHORISED]
_LARGEST = 2**63 - 1


class Witness(NamedTuple):
    """A change of an act. Numbers come again in a database that goes on from an older day; times don't."""

    event: int
    at: str
    act: str
    to: str


def heed() -> bool:
    """Whether the database is older than what was witnessed: then no approval in it counts any more. Whoever calls
    holds the lock."""
    told = _read()
    is_older = told is not None and not _is_known(told)
    if is_older:
        logger.warning("The database knows nothing of %s: it is older than what was done. Approvals are void.", told)
        with durable_transaction(), connections[POLICY].cursor() as cursor:
            for statement in STATEMENTS:
                cursor.execute(statement)
    keep()
    return is_older


def keep() -> None:
    """On the disk when this returns. Whoever calls holds the lock."""
    last, path = _last(), _path()
    if last is None:
        path.unlink(missing_ok=True)
    elif last != _read():
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps(last._asdict()))
        sqlite_files.sync_file(draft)
        draft.replace(path)
        sqlite_files.sync_folder(path.parent)


def tend() -> None:
    """What every consumer does when it starts, and now and then."""
    if _read() == _last():
        return
    with suppress(Busy), held(doing="looking whether the database is older"):
        heed()


# --- The two sides ----------------------------------------------------------------------------------------
def _path() -> Path:
    return Path(settings.STATE_ROOT) / NAME


def _read() -> Witness | None:
    """None where there is none, or where what is there can't be read: that says nothing."""
    try:
        told = json.loads(_path().read_text())
        found = Witness(int(told["event"]), str(told["at"]), str(told["act"]), str(told["to"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return found if 0 < found.event <= _LARGEST else None


def _last() -> Witness | None:
    events = LogbookEvent.objects.using(EXECUTOR).filter(item_type="acts", event_type="status", status_to__in=_DURABLE)
    return _witness(events.select_related("item").order_by("-id").first())


def _is_known(told: Witness) -> bool:
    events = LogbookEvent.objects.using(EXECUTOR).filter(pk=told.event)
    return _witness(events.select_related("item").first()) == told


def _witness(event: LogbookEvent | None) -> Witness | None:
    if event is None:
        return None
    return Witness(event.pk, event.created_at.isoformat(), event.item.subject_id, event.status_to or "")


def register() -> None:
    register_chore("witness", lambda: settings.SWEEP_SECONDS, tend)
