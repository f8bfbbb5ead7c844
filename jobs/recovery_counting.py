"""How often work was taken back from a worker that was lost, by table.

Not counted is a loss of a row that told of another error already: by the protocol it keeps that one.
"""

from __future__ import annotations

from jobs.lease import LEASE_EXPIRED, RUNNING
from logbook.counting import EventCount

#: A job that was lost once still says so when somebody cancels it later.
RECOVERIES = EventCount(
    "recovered",
    "item_type",
    f"error_code = '{LEASE_EXPIRED}' AND status_from = '{RUNNING}' AND status_to <> 'cancelled'",
)
