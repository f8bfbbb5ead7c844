"""The walk of one library by many readers: units of folders go out, what they hold comes back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from database.portions import portions
from libraries.readers import ReaderPool, Task
from libraries.reading import UNIT_FILES, Trouble
from libraries.unit_pages import SeenRow, rows_of

#: The first units are short, so that every reader has something to do soon.
FIRST_FILES = 200
UNIT_FOLDERS = 64
#: What is left is cut into so many tasks where it can be, so that no reader is idle while another has all of it.
LEAST_TASKS = 4
#: Every walking task has this key; tasks for small files have keys of their own above it.
WALK = 0


@dataclass(frozen=True)
class Unit:
    """What one unit of walking found."""

    pages: list[bytes]
    troubles: list[Trouble]
    folder_count: int
    file_count: int
    bytes_seen: int
    bytes_read: int

    @classmethod
    def of(cls, value: tuple[Any, ...]) -> Unit:
        _left, pages, troubles, *counts = value
        return cls(pages, [Trouble(*trouble) for trouble in troubles], *counts)

    def rows(self) -> Iterator[SeenRow]:
        return rows_of(self.pages)


class Walk:
    """Cuts what is left of a unit into the next ones. Called in the pool's thread."""

    def __init__(self, root: bytes, patterns: tuple[str, ...], least_bytes: int, algorithm: str | None) -> None:
        self.rules = (root, patterns, least_bytes, algorithm)
        self.units = 0

    def start(self, pool: ReaderPool) -> None:
        pool.submit(WALK, self._task([b""], FIRST_FILES))

    def expand(self, value: Any) -> Iterator[Task]:
        if not isinstance(value, tuple):
            return  # the digests of small files
        self.units += 1
        left: list[bytes] = value[0]
        most_files = FIRST_FILES if self.units < 4 else UNIT_FILES
        for some in portions(left, min(UNIT_FOLDERS, 1 + len(left) // LEAST_TASKS)):
            yield self._task(some, most_files)

    def _task(self, folders: Sequence[bytes], most_files: int) -> Task:
        return ("walk", *self.rules, most_files, folders)
