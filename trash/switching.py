"""What admins have allowed: acting on files, and removing for good. Everything is off until one of them says otherwise.

A missing row means that nobody has changed anything yet; looking never makes one.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from database.durable import durable_transaction
from duplicates.models import Action
from libraries.errors import Refused
from logbook.models import write_event
from trash.models import Switches

ONLY = 1
#: A century: who means never leaves it empty.
MOST_DAYS = 36_500
VARIABLE = "DEDUPFS_ALLOW_REAL_DELETE"


def switches() -> Switches:
    return Switches.objects.filter(pk=ONLY).first() or _untouched()


def _untouched() -> Switches:
    return Switches(pk=ONLY, is_acting_allowed=False, is_removing_allowed=False, empty_after_days=None, updated_by="")


def change(*, actor: str, is_acting_allowed: bool, is_removing_allowed: bool, empty_after_days: int | None) -> Switches:
    """Set all of them, durably; the logbook tells which ones changed, and by whom."""
    if empty_after_days is not None and not 1 <= empty_after_days <= MOST_DAYS:
        raise Refused(_("Say a number of days between 1 and %(most)s, or leave it empty.") % {"most": f"{MOST_DAYS:,}"})
    wanted = {
        "is_acting_allowed": is_acting_allowed,
        "is_removing_allowed": is_removing_allowed,
        "empty_after_days": empty_after_days,
    }
    with durable_transaction():
        row, _is_new = Switches.objects.select_for_update().get_or_create(pk=ONLY)
        row.refresh_from_db()
        changed = _changed(row, wanted)
        if changed:
            Switches.objects.filter(pk=ONLY).update(**wanted, updated_by=actor[:150], updated_at=Now())
            write_event("switches", str(ONLY), "switched", actor=actor, title="switches", **changed)
    return switches()


def _changed(row: Switches, wanted: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {"from": getattr(row, name), "to": value} for name, value in wanted.items() if getattr(row, name) != value
    }


# --- What they mean ---------------------------------------------------------------------------------------
def why_not_act(action: str) -> str:
    """Why a plan with this action can't be authorised now, and the way out; empty where it can."""
    if action == Action.DELETE:
        return why_not_remove()
    if not switches().is_acting_allowed:
        return _("Acting on files is switched off. An admin can allow it on the settings page.")
    return ""


def why_not_remove() -> str:
    """The same for what can't be undone: deleting for good, emptying the trash."""
    if not switches().is_removing_allowed:
        return _("Removing for good is switched off. An admin can allow it on the settings page.")
    if not settings.ALLOW_REAL_DELETE:
        return _(
            "Removing for good also needs %(variable)s=1 in the environment of DedupFS, and it is not there. "
            "Set it, and start DedupFS again."
        ) % {"variable": VARIABLE}
    return ""
