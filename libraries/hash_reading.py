"""One consumer at work on a hash job: claims files, has them read, stores what came of it.

Files are claimed in batches of a few seconds and read by reader processes, which are kept busy across the borders of
batches: while the last files of one are read the next is claimed, and what was read is stored in between. Sampling and
hashing are one stream: as soon as two files of a batch have the same size and sample, both go on to be hashed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import groupby
from types import TracebackType
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError

from database.crash_points import reach
from database.routing import EXECUTOR
from jobs.budgets import Meter
from jobs.errors import GivesWay, LeaseLost, Stopping
from libraries.alike import Alike
from libraries.candidates import STAGES, Amount, Bounds, Candidate, Search, Stage, outdated, unsampled
from libraries.hash_hands import Hands
from libraries.hash_progress import Progress
from libraries.hash_storing import HashStore, Results
from libraries.lanes import TASK_BYTES, UNKNOWN_DISK, Disks, LaneKey, Lanes, RealDisks, Unit
from libraries.listening import files_changed
from libraries.models import HashRun, HashState, LibraryRoot
from libraries.names import to_bytes
from libraries.readers import Event, Failed, Read, ReaderPool, reader_count

#: A batch is as much as this consumer reads in about so long.
BATCH_SECONDS = 3.0
#: The first batch is small, so that readers have something to do soon; the next ones are a guess.
FIRST_BATCH = Bounds(files=256, size=2 << 30)
EARLY_BATCH = Bounds(files=2048, size=2 << 30)
LEAST_BATCH = Bounds(files=64, size=64 << 20)
MOST_BATCH = Bounds(files=4096, size=8 << 30)
#: What was read is stored when it is so many files, or after so many seconds: each time writes much the same pages of
#: the indexes. Fewer are stored once the last files are in readers' hands, so that little is left when they are read.
STORED_FILES = 2000
STORED_SECONDS = 1.0
LAST_FILES = 256
#: How often the database is asked whether to go on, and told how far it is.
ASK_SECONDS = 1.0
#: How often those that want to know of changed files are told while there is more to read.
LISTEN_SECONDS = 10.0
#: How long to wait for an answer before looking around again.
TURN_SECONDS = 0.2


@dataclass(frozen=True)
class Library:
    """What is needed to read a library's files."""

    root: bytes
    wants_everything: bool
    meter: Meter


@dataclass
class Task:
    """Files in a reader's hands."""

    lane: LaneKey
    units: list[Unit]
    meter: Meter
    #: The reader waits for leave after each so many bytes.
    stride: int
    #: Bytes that the reader told of while it read.
    told: int = 0


