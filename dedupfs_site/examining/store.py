"""The database: sound, of this version, with everything in place, backed up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder

from database.backing_up import backups_folder
from database.clock import SecondsFromNow
from database.examining import Finding, error, ok, register_check, warning
from database.migrating import pending_migrations, unknown_migrations
from database.objects import drift, expected
from database.routing import POLICY

MEGABYTE = 1024 * 1024
DAY_SECONDS = 24 * 60 * 60
WAL_WARNING_BYTES = 256 * MEGABYTE
BACKUP_WARNING_DAYS = 7


def is_sqlite() -> bool:
    return connections[POLICY].vendor == "sqlite"


def database_file() -> Path:
    return Path(str(connections[POLICY].settings_dict["NAME"]))


@register_check("database")
def check_database() -> Iterator[Finding]:
    if not is_sqlite():
        yield ok("PostgreSQL answers")
        return
    with connections[POLICY].cursor() as cursor:
        cursor.execute("PRAGMA quick_check(5)")
        found = [text for (text,) in cursor.fetchall()]
    if found == ["ok"]:
        yield ok(f"{database_file()} is sound")
    else:
        reason = "; ".join(found).replace("\n", " ")
        yield error(f"{database_file()} is damaged: {reason}", "stop DedupFS and restore a backup")


@register_check("migrations")
def check_migrations() -> Iterator[Finding]:
    connection = connections[POLICY]
    newer = unknown_migrations(MigrationRecorder(connection).applied_migrations())
    pending = pending_migrations(connection)
    if newer:
        yield error(
            f"the database is newer than this version (it has {', '.join(newer)})",
            "start the newer version, or restore the backup from before the upgrade",
        )
    if pending:
        yield error(f"{len(pending)} migrations are pending: {', '.join(pending)}", "start `manage.py up`")
    if not newer and not pending:
        yield ok("the database is of this version")


@register_check("objects")
def check_objects() -> Iterator[Finding]:
    """Triggers and hand-made indexes: without them the single-active rule and the logbook are gone."""
    connection = connections[POLICY]
    missing = drift(connection)
    for each in missing:
        yield error(f"{each.name} is {each.problem}", "run `manage.py doctor --fix`")
    if not missing:
        yield ok(f"{len(expected(connection.vendor))} triggers, indexes and functions are in place")


@register_check("log")
def check_log_size() -> Iterator[Finding]:
    if not is_sqlite():
        return
    log = database_file().with_name(database_file().name + "-wal")
    size = log.stat().st_size if log.exists() else 0
    if size > WAL_WARNING_BYTES:
        yield warning(
            f"SQLite's log has grown to {size / MEGABYTE:,.0f} MB",
            "something reads for very long, or checkpoints don't run: look for a stuck process, or restart DedupFS",
        )
    else:
        yield ok(f"SQLite's log has {size / MEGABYTE:,.1f} MB")


@register_check("backups")
def check_backups() -> Iterator[Finding]:
    """Backups elsewhere can't be seen from here; the folder of ours can."""
    folder = backups_folder()
    times = [each.stat().st_mtime for each in folder.glob("[!.]*")] if folder.is_dir() else []
    if times:
        days = (time.time() - max(times)) / DAY_SECONDS
        if days > BACKUP_WARNING_DAYS:
            yield warning(f"the newest backup in {folder} is {days:.0f} days old", "run `manage.py backup`, best daily")
        else:
            yield ok(f"the newest backup is {days:.1f} days old")
    elif _is_older_than(BACKUP_WARNING_DAYS):
        yield warning(f"there is no backup in {folder}", "run `manage.py backup`, best daily")
    else:
        yield ok("the database is too young to need a backup")


def _is_older_than(days: int) -> bool:
    migrations = MigrationRecorder(connections[POLICY]).migration_qs
    return bool(migrations.filter(applied__lte=SecondsFromNow(-days * DAY_SECONDS)).exists())


def state_root() -> Path:
    return Path(settings.STATE_ROOT)
