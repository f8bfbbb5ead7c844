"""Is everything below a folder (a card, an old disk) already in the libraries, and in how many places?

The folder need not be a library, and nothing is written: neither below it nor in the database. It is walked and read by
reader processes, as a scan does it. What is read: small files, since the index knows those by their content alone; of a
large file whose size the index knows a sample, and all of it where the sample is known too. A file of the index that
was never hashed, since it had no twin so far, is read as well to have an answer.

Copies that lie below the folder themselves don't count: the question is whether the folder could be given up.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from django.db import connections

from database.portions import portions
from database.routing import POLICY
from duplicates.facts import Digest, Place, files_of, read_places
from libraries import asking, mounts
from libraries.asking import Look, Question
from libraries.errors import LibrariesError
from libraries.excluding import DEFAULT_PATTERNS
from libraries.lanes import RealDisks
from libraries.models import HashState, LibraryRoot
from libraries.names import to_bytes, to_display, to_text
from libraries.readers import Event, Failed, Read, ReaderPool, reader_count
from libraries.reading import SMALL_BYTES
from libraries.unit_pages import SeenRow
from libraries.walking import WALK, Unit, Walk

HERE, MISSING, UNREADABLE = "here", "missing", "unreadable"
#: Places that an answer names; it counts all of them.
MOST_PLACES = 20
#: Contents whose copies, and files of the index whose digests, are remembered.
MOST_REMEMBERED = 20_000
#: Files of one size that were never hashed and are read for one answer.
MOST_UNHASHED = 1_000
#: Sizes that are asked about in one statement.
MOST_SIZES = 400

_SIZES = """SELECT v.column1 FROM (VALUES {marks}) v WHERE EXISTS (
  SELECT 1 FROM library_files f WHERE f.size_bytes = v.column1 AND NOT f.is_missing AND {condition})"""
_LARGE = "f.size_bytes > 65536"
_UNHASHED = "f.needs_hash"
_SAMPLED = """SELECT 1 FROM library_files f WHERE f.size_bytes = %s AND f.size_bytes > 65536 AND NOT f.is_missing
  AND f.sample_hash {is_it} LIMIT 1"""
_TWINS = """SELECT f.id, f.library_id, f.relative_path, f.size_bytes, f.mtime_ns, f.inode, f.device, f.sample_hash
  FROM library_files f WHERE f.needs_hash AND NOT f.is_missing AND f.size_bytes = %s ORDER BY f.id LIMIT %s"""


class CheckError(LibrariesError):
    """The folder can't be checked; the text says why."""


class Copy(NamedTuple):
    """A file of the index."""

    place: Place
    path: str
    inode_key: tuple[int, int]


class Answer(NamedTuple):
    """What is known of one file; or of a folder that could not be read, with all below it."""

    #: Below the folder, as it would be stored.
    path: str
    state: str
    copies: int = 0
    filesystems: int = 0
    where: tuple[Copy, ...] = ()
    note: str = ""
    is_folder: bool = False


class _Twin(NamedTuple):
    """A file of the index that has the size, and no digest."""

    id: int
    library_id: int
    path: str
    size: int
    mtime_ns: int
    inode: int | None
    device: int | None
    sample: bytes | None


class _File:
    """A file below the folder on its way to an answer."""

    def __init__(self, row: SeenRow) -> None:
        self.path, self.size, self.mtime_ns = row[:3]
        self.sample: bytes | None = None
        self.digest: bytes | None = row[7]
        #: Files of the index that are still to be read for it, and what came of the others.
        self.waiting: dict[int, _Twin] = {}
        self.found: list[Copy] = []
        self.unread: list[_Twin] = []
        self.note = ""


