"""Pairs of folders as pages show them: the list of a search, and the files of one pair, as the index knows them now.

The files of a pair are looked through a part at a time: a page ends when it is full or when its time is up, and the
next one goes on from there. So no page waits for a folder of a million files.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import connections
from django.db.models import BooleanField, Subquery
from django.db.models.expressions import RawSQL
from django.db.models.functions import Now

from database.routing import POLICY
from duplicates.facts import Digest, Place, read_places
from duplicates.models import FolderPair, FolderSearch, group_key
from duplicates.path_difference import Part, differences
from libraries.models import LibraryFile, LibraryRoot
from libraries.path_order import between, bounds_of, by_path

PAGE_PAIRS = 50
PAGE_FILES = 100
#: Files that are looked at together.
PART_FILES = 400
PAGE_SECONDS = 1.0
#: Letters of a folder in a row.
PATH_LETTERS = 92
BOTH, LEFT, RIGHT = "both", "left", "right"
LISTS = (BOTH, LEFT, RIGHT)
_CURSOR = re.compile(r"(\d{1,18})-(\d{1,19})-(\d{1,18})", re.ASCII)

_BELOW = """
SELECT id, relative_path, size_bytes, hash_algorithm, content_hash, needs_hash FROM library_files
 WHERE {which} AND NOT is_missing ORDER BY {order} LIMIT {most}"""
#: Joined in this order, and by an outer join, as in `duplicates.facts`.
_TWINS = """
SELECT f.hash_algorithm, f.content_hash, MIN(f.relative_path) FROM (VALUES {marks}) asked LEFT JOIN library_files f
    ON f.hash_algorithm = asked.column1 AND f.content_hash = asked.column2
   AND f.content_hash IS NOT NULL AND NOT f.is_missing AND NOT f.needs_hash
   AND {library} = %s AND SUBSTR(f.relative_path, 1, %s) = %s
 GROUP BY f.hash_algorithm, f.content_hash"""


class BadCursor(ValueError):
    """A place in a list that there is not, or not any more."""


# --- Searches ---------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Searches:
    """What is known about searching: the last one that completed, and what became of a later one."""

    shown: FolderSearch | None
    latest: FolderSearch | None
    #: Libraries that were scanned since the shown one began.
    scanned_since: int = 0

    @property
    def active(self) -> FolderSearch | None:
        return self.latest if self.latest and self.latest.status in ("pending", "running") else None

    @property
    def failed(self) -> FolderSearch | None:
        return self.latest if self.latest and self.latest.status == "failed" else None

    @property
    def share(self) -> int | None:
        """How far the running one is, in thousandths."""
        search = self.active
        return None if search is None or search.total_items is None else min(int(search.progress * 1000), 999)

    @property
    def percent(self) -> int | None:
        return None if self.share is None else self.share // 10


def read_searches() -> Searches:
    """Each with the database's time as `now`."""
    searches = FolderSearch.objects.annotate(now=Now()).order_by("-id")
    shown = searches.filter(status="completed").first()
    if shown is None:
        return Searches(None, searches.first())
    began = FolderSearch.objects.filter(pk=shown.pk).values("started_at")
    scanned = LibraryRoot.objects.kept().filter(last_scanned_at__gt=Subquery(began))
    return Searches(shown, searches.first(), scanned.count())


# --- The list ---------------------------------------------------------------------------------------------
class Side(NamedTuple):
    """One folder of a pair."""

    place: Place
    folder: str
    parts: tuple[Part, ...]
    files: int
    bytes: int
    only_files: int


@dataclass(frozen=True)
class ShownPair:
    pair: FolderPair
    left: Side
    right: Side

    @property
    def is_equal(self) -> bool:
        """Neither holds anything that the other has not."""
        return not self.left.only_files and not self.right.only_files


@dataclass(frozen=True)
class PairPage:
    pairs: list[ShownPair]
    next_cursor: str | None


def page(search: FolderSearch | None, cursor: str | None, size: int = PAGE_PAIRS) -> PairPage:
    """The pairs of a search, the one that shares most bytes first. A cursor goes on in the search it came from."""
    pairs = FolderPair.objects.filter(search=search) if search else FolderPair.objects.none()
    if cursor is not None:
        found = _CURSOR.fullmatch(cursor)
        if not found:
            raise BadCursor
        search_id, shared, key = map(int, found.groups())
        after = RawSQL("(by_bytes, id) > (%s, %s)", [-shared, key], output_field=BooleanField())
        pairs = FolderPair.objects.filter(after, search_id=search_id)
    rows = list(pairs.order_by("by_bytes", "id")[: size + 1])
    if cursor is not None and not rows:
        raise BadCursor
    places = read_places()
    shown = [each for each in (_shown(row, places) for row in rows[:size]) if each is not None]
    last = rows[size - 1] if len(rows) > size else None
    return PairPage(shown, f"{last.search_id}-{last.shared_bytes}-{last.pk}" if last else None)


def every(search: FolderSearch) -> Iterator[ShownPair]:
    """All pairs, page by page."""
    cursor: str | None = None
    while True:
        found = page(search, cursor, 500)
        yield from found.pairs
        cursor = found.next_cursor
        if cursor is None:
            return


