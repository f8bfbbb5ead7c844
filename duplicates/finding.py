"""Groups of equal files, straight from the index of digests, a page of groups at a time: no transaction is held open
and memory stays the same however many there are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

from django.db import connection

PAGE = 2_000
#: Digests that occur more than once, by the index alone; who is missing is sorted out with the rows.
_PAGE = """
SELECT g.hash_algorithm, g.content_hash, f.id, f.library_id, l.name, l.root_path, f.relative_path,
       f.device, f.inode, f.size_bytes, (NOT f.is_missing AND NOT f.needs_hash) AS counts
  FROM (SELECT hash_algorithm, content_hash FROM library_files
         WHERE content_hash IS NOT NULL AND (hash_algorithm, content_hash) > (%s, %s)
         GROUP BY hash_algorithm, content_hash HAVING COUNT(*) > 1
         ORDER BY hash_algorithm, content_hash LIMIT {page}) g
  JOIN library_files f ON f.hash_algorithm = g.hash_algorithm AND f.content_hash = g.content_hash
   AND f.content_hash IS NOT NULL
  JOIN library_roots l ON l.id = f.library_id
 ORDER BY g.hash_algorithm, g.content_hash, f.id"""


class Member(NamedTuple):
    """One file of a group. A tuple, since there may be millions."""

    file_id: int
    library_id: int
    library_name: str
    root_path: str
    relative_path: str
    device: int | None
    inode: int | None

    @property
    def inode_key(self) -> tuple[int, int]:
        """Equal for names of one file; one that is not known is a file of its own."""
        if self.inode is None or self.device is None:
            return (-1, self.file_id)
        return (self.device, self.inode)


class Group(NamedTuple):
    hash_algorithm: str
    content_hash: bytes
    size_bytes: int
    members: list[Member]

    @property
    def key(self) -> str:
        return f"{self.hash_algorithm}:{self.content_hash.hex()}"

    @property
    def further_bytes(self) -> int:
        """What all copies but one take. Names of one inode are one copy."""
        return self.size_bytes * (len({member.inode_key for member in self.members}) - 1)


def groups(least_bytes: int = 1) -> Iterator[Group]:
    """Every group of present files of equal content, in the order of their digests."""
    after: tuple[str, bytes] = ("", b"")
    while page := _fetch(after):
        for key, rows in groupby(page, key=lambda row: (row[0], bytes(row[1]))):
            after = key
            group = _group(key, list(rows))
            if group is not None and group.size_bytes >= least_bytes:
                yield group


def _fetch(after: tuple[str, bytes]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(_PAGE.format(page=PAGE), list(after))
        return list(cursor.fetchall())


def _group(key: tuple[str, bytes], rows: list[Any]) -> Group | None:
    members = [Member._make(row[2:9]) for row in rows if row[10]]
    return Group(*key, rows[0][9], members) if len(members) > 1 else None
