"""What is around the program: disk, rights, filesystem, clock."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.conf import settings

from database.examining import Finding, error, ok, register_check, warning
from dedupfs_site.examining.store import MEGABYTE, database_file, is_sqlite, state_root
from dedupfs_site.starting import NETWORK_FILESYSTEMS, filesystem_of, own_sqlite_files, read_mounts

FREE_ERROR_BYTES = 100 * MEGABYTE
FREE_WARNING_BYTES = 1024 * MEGABYTE


@register_check("disk", needs_database=False)
def check_disk_space() -> Iterator[Finding]:
    free = shutil.disk_usage(state_root()).free
    message = f"{free / MEGABYTE:,.0f} MB are free for {state_root()}"
    remedy = "free some space, or move DEDUPFS_STATE_ROOT to a larger disk"
    if free < FREE_ERROR_BYTES:
        yield error(message, remedy)
    elif free < FREE_WARNING_BYTES:
        yield warning(message, remedy)
    else:
        yield ok(message)


@register_check("rights", needs_database=False)
def check_rights() -> Iterator[Finding]:
    found = [*_state_folder(), *_secret_key(), *_database_file()]
    yield from found
    if not found:
        yield ok("the state folder is private and can be written")


def _state_folder() -> Iterator[Finding]:
    folder = state_root()
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield error(f"{folder} can't be written by this user", "run as the user that owns it, or change its owner")
    if _mode(folder) & stat.S_IRWXO:
        yield warning(f"{folder} is open to every user of this machine", f"chmod 700 {folder}")


def _secret_key() -> Iterator[Finding]:
    """It signs sessions: whoever reads it can be anybody."""
    key = state_root() / "secret_key"
    if key.exists() and _mode(key) & (stat.S_IRWXG | stat.S_IRWXO):
        yield error(
            f"{key} can be read by others", f"chmod 600 {key}; if others may have read it, remove it and restart"
        )


def _database_file() -> Iterator[Finding]:
    if not is_sqlite() or not database_file().exists():
        return
    file = database_file()
    if not os.access(file, os.R_OK | os.W_OK):
        yield error(f"{file} can't be written by this user", "run as the user that owns it, or change its owner")
    elif _mode(file) & stat.S_IRWXO and _mode(file.parent) & stat.S_IXOTH:
        yield warning(f"{file} can be read by every user of this machine", f"chmod 600 {file}")


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@register_check("filesystem", needs_database=False)
def check_filesystem() -> Iterator[Finding]:
    mounts = read_mounts()
    remote = [
        (file, kind) for file in own_sqlite_files() if (kind := filesystem_of(file, mounts)) in NETWORK_FILESYSTEMS
    ]
    for file, kind in remote:
        yield error(
            f"{file} is a SQLite database on a network filesystem ({kind}), where it loses data",
            "put DEDUPFS_STATE_ROOT on a local disk, or use PostgreSQL (DATABASE_URL) and Redis (HUEY_URL)",
        )
    if not remote:
        yield ok("no SQLite database is on a network filesystem")


@register_check("time zone", needs_database=False)
def check_time_zone() -> Iterator[Finding]:
    try:
        ZoneInfo(settings.TIME_ZONE)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        yield error(
            f"DEDUPFS_TIME_ZONE={settings.TIME_ZONE} is not known here",
            "write a name such as Europe/Rome; if all names are refused, install tzdata",
        )
        return
    yield ok(f"times are shown in {settings.TIME_ZONE}")
