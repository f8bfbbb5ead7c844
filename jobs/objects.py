"""What the tables of this room need in the database beside their columns."""

from __future__ import annotations

from database.objects import DatabaseObject
from database.transitions import guards
from jobs.models import Job, WalMaintenanceJob
from logbook.recording import Watched, recorders

SINGLE_ACTIVE = (
    "CREATE UNIQUE INDEX ix_jobs_single_active_scan_hash ON jobs ((1))"
    " WHERE lower(status) IN ('pending', 'running') AND lower(kind) IN ('scan', 'hash')"
)
SINGLE_CHECKPOINT = (
    "CREATE UNIQUE INDEX ix_wal_maintenance_jobs_single_active ON wal_maintenance_jobs ((1))"
    " WHERE status IN ('pending', 'running')"
)
#: Acting on files is done by one worker at a time.
SINGLE_DELETE = (
    "CREATE UNIQUE INDEX ix_jobs_single_running_delete ON jobs ((1))"
    " WHERE status = 'running' AND kind = 'delete' AND NOT dry_run"
)

OBJECTS = [
    *(
        DatabaseObject(vendor, "INDEX", sql.split()[3], sql)
        for vendor in ("sqlite", "postgresql")
        for sql in (SINGLE_ACTIVE, SINGLE_CHECKPOINT, SINGLE_DELETE)
    ),
    *guards("jobs", Job.MOVES),
    *guards("wal_maintenance_jobs", WalMaintenanceJob.MOVES),
    *recorders(Watched("jobs", "NEW.kind || ' job'")),
    *recorders(Watched("wal_maintenance_jobs", "NEW.requested_mode || ' checkpoint'")),
]
