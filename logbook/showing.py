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
