"""Holding a SQLite file alone, and putting another in its place while nobody looks.

What must never happen is that a `-wal` of the old file meets the new one: SQLite would replay it, and the new
file would be ruined. So the log is folded into the old file first, under a lock that keeps everybody else out
until the new file has the name. A kill at any step leaves the old file or the new one, whole.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from database import sqlite_files
from database.crash_points import reach
from database.errors import FileInUse

KEPT = ".before-"
#: How the name of a file ends that is to replace another one.
DRAFT = ".dedupfs-draft"


@dataclass(frozen=True)
class Held:
    """A database file that no other connection can read or write as long as this lives."""

    path: Path
    connection: sqlite3.Connection


@contextmanager
def alone_with(path: Path, *, seconds: float = 2.0) -> Iterator[Held]:
    """Hold the database at `path` alone, its log folded in; `FileInUse` where others have it open."""
    connection = sqlite_files.connect(path, seconds=seconds)
    try:
        mode = _mode(connection)
        held = path.stat()
        try:
            _take(connection, path)
            yield Held(path, connection)
        finally:
            _let_go(connection, mode, is_in_place=_is_file(path, held))
    finally:
        connection.close()


def _take(connection: sqlite3.Connection, path: Path) -> None:
    """Leaving WAL mode needs the file for oneself; so does the transaction that then keeps it."""
    _refuse_others(path)
    try:
        connection.execute("PRAGMA journal_mode=DELETE").fetchone()
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise FileInUse(f"{path} is in use by another connection; stop what works on it, then try again") from None
        raise
    # Somebody may have come in between the two statements and gone back to WAL.
    if _mode(connection) != "delete" or sqlite_files.companions(path):
        raise FileInUse(f"{path} came into use by another connection; stop what works on it, then try again")
    _refuse_others(path)


def _refuse_others(path: Path) -> None:
    others = holders(path)
    if others:
        raise FileInUse(f"{path} is open in {', '.join(others)}; stop that, then try again")


def _mode(connection: sqlite3.Connection) -> str:
    return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


def _let_go(connection: sqlite3.Connection, mode: str, *, is_in_place: bool) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")
    if is_in_place and mode == "wal":
        # Where others have the file open it has stayed in WAL mode anyway.
        with suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode=WAL").fetchone()


def _is_file(path: Path, known: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.stat(), known)
    except FileNotFoundError:
        return False


def holders(path: Path) -> list[str]:
    """Other processes that have the file open, as far as /proc shows them.

    An idle connection to a database that isn't in WAL mode holds no lock; only its open file gives it away.
    """
    wanted = path.stat()
    processes = [each for each in Path("/proc").glob("[0-9]*") if each.name != str(os.getpid())]
    return [f"{_command(each)} (process {each.name})" for each in processes if _has_open(each, path.name, wanted)]


def _has_open(process: Path, name: str, wanted: os.stat_result) -> bool:
    try:
        handles = [each for each in (process / "fd").iterdir() if _may_be(each, name)]
        return any(_is_file(handle, wanted) for handle in handles)
    except OSError:
        return False  # another user's process, or one that has just ended


def _may_be(handle: Path, name: str) -> bool:
    """Judged by name alone: asking a file on a dead network share for its identity could hang."""
    return handle.readlink().name == name


def _command(process: Path) -> str:
    try:
        return (process / "comm").read_text(errors="replace").strip()
    except OSError:
        return "a program"


# --- Putting a new file in place --------------------------------------------------------------------------


def kept_name(path: Path, why: str) -> Path:
    """A free name for the old file, beside it."""
    kept = path.with_name(f"{path.name}{KEPT}{why}")
    number = 1
    while kept.exists():
        number += 1
        kept = path.with_name(f"{path.name}{KEPT}{why}-{number}")
    return kept


def forget_unfinished(path: Path) -> None:
    """Remove a kept name that is still the file in use: its run was killed before the new one came."""
    for each in path.parent.iterdir():
        if each.name.startswith(path.name + KEPT) and each.samefile(path):
            each.unlink()


def same_rights(draft: Path, model: Path) -> None:
    """Give a draft the owner and the mode of the file it replaces: another user's worker may share it."""
    of = model.stat()
    if os.geteuid() == 0:
        os.chown(draft, of.st_uid, of.st_gid)
    draft.chmod(stat.S_IMODE(of.st_mode))


def swap(held: Held, draft: Path, kept: Path, *, crash_point: str) -> None:
    """Keep the held file under another name and put `draft` in its place."""
    same_rights(draft, held.path)
    sqlite_files.sync_file(draft)
    reach(crash_point)
    try:
        os.link(held.path, kept)
    except OSError as error:
        if error.errno not in sqlite_files.NO_HARD_LINKS:
            raise
        _copy_held(held, kept)
    sqlite_files.sync_folder(kept.parent)
    reach(crash_point)
    draft.replace(held.path)
    reach(crash_point)
    sqlite_files.sync_folder(held.path.parent)


def _copy_held(held: Held, kept: Path) -> None:
    """Where there are no hard links: copy through SQLite, since a plain read would drop our lock."""
    with sqlite_files.draft_beside(held.path, DRAFT) as copy:
        with closing(sqlite_files.connect(copy)) as target:
            held.connection.backup(target)
        sqlite_files.publish(copy, kept)
