"""Events in words, for the logbook's page and for the history of one row."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models.functions import Now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from logbook.models import LogbookEvent, LogbookEventQuerySet

#: The verbs' events, as a person would say them.
WORDS = {
    "requested": gettext_noop("Requested"),
    "cancel": gettext_noop("Cancel asked for"),
    "reset": gettext_noop("Put back in the queue"),
    "retried": gettext_noop("Tried again as a new job"),
    "consumer_restarted": gettext_noop("Consumer started again"),
    "added": gettext_noop("Added"),
    "changed": gettext_noop("Settings changed"),
    "paused": gettext_noop("Paused"),
    "resumed": gettext_noop("Resumed"),
    "removed": gettext_noop("Removed from the index"),
    "rows_removed": gettext_noop("Its rows are gone"),
    "raised": gettext_noop("Moved up in the queue"),
    "planned": gettext_noop("Plan made"),
    "taken_out": gettext_noop("Files taken out of the plan"),
    "put_back": gettext_noop("Files put back into the plan"),
    "folder_taken_out": gettext_noop("Folder taken out of the plan"),
    "folder_put_back": gettext_noop("Folder put back into the plan"),
    "keeper_swapped": gettext_noop("Another copy chosen to stay"),
    "discarded": gettext_noop("Plan discarded"),
    "rules_added": gettext_noop("Keep rules added"),
    "rules_changed": gettext_noop("Keep rules changed"),
    "rules_removed": gettext_noop("Keep rules removed"),
    "authorised": gettext_noop("Authorised"),
    "ended": gettext_noop("Carried out"),
    "undone_by_manifest": gettext_noop("Undone without this database"),
    "switched": gettext_noop("Switched"),
    "switching": gettext_noop("Switch to another algorithm begun"),
    "switch given up": gettext_noop("Switch to another algorithm given up"),
    "mount": gettext_noop("Seen in another state"),
    "recover": gettext_noop("Lost leases taken back"),
    "restored": gettext_noop("Database restored"),
    "ignored": gettext_noop("Ignored"),
    "no longer ignored": gettext_noop("No longer ignored"),
    "undo_asked": gettext_noop("Undo asked for"),
    "emptying_authorised": gettext_noop("Removing for good authorised"),
    "stopped": gettext_noop("Stopped"),
    "locked_out": gettext_noop("Locked out"),
    "logged_in": gettext_noop("Logged in"),
    "person_added": gettext_noop("Person added"),
    "role_changed": gettext_noop("Role changed"),
    "activated": gettext_noop("Activated"),
    "deactivated": gettext_noop("Deactivated"),
    "password_changed": gettext_noop("Password changed"),
    "password_reset": gettext_noop("Password reset"),
    "token_issued": gettext_noop("Token issued"),
    "token_revoked": gettext_noop("Token revoked"),
    "demo_decided": gettext_noop("Demo library decided about"),
    "demo_brought": gettext_noop("Demo library brought"),
    "demo_removed": gettext_noop("Demo library removed"),
}
#: What events are about, in people's words.
KINDS = {
    "accounts_apitoken": gettext_noop("tokens"),
    "accounts_user": gettext_noop("people"),
    "acts": gettext_noop("acts"),
    "database": gettext_noop("database"),
    "duplicate_groups": gettext_noop("groups"),
    "folder_searches": gettext_noop("folder searches"),
    "hash_states": gettext_noop("hashing"),
    "jobs": gettext_noop("jobs"),
    "library_roots": gettext_noop("libraries"),
    "plans": gettext_noop("plans"),
    "queue": gettext_noop("queues"),
    "rule_sets": gettext_noop("keep rules"),
    "scan_requests": gettext_noop("scan requests"),
    "scan_sessions": gettext_noop("scans"),
    "site": gettext_noop("site"),
    "supervisor": gettext_noop("consumers"),
    "switches": gettext_noop("settings"),
    "thumbnail_cleanup_jobs": gettext_noop("thumbnail clean-ups"),
    "thumbnails": gettext_noop("thumbnails"),
    "wal_maintenance_jobs": gettext_noop("checkpoints"),
}
#: Parts of the payload that a page shows in a place of their own.
PLACED = frozenset({"reason", "message", "as_job", "exit"})


@dataclass(frozen=True)
class ShownEvent:
    """An event as a page shows it; `now` is the database's time when it was read."""

    event: LogbookEvent
    now: datetime

    @property
    def is_change(self) -> bool:
        return self.event.event_type == "status"

    @property
    def words(self) -> str:
        event = self.event
        if not self.is_change:
            known = WORDS.get(event.event_type)
            return _(known) if known else event.event_type.replace("_", " ").capitalize()
        if event.status_from is None:
            return _("Created")
        return _("Removed") if event.status_to is None else _("Status changed")

    @property
    def reason(self) -> str:
        return self._text("reason")

    @property
    def message(self) -> str:
        return self._text("message")

    @property
    def new_job(self) -> str:
        return self._text("as_job")

    @property
    def exit(self) -> str:
        return exit_words(self.payload.get("exit"))

    @property
    def has_detail(self) -> bool:
        return bool(self.payload or self.event.worker_id or self.event.error_code)

    @property
    def rest(self) -> dict[str, Any]:
        return {name: value for name, value in self.payload.items() if name not in PLACED}

    @property
    def payload(self) -> dict[str, Any]:
        """Whoever writes events by hand may have stored any JSON."""
        found = self.event.payload_json
        return found if isinstance(found, dict) else {"payload": found}

    def _text(self, name: str) -> str:
        value = self.payload.get(name)
        return "" if value is None else str(value)


def kind_words(item_type: str) -> str:
    """A kind that nobody described is still called by its table."""
    known = KINDS.get(item_type)
    return _(known) if known else item_type.replace("_", " ")


def shown(events: LogbookEventQuerySet) -> LogbookEventQuerySet:
    """Read events together with the time at which they are read."""
    return events.annotate(now=Now()).select_related("item")


def as_shown(events: list[LogbookEvent]) -> list[ShownEvent]:
    """What `shown` read, ready for a template."""
    return [ShownEvent(event, event.now) for event in events]  # type: ignore[attr-defined]


def exit_words(code: Any) -> str:
    """How a process ended: Python says a negative number for a signal."""
    if isinstance(code, int) and code < 0:
        try:
            return _("killed by %(signal)s") % {"signal": signal.Signals(-code).name}
        except ValueError:
            return _("killed by signal %(number)s") % {"number": -code}
    return "" if code is None else _("exit code %(code)s") % {"code": code}
