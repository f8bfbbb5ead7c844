"""An index of files that are on no disk: as many rows as are asked for, the same on both databases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from blake3 import blake3

LIBRARIES = ("one", "two", "three")
#: Rows that are handed to SQLite at a time: all of them would be held in memory until the last is written.
AT_ONCE = 10_000
_COLUMNS = (
    "library_id", "relative_path", "size_bytes", "mtime_ns", "inode", "device", "nlink", "needs_hash", "hash_algorithm",
    "content_hash",
)  # fmt: skip


class File(NamedTuple):
    #: Its place in LIBRARIES.
    library: int
    path: str
    #: Files of one content have the same number here, and so the same digest and size.
    content: int


def digest(content: int | str) -> bytes:
    return blake3(str(content).encode()).digest()


def fill(files: Iterable[File]) -> list[int]:
    """Write the files into an empty index; return the ids of the libraries."""
    from django.db import connection

    from libraries.models import LibraryRoot

    libraries = [LibraryRoot.objects.create(name=name, root_path=f"/libraries/{name}").pk for name in LIBRARIES]
    rows = _rows(files, libraries)
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            _insert(rows)
            cursor.execute("ANALYZE")
        else:
            with cursor.copy(f"COPY library_files ({', '.join(_COLUMNS)}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
            cursor.execute("VACUUM ANALYZE library_files")
    return libraries


def _rows(files: Iterable[File], libraries: list[int]) -> Iterator[tuple[Any, ...]]:
    for number, (library, path, content) in enumerate(files, 1):
        size = 1_000 + abs(content) % 1_000_003
        mtime = 1_700_000_000_000_000_000 + number * 1_000_000
        yield libraries[library], path, size, mtime, number, 1, 1, False, "blake3", digest(content)


def _insert(rows: Iterator[tuple[Any, ...]]) -> None:
    from django.db import connection, transaction

    sql = f"INSERT INTO library_files ({', '.join(_COLUMNS)}) VALUES ({', '.join(['%s'] * len(_COLUMNS))})"
    with transaction.atomic(), connection.cursor() as cursor:
        while some := list(islice(rows, AT_ONCE)):
            cursor.executemany(sql, some)
