"""Which files are gone: decided after a complete walk, never below a folder that could not be read.

Files that moved inside the library bring their digests along. When too many are gone at once a person is asked: a disk
of a pool, or a share that came up empty, looks just like that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django.conf import settings
from django.db import connections

from database.crash_points import reach
from database.routing import EXECUTOR
from jobs.models import Job
from jobs.working import Work
from libraries.errors import LibrariesError
from libraries.excluding import Exclusions
from libraries.id_set import IdSet
from libraries.models import LibraryFile, LibraryRoot
from libraries.reading import SMALL_BYTES, Trouble
from libraries.storing import Store

CHUNK = 5_000


class GoneTooMany(LibrariesError):
    """More files are gone than is believed without asking."""

    code = "SCAN_MANY_GONE"

    def __init__(self, library: LibraryRoot, count: int, known: int) -> None:
        super().__init__(
            f"{count:,} of {known:,} files of {library.name} were not found. That is more than"
            f" {settings.MISSING_PERCENT} % at once, so none was called missing. Look whether every disk of the library"
            " is there; if they are really gone, scan and accept what is missing."
        )
        self.count = count


class Losing:
    """The last step of a scan of a library that was known before."""

    def __init__(
        self, work: Work[Job], library: LibraryRoot, store: Store, seen: IdSet, troubles: Iterable[Trouble]
    ) -> None:
        self.work, self.library, self.store, self.seen = work, library, store, seen
        self.unread_folders = tuple(trouble.path + "/" for trouble in troubles if trouble.is_folder)
        self.unread_files = frozenset(trouble.path for trouble in troubles if not trouble.is_folder)
        self.exclusions = Exclusions(library.exclude_patterns.splitlines())

    def decide(self, *, accepts: bool) -> int:
        """Call missing what was not seen; return how many. Raises `GoneTooMany` before anything is written."""
        files = LibraryFile.objects.using(EXECUTOR).filter(library=self.library)
        if files.count() == self.seen.count:
            return 0
        gone, left_out = self._count()
        known = self.seen.count + gone
        if not accepts and gone * 100 > settings.MISSING_PERCENT * known:
            raise GoneTooMany(self.library, gone, known)
        for chunk in self._chunks():
            self._lose(chunk)
        return gone + left_out

    def _count(self) -> tuple[int, int]:
        """Files that are gone, and files that the library's own rules leave out by now."""
        gone = left_out = 0
        for chunk in self._chunks():
            covered = sum(self._is_left_out(file) for file in chunk)
            gone, left_out = gone + len(chunk) - covered, left_out + covered
        return gone, left_out

    def _is_left_out(self, file: LibraryFile) -> bool:
        return file.size_bytes < self.library.min_size_bytes or self.exclusions.cover_below(file.relative_path)

    def _lose(self, chunk: list[LibraryFile]) -> None:
        self.work.check()
        self.work.advance()
        with self.work.fenced("scan"):
            self.store.inherit(self._moved(chunk))
            self.store.lose([file.pk for file in chunk])
        reach("scan_lost")

    def _moved(self, chunk: list[LibraryFile]) -> list[tuple[int, int]]:
        """Large files of this chunk that this scan found elsewhere in the library: same inode, size and mtime."""
        gone = {(f.inode, f.size_bytes, f.mtime_ns): f.pk for f in chunk if f.size_bytes > SMALL_BYTES}
        if not gone:
            return []
        sizes = sorted({size for _, size, _ in gone})
        new = LibraryFile.objects.using(EXECUTOR).filter(
            size_bytes__in=sizes,
            size_bytes__gt=SMALL_BYTES,
            is_missing=False,
            needs_hash=True,
            library=self.library,
            last_seen_scan=self.store.stamp.session_id,
        )
        return [
            (gone[key], file_id)
            for file_id, *found in new.values_list("id", "inode", "size_bytes", "mtime_ns")
            if (key := tuple(found)) in gone
        ]

    # --- What was not seen --------------------------------------------------------------------------------
    def _chunks(self) -> Iterator[list[LibraryFile]]:
        batch: list[int] = []
        for key in self._ids():
            if key not in self.seen:
                batch.append(key)
            if len(batch) >= CHUNK:
                yield from self._present(batch)
                batch = []
        yield from self._present(batch)

    def _present(self, batch: list[int]) -> Iterator[list[LibraryFile]]:
        """Those that were present before and could have been seen."""
        files = LibraryFile.objects.using(EXECUTOR).only("id", "relative_path", "size_bytes", "mtime_ns", "inode")
        # New rows of this very scan carry its session and are in no set of seen ids.
        old = files.filter(pk__in=batch, is_missing=False).exclude(last_seen_scan=self.store.stamp.session_id)
        chunk = [file for file in old if self._was_looked_for(file.relative_path)]
        if chunk:
            yield chunk

    def _was_looked_for(self, path: str) -> bool:
        return path not in self.unread_files and not path.startswith(self.unread_folders)

    def _ids(self) -> Iterator[int]:
        """Every id of the library, page by page: memory stays the same however many there are."""
        last = 0
        with connections[EXECUTOR].cursor() as cursor:
            while True:
                cursor.execute(
                    "SELECT id FROM library_files WHERE library_id = %s AND id > %s ORDER BY id LIMIT 50000",
                    [self.library.pk, last],
                )
                page = cursor.fetchall()
                yield from (key for (key,) in page)
                if len(page) < 50_000:
                    return
                last = page[-1][0]
