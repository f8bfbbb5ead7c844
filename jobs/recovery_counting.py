"""How often work was taken back from a worker that was lost, ever: the logbook knows, and forgets nothing.

Not counted is a loss of a row that told of another error already: by the protocol it keeps that one.
"""

from __future__ import annotations

from django.db import connection

from database.objects import DatabaseObject
from jobs.lease import LEASE_EXPIRED, RUNNING

#: Written out: SQLite uses a partial index only for a condition that it can see.
#: A job that was lost once still says so when somebody cancels it later.
_RECOVERED = f"error_code = '{LEASE_EXPIRED}' AND status_from = '{RUNNING}' AND status_to <> 'cancelled'"
_INDEX = f"CREATE INDEX ix_logbook_events_recovered ON logbook_events (item_type) WHERE {_RECOVERED}"
OBJECTS = [
    DatabaseObject(vendor, "INDEX", "ix_logbook_events_recovered", _INDEX) for vendor in ("sqlite", "postgresql")
]


def recoveries() -> dict[str, int]:
    """How many rows of which table; the logbook only grows, so these do too."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT item_type, COUNT(*) FROM logbook_events WHERE {_RECOVERED} GROUP BY item_type")
        return {str(table): int(count) for table, count in cursor.fetchall()}
