"""What the tables of this room need in the database beside their columns."""

from __future__ import annotations

from database.objects import DatabaseObject
from database.transitions import guards
from libraries.models import ScanSession
from logbook.recording import Watched, recorders

#: A PostgreSQL btree can't hold a path of 4,000 bytes, so there a path is unique by its digest.
PATH_DIGEST = """CREATE OR REPLACE FUNCTION dedupfs_path_digest(path text) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $body$ SELECT sha256(convert_to(path, 'UTF8')) $body$"""

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
    *guards("scan_sessions", ScanSession.MOVES),
    *recorders(Watched("scan_sessions", "'scan session'", has_worker=False, error_code=None)),
]
