"""What the tables of this room need in the database beside their columns."""

from __future__ import annotations

from database.objects import DatabaseObject
from database.transitions import guards
from jobs.deciding import UNCOUNTED
from libraries.models import ScanRequest, ScanSession
from libraries.path_order import BEGINNING
from logbook.recording import Watched, recorders

#: A PostgreSQL btree can't hold a path of 4,000 bytes, so there a path is unique by its digest.
PATH_DIGEST = """CREATE OR REPLACE FUNCTION dedupfs_path_digest(path text) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $body$ SELECT sha256(convert_to(path, 'UTF8')) $body$"""

#: A hash job that failed is not tried again at once: what made it fail would do so again.
HASH_AGAIN_SECONDS = 3600
_UNCOUNTED = ", ".join(repr(code) for code in sorted(UNCOUNTED))
_REQUEST_TITLE = (
    "SUBSTR('scan of ' || COALESCE((SELECT name FROM library_roots WHERE id = NEW.library_id), '?'), 1, 255)"
)


def _followers(now: str, later: str) -> dict[str, str]:
    """What follows from a job's move, as statements over `NEW` and `OLD` that both databases understand."""
    ended = "NEW.status IN ('completed', 'failed', 'cancelled')"
    request = "job_id = NEW.id AND status"
    return {
        "started": f"""UPDATE scan_requests SET status = 'running', started_at = {now}, updated_at = {now}
   WHERE NEW.status = 'running' AND {request} = 'pending'""",
        "lost": f"""UPDATE scan_requests SET status = 'pending', updated_at = {now},
         attempts = attempts + CASE WHEN COALESCE(NEW.error_code, '') IN ({_UNCOUNTED}) THEN 0 ELSE 1 END
   WHERE NEW.status = 'retryable' AND {request} = 'running'""",
        "ended": f"""UPDATE scan_requests SET status = NEW.status, completed_at = {now}, updated_at = {now},
         error = CASE NEW.status WHEN 'completed' THEN NEW.error_message
                                 WHEN 'failed' THEN COALESCE(NEW.error_message, NEW.error_code, 'failed') END
   WHERE {ended} AND {request} IN ('pending', 'running')""",
        # What never ran has found nothing new.
        "due": f"""INSERT INTO hash_states (id) SELECT 1
   WHERE {ended} AND OLD.status <> 'pending' AND NOT EXISTS (SELECT 1 FROM hash_states WHERE id = 1)""",
        "hash": f"""UPDATE hash_states SET updated_at = {now}, is_due = (NEW.kind = 'scan'),
         retry_at = CASE WHEN NEW.kind = 'hash' AND NEW.status = 'failed' THEN {later}
                         WHEN NEW.kind = 'hash' AND NEW.status = 'cancelled' THEN NULL ELSE retry_at END
   WHERE {ended} AND (OLD.status <> 'pending' OR NEW.kind = 'hash') AND id = 1""",
    }


def _statements(followers: dict[str, str]) -> str:
    return "".join(f"{statement};\n  " for statement in followers.values()).rstrip()


def _follow_jobs() -> list[DatabaseObject]:
    """A scan request moves with its job, and hashing is due after a scan, whoever moved the job.

    A hash job that ended leaves nothing due: after a cancel it waits for the next scan, after a failure for an hour.
    """
    moment = "STRFTIME('%Y-%m-%d %H:%M:%f', 'now'{})"
    name = "scan_requests_follow_jobs"
    on_sqlite = _followers(moment.format(""), moment.format(f", '+{HASH_AGAIN_SECONDS} seconds'"))
    sqlite = f"""CREATE TRIGGER {name} AFTER UPDATE OF status ON jobs
WHEN OLD.status IS NOT NEW.status AND NEW.kind IN ('scan', 'hash') BEGIN
  {_statements(on_sqlite)}
END"""
    now = "statement_timestamp()"
    on_postgresql = _followers(now, f"{now} + interval '{HASH_AGAIN_SECONDS} seconds'")
    on_postgresql["due"] += " ON CONFLICT DO NOTHING"  # two jobs may end at the same moment
    function = f"""CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $body$
BEGIN
  IF OLD.status IS NOT DISTINCT FROM NEW.status OR NEW.kind NOT IN ('scan', 'hash') THEN RETURN NULL; END IF;
  {_statements(on_postgresql)}
  RETURN NULL;
END $body$"""
    trigger = f"CREATE TRIGGER {name}_trigger AFTER UPDATE OF status ON jobs FOR EACH ROW EXECUTE FUNCTION {name}()"
    return [
        DatabaseObject("sqlite", "TRIGGER", name, sqlite, "jobs"),
        DatabaseObject("postgresql", "FUNCTION", name, function),
        DatabaseObject("postgresql", "TRIGGER", f"{name}_trigger", trigger, "jobs"),
    ]


OBJECTS = [
    DatabaseObject(
        "sqlite",
        "INDEX",
        "ux_library_files_library_path",
        "CREATE UNIQUE INDEX ux_library_files_library_path ON library_files (library_id, relative_path)",
    ),
    DatabaseObject("postgresql", "FUNCTION", "dedupfs_path_digest", PATH_DIGEST),
    DatabaseObject(
        "postgresql",
        "INDEX",
        "ux_library_files_library_path",
        "CREATE UNIQUE INDEX ux_library_files_library_path"
        " ON library_files (library_id, dedupfs_path_digest(relative_path))",
    ),
    # What lies below a folder, and what comes after a path (`libraries.path_order`). On SQLite the index above does it.
    DatabaseObject(
        "postgresql",
        "INDEX",
        "ix_library_files_path_order",
        f"CREATE INDEX ix_library_files_path_order ON library_files (library_id, ({BEGINNING}))",
    ),
    *guards("scan_sessions", ScanSession.MOVES),
    *recorders(Watched("scan_sessions", "'scan session'", has_worker=False, error_code=None)),
    *guards("scan_requests", ScanRequest.MOVES),
    *recorders(Watched("scan_requests", _REQUEST_TITLE, has_worker=False, error_code=None, error_message="error")),
    *_follow_jobs(),
]
