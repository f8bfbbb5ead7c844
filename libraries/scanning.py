"""The scan: walk a library, store what is new or changed, and decide what is missing.

Disk work is the readers'; this process compares with the index and writes batches, each fenced by the job's lease. A
scan that was killed is done anew by the next one, which reads only what the killed one had not stored.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.db.models import Count, F, Q, QuerySet, Sum
from django.db.models.functions import Coalesce, Greatest, Now

from database.crash_points import reach
from database.routing import EXECUTOR
from jobs.budgets import Meter
from jobs.collecting import little_collected
from jobs.errors import LeaseLost
from jobs.executing import Outcome
from jobs.models import Job
from jobs.working import Work
from libraries import mount_guard, rehashing
from libraries.errors import LibrariesError
from libraries.id_set import IdSet
from libraries.lanes import RealDisks
from libraries.listening import files_changed
from libraries.losing import GoneTooMany, Looking, Losing, knows_files_below
from libraries.models import HashState, LibraryFile, LibraryRoot, LibraryState, ScanError, ScanRequest, ScanSession
from libraries.mounts import filesystems, is_writable
from libraries.names import to_bytes
from libraries.readers import Done, Event, Failed, Part, ReaderPool, reader_count
from libraries.reading import SMALL_BYTES, UNIT_FILES, Trouble
from libraries.storing import Stamp, Store
from libraries.unit_pages import SeenRow
from libraries.walking import WALK, Unit, Walk

BATCH_SECONDS = 1.0
#: The same for a large tree: what a batch of it costs depends on how large it is.
LONG_BATCH_SECONDS = 3.0
#: Batches grow up to the most there may be: the first ones are written while readers still have something to do, and
#: what is left for the last one, when readers have nothing to do any more, is a small part of the whole.
FIRST_BATCH_FILES = 2_500
EARLY_BATCH_FILES = 20_000
BATCH_SHARE = 10
#: The last ones are smaller again, as far as it is known that they are the last; not too small, where it is not.
LAST_BATCH_SHARE = 40
#: What is compared with the index writes next to nothing, and larger batches would only take memory.
COMPARED_FILES = 30_000
#: Small files that one reader hashes at a time.
SMALL_UNIT = 500
#: How often it is asked for the library's budget.
ASK_SECONDS = 1.0


@dataclass
class Tally:
    """What a scan has seen and done so far."""

    files: int = 0
    bytes: int = 0
    folders: int = 0
    errors: int = 0
    added: int = 0
    changed: int = 0
    #: Known by their content, but elsewhere, or back again.
    placed: int = 0
    removed: int = 0


def scan(work: Work[Job]) -> Outcome | None:
    """Carry out a scan job: of one library, or of all where it names none."""
    problems: list[LibrariesError] = []
    with little_collected():
        for library in _asked_for(work.row.payload):
            try:
                LibraryScan(work, library).run()
            except (mount_guard.NotTheSame, GoneTooMany) as problem:
                problems.append(problem)
    files_changed()
    if not problems:
        return None
    return Outcome("failed", problems[0].code, " ".join(map(str, problems)))  # type: ignore[attr-defined]


def _asked_for(payload: dict[str, Any]) -> QuerySet[LibraryRoot]:
    libraries = LibraryRoot.objects.using(EXECUTOR).kept().order_by("id")
    if "library_id" in payload:
        return libraries.filter(pk=payload["library_id"])
    return libraries.filter(is_paused=False)


class LibraryScan:
    """One library, from the look at its disk to the last row."""

    def __init__(self, work: Work[Job], library: LibraryRoot) -> None:
        self.work, self.library = work, library
        self.accepts = bool(work.row.payload.get("accept_missing"))
        self.root = to_bytes(library.root_path)
        self.is_first = not LibraryFile.objects.using(EXECUTOR).filter(library=library).exists()
        rehashing.decide(lambda: work.fenced("hash"))
        self.algorithm = HashState.objects.using(EXECUTOR).values_list("algorithm", flat=True).get(pk=1)
        self.meter = Meter(f"library:{library.pk}", library.read_bytes_per_second)
        self.tally = Tally()
        self.seen = IdSet()
        self.troubles: list[Trouble] = []
        #: For the next batch: how many files were walked and are to be compared (a first scan has nothing to compare
        #: them with; the store has them), and rows that are new to the index, changed, and known but elsewhere.
        self.walked = 0
        self.fresh: list[SeenRow] = []
        self.changed: list[tuple[int, SeenRow]] = []
        self.placed: list[tuple[int, SeenRow]] = []
        self.untold: list[Trouble] = []
        #: Small files that are new or changed, by the key of the task that hashes them.
        self.held: dict[int, list[tuple[int | None, SeenRow]]] = {}
        self.last_key = WALK
        most = settings.SCAN_BATCH_FILES
        self.most_files = most if self.is_first else min(most, COMPARED_FILES)
        self.batch_files = min(FIRST_BATCH_FILES, self.most_files)
        self.stored_at = self.asked_at = time.monotonic()

    def run(self) -> None:
        self.state = self._known_state()
        self.session = self._open_session()
        self.store = Store(Stamp(self.library.pk, self.session.pk, self.algorithm))
        reach("scan_opened")
        try:
            self.filesystems = self._looked_after(filesystems(self.root))
            self.inner = mount_guard.InnerMounts(self.filesystems)
            self._check_mounts(self.filesystems)
            self._walk()
            reach("scan_walked")
            self._check_walk()
            self._lose_the_gone()
            self._settle()
        except (mount_guard.NotTheSame, GoneTooMany) as problem:
            self._fail(problem)
            raise
        except Exception:
            self._break_off()
            raise

    # --- Walking ------------------------------------------------------------------------------------------
    def _walk(self) -> None:
        walk = Walk(
            self.root,
            tuple(self.library.exclude_patterns.splitlines()),
            self.library.min_size_bytes,
            self.algorithm if self.is_first else None,
        )
        with ReaderPool(self._readers(), walk.expand, most_answers=1 if self.meter.limit > 0 else None) as pool:
            self.pool = pool
            walk.start(pool)
            self.store.clear()
            # A batch that is stored may find small files to hash, also the last one.
            while pool.in_hand or self._has_rows():
                self.work.check()
                self._look_at_budget()
                if pool.in_hand:
                    self._take(pool.next(timeout=0.5))
                if self._is_full() or (self._has_rows() and not pool.in_hand):
                    self._store()
        self.meter.settle()

    def _readers(self) -> int:
        """One where a spinning disk takes part, be it inside of the library: a unit of the walk goes down from one disk
        to the next, so any reader may come to be on it, and several at once."""
        disks = RealDisks()
        folders = {name: folder for folder, name in self.filesystems.items()}.values()  # one for each filesystem
        is_spinning = any(disks.spinning(self.root + b"/" + to_bytes(folder), None) for folder in folders)
        return 1 if is_spinning else reader_count()

    def _take(self, event: Event | None) -> None:
        if event is None:
            self.work.doing = ", ".join(self.pool.doing()) or self.work.doing
            return
        if isinstance(event, Failed):
            raise LibrariesError(f"A reader failed: {event.reason}")
        if isinstance(event, Done | Part):
            if event.key == WALK:
                self._take_unit(Unit.of(event.value))
            else:
                self._take_digests(event.key, event.value)
            self.work.advance(self.tally.files, self.state.walked_files or None)

    def _take_unit(self, unit: Unit) -> None:
        self.tally.files += unit.file_count
        self.tally.bytes += unit.bytes_seen
        self.tally.folders += unit.folder_count
        self.tally.errors += len(unit.troubles)
        self.troubles += unit.troubles
        self.untold += unit.troubles
        self.walked += unit.file_count
        self.inner.see(unit)
        self.store.add(unit.pages)
        self._charge(unit.bytes_read)

    def _take_digests(self, key: int, digests: list[bytes | None]) -> None:
        for (known, row), digest in zip(self.held.pop(key), digests, strict=True):
            whole = (*row[:7], digest)
            if known is None:
                self.fresh.append(whole)
            else:
                self.changed.append((known, whole))
            if digest is not None:
                self._charge(row[1])

    def _charge(self, bytes_read: int) -> None:
        """Wait until the library's budget has room again; waiting for it is progress. A stride at a time: what is not
        charged yet is paid by a budget that was changed meanwhile."""
        while bytes_read > 0 and self.meter.limit > 0:
            some = min(bytes_read, self.meter.stride)
            bytes_read -= some
            self._wait(self.meter.read(some))

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and self.meter.limit > 0:
            self.work.check()
            self.work.advance()
            self._look_at_budget()
            time.sleep(min(left, 0.5))

    def _look_at_budget(self) -> None:
        """A changed budget is kept at once."""
        if time.monotonic() - self.asked_at < ASK_SECONDS:
            return
        self.asked_at = time.monotonic()
        library = LibraryRoot.objects.using(EXECUTOR).filter(pk=self.library.pk)
        self.meter.limit = library.values_list("read_bytes_per_second", flat=True).first() or 0

    # --- Storing ------------------------------------------------------------------------------------------
    def _is_full(self) -> bool:
        waiting = self.walked + len(self.fresh) + len(self.changed)
        seconds = LONG_BATCH_SECONDS if self.batch_files > EARLY_BATCH_FILES else BATCH_SECONDS
        is_time = time.monotonic() - self.stored_at >= seconds
        return waiting >= self._wanted_files() or (waiting > 0 and is_time)

    def _wanted_files(self) -> int:
        """How many files make a batch. Fewer where readers will soon have nothing to do: what is left then is stored by
        this process alone."""
        if not self.is_first or self.pool.in_hand * UNIT_FILES >= EARLY_BATCH_FILES:
            return self.batch_files
        return min(self.batch_files, max(FIRST_BATCH_FILES, self.tally.files // LAST_BATCH_SHARE))

    def _has_rows(self) -> bool:
        return bool(self.walked or self.fresh or self.changed or self.placed or self.untold)

    def _store(self) -> None:
        """One batch, in one fenced transaction."""
        if self.is_first:
            self.store.fill(self.walked)
        with self.work.fenced("scan"):
            small = self._store_walked()
            self.store.insert(self.fresh)
            self.store.change(self.changed)
            self.store.place(self.placed)
            self.store.clear()
            self._note_troubles()
            self.tally.added += len(self.fresh)
            self.tally.changed += len(self.changed)
            self.tally.placed += len(self.placed)
            self._report()
        self.walked = 0
        for rows in (self.fresh, self.changed, self.placed, self.untold):
            rows.clear()
        most = max(EARLY_BATCH_FILES, self.tally.files // BATCH_SHARE)
        self.batch_files = min(2 * self.batch_files, most, self.most_files)
        self._hash_small(small)
        self.stored_at = time.monotonic()
        reach("scan_stored")

    def _store_walked(self) -> list[tuple[int | None, SeenRow]]:
        """Insert what was walked or, where some of it is known, compare it with the index. Return the small files whose
        content has to be read."""
        small: list[tuple[int | None, SeenRow]] = []
        if self.is_first:
            self.tally.added += self.store.insert_filled()
            return small
        if not self.walked:
            return small
        different = self.store.compare(self.seen)
        rows = self.store.seen([number for number, _, _ in different])
        for row, (_, known, is_changed) in zip(rows, different, strict=True):
            if known is not None:
                self.seen.add(known)
            if known is not None and not is_changed:
                self.placed.append((known, row))
            elif row[1] <= SMALL_BYTES:
                small.append((known, row))
            elif known is None:
                self.fresh.append(row)
            else:
                self.changed.append((known, row))
        return small

    def _hash_small(self, small: list[tuple[int | None, SeenRow]]) -> None:
        for start in range(0, len(small), SMALL_UNIT):
            self.last_key += 1
            held = self.held[self.last_key] = small[start : start + SMALL_UNIT]
            files = [(to_bytes(row[0]), row[1], row[2]) for _, row in held]
            self.pool.submit(self.last_key, ("small", self.root, self.algorithm, files))

    def _note_troubles(self) -> None:
        ScanError.objects.using(EXECUTOR).bulk_create([
            ScanError(
                library=self.library,
                session=self.session,
                relative_path=trouble.path,
                is_folder=trouble.is_folder,
                reason=trouble.reason,
            )
            for trouble in self.untold
        ])  # fmt: skip

    def _report(self, *, is_whole: bool = False) -> None:
        """How far it is, for the pages; never backwards, since a session is one walk. How many files there are is known
        from the scan before, or at the end (`is_whole`)."""
        total = max(self.state.walked_files, self.tally.files) if self.state.walked_files or is_whole else 0
        ScanSession.objects.using(EXECUTOR).filter(pk=self.session.pk).update(
            files_seen=self.tally.files,
            directories_seen=self.tally.folders,
            bytes_seen=self.tally.bytes,
            error_count=self.tally.errors,
            added_count=self.tally.added,
            changed_count=self.tally.changed,
            removed_count=self.tally.removed,
            updated_at=Now(),
        )
        ScanRequest.objects.using(EXECUTOR).filter(job=self.work.row).update(
            scanned_paths=Greatest(F("scanned_paths"), self.tally.files),
            total_paths=total,
            added_count=self.tally.added,
            changed_count=self.tally.changed,
            removed_count=self.tally.removed,
            failed_count=self.tally.errors,
            updated_at=Now(),
        )

    # --- What the walk means ------------------------------------------------------------------------------
    def _check_mounts(self, found: dict[str, str]) -> None:
        if not self.accepts:
            mount_guard.compare(self._looked_after(self.state.filesystems), found)

    def _looked_after(self, found: Mapping[str, str]) -> dict[str, str]:
        return mount_guard.looked_after(found, self.library.exclude_patterns)

    def _left_out(self) -> dict[str, str]:
        """Disks that were looked after before their folders were left out. They have to be the same ones when the
        folders are taken in again, as long as the index knows of files on them."""
        remembered = self.state.filesystems
        others = remembered.keys() - self._looked_after(remembered).keys()
        return {folder: remembered[folder] for folder in others if knows_files_below(self.library, folder)}

    def _check_walk(self) -> None:
        at_root = next((trouble.reason for trouble in self.troubles if trouble.path == ""), None)
        if at_root is not None:
            raise mount_guard.NotTheSame(
                mount_guard.ABSENT,
                f"The folder of {self.library.name} can't be read ({at_root}). Is its disk mounted?",
            )
        holds_nothing = self.tally.files == 0 and self.tally.folders <= 1
        if holds_nothing and not self.is_first and not self.accepts:
            raise mount_guard.NotTheSame(
                mount_guard.EMPTY,
                f"The folder of {self.library.name} is empty, where files were before. Is its disk mounted? If it is"
                " meant to be empty, scan once and accept what is missing.",
            )
        if not self.is_first and not self.accepts:
            self._check_inner_mounts()
        # A disk that went away during the walk took its files along.
        mount_guard.compare(self.filesystems, filesystems(self.root))

    def _check_inner_mounts(self) -> None:
        looking = Looking(self.library, self.troubles)
        for folder in sorted(self.inner.without_files):
            if looking.had_files_below(folder):
                raise mount_guard.empty_inside(folder, self.library.name)

    def _lose_the_gone(self) -> None:
        if self.is_first:
            return
        losing = Losing(self.work, self.library, self.store, self.seen, self.troubles)
        try:
            losing.decide(accepts=self.accepts)
        finally:
            self.tally.removed = losing.removed

    # --- Sessions and states ------------------------------------------------------------------------------
    def _known_state(self) -> LibraryState:
        states = LibraryState.objects.using(EXECUTOR)
        if not states.filter(pk=self.library.pk).exists():
            with self.work.fenced("scan"):
                # A consumer that looks whether the disk is there may make it at this moment, too.
                states.bulk_create([LibraryState(library_id=self.library.pk)], ignore_conflicts=True)
        return states.get(pk=self.library.pk)

    def _open_session(self) -> ScanSession:
        sessions = ScanSession.objects.using(EXECUTOR)
        with self.work.fenced("scan"):
            self._end_running()
            return sessions.create(library=self.library, job=self.work.row)

    def _settle(self) -> None:
        """The scan is complete: what it saw is what the library holds."""
        tally = self.tally
        changes = tally.added or tally.changed or tally.placed or tally.removed or not self.state.walked_files
        counts = self._counts() if changes else {}
        left_out = self._left_out()
        with self.work.fenced("scan"):
            self._report(is_whole=True)
            self._close("succeeded", None)
            self._forget_old_errors()
            self._write_state(
                mount="present",
                mount_note="",
                filesystems={**self.filesystems, **left_out},
                walked_files=self.tally.files,
                walked_bytes=self.tally.bytes,
                error_count=self.tally.errors,
                gone_count=0,
                is_writable=is_writable(self.root),
                **counts,
            )
            LibraryRoot.objects.using(EXECUTOR).filter(pk=self.library.pk).update(last_scanned_at=Now())
        reach("scan_settled")

    def _counts(self) -> dict[str, int]:
        if self.is_first:
            return {"file_count": self.tally.files, "total_bytes": self.tally.bytes, "missing_count": 0}
        present = Q(is_missing=False)
        return LibraryFile.objects.using(EXECUTOR).filter(library=self.library).aggregate(
            file_count=Count("id", filter=present),
            total_bytes=Coalesce(Sum("size_bytes", filter=present), 0),
            missing_count=Count("id", filter=~present),
        )  # fmt: skip

    def _fail(self, problem: mount_guard.NotTheSame | GoneTooMany) -> None:
        found: dict[str, Any] = {"error_count": self.tally.errors}
        if isinstance(problem, GoneTooMany):
            found |= {"mount": "present", "mount_note": "", "gone_count": problem.count, **self._counts()}
        else:
            found |= {"mount": problem.mount, "mount_note": str(problem)}
        with self.work.fenced("scan"):
            self._report()
            self._close("failed", str(problem))
            self._forget_old_errors()
            self._write_state(**found)

    def _break_off(self) -> None:
        """Nobody goes on with this session: the next try has one of its own. Where the claim is lost, or nothing can be
        written, it is ended by that one or by policy (`watching.close_orphaned_sessions`)."""
        with suppress(LeaseLost, DatabaseError, InterfaceError), self.work.fenced("scan"):
            self._end_running()

    def _end_running(self) -> None:
        """This library's session that nobody goes on with: of this try, or of one that was killed."""
        running = ScanSession.objects.using(EXECUTOR).filter(library=self.library, status="running")
        running.update(status="failed", finished_at=Now(), error_message="The scan was interrupted.", updated_at=Now())

    def _close(self, status: str, message: str | None) -> None:
        ScanSession.objects.using(EXECUTOR).filter(pk=self.session.pk).update(
            status=status, finished_at=Now(), error_message=message, updated_at=Now()
        )

    def _forget_old_errors(self) -> None:
        errors = ScanError.objects.using(EXECUTOR).filter(library=self.library)
        errors.exclude(session=self.session)._raw_delete(EXECUTOR)

    def _write_state(self, **values: Any) -> None:
        LibraryState.objects.using(EXECUTOR).filter(pk=self.library.pk).update(
            checked_at=Now(), updated_at=Now(), **values
        )
