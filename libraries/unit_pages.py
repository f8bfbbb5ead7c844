"""The files of a unit of walking as pages of a small SQLite database: whoever stores them copies whole rows, and need
not take each apart and put it together again. That takes a tenth of what it takes to make Python's objects of them.

A unit's reader fills a shelf and hands over its pages, without the first one, which is always the same. The pages are
written by `unit_pages.c` where it was compiled, else by SQLite itself. Nothing here knows of Django.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Any

from blake3 import blake3

from libraries import native
from libraries.blake3_many import DIGEST_BYTES, HashMany, hash_many_in
from libraries.names import PATH_CHARACTERS, to_text
from libraries.small_files import NOTHING, ODD, SEEN, TOGETHER, Make, NativeReader, native_reader, read_by_python

#: A file as it is stored: path, size, mtime, ctime, inode, device, links and digest.
SeenRow = tuple[str, int, int, int, int, int, int, bytes | None]
SEEN_COLUMNS = (
    "path text NOT NULL, size_bytes bigint NOT NULL, mtime_ns bigint NOT NULL, ctime_ns bigint NOT NULL,"
    " inode bigint NOT NULL, device bigint NOT NULL, nlink bigint NOT NULL, digest blob"
)
TABLE = "seen"

VERSION = 1
#: A row always fits into a page: its path has 16 KiB at the most.
PAGE_BYTES = 32 << 10
#: At so many pages a database is closed and another begun: there is still room for `TOGETHER` of the longest rows.
FULL_PAGES = 512
MOST_PAGES = FULL_PAGES + TOGETHER + 1
#: Where the C keeps how many leaves there are.
_LEAVES = 3
#: Where SQLite's first page says how many there are.
_PAGE_COUNT = slice(28, 32)


class Shelf(ABC):
    """Takes in the files of one unit after the other."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.file_count = self.bytes_seen = self.bytes_read = 0

    @abstractmethod
    def look(self, folder: int, prefix: str, names: Sequence[str], least: int, most: int, make: Make) -> list[str]:
        """Take in the files of a folder that have at least `least` bytes; with `make`, those up to `most` are read and
        hashed. Returns the names that are not simply files, or whose path is too long to be stored."""

    @abstractmethod
    def put(self, row: SeenRow) -> None:
        """Take in one file."""

    @abstractmethod
    def take(self) -> list[bytes]:
        """The pages of each database that came of it. After it the shelf is empty."""

    def _count(self, sizes: list[int], least: int, most: int, make: Make) -> None:
        """Note files that were taken in."""
        self.file_count += len(sizes)
        self.bytes_seen += sum(sizes)
        if make is not None:
            self.bytes_read += sum(size for size in sizes if least <= size <= most)


def shelf(room: mmap | memoryview) -> Shelf:
    """The quickest there is; files are read into `room`, which holds more than the largest of them."""
    reader, built = native_reader(room), native.library("unit_pages", VERSION)
    return ShelfByPython() if reader is None or built is None else ShelfInC(reader, built, hash_many_in(room))


# --- In Python --------------------------------------------------------------------------------------------
class ShelfByPython(Shelf):
    def clear(self) -> None:
        super().clear()
        self._rows: list[SeenRow] = []

    def look(self, folder: int, prefix: str, names: Sequence[str], least: int, most: int, make: Make) -> list[str]:
        odd, sizes = [], []
        for name, known in zip(names, read_by_python(folder, names, least, most, make), strict=True):
            path = _text_of(prefix + name)
            if known is None or len(path) > PATH_CHARACTERS:
                odd.append(name)
            elif known[0] >= least:
                self._rows.append((path, *known))
                sizes.append(known[0])
        self._count(sizes, least, most, make)
        return odd

    def put(self, row: SeenRow) -> None:
        self._rows.append(row)
        self._count([row[1]], 0, 0, None)

    def take(self) -> list[bytes]:
        pages = [_database_of(self._rows)[PAGE_BYTES:]] if self._rows else []
        self.clear()
        return pages


def _text_of(path: str) -> str:
    return path if path.isascii() else to_text(os.fsencode(path))


