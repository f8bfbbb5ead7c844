"""How many thumbnails were made, and how many could not be, ever: the logbook knows, also of those that are gone."""

from __future__ import annotations

from django.db import connection

from database.objects import DatabaseObject

#: Written out: SQLite uses a partial index only for a condition that it can see.
_ENDED = "item_type = 'thumbnails' AND status_from = 'running' AND status_to IN ('ready', 'failed')"
_INDEX = f"CREATE INDEX ix_logbook_events_rendered ON logbook_events (status_to) WHERE {_ENDED}"
OBJECTS = [DatabaseObject(vendor, "INDEX", "ix_logbook_events_rendered", _INDEX) for vendor in ("sqlite", "postgresql")]


def renders() -> dict[str, int]:
    """By how they ended."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT status_to, COUNT(*) FROM logbook_events WHERE {_ENDED} GROUP BY status_to")
        return {"ready": 0, "failed": 0} | {str(result): int(count) for result, count in cursor.fetchall()}