class Hasher:
    """Use it as a context: at its end the readers are gone and nothing is left in this consumer's hands."""

    def __init__(self, hands: Hands, disks: Disks | None = None) -> None:
        self.hands, self.claims = hands, hands.claims
        self.store = HashStore(hands.claims.token)
        self.progress = Progress(hands.job_id, is_owner=hands.is_owner)
        self.lanes = Lanes(reader_count(), disks or RealDisks())
        self.alike = Alike()
        self.results = Results()
        #: Whether a file could not be read: then it is worth asking when it may be tried again.
        self.has_failures = False
        self._libraries: dict[int, Library] = {}
        self._tasks: dict[int, Task] = {}
        self._grants: dict[int, float] = {}
        self._last_key = 0
        self._has_read = False
        self._leaving: GivesWay | None = None
        self._pace = Pace()
        self._pool: ReaderPool | None = None
        self._stack = ExitStack()
        self._stored_at = self._asked_at = self._renewed_at = self._listened_at = time.monotonic()

    def __enter__(self) -> Hasher:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._stack.close()
        if isinstance(error, LeaseLost):
            return  # nothing more is written; what is in hand counts for nothing under the next lease
        with suppress(LeaseLost, DatabaseError, InterfaceError):
            if isinstance(error, Stopping):
                self._store()
            self.claims.let_go()

    def open(self) -> None:
        """Make the job's figures, if it has none from an earlier try."""
        with self.hands.fenced():
            self.progress.open()

    # --- A look through the index -------------------------------------------------------------------------
    def go_through(self, stages: Sequence[Stage] = STAGES, measure: Callable[[], Amount] | None = None) -> int:
        """Read what these stages find, to the end; return how many files were claimed.

        `measure` says how much there is; it is asked when the readers have something to do meanwhile.
        """
        search = Search(self.claims.reign, stages)
        self._look_at_state()
        claimed = 0
        while True:
            self._mind()
            if self._is_hungry(search):
                claimed += self._claim(search)
            self._hand_out()
            if measure is not None and self._tasks:
                self._begin(measure())
                measure = None
            is_ending = not self.lanes.files and (search.is_over or self._leaving is not None)
            if is_ending and not self._tasks:
                break
            self._take_answers()
            if self._is_worth_storing(LAST_FILES if is_ending else STORED_FILES):
                self._store()
        self._settle()
        return claimed

    def _settle(self) -> None:
        """Nothing is in hand any more: store the rest, and leave if that was asked for."""
        self._store()
        for library in self._libraries.values():
            library.meter.settle()
        self._tell()
        if self._leaving:
            raise self._leaving

    def _mind(self) -> None:
        """What has to be done now and then, whatever is being read."""
        self.hands.check()
        self.progress.count_time(is_busy=bool(self._tasks))
        if time.monotonic() - self._asked_at < ASK_SECONDS:
            return
        self._asked_at = time.monotonic()
        if self._has_read:
            # Each try gets something done, whoever waits.
            self._leaving = self._leaving or self.hands.asked_to_leave()
        if self._leaving:
            self._drop(self.lanes.empty())
        self._look_at_libraries()
        self._tell()
        if self.hands.is_owner and time.monotonic() - self._listened_at > LISTEN_SECONDS:
            files_changed()
            self._listened_at = time.monotonic()

    def _begin(self, left: Amount) -> None:
        with self.hands.fenced():
            self.progress.begin(left)

    def _tell(self) -> None:
        with self.hands.fenced():
            if time.monotonic() - self._renewed_at > settings.HASH_CLAIM_SECONDS / 3:
                self.claims.renew()
                self._renewed_at = time.monotonic()
            done, total = self.progress.write()
        self.hands.tell(done, total)

    def _look_at_state(self) -> None:
        algorithms = HashState.objects.using(EXECUTOR).filter(pk=1).values_list("algorithm", "switching_to").first()
        self.algorithm, self.next_algorithm = algorithms or ("blake3", None)

    # --- Claiming -----------------------------------------------------------------------------------------
    def _is_hungry(self, search: Search) -> bool:
        if search.is_over or self._leaving:
            return False
        wanted = self._pace.bounds
        return self.lanes.files <= wanted.files // 2 and self.lanes.bytes <= wanted.size // 2

    def _claim(self, search: Search) -> int:
        with self.hands.fenced():
            rows = self.claims.take(search, self._pace.next_bounds())
        self._look_at_libraries()
        if rows:
            reach("hash_claimed")
            self.hands.advance(rows[0].path)
            self._sort_in(self._still_there(rows), search.found_by)
        return len(rows)

    def _still_there(self, rows: list[Candidate]) -> list[Candidate]:
        """Without those of a library that somebody removed between the claim and the look."""
        gone = [row.id for row in rows if row.library_id not in self._libraries]
        if gone:
            self.claims.let_go(gone)
        return [row for row in rows if row.library_id in self._libraries]

    def _look_at_libraries(self) -> None:
        """Their paths, wishes and budgets, as they are now: a changed budget is kept at once."""
        libraries = LibraryRoot.objects.using(EXECUTOR).kept()
        for library in libraries.only("root_path", "hash_everything", "read_bytes_per_second"):
            known = self._libraries.get(library.pk)
            meter = known.meter if known else Meter(f"library:{library.pk}", 0)
            meter.limit = library.read_bytes_per_second
            self._libraries[library.pk] = Library(to_bytes(library.root_path), library.hash_everything, meter)

    def _sort_in(self, rows: list[Candidate], stage: Stage | None) -> None:
        if stage is unsampled:
            self.progress.phase = HashRun.Phase.SAMPLING
            units = units_of("sample", rows)
            self.alike.expect(units)
        else:
            self.progress.phase = HashRun.Phase.REHASHING if stage is outdated else HashRun.Phase.HASHING
            units = units_of("rehash" if stage is outdated else "hash", rows)
        self._line_up(units)

    def _line_up(self, units: list[Unit]) -> None:
        by_library: dict[int, list[Unit]] = {}
        for unit in units:
            by_library.setdefault(unit.file.library_id, []).append(unit)
        for key, waiting in by_library.items():
            library = self._libraries[key]
            self.lanes.put(library.root, waiting, library.meter.stride)

    # --- Reading ------------------------------------------------------------------------------------------
    @property
    def pool(self) -> ReaderPool:
        """Started when there is something to read: mostly there is nothing."""
        if self._pool is None:
            self._pool = self._stack.enter_context(ReaderPool(reader_count()))
        return self._pool

    def _hand_out(self) -> None:
        now = time.monotonic()
        for key in [key for key, due_at in self._grants.items() if due_at <= now]:
            del self._grants[key]
            self.pool.grant(key)
        for lane, units in self.lanes.ready():
            self._last_key += 1
            meter = self._libraries[units[0].file.library_id].meter
            task = Task(lane, units, meter, meter.stride if len(units) == 1 else 0)
            self._tasks[self._last_key] = task
            is_short = not task.stride and sum([unit.file.size for unit in units]) <= TASK_BYTES
            self.pool.submit(self._last_key, self._message(task), is_short=is_short)

    def _message(self, task: Task) -> tuple[Any, ...]:
        """What the reader is told: files that are probably equal are read side by side, where that costs no seeking
        and no budget has to be kept."""
        is_free = task.lane[0] == UNKNOWN_DISK and not task.meter.limit
        messages: list[tuple[Any, ...]] = []
        for likeness, group in groupby(task.units, key=lambda unit: unit.likeness if is_free else None):
            units = list(group)
            if likeness and len(units) > 1:
                verb = "class" if units[0].verb == "sample" else "alike"
                messages.append((verb, self.algorithm, [self._where(unit) for unit in units]))
            else:
                messages += [self._message_of(unit, task.stride) for unit in units]
        return messages[0] if len(task.units) == 1 else ("several", messages)

    def _message_of(self, unit: Unit, stride: int) -> tuple[Any, ...]:
        if unit.verb == "sample":
            return ("sample", *self._where(unit))
        algorithm = self.next_algorithm if unit.verb == "rehash" else self.algorithm
        return ("hash", *self._where(unit), algorithm, stride)

    def _where(self, unit: Unit) -> tuple[bytes, bytes, int, int]:
        file = unit.file
        return (self._libraries[file.library_id].root, to_bytes(file.path), file.size, file.mtime_ns)

    def _take_answers(self) -> None:
        """Wait for an answer, and take what else is there."""
        event = self.pool.next(timeout=TURN_SECONDS) if self._tasks else None
        if event is None:
            self._stand_still()
        for _ in range(STORED_FILES):
            if event is None:
                return
            self._take(event)
            event = self.pool.next(timeout=0) if self._tasks else None

    def _stand_still(self) -> None:
        """Nothing was answered. To wait for a budget is progress; to wait for a disk is none, and it is named."""
        held = self.lanes.held_seconds
        if held is not None or self._grants:
            self.hands.advance()
        elif self._tasks:
            self.hands.show(", ".join(self.pool.doing()))
        if held is not None and not self._tasks:
            time.sleep(min(held, TURN_SECONDS))

    def _take(self, event: Event) -> None:
        task = self._tasks[event.key]
        if isinstance(event, Read):
            task.told += event.bytes_read
            self._count(event.bytes_read, task, event.key)
            return
        del self._tasks[event.key]
        self._has_read = True
        self.lanes.ended(task.lane)
        if isinstance(event, Failed):
            answers = [("changed" if event.is_changed else "failed", event.reason)]
        else:
            answers = [("done", event.value)] if len(task.units) == 1 else event.value
        read = sum([
            unit.size + (unit.file.size if isinstance(value, tuple) and value[1] else 0)
            for unit, (what, value) in zip(task.units, answers, strict=True)
            if what == "done"
        ])  # fmt: skip
        self._pace.files += len(task.units)
        self._count(max(read - task.told, 0), task)
        further: list[Unit] = []
        for unit, (_, value) in zip(task.units, answers, strict=True):
            further += self._finish(unit, value)
        self._line_up(further)
        if task.units[0].verb == "sample":
            reach("hash_sampled")

    def _count(self, bytes_read: int, task: Task, key: int | None = None) -> None:
        """Bytes were read: that is progress, and has to be paid where there is a budget."""
        self.hands.advance(task.units[-1].file.path)
        self.progress.share.size += bytes_read
        self._pace.count(bytes_read)
        seconds = task.meter.read(bytes_read)
        if key is not None and task.stride:
            self._grants[key] = time.monotonic() + seconds
        elif seconds:
            self.lanes.hold(task.lane, seconds)

    # --- What came of a file ------------------------------------------------------------------------------
    def _finish(self, unit: Unit, value: bytes | str | tuple[bytes, bytes | None]) -> list[Unit]:
        """Keep a digest, or the reason why there is none; return what is to be read next because of it."""
        if isinstance(value, str):
            return self._fail(unit, value)
        if isinstance(value, tuple):
            sample, digest = value
            return self._sampled(unit, sample) if digest is None else self._sampled_and_hashed(unit, sample, digest)
        if unit.verb == "sample":
            return self._sampled(unit, value)
        if unit.verb == "rehash":
            self.results.rehashes.extend([(row, value) for row in unit.rows])
        else:
            self.results.digests.extend([(row, value, unit.sample) for row in unit.rows])
        self.progress.share.finish(unit.rows, read=1)
        return []

    def _fail(self, unit: Unit, reason: str) -> list[Unit]:
        """The file can't be read by this path; its hard links may be by theirs."""
        self.has_failures = True
        first, *others = unit.rows
        self.results.failures.append((first, reason))
        self.progress.share.finish([first], read=0)
        if others:
            return [Unit(unit.verb, others, unit.sample)]
        if unit.verb == "sample":
            self._leave_alone(self.alike.one_less(first.size))
        return []

    def _sampled(self, unit: Unit, digest: bytes) -> list[Unit]:
        unit.sample = digest
        self.progress.share.spared -= unit.size
        is_wanted = self._libraries[unit.file.library_id].wants_everything
        further: list[Unit] = []
        for twin in self.alike.sampled(unit, digest, is_wanted=is_wanted):
            further += self._go_on(twin)
        self._leave_alone(self.alike.one_less(unit.file.size))
        return further

    def _sampled_and_hashed(self, unit: Unit, sample: bytes, digest: bytes) -> list[Unit]:
        """Its twin was read beside it; one that was sampled before in another task is hashed now."""
        share = self.progress.share
        share.spared -= unit.size
        wanted = [row for row in unit.rows if row.needs_hash]
        self.results.digests.extend([(row, digest, sample) for row in wanted])
        share.finish(wanted, read=1)
        if len(wanted) < len(unit.rows):
            hashed = [row for row in unit.rows if not row.needs_hash]
            self.results.samples.extend([(row, sample) for row in hashed])
            share.finish(hashed, read=0)
        first = self.alike.hashed(unit, sample)
        self._leave_alone(self.alike.one_less(unit.file.size))
        return self._go_on(first) if first else []

    def _go_on(self, unit: Unit) -> list[Unit]:
        """Hash what was sampled, unless that would make the batch too large: then another batch does."""
        wanted = [row for row in unit.rows if row.needs_hash]
        hashed = [row for row in unit.rows if not row.needs_hash]
        self.results.samples.extend([(row, unit.sample) for row in hashed])
        self.progress.share.finish(hashed, read=0)
        if self._leaving or self.lanes.bytes > 2 * self._pace.bounds.size:
            self.results.samples.extend([(row, unit.sample) for row in wanted])
            return []
        return [Unit("hash", wanted, unit.sample)] if wanted else []

    def _leave_alone(self, units: list[Unit]) -> None:
        """Their samples show that they need not be read."""
        for unit in units:
            self.results.samples.extend([(row, unit.sample) for row in unit.rows])
            self.progress.share.finish(unit.rows, read=0)

    def _drop(self, units: list[Unit]) -> None:
        """Give files back that were claimed and not begun."""
        for unit in units:
            if unit.verb == "sample":
                self._leave_alone(self.alike.one_less(unit.file.size))
        self.claims.let_go([row.id for unit in units for row in unit.rows])

    # --- Storing ------------------------------------------------------------------------------------------
    def _is_worth_storing(self, enough: int) -> bool:
        count, seconds = len(self.results), time.monotonic() - self._stored_at
        return count >= enough or (count > 0 and seconds >= STORED_SECONDS)

    def _store(self) -> None:
        results, self.results = self.results, Results()
        self._stored_at = time.monotonic()
        if not results:
            return
        reach("hash_read")
        with self.hands.fenced():
            self.store.store(results, self.algorithm, is_switching=self.next_algorithm is not None)
        reach("hash_rehashed" if results.rehashes else "hash_stored")


