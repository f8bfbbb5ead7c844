"""The checks that `doctor` makes: each room registers its own, and one failing check never hides the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from database.routing import POLICY


class Grade(IntEnum):
    """How bad it is; `doctor` exits with the worst one."""

    OK = 0
    WARNING = 1
    ERROR = 2


@dataclass(frozen=True)
class Finding:
    """One thing that a check has seen, and what to do about it."""

    grade: Grade
    message: str
    remedy: str = ""
    #: Puts it right, for `doctor --fix`.
    mend: Callable[[], None] | None = None


Check = Callable[[], Iterable[Finding]]


@dataclass(frozen=True)
class Registered:
    name: str
    check: Check
    needs_database: bool


_checks: dict[str, Registered] = {}


def register_check(name: str, *, needs_database: bool = True) -> Callable[[Check], Check]:
    """Declare a check. One that needs the database is left out while it can't be reached."""

    def declare(check: Check) -> Check:
        _checks[name] = Registered(name, check, needs_database)
        return check

    return declare


def ok(message: str) -> Finding:
    return Finding(Grade.OK, message)


def warning(message: str, remedy: str) -> Finding:
    return Finding(Grade.WARNING, message, remedy)


def error(message: str, remedy: str, mend: Callable[[], None] | None = None) -> Finding:
    return Finding(Grade.ERROR, message, remedy, mend)


def examine() -> list[tuple[str, Finding]]:
    """Make every check; return what each found."""
    unreachable = why_unreachable(connections[POLICY])
    found: list[tuple[str, Finding]] = []
    if unreachable is not None:
        found.append(("database", unreachable))
    for each in _checks.values():
        if unreachable is None or not each.needs_database:
            found += [(each.name, finding) for finding in _made(each)]
    return found


def _made(registered: Registered) -> list[Finding]:
    try:
        return list(registered.check())
    except Exception as problem:
        reason = (str(problem).strip().splitlines() or [""])[0]
        return [
            error(f"this check could not be made: {type(problem).__name__}: {reason}", "mend the other errors first")
        ]


def why_unreachable(connection: BaseDatabaseWrapper) -> Finding | None:
    """Ask the database for anything at all. A SQLite file that isn't there is not made."""
    if connection.vendor == "sqlite" and not Path(str(connection.settings_dict["NAME"])).exists():
        name = connection.settings_dict["NAME"]
        return error(f"there is no database at {name}", "start DedupFS once with `manage.py up`, or restore a backup")
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Error as problem:
        reason = (str(problem).strip().splitlines() or [""])[0]
        remedy = (
            "restore a backup" if connection.vendor == "sqlite" else "see that it runs, and that DATABASE_URL is right"
        )
        return error(f"the database can't be reached: {reason}", remedy)
    return None
