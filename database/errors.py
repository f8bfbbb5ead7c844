"""What the verbs of this room refuse. Each message is for a person: what failed, where, and what to do."""

from __future__ import annotations


class DatabaseRoomError(Exception):
    """The base of this room's errors."""


class BackupFailed(DatabaseRoomError):
    """No backup was made, and nothing half-made was left behind."""


class RestoreRefused(DatabaseRoomError):
    """Nothing was restored; the current database is as it was."""


class NewerDatabase(DatabaseRoomError):
    """The database was made by a later version than this code."""


class NotOurDatabase(DatabaseRoomError):
    """The database holds tables, but this program didn't make them."""


class MigrationFailed(DatabaseRoomError):
    """A file could not be brought to this version's schema."""


class AdoptionRefused(DatabaseRoomError):
    """Nothing was adopted; the file holds the rows it held."""


class FileInUse(DatabaseRoomError):
    """Another process has the SQLite file open."""
