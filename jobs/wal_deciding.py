"""What people, scripts and policy decide about checkpoints of SQLite's write-ahead log.

At most one row waits or runs. Asking again returns that one; a stronger mode makes a waiting row stronger. A row that
was busy waits for its next try by itself: asking for the same mode returns it as it is, and force tries it at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs import errors
from jobs.doorbell import ring
from jobs.models import WalMaintenanceJob
from logbook.models import write_event

QUEUE = "wal"
TABLE = WalMaintenanceJob._meta.db_table
#: From the one that disturbs nobody to the one that also shortens the file.
BY_STRENGTH: tuple[str, ...] = ("passive", "restart", "truncate")
WHO_CHARACTERS = 64
#: Who is named where the size alone asked.
AUTOMATIC = "automatic"
#: A row that was seen may be gone the next moment; so often in a row means that something else is wrong.
TRIES = 100


@dataclass(frozen=True)
class Wish:
    """What somebody asked for."""

    mode: str
    by: str
    reason: str
    is_forced: bool


class Refused(errors.Refused):
    """A checkpoint that is not to be had; the message says why and what to do."""


class DoesNotApply(Refused):
    """This installation has no write-ahead log of SQLite's."""


class TooSoon(Refused):
    """The last one was completed a moment ago."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds
        words = ngettext(
            "A checkpoint was completed not long ago: ask again in %(count)d second, or force it.",
            "A checkpoint was completed not long ago: ask again in %(count)d seconds, or force it.",
            seconds,
        )
        super().__init__(words % {"count": seconds})


# --- What there is ----------------------------------------------------------------------------------------
def applies() -> bool:
    return connection.vendor == "sqlite"


def does_not_apply() -> str:
    return _(
        "This does not apply here: the database is PostgreSQL, which looks after its write-ahead log by itself "
        "(max_wal_size, checkpoint_timeout). There is nothing to do."
    )


def wal_bytes() -> int | None:
    """How large the log's file is; None where there can be none. It is only looked at: opening and closing a file of
    SQLite's would take this process's locks on it away."""
    if not applies():
        return None
    try:
        return Path(f"{connection.settings_dict['NAME']}-wal").stat().st_size
    except FileNotFoundError:
        return 0


def allowed_modes() -> list[str]:
    return [mode for mode in BY_STRENGTH if mode in settings.WAL_MODES]


def seconds_to_wait() -> int:
    """How long until the next one may be asked for without force; 0 is now."""
    latest = last_completed().annotate(now=Now()).first()
    if latest is None or latest.finished_at is None:
        return 0
    return max(math.ceil(settings.WAL_INTERVAL_SECONDS - (latest.now - latest.finished_at).total_seconds()), 0)


def last_completed() -> QuerySet[WalMaintenanceJob]:
    """Those that were completed, the latest first."""
    rows = WalMaintenanceJob.objects.filter(status="completed", finished_at__isnull=False)
    return rows.order_by("-finished_at", "-id")


# --- Asking -----------------------------------------------------------------------------------------------
def request_checkpoint(mode: str, *, by: str, reason: str = "", is_forced: bool = False) -> WalMaintenanceJob:
    """The row that will be, or is being, carried out. Raises `DoesNotApply`, `TooSoon` or another `Refused`."""
    if not applies():
        raise DoesNotApply(does_not_apply())
    if mode not in allowed_modes():
        raise Refused(not_allowed(mode))
    wish = Wish(mode, by, reason, is_forced)
    for _try in range(TRIES):
        try:
            with transaction.atomic():
                row = _join_active(wish) or _join_retryable(wish) or _new(wish)
        except IntegrityError:
            continue  # another one was quicker: join that
        row.refresh_from_db()
        return row
    raise Refused(_("Others ask for checkpoints all the time. Try again in a moment."))


def _join_active(wish: Wish) -> WalMaintenanceJob | None:
    row = WalMaintenanceJob.objects.select_for_update().filter(status__in=("pending", "running")).first()
    if row is None:
        return None
    if row.status == "pending":
        stronger = max(wish.mode, row.requested_mode, key=BY_STRENGTH.index)
        _write(row, execute_after=Now(), retry_after=None, requested_mode=stronger)
    elif BY_STRENGTH.index(wish.mode) > BY_STRENGTH.index(row.requested_mode):
        words = _("A %(running)s checkpoint runs now. Ask for %(mode)s when it has ended.")
        raise Refused(words % {"running": row.requested_mode, "mode": wish.mode})
    _note(row, wish)
    return row


def _join_retryable(wish: Wish) -> WalMaintenanceJob | None:
    """One that was busy or lost its worker: its next try is on its way."""
    rows = WalMaintenanceJob.objects.select_for_update().filter(status="retryable", requested_mode=wish.mode)
    row = rows.order_by("created_at", "id").first()
    if row is None:
        return None
    if wish.is_forced:
        _write(row, status="pending", execute_after=Now(), retry_after=None, finished_at=None)
    _note(row, wish)
    return row


def _new(wish: Wish) -> WalMaintenanceJob:
    wait = 0 if wish.is_forced else seconds_to_wait()
    if wait:
        raise TooSoon(wait)
    row = WalMaintenanceJob.objects.create(
        requested_mode=wish.mode, requested_by=wish.by[:WHO_CHARACTERS], reason=wish.reason or None
    )
    _note(row, wish)
    return row


def _write(row: WalMaintenanceJob, **values: Any) -> None:
    WalMaintenanceJob.objects.filter(pk=row.pk, status=row.status).update(updated_at=Now(), **values)


def _note(row: WalMaintenanceJob, wish: Wish) -> None:
    more: dict[str, Any] = {"reason": wish.reason} if wish.reason else {}
    if wish.is_forced:
        more["forced"] = True
    write_event(TABLE, str(row.pk), "requested", actor=wish.by, mode=wish.mode, **more)
    ring(QUEUE)


def not_allowed(mode: str) -> str:
    allowed = allowed_modes()
    if mode not in BY_STRENGTH:
        return _("There is no mode “%(mode)s”. There are: %(modes)s.") % {
            "mode": mode[:40], "modes": ", ".join(BY_STRENGTH),
        }  # fmt: skip
    words = _(
        "The mode %(mode)s is not allowed here; allowed: %(modes)s. To allow it, add it to DEDUPFS_WAL_MODES and start "
        "DedupFS again."
    )
    return words % {"mode": mode, "modes": ", ".join(allowed) or _("none")}


def strongest_allowed() -> str | None:
    return next(iter(reversed(allowed_modes())), None)