class Pace:
    """How much a batch should hold: what this consumer reads in a few seconds."""

    def __init__(self) -> None:
        self.bounds = FIRST_BATCH
        self.files = self._size = 0
        self._since = time.monotonic()

    def next_bounds(self) -> Bounds:
        """For the batch that is claimed now."""
        bounds = self.bounds
        if bounds is FIRST_BATCH:
            self.bounds = EARLY_BATCH
        return bounds

    def count(self, size: int) -> None:
        self._size += size
        seconds = time.monotonic() - self._since
        if seconds >= 1.0:
            self.bounds = Bounds(
                _between(LEAST_BATCH.files, self.files * BATCH_SECONDS / seconds, MOST_BATCH.files),
                _between(LEAST_BATCH.size, self._size * BATCH_SECONDS / seconds, MOST_BATCH.size),
            )
            self.files = self._size = 0
            self._since = time.monotonic()


def _between(least: int, wanted: float, most: int) -> int:
    return int(min(max(wanted, least), most))


def units_of(verb: str, rows: list[Candidate]) -> list[Unit]:
    """One unit for each file on the disk: hard links of one are read once.

    They are told by what one scan of one library saw; device numbers of different times say nothing.
    """
    units: dict[object, Unit] = {}
    for row in rows:
        is_linked = row.inode is not None and (row.links or 1) > 1
        version = (row.library_id, row.device, row.inode, row.size, row.mtime_ns, row.ctime_ns)
        key = version if is_linked else row.id
        if key in units:
            units[key].rows.append(row)
        else:
            units[key] = Unit(verb, [row])
    return list(units.values())