class Check:
    """One folder. `answers` may be asked for once."""

    def __init__(self, folder: bytes) -> None:
        self.libraries = {library.pk: library for library in LibraryRoot.objects.kept()}
        self.places = {key: place for key, place in read_places().items() if key in self.libraries}
        self.algorithm = HashState.objects.filter(pk=1).values_list("algorithm", flat=True).first() or "blake3"
        self.look, self.inside = self._look(folder)
        self.root = self.look.real
        self._copies: dict[bytes, list[Copy]] = {}
        #: What reading files of the index gave: a sample or a digest, or None where it can't be read.
        self._read: dict[tuple[str, int], bytes | None] = {}
        #: Whether the index has files of a size without a digest.
        self._has_unhashed: dict[int, bool] = {}
        self._tasks: dict[int, tuple[str, _File, _Twin | None]] = {}
        self._last_key = WALK

    @property
    def inside_of(self) -> list[str]:
        """The names of libraries that share files with the folder."""
        return sorted(to_display(self.places[key].name) for key in self.inside)

    # --- The disk -----------------------------------------------------------------------------------------
    def _look(self, folder: bytes) -> tuple[Look, set[int]]:
        shown = to_display(to_text(folder))
        questions: dict[int, Question] = {0: Question(folder)}
        questions |= {key: Question(to_bytes(each.root_path), where=True) for key, each in self.libraries.items()}
        looks = asking.ask(questions)
        wanted = looks[0]
        if wanted is None:
            raise CheckError(f"{shown} does not answer. See that its disk or share is there.")
        if wanted.problem:
            raise CheckError(f"{shown} is no folder that can be read: {wanted.problem}.")
        return wanted, {key for key in self.libraries if self._overlaps(wanted, key, looks[key])}

    def _overlaps(self, wanted: Look, key: int, look: Look | None) -> bool:
        """A library whose disk is silent is compared by its path alone."""
        path = to_bytes(self.libraries[key].root_path) if look is None else look.real
        if mounts.is_at_or_below(path, wanted.real) or mounts.is_at_or_below(wanted.real, path):
            return True
        return look is not None and mounts.overlap(list(wanted.places), list(look.places))

    def _is_elsewhere(self, place: Place, path: str) -> bool:
        """Whether a file of the index lies outside of the folder. Where a library shares files with it, the file must
        also still be where the index has it: it may have been moved into the folder since."""
        if place.id not in self.inside:
            return True
        whole = to_bytes(place.root_path) + b"/" + to_bytes(path)
        if not os.path.lexists(whole):
            return False
        device, inner = mounts.canonical(whole)
        return not any(device == at and mounts.is_at_or_below(inner, top) for at, top in self.look.places)

    # --- Walking ------------------------------------------------------------------------------------------
    def answers(self) -> Iterator[Answer]:
        """One for each file, as they become known. Symlinks and special files are no files; what a new library leaves
        out is left out here too."""
        walk = Walk(self.root, DEFAULT_PATTERNS, 0, self.algorithm)
        readers = 1 if RealDisks().spinning(self.root, None) else reader_count()
        with ReaderPool(readers, walk.expand) as self.pool:
            walk.start(self.pool)
            while self.pool.in_hand:
                event = self.pool.next(timeout=0.5)
                if event is not None:
                    yield from self._take(event)

    def _take(self, event: Event) -> Iterator[Answer]:
        if isinstance(event, Read):
            return
        if event.key != WALK:
            yield from self._go_on(event)
        elif isinstance(event, Failed):
            raise CheckError(f"A reader failed: {event.reason}")
        else:
            unit = Unit.of(event.value)
            for trouble in unit.troubles:
                yield Answer(trouble.path, UNREADABLE, note=trouble.reason, is_folder=trouble.is_folder)
            yield from self._begin([_File(row) for row in unit.rows()])

    def _begin(self, files: list[_File]) -> Iterator[Answer]:
        large = self._sizes({file.size for file in files if file.size > SMALL_BYTES}, _LARGE)
        self._remember_copies(file.digest for file in files if file.digest)
        self._remember_sizes(file.size for file in files if file.size <= SMALL_BYTES or file.size in large)
        for file in files:
            if file.digest is not None:
                yield from self._compare(file)
            elif file.size <= SMALL_BYTES:
                self._submit("hash", file)  # the walk could not read it, and does not say why
            elif file.size in large:
                self._submit("sample", file)
            else:
                yield Answer(file.path, MISSING)

    def _submit(self, verb: str, file: _File, twin: _Twin | None = None) -> None:
        self._last_key += 1
        self._tasks[self._last_key] = (verb, file, twin)
        if twin is None:
            where: tuple[Any, ...] = (self.root, to_bytes(file.path), file.size, file.mtime_ns)
        else:
            root = to_bytes(self.libraries[twin.library_id].root_path)
            where = (root, to_bytes(twin.path), twin.size, twin.mtime_ns)
        self.pool.submit(self._last_key, (verb, *where, self.algorithm, 0) if verb == "hash" else (verb, *where))

    def _go_on(self, event: Any) -> Iterator[Answer]:
        """Something of a file was read: its sample, or all of it; or the same of a file of the index."""
        verb, file, twin = self._tasks.pop(event.key)
        value = None if isinstance(event, Failed) else event.value
        if twin is not None:
            yield from self._take_twin(verb, file, twin, value)
        elif value is None:
            yield Answer(file.path, UNREADABLE, note=event.reason)
        elif verb == "sample":
            file.sample = value
            if self._is_sample_known(file):
                self._submit("hash", file)
            else:
                yield Answer(file.path, MISSING)
        else:
            file.digest = value
            yield from self._compare(file)

    # --- Comparing ----------------------------------------------------------------------------------------
    def _compare(self, file: _File) -> Iterator[Answer]:
        """Its content is known: who has it, and who may have it but was never hashed?"""
        assert file.digest is not None
        self._remember_copies([file.digest])
        self._remember_sizes([file.size])
        file.found = list(self._copies[file.digest])
        if self._has_unhashed[file.size]:
            for twin in self._unhashed(file):
                self._ask_twin(file, twin)
        if not file.waiting:
            yield self._answer(file)

    def _unhashed(self, file: _File) -> list[_Twin]:
        found = _ask(_TWINS, [file.size, MOST_UNHASHED + 1])
        rows = [_Twin._make((*row, None if sample is None else bytes(sample))) for *row, sample in found]
        if len(rows) > MOST_UNHASHED:
            file.note = f"more than {MOST_UNHASHED:,} files of this size are not hashed yet"
        return [
            twin
            for twin in rows[:MOST_UNHASHED]
            if twin.library_id in self.places
            and (twin.sample is None or file.sample is None or twin.sample == file.sample)
            and self._is_elsewhere(self.places[twin.library_id], twin.path)
        ]

    def _ask_twin(self, file: _File, twin: _Twin) -> None:
        """Read a file of the index, unless that was done for another one."""
        is_sampled = file.sample is None or twin.sample is not None
        for verb in ("hash",) if is_sampled else ("sample", "hash"):
            if (verb, twin.id) not in self._read:
                file.waiting[twin.id] = twin
                return self._submit(verb, file, twin)
            if not self._is_equal(verb, file, twin):
                return None
        file.found.append(_as_copy(twin, self.places))
        return None

    def _take_twin(self, verb: str, file: _File, twin: _Twin, value: bytes | None) -> Iterator[Answer]:
        if len(self._read) >= MOST_REMEMBERED:
            self._read.clear()
        self._read[verb, twin.id] = value
        del file.waiting[twin.id]
        if self._is_equal(verb, file, twin):
            if verb == "sample":
                self._submit("hash", file, twin)
                file.waiting[twin.id] = twin
            else:
                file.found.append(_as_copy(twin, self.places))
        if not file.waiting:
            yield self._answer(file)

    def _is_equal(self, verb: str, file: _File, twin: _Twin) -> bool:
        value = self._read[verb, twin.id]
        if value is None:
            file.unread.append(twin)
        return value is not None and value == (file.sample if verb == "sample" else file.digest)

    def _answer(self, file: _File) -> Answer:
        note = file.note
        if file.unread:
            first = file.unread[0]
            shown = f"{to_display(self.places[first.library_id].name)}: {to_display(first.path)}"
            note = f"{shown} has the same size, is not hashed yet and can't be read"
        if not file.found:
            return Answer(file.path, MISSING, note=note)
        names = {copy.place.filesystem_of(copy.path) for copy in file.found} - {""}
        inodes = {copy.inode_key for copy in file.found}
        where = tuple(file.found[:MOST_PLACES])
        return Answer(file.path, HERE, len(inodes), max(len(names), 1), where, note)

    # --- The index ----------------------------------------------------------------------------------------
    def _sizes(self, sizes: Iterable[int], condition: str) -> set[int]:
        """Which of these sizes a present file has."""
        found: set[int] = set()
        for some in portions(list(sizes), MOST_SIZES):
            sql = _SIZES.format(marks=", ".join(["(%s)"] * len(some)), condition=condition)
            found |= {size for (size,) in _ask(sql, some)}
        return found

    def _remember_sizes(self, sizes: Iterable[int]) -> None:
        unknown = {size for size in sizes if size not in self._has_unhashed}
        if len(self._has_unhashed) + len(unknown) > MOST_REMEMBERED:
            self._has_unhashed.clear()
        found = self._sizes(unknown, _UNHASHED)
        self._has_unhashed.update((size, size in found) for size in unknown)

    def _is_sample_known(self, file: _File) -> bool:
        """Whether a file of that size has that sample, or none."""
        return bool(
            _ask(_SAMPLED.format(is_it="= %s"), [file.size, file.sample])
            or _ask(_SAMPLED.format(is_it="IS NULL"), [file.size])
        )

    def _remember_copies(self, digests: Iterable[bytes]) -> None:
        unknown = list(dict.fromkeys(digest for digest in digests if digest not in self._copies))
        if not unknown:
            return
        if len(self._copies) + len(unknown) > MOST_REMEMBERED:
            self._copies.clear()
        asked: list[Digest] = [(self.algorithm, digest) for digest in unknown]
        found = files_of(asked, read_places())
        for digest in unknown:
            self._copies[digest] = [
                Copy(file.place, file.path, file.inode_key)
                for file in found.get((self.algorithm, digest), [])
                if file.place.id in self.places and self._is_elsewhere(file.place, file.path)
            ]


def _as_copy(twin: _Twin, places: dict[int, Place]) -> Copy:
    is_known = twin.inode is not None and twin.device is not None
    key = (twin.device or 0, twin.inode or 0) if is_known else (-1, twin.id)
    return Copy(places[twin.library_id], twin.path, key)


def _ask(sql: str, parameters: Sequence[Any]) -> list[Any]:
    with connections[POLICY].cursor() as cursor:
        cursor.execute(sql, list(parameters))
        return list(cursor.fetchall())


class Tally:
    """What all answers amount to."""

    def __init__(self) -> None:
        self.files = self.here = self.apart = self.unreadable = 0

    def add(self, answer: Answer) -> None:
        self.files += not answer.is_folder
        self.here += answer.state == HERE
        self.apart += answer.filesystems > 1
        self.unreadable += answer.state == UNREADABLE

    @property
    def is_all_here(self) -> bool:
        return self.here == self.files and not self.unreadable

    def words(self) -> str:
        words = f"{self.here:,} of {self.files:,} are here, {self.apart:,} on two filesystems"
        return f"{words}; {self.unreadable:,} could not be read" if self.unreadable else words
