"""After a restore every approval has to be given anew: the database is older than what was done on the disks.

As SQL, since it is run on a database that nothing else has opened yet (`database.restoring`).
"""

from __future__ import annotations

NOTE = "The database was restored from a backup: what was authorised before needs a new approval."
_JOBS = "kind = 'delete' AND NOT dry_run AND status IN ('pending', 'running', 'retryable')"
_TOUCHED = (
    "EXISTS (SELECT 1 FROM trash_items i JOIN acts a ON a.id = i.act_id"
    " WHERE a.plan_id = plans.id AND i.status NOT IN ('skipped', 'intended'))"
)

#: In this order: first the jobs, so that no executor takes one up; the plans last, as their acts decide about them.
STATEMENTS = (
    "UPDATE jobs SET status = 'cancelled', finished_at = CURRENT_TIMESTAMP, lease_expires_at = NULL,"
    f" updated_at = CURRENT_TIMESTAMP WHERE {_JOBS}",
    f"UPDATE acts SET status = 'void', note = '{NOTE}', finished_at = CURRENT_TIMESTAMP,"
    " updated_at = CURRENT_TIMESTAMP WHERE status IN ('authorised', 'running')",
    f"UPDATE plans SET status = CASE WHEN {_TOUCHED} THEN 'done' ELSE 'ready' END, updated_at = CURRENT_TIMESTAMP"
    " WHERE status = 'authorised'",
)
