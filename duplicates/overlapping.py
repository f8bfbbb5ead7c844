"""The search for folders that share content: pairs, with everything below them, the largest first.

It goes through the index three times, page by page, and no transaction is held open meanwhile:

1. All files: how much lies below each folder.
2. All contents with copies: which folders share them. Where A/x and B/x share something, so do A and B; the highest
   pair that shares most of what the smaller one holds is the answer, and stands for all pairs below it.
3. The contents again, for the chosen pairs alone: exact figures, whatever the folders inside are called.

What it needs on the way is in scratch tables of bounded size (`duplicates.overlap_tables`). A search that was killed
begins anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

from django.db import connections, transaction

from database.crash_points import reach
from database.portions import portions
from database.routing import EXECUTOR
from duplicates import summary
from duplicates.models import FolderPair, FolderSearch
from duplicates.overlap_counting import Counting
from duplicates.overlap_tables import Numbers, Tables
from jobs import stopping
from jobs.doorbell import ring
from jobs.executing import Outcome, Queue, carry_out_here, register_queue, worker_name
from jobs.working import Work
from libraries.models import LibraryRoot
from logbook.models import write_event

QUEUE = "folders"
#: Pairs that are stored, and those that are looked at for it.
MOST_STORED = 10_000
MOST_CHOSEN = 20_000
#: A content in more folders than this says little about any two of them: it is counted where others have brought two
#: folders together, but brings none together by itself.
MOST_FOLDERS = 50
PAGE_FILES = 20_000
#: Contents whose files are asked for in one statement.
PAGE_CONTENTS = 400
BATCH_PAIRS = 1_000
#: How often a command looks whether another one has ended the search.
WAIT_SECONDS = 0.5
#: Of a search that completed: it could not look at everything.
CAPPED = "CAPPED"

_FILES = """
SELECT id, library_id, relative_path, size_bytes FROM library_files
 WHERE id > %s AND NOT is_missing ORDER BY id LIMIT %s"""
_CONTENTS = """
SELECT hash_algorithm, content_hash, size_bytes, file_count FROM duplicate_groups
 WHERE (hash_algorithm, content_hash) > (%s, %s) ORDER BY hash_algorithm, content_hash LIMIT %s"""
#: Joined in this order, and by an outer join, as in `duplicates.facts`.
_COPIES = """
SELECT f.hash_algorithm, f.content_hash, f.library_id, f.relative_path
  FROM (VALUES {marks}) asked LEFT JOIN library_files f
    ON f.hash_algorithm = asked.column1 AND f.content_hash = asked.column2
   AND f.content_hash IS NOT NULL AND NOT f.is_missing AND NOT f.needs_hash"""
_MANY_COPIES = """
SELECT f.id, f.library_id, f.relative_path FROM library_files f
 WHERE f.hash_algorithm = %s AND f.content_hash = %s AND f.content_hash IS NOT NULL AND f.id > %s
   AND NOT f.is_missing AND NOT f.needs_hash ORDER BY f.id LIMIT %s"""

#: (library, folder) → how many files with one content lie right inside it.
Places = dict[tuple[int, str], int]


# --- Asking -----------------------------------------------------------------------------------------------
def ask(actor: str) -> FolderSearch:
    """The search that waits or runs, or a new one."""
    with transaction.atomic():
        if connections["default"].vendor == "postgresql":
            with connections["default"].cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(hashtext('ask for folders'))")
        active = FolderSearch.objects.filter(status__in=("pending", "running")).order_by("id").first()
        if active is not None:
            return active
        search = FolderSearch.objects.create(requested_by=actor[:150])
        write_event("folder_searches", str(search.pk), "requested", actor=actor[:150])
        ring(QUEUE)
    search.refresh_from_db()
    return search


def search_now(actor: str, tell: Callable[[str], Any] = lambda _: None) -> FolderSearch:
    """Search in this process, or wait for the one who does it already; return the search as it ended."""
    search = ask(actor)
    is_told = False
    while search.status in ("pending", "running") and not stopping.is_requested():
        lease = FolderSearch.objects.filter(pk=search.pk).claim(worker_name())
        if lease is not None:
            carry_out_here(QUEUE, lease)
        elif not is_told:
            is_told = True
            tell("Another process searches. Waiting for it, or until its lease runs out.")
        search.refresh_from_db()
        if search.status in ("pending", "running"):
            time.sleep(WAIT_SECONDS)
    return search


def register() -> None:
    register_queue(Queue(QUEUE, FolderSearch.objects.all, lambda _search: carry_out))


def carry_out(work: Work[FolderSearch]) -> Outcome:
    return Overlap(work).run()


# --- Searching --------------------------------------------------------------------------------------------
class Overlap:
    """One search, from clean tables to stored pairs."""

    def __init__(self, work: Work[FolderSearch]) -> None:
        self.work = work
        self.numbers = Numbers()
        self.kept = set(LibraryRoot.objects.using(EXECUTOR).kept().values_list("pk", flat=True))
        self.done = self.total = 0
        self.capped = 0

    def run(self) -> Outcome:
        self._forget_old_pairs()
        summary.bring_up_to_date(EXECUTOR)
        self._measure()
        self.tables = Tables()
        try:
            self._count_folders()
            self._pair_up()
            pairs = self._choose()
        finally:
            self.tables.drop()
        reach("folders_found")
        self._store(pairs)
        reach("folders_stored")
        return Outcome(
            code=CAPPED if self.capped or self.tables.dropped else None,
            message=self._limits(),
            columns={"pair_count": len(pairs)},
        )

    def _measure(self) -> None:
        files = _ask("SELECT COUNT(*) FROM library_files")[0][0]
        copies = _ask("SELECT COALESCE(SUM(file_count), 0) FROM duplicate_groups")[0][0]
        self.total = int(files) + 2 * int(copies)

    def _limits(self) -> str | None:
        said = []
        if self.capped:
            said.append(
                f"{self.capped:,} contents lie in more than {MOST_FOLDERS} folders each: no folders were brought"
                " together by these alone."
            )
        if self.tables.dropped:
            said.append(f"{self.tables.dropped:,} pairs that share least were left out, since there were too many.")
        return " ".join(said) or None

    def _advance(self, count: int, doing: str) -> None:
        """So many more files are seen."""
        self.work.check()
        self.done += count
        self.work.advance(min(self.done, self.total), self.total, doing=doing)
        self.work.tell()

    # --- 1: how much lies below each folder ---------------------------------------------------------------
    def _count_folders(self) -> None:
        after = 0
        while rows := _ask(_FILES, [after, PAGE_FILES]):
            inside: dict[tuple[int, str], list[int]] = {}
            for _id, library_id, path, size in rows:
                if library_id in self.kept:
                    sums = inside.setdefault((library_id, path.rpartition("/")[0]), [0, 0])
                    sums[0] += 1
                    sums[1] += size
            self.tables.add_folders(self._with_parents(inside))
            after = rows[-1][0]
            self._advance(len(rows), "counting folders")

    def _with_parents(self, inside: dict[tuple[int, str], list[int]]) -> list[tuple[int, int | None, str, int, int]]:
        """A row for each folder and for all that it lies in, with what a page of files adds to it."""
        rows: dict[int, list[Any]] = {}
        for (library_id, path), (files, size) in inside.items():
            chain = self.numbers.chain(library_id, path)
            names = [*reversed(path.split("/")), ""] if path else [""]
            for at, number in enumerate(chain):
                row = rows.get(number)
                if row is None:
                    parent = chain[at + 1] if at + 1 < len(chain) else None
                    row = rows[number] = [number, parent, names[at], 0, 0]
                row[3] += files
                row[4] += size
        return [tuple(row) for row in rows.values()]

    # --- 2: which folders share contents ------------------------------------------------------------------
    def _pair_up(self) -> None:
        pairs: dict[tuple[int, int], list[int]] = {}
        for size, places in self._contents("comparing folders"):
            if size and len(places) <= MOST_FOLDERS:
                self._add_pairs(pairs, size, places)
            elif size:
                self.capped += 1
            if len(pairs) >= PAGE_FILES:
                self.tables.add_pairs([(*key, *row) for key, row in pairs.items()])
                pairs.clear()
        self.tables.add_pairs([(*key, *row) for key, row in pairs.items()])
        self.tables.index()
        # Lifting makes pairs of a smaller depth, which are lifted in their turn.
        depth = max(self.tables.depths(), default=0)
        while depth >= 2:
            self.tables.lift(depth)
            self._advance(0, "comparing folders")
            depth = max((each for each in self.tables.depths() if each < depth), default=0)

    def _add_pairs(self, pairs: dict[tuple[int, int], list[int]], size: int, places: Places) -> None:
        for (one, in_one), (other, in_other) in combinations(places.items(), 2):
            depths, room = _depths_and_room(one, other)
            if room < 0:
                continue  # one lies in the other
            low, high = self.numbers.chain(*one)[0], self.numbers.chain(*other)[0]
            if low > high:
                low, high, low_files, high_files = high, low, in_other, in_one
            else:
                low_files, high_files = in_one, in_other
            row = pairs.get((low, high))
            if row is None:
                row = pairs[low, high] = [depths, room, 0, 0, 0]
            row[2] += size
            row[3] += low_files * size
            row[4] += high_files * size

    def _contents(self, doing: str) -> Iterator[tuple[int, Places]]:
        """Every content that has copies: its size, and how many files with it lie in which folder."""
        after: tuple[str, bytes] = ("", b"")
        while rows := _ask(_CONTENTS, [*after, PAGE_CONTENTS]):
            after = (rows[-1][0], bytes(rows[-1][1]))
            for some in _held_at_once(rows):
                sizes = {(algorithm, bytes(digest)): size for algorithm, digest, size, _count in some}
                files = sum(row[3] for row in some)
                is_few = files <= PAGE_FILES
                found = (
                    self._places(list(sizes)) if is_few else {each: self._many_places(each, doing) for each in sizes}
                )
                for digest, places in found.items():
                    yield sizes[digest], places
                self._advance(files if is_few else 0, doing)

    def _places(self, digests: list[tuple[str, bytes]]) -> dict[tuple[str, bytes], Places]:
        found: dict[tuple[str, bytes], Places] = {}
        sql = _COPIES.format(marks=", ".join(["(%s, %s)"] * len(digests)))
        for algorithm, digest, library_id, path in _ask(sql, [part for each in digests for part in each]):
            if path is not None:
                self._place(found.setdefault((algorithm, bytes(digest)), {}), library_id, path)
        return found

    def _many_places(self, digest: tuple[str, bytes], doing: str) -> Places:
        """The same for one content with very many copies."""
        places: Places = {}
        after = 0
        while rows := _ask(_MANY_COPIES, [*digest, after, PAGE_FILES]):
            for _id, library_id, path in rows:
                self._place(places, library_id, path)
            after = rows[-1][0]
            self._advance(len(rows), doing)
        return places

    def _place(self, places: Places, library_id: int, path: str) -> None:
        if library_id in self.kept:
            key = (library_id, path.rpartition("/")[0])
            places[key] = places.get(key, 0) + 1

    # --- 3: exact figures ---------------------------------------------------------------------------------
    def _choose(self) -> list[FolderPair]:
        """The pairs that share most of what the smaller one holds, none of which lies in another."""
        for depth in self.tables.depths():
            self.tables.choose(depth)
            self._advance(0, "choosing pairs")
        counting = Counting(self.tables, self.numbers, self.tables.chosen(MOST_CHOSEN))
        for size, places in self._contents("counting pairs"):
            counting.add(size, places)
        libraries = {self.numbers.chain(library_id, "")[-1]: library_id for library_id in self.kept}
        return counting.pairs(self.work.row, libraries)[:MOST_STORED]

    # --- Storing ------------------------------------------------------------------------------------------
    def _forget_old_pairs(self) -> None:
        """Of searches before the last one that pages show, and of an earlier try of this one."""
        shown = FolderSearch.objects.using(EXECUTOR).filter(status="completed").order_by("-id").first()
        old = FolderPair.objects.using(EXECUTOR).exclude(search_id=shown.pk if shown else 0)
        while keys := list(old.order_by("id").values_list("pk", flat=True)[:BATCH_PAIRS]):
            self.work.check()
            with self.work.fenced("pair"):
                FolderPair.objects.using(EXECUTOR).filter(pk__in=keys).delete()

    def _store(self, pairs: list[FolderPair]) -> None:
        for some in portions(pairs, BATCH_PAIRS):
            self.work.check()
            self.work.advance(doing="storing pairs")
            with self.work.fenced("pair"):
                FolderPair.objects.using(EXECUTOR).bulk_create(some)


def _depths_and_room(one: tuple[int, str], other: tuple[int, str]) -> tuple[int, int]:
    """How deep two folders lie, together; and how often both can be exchanged for their parents until one of them holds
    the other. Less than 0 where that is so already."""
    first, second = (path.split("/") if path else [] for _, path in (one, other))
    if one[0] != other[0]:
        return len(first) + len(second), min(len(first), len(second))
    shared = 0
    for name, other_name in zip(first, second, strict=False):
        if name != other_name:
            break
        shared += 1
    return len(first) + len(second), min(len(first), len(second)) - shared - 1


def _held_at_once(contents: list[Any]) -> Iterator[list[Any]]:
    """Rows of `_CONTENTS` in portions of not too many files together; a content with more than that stands alone."""
    portion: list[Any] = []
    files = 0
    for row in contents:
        if portion and files + row[3] > PAGE_FILES:
            yield portion
            portion, files = [], 0
        portion.append(row)
        files += row[3]
    yield portion


def _ask(sql: str, parameters: Any = ()) -> list[Any]:
    with connections[EXECUTOR].cursor() as cursor:
        cursor.execute(sql, list(parameters))
        return list(cursor.fetchall())