def one(pair_id: int) -> ShownPair | None:
    pair = FolderPair.objects.filter(pk=pair_id).select_related("search").first()
    return _shown(pair, read_places()) if pair else None


def _shown(pair: FolderPair, places: dict[int, Place]) -> ShownPair | None:
    """None where a library is gone since."""
    if pair.left_library_id not in places or pair.right_library_id not in places:
        return None
    left, right = differences([pair.left_folder, pair.right_folder], PATH_LETTERS)
    return ShownPair(
        pair,
        Side(places[pair.left_library_id], pair.left_folder, left, pair.left_files, pair.left_bytes,
             pair.left_only_files),
        Side(places[pair.right_library_id], pair.right_folder, right, pair.right_files, pair.right_bytes,
             pair.right_only_files),
    )  # fmt: skip


# --- The files of a pair ----------------------------------------------------------------------------------
class Listed(NamedTuple):
    """A file of a pair: where it lies below its folder, and where the other folder has it."""

    id: int
    path: str
    size: int
    group_key: str
    twin: str


@dataclass(frozen=True)
class FilePage:
    files: list[Listed]
    #: The file that the next page comes after; None where this is the last page.
    next_after: int | None
    #: The time was up before the page was full.
    is_short: bool


def files(shown: ShownPair, which: str, after: int | None = None, seconds: float = PAGE_SECONDS) -> FilePage:
    """What lies in both folders (as the left one has it), or in one of them alone."""
    until = time.monotonic() + seconds
    own, other = (shown.right, shown.left) if which == RIGHT else (shown.left, shown.right)
    found: list[Listed] = []
    while True:
        rows = _below(own, after)
        twins = _twins([digest for *_, digest in rows if digest], other)
        for key, path, size, digest in rows:
            twin = twins.get(digest) if digest else None
            if (twin is not None) == (which == BOTH):
                if len(found) == PAGE_FILES:
                    return FilePage(found, after, False)
                found.append(Listed(key, _inside(path, own), size, group_key(*digest) if digest and twin else "",
                                    _inside(twin, other) if twin else ""))  # fmt: skip
            after = key
        if len(rows) < PART_FILES:
            return FilePage(found, None, False)
        if time.monotonic() > until:
            return FilePage(found, after, True)


def shared_keys(shown: ShownPair, most: int, seconds: float) -> list[str] | None:
    """The groups of all contents that both folders have; None where there are more, or where it takes too long."""
    until = time.monotonic() + seconds
    keys: dict[str, None] = {}
    after: int | None = None
    while True:
        rows = _below(shown.left, after)
        keys.update((group_key(*digest), None) for digest in _twins([row[3] for row in rows if row[3]], shown.right))
        if len(keys) > most or (len(rows) == PART_FILES and time.monotonic() > until):
            return None
        if len(rows) < PART_FILES:
            return list(keys)
        after = rows[-1][0]


def _inside(path: str, side: Side) -> str:
    return path[len(side.folder) + 1 :] if side.folder else path


def _below(side: Side, after: int | None) -> list[tuple[int, str, int, Digest | None]]:
    """The next files of a folder, with all below it, in the order of their paths."""
    start, end = bounds_of(side.folder)
    if after is not None:
        # No name holds a zero byte, so nothing stands between a path and the same with a one behind it.
        start = max(start, f"{_path_of(after, side)}\x01")
    vendor = connections[POLICY].vendor
    which, values = between(side.place.id, start, end, vendor)
    with connections[POLICY].cursor() as cursor:
        cursor.execute(_BELOW.format(which=which, order=by_path(vendor), most=PART_FILES), values)
        return [
            (key, path, size, (algorithm, bytes(digest)) if algorithm and digest and not needs_hash else None)
            for key, path, size, algorithm, digest, needs_hash in cursor.fetchall()
        ]


def _path_of(file_id: int, side: Side) -> str:
    found = LibraryFile.objects.filter(pk=file_id, library_id=side.place.id).values_list("relative_path", flat=True)
    path = found.first()
    if path is None:
        raise BadCursor
    return path


def _twins(digests: Sequence[Digest], side: Side) -> dict[Digest, str]:
    """Which of these contents lie in a folder or below it, with one path each."""
    wanted = list(dict.fromkeys(digests))
    if not wanted:
        return {}
    prefix = f"{side.folder}/" if side.folder else ""
    # The sign keeps SQLite from going through the whole library instead of the few files of each content.
    library = "+f.library_id" if connections[POLICY].vendor == "sqlite" else "f.library_id"
    sql = _TWINS.format(marks=", ".join(["(%s, %s)"] * len(wanted)), library=library)
    parameters: list[Any] = [part for digest in wanted for part in digest]
    with connections[POLICY].cursor() as cursor:
        cursor.execute(sql, [*parameters, side.place.id, len(prefix), prefix])
        rows = cursor.fetchall()
    return {(algorithm, bytes(digest)): path for algorithm, digest, path in rows if path is not None}
