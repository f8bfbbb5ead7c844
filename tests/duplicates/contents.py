"""Rows of files with known content, as scans and hash jobs leave them, and a writer that is not ours."""

from __future__ import annotations

import hashlib
import itertools
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connection

from libraries.models import LibraryFile, LibraryRoot

_inodes = itertools.count(1)


def digest_of(content: str) -> bytes:
    return hashlib.sha256(content.encode()).digest()


def key_of(content: str, algorithm: str = "sha256") -> str:
    return f"{algorithm}:{digest_of(content).hex()}"


def copies(content: str, *paths: str, in_library: LibraryRoot, size: int = 10, **fields: Any) -> list[LibraryFile]:
    """Files of one content at these paths, each an inode of its own."""
    values = {"mtime_ns": 1, "device": 1, "nlink": 1, "needs_hash": False, "hash_algorithm": "sha256", **fields}
    rows = [
        LibraryFile(
            library=in_library,
            relative_path=path,
            size_bytes=size,
            content_hash=digest_of(content),
            **{"inode": next(_inodes), **values},
        )
        for path in paths
    ]
    return LibraryFile.objects.bulk_create(rows)


class Foreign:
    """A program in another language on the same database: no Django, plain SQL, each statement for itself."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def run(self, sql: str, *values: Any) -> list[Any]:
        if isinstance(self.raw, sqlite3.Connection):
            sql = sql.replace("%s", "?")
        cursor = self.raw.execute(sql, values)
        return list(cursor.fetchall()) if cursor.description else []

    def insert(self, columns: Sequence[str], values: Sequence[Any]) -> int:
        marks = ", ".join(["%s"] * len(columns))
        rows = self.run(f"INSERT INTO library_files ({', '.join(columns)}) VALUES ({marks}) RETURNING id", *values)
        return int(rows[0][0])


@contextmanager
def foreign_writer() -> Iterator[Foreign]:
    chosen = connection.settings_dict
    raw: Any
    if connection.vendor == "sqlite":
        raw = sqlite3.connect(str(chosen["NAME"]), timeout=20, isolation_level=None)
    else:
        raw = psycopg.connect(
            host=chosen["HOST"], port=chosen["PORT"], user=chosen["USER"], dbname=chosen["NAME"], autocommit=True
        )
    try:
        yield Foreign(raw)
    finally:
        raw.close()
