"""Which files are gone: decided after a complete walk, never below a folder that could not be read.

Files that moved inside the library are not gone: they bring their digests along, and their old names are settled
whatever becomes of the rest, so that no group is made of an old and a new name. When too many are gone at once a person
is asked: a disk of a pool, or a share that came up empty, looks just like that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from django.conf import settings
from django.db import connections

from database.crash_points import reach
from database.portions import portions
from database.routing import EXECUTOR
from jobs.models import Job
from jobs.working import Work
from libraries.errors import LibrariesError
from libraries.excluding import Exclusions
from libraries.id_set import IdSet
from libraries.models import LibraryFile, LibraryRoot
from libraries.not_seen import Elsewhere, NotSeen, NotSeenRow
from libraries.path_order import between, bounds_of
from libraries.reading import Trouble
from libraries.storing import Store

#: Rows that are written in one transaction.
CHUNK = 5_000
#: Ids that are read at a time.
PAGE = 50_000


class GoneTooMany(LibrariesError):
    """More files are gone than is believed without asking."""

    code = "SCAN_MANY_GONE"

    def __init__(self, library: LibraryRoot, count: int, known: int) -> None:
        super().__init__(
            f"{count:,} of {known:,} files of {library.name} were not found. That is more than"
            f" {settings.MISSING_PERCENT} % at once, so none of them was called missing. Look whether every disk of the"
            " library is there; if they are really gone, scan and accept what is missing."
        )
        self.count = count


class Looking:
    """What a walk looked for: all but what could not be read and what the library leaves out."""

    def __init__(self, library: LibraryRoot, troubles: Iterable[Trouble]) -> None:
        self.library = library
        self.unread_folders = tuple(trouble.path + "/" for trouble in troubles if trouble.is_folder)
        self.unread_files = frozenset(trouble.path for trouble in troubles if not trouble.is_folder)
        self.exclusions = Exclusions(library.exclude_patterns.splitlines())

    def was_for(self, path: str) -> bool:
        return path not in self.unread_files and not path.startswith(self.unread_folders)

    def leaves_out(self, size_bytes: int, path: str) -> bool:
        return size_bytes < self.library.min_size_bytes or self.exclusions.cover_below(path)

    def had_files_below(self, folder: str) -> bool:
        """Whether the index has files there that this walk should have found."""
        connection = connections[EXECUTOR]
        where, values = between(self.library.pk, *bounds_of(folder), connection.vendor)
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT size_bytes, relative_path FROM library_files WHERE {where} AND NOT is_missing", values
            )
            return any(self.was_for(path) and not self.leaves_out(size, path) for size, path in cursor)


def knows_files_below(library: LibraryRoot, folder: str) -> bool:
    """Whether the index has files there, be they missing."""
    connection = connections[EXECUTOR]
    where, values = between(library.pk, *bounds_of(folder), connection.vendor)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT 1 FROM library_files WHERE {where} LIMIT 1", values)
        return bool(cursor.fetchall())


class Losing:
    """The last step of a scan of a library that was known before."""

    def __init__(
        self, work: Work[Job], library: LibraryRoot, store: Store, seen: IdSet, troubles: Iterable[Trouble]
    ) -> None:
        self.work, self.library, self.store, self.seen = work, library, store, seen
        self.looking = Looking(library, troubles)
        self.not_seen = NotSeen(store.stamp)
        #: How many rows were called missing so far.
        self.removed = 0

    def decide(self, *, accepts: bool) -> None:
        """Call missing what was not seen. Raises `GoneTooMany` where only what moved could be settled."""
        files = LibraryFile.objects.using(EXECUTOR).filter(library=self.library)
        if files.count() == self.seen.count or not self._note_not_seen():
            return
        moved_to_new = self._settle_moved()
        gone = self.not_seen.gone()
        known = self.seen.count + moved_to_new + gone
        if not accepts and gone * 100 > settings.MISSING_PERCENT * known:
            raise GoneTooMany(self.library, gone, known)
        self._lose(is_moved=False)

    def _lose(self, *, is_moved: bool) -> None:
        for ids in self.not_seen.ids(CHUNK, is_moved=is_moved):
            with self._batch():
                self.store.lose(ids)
            self.removed += len(ids)
            reach("scan_lost")

    @contextmanager
    def _batch(self) -> Iterator[None]:
        self.work.check()
        self.work.advance()
        with self.work.fenced("scan"):
            yield

    # --- What moved ---------------------------------------------------------------------------------------
    def _settle_moved(self) -> int:
        """Give what is known of a moved file to its new name, and call the old one missing; return how many are now
        under a name that was new to the index.

        That is right whether or not a person has to be asked about the rest: left for later, the two names would look
        like two copies. Digests come first, since nobody asks what a missing file could have left.
        """
        moved_to_new = 0
        for page in self._pages():
            self.work.check()
            self.work.advance()
            found = [each for each in self.not_seen.elsewhere(page[0] - 1, page[-1]) if self._was_seen(each)]
            self._inherit([(each.heir_of, each.id) for each in found if each.heir_of is not None])
            self.not_seen.move([each for each in found if each.id in self.seen])
            moved_to_new += self.not_seen.move([each for each in found if each.id not in self.seen])
        self.not_seen.count_anew()
        self._lose(is_moved=True)
        return moved_to_new

    def _inherit(self, heirs: Sequence[tuple[int, int]]) -> None:
        for some in portions(heirs, CHUNK):
            with self._batch():
                self.store.inherit(some)

    def _was_seen(self, found: Elsewhere) -> bool:
        """Whether this walk found that name: one below a folder that it could not read says nothing."""
        return found.is_of_this_scan or found.id in self.seen

    # --- What was not seen --------------------------------------------------------------------------------
    def _note_not_seen(self) -> bool:
        """Whether there is any."""
        self.not_seen.clear()
        has_any = False
        for page in self._pages():
            for batch in portions([key for key in page if key not in self.seen], CHUNK):
                rows = list(self._present(batch))
                self.not_seen.add(rows)
                has_any = has_any or bool(rows)
        self.not_seen.count_anew()
        return has_any

    def _present(self, batch: Sequence[int]) -> Iterator[NotSeenRow]:
        """Those that were present before and could have been seen."""
        files = LibraryFile.objects.using(EXECUTOR).filter(pk__in=batch, is_missing=False)
        # New rows of this very scan carry its session and are in no set of seen ids.
        old = files.exclude(last_seen_scan=self.store.stamp.session_id)
        columns = ("id", "inode", "size_bytes", "mtime_ns", "device", "needs_hash", "relative_path")
        for *known, path in old.values_list(*columns):
            if self.looking.was_for(path):
                yield NotSeenRow._make((*known, self.looking.leaves_out(known[2], path)))

    def _pages(self) -> Iterator[list[int]]:
        """Every id of the library, page by page: memory stays the same however many there are."""
        last = 0
        while page := self._ids_after(last):
            yield page
            last = page[-1]

    def _ids_after(self, last: int) -> list[int]:
        with connections[EXECUTOR].cursor() as cursor:
            cursor.execute(
                "SELECT id FROM library_files WHERE library_id = %s AND id > %s ORDER BY id LIMIT %s",
                [self.library.pk, last, PAGE],
            )
            return [key for (key,) in cursor.fetchall()]
