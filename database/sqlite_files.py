"""SQLite databases as files: opened plainly, checked, kept beside each other, put in place in one step.

A trap that shapes this module: POSIX drops all of a process's locks on a file as soon as the process closes
*any* descriptor of it. So a database that this process may have open through SQLite is never opened here as a
plain file.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

MAGIC = b"SQLite format 3\x00"
#: Files that SQLite keeps beside a database and would replay into whatever file has its name.
COMPANIONS = ("-wal", "-shm", "-journal")
NO_HARD_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


@dataclass(frozen=True)
class Contents:
    """What two copies of one database must agree on."""

    rows: dict[str, int]
    migrations: tuple[tuple[str, str], ...]
    dangling: int


def connect(path: Path, *, mode: str = "rw", seconds: float = 5.0) -> sqlite3.Connection:
    """Open an existing file (SQLite would make a missing one); transactions are the caller's."""
    return sqlite3.connect(f"file:{quote(str(path))}?mode={mode}", uri=True, timeout=seconds, isolation_level=None)


def open_backup(path: Path) -> sqlite3.Connection:
    """A backup has no log beside it and nobody writes it, so it can be read on a read-only disk; a raw copy may."""
    return connect(path, mode="rw" if companions(path) else "ro&immutable=1")


def companions(path: Path) -> list[Path]:
    """The files beside `path` that belong to it and to no other database."""
    return [each for each in (path.with_name(path.name + end) for end in COMPANIONS) if each.exists()]


def looks_like_sqlite(path: Path) -> bool:
    """Only for files that this process doesn't have open (see above)."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def tables(connection: sqlite3.Connection) -> list[str]:
    found = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB 'sqlite_*' ORDER BY name"
    )
    return [name for (name,) in found.fetchall()]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def count(connection: sqlite3.Connection, table: str) -> int:
    return int(connection.execute(f"SELECT COUNT(*) FROM {quoted(table)}").fetchone()[0])


def applied_migrations(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    if "django_migrations" not in tables(connection):
        return set()
    return set(connection.execute("SELECT app, name FROM django_migrations").fetchall())


def contents(connection: sqlite3.Connection) -> Contents:
    return Contents(
        rows={table: count(connection, table) for table in tables(connection)},
        migrations=tuple(sorted(applied_migrations(connection))),
        dangling=len(connection.execute("PRAGMA foreign_key_check").fetchall()),
    )


def damage(connection: sqlite3.Connection) -> str:
    """What SQLite finds wrong with the file, in its words; empty where all is well."""
    found = [text for (text,) in connection.execute("PRAGMA integrity_check(5)").fetchall()]
    return "" if found == ["ok"] else "; ".join(str(text).replace("\n", " ") for text in found)


def explain(error: sqlite3.Error) -> str:
    """SQLite's error with what it usually means."""
    meaning = {
        "SQLITE_FULL": "the disk is full",
        "SQLITE_IOERR_WRITE": "the file can't be written; is the disk full?",
        "SQLITE_READONLY": "the file or its folder is read-only for this user",
        "SQLITE_CANTOPEN": "the file can't be opened by this user",
        "SQLITE_CORRUPT": "the database is damaged",
        "SQLITE_NOTADB": "the file is no SQLite database",
        "SQLITE_BUSY": "another process is using the file",
    }.get(getattr(error, "sqlite_errorname", ""))
    return f"{meaning} ({error})" if meaning else str(error)


def copy_snapshot(source: sqlite3.Connection, target: sqlite3.Connection, *, pages: int = 2048) -> None:
    """Copy what `source` sees, in steps, while others go on writing.

    The caller holds a read transaction on `source`: without it every commit of another process would make
    SQLite start the copy over, for ever under a busy writer.
    """
    source.backup(target, pages=pages)
    # The copy says "WAL" in its header; as one self-contained file it must not.
    target.execute("PRAGMA journal_mode=DELETE").fetchone()


@contextmanager
def draft_beside(path: Path, ending: str) -> Iterator[Path]:
    """An empty private file in the folder of `path`; whatever is left of it at the end is removed."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}{ending}")
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        yield draft
    finally:
        remove_with_companions(draft)


def remove_old_drafts(path: Path, ending: str) -> None:
    """Remove what killed runs left; only for a caller that knows that no other run is at work."""
    for draft in path.parent.glob(f".{_literal(path.name)}.*{ending}"):
        remove_with_companions(draft)


def remove_with_companions(path: Path) -> None:
    for each in [path, *companions(path)]:
        each.unlink(missing_ok=True)


def _literal(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def sync_file(path: Path) -> None:
    """Make the bytes of a file that nobody has open durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    sync_file(folder)


def publish(draft: Path, target: Path) -> None:
    """Give a finished draft its name, atomically; FileExistsError where the name is taken."""
    sync_file(draft)
    try:
        os.link(draft, target)
    except OSError as error:
        if error.errno not in NO_HARD_LINKS:
            raise
        # No hard links here (exFAT, some shares): take the name first, then put the file under it.
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        draft.replace(target)
    else:
        draft.unlink()
    sync_folder(target.parent)


def free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def size_of_database(connection: sqlite3.Connection) -> int:
    (page_count,) = connection.execute("PRAGMA page_count").fetchone()
    (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    return int(page_count) * int(page_size)


def is_readable(path: Path) -> bool:
    """Whether SQLite takes the file for a database at all. Reads only: a damaged file's log may be worth keeping."""
    try:
        with closing(connect(path, mode="ro")) as connection:
            tables(connection)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorname in ("SQLITE_NOTADB", "SQLITE_CORRUPT"):
            return False
        raise
    return True