# --- In C -------------------------------------------------------------------------------------------------
class ShelfInC(Shelf):
    def __init__(self, reader: NativeReader, built: Any, hash_many: HashMany | None) -> None:
        import ctypes

        self._reader, self._built, self._hash_many = reader, built, hash_many
        self._seen = reader.seen
        self._one = (ctypes.c_char * SEEN.size)()
        self._room = mmap(-1, MOST_PAGES * PAGE_BYTES, flags=MAP_PRIVATE | MAP_ANONYMOUS)
        ends = (ctypes.c_int64 * (MOST_PAGES - 1))()
        #: `struct shelf` of the C: the room, the last rows of leaves, how many of these there may be and are, rows, and
        #: the cells of the last leaf: how many, and where they begin.
        self._state = (ctypes.c_int64 * 7)()
        self._state[:3] = [ctypes.addressof(ctypes.c_char.from_buffer(self._room)), ctypes.addressof(ends), len(ends)]
        self._ends = ends  # its memory is used as long as the shelf is
        text, number, address = ctypes.c_char_p, ctypes.c_int64, ctypes.c_void_p
        built.dedupfs_put_rows.argtypes = (address, text, text, address, ctypes.c_long, number, text)
        built.dedupfs_put_rows.restype = ctypes.c_int
        built.dedupfs_finish_pages.argtypes = (address,)
        built.dedupfs_finish_pages.restype = ctypes.c_long
        super().__init__()

    def clear(self) -> None:
        super().clear()
        self._full: list[bytes] = []
        self._built.dedupfs_finish_pages(self._state)

    def look(self, folder: int, prefix: str, names: Sequence[str], least: int, most: int, make: Make) -> list[str]:
        text, done = _text_of(prefix), 0
        room = PATH_CHARACTERS - len(text)
        odd = [name for name in names if len(name) > room or (not name.isascii() and len(_text_of(name)) > room)]
        if odd:
            too_long = set(odd)
            names = [name for name in names if name not in too_long]
        while done < len(names):
            some = names[done : done + TOGETHER]
            done += self._look_at_some(folder, text.encode(), some, least, most, make, odd)
        return odd

    def _look_at_some(
        self, folder: int, prefix: bytes, some: Sequence[str], least: int, most: int, make: Make, odd: list[str]
    ) -> int:
        """How many of them there was room for."""
        asked, reader = os.fsencode("\0".join(some)), self._reader
        count = reader.read(folder, asked, len(some), least, -1 if make is None else most)
        sizes, starts = reader.sizes(count), reader.starts(count)
        digests = b"" if make is None else self._digests(make, sizes, starts)
        names = asked if asked.isascii() else "\0".join(map(_text_of, some)).encode()
        self._put(prefix, names, self._seen, count, least, digests)
        if ODD in starts:
            odd += [name for name, start in zip(some, starts, strict=False) if start == ODD]
            sizes = [size for size, start in zip(sizes, starts, strict=True) if start != ODD]
        if least:
            sizes = [size for size in sizes if size >= least]
        self._count(sizes, least, most, make)
        return count

    def _digests(self, make: Callable[..., Any], sizes: list[int], starts: list[int]) -> bytes:
        """Of the files that were read, one behind the other."""
        if make is blake3 and self._hash_many is not None:
            return self._hash_many(self._seen, starts)
        content = self._reader.content
        return b"".join([make(content(at, size)).digest() for at, size in zip(starts, sizes, strict=True) if at >= 0])

    def put(self, row: SeenRow) -> None:
        path, *numbers, digest = row
        assert digest is None or len(digest) == DIGEST_BYTES
        SEEN.pack_into(self._one, 0, *numbers, NOTHING if digest is None else 0)
        self._put(b"", path.encode(), self._one, 1, 0, digest or b"")
        self._count([row[1]], 0, 0, None)

    def take(self) -> list[bytes]:
        self._close()
        pages = self._full
        self.clear()
        return pages

    def _put(self, prefix: bytes, names: bytes, seen: Any, count: int, least: int, digests: bytes) -> None:
        if self._state[_LEAVES] >= FULL_PAGES:
            self._close()
        if not self._built.dedupfs_put_rows(self._state, prefix, names, seen, count, least, digests):
            raise MemoryError("a unit has more rows than there are pages for")

    def _close(self) -> None:
        count = self._built.dedupfs_finish_pages(self._state)
        if count:
            self._full.append(self._room[: count * PAGE_BYTES])


# --- Whoever stores them ----------------------------------------------------------------------------------
def database_of(pages: bytes) -> bytes:
    """The whole database; its one table is `TABLE`."""
    count = 1 + len(pages) // PAGE_BYTES
    first = bytearray(_first_page())
    first[_PAGE_COUNT] = count.to_bytes(4, "big")
    return bytes(first) + pages


def rows_of(units: Iterable[bytes]) -> Iterator[SeenRow]:
    """One by one, for who has no database to put them into as they are."""
    import sqlite3

    for pages in units:
        connection = sqlite3.connect(":memory:")
        try:
            connection.deserialize(database_of(pages))
            yield from connection.execute(f"SELECT * FROM {TABLE} ORDER BY rowid")
        finally:
            connection.close()


@cache
def _first_page() -> bytes:
    return _database_of([])[:PAGE_BYTES]


def _database_of(rows: Sequence[SeenRow]) -> bytes:
    import sqlite3  # a reader that has the C does without

    connection = sqlite3.connect(":memory:")
    try:
        connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
        connection.execute("PRAGMA auto_vacuum=0")  # some builds of SQLite begin with a page of pointers otherwise
        connection.execute(f"CREATE TABLE {TABLE} ({SEEN_COLUMNS})")
        connection.executemany(f"INSERT INTO {TABLE} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        connection.commit()
        return connection.serialize()
    finally:
        connection.close()
