"""What `doctor` looks at in this room: whether the summary of the groups is what the files amount to.

The groups are counted here a second time, file by file in Python and not by the statement that made the summary, and
in the order of their digests, so that memory stays the same however many there are. Files may change meanwhile: what
differs is looked at again before it is called wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, islice
from typing import Any, NamedTuple

from django.db import connections

from database.examining import Finding, error, ok, register_check
from database.routing import POLICY
from duplicates import summary
from duplicates.facts import Digest, FileFacts
from duplicates.members import in_portions
from duplicates.models import group_key
from libraries.models import LibraryRoot

REMEDY = "have all groups counted anew: `manage.py doctor --fix`"
#: Digests that are read at a time.
PAGE = 1_000
#: How often a group that differs is looked at again, and how many of them at a time.
LOOKS = 3
TOGETHER = 100
#: Groups that are named, and wrong ones after which nobody needs to know how many more there are.
NAMED = 5
ENOUGH = 1_000

_TWICE = """
SELECT hash_algorithm, content_hash, COUNT(*) FROM library_files
 WHERE content_hash IS NOT NULL AND (hash_algorithm, content_hash) > (%s, %s)
 GROUP BY hash_algorithm, content_hash HAVING COUNT(*) > 1
 ORDER BY hash_algorithm, content_hash LIMIT {page}"""
_SUMMARY = """
SELECT hash_algorithm, content_hash, size_bytes, file_count, total_size_bytes, inode_count, reclaimable_bytes,
       newest_ns, sample_file_id, spans_libraries, library_ids
  FROM {source} ORDER BY hash_algorithm, content_hash LIMIT {page}"""
_AFTER = "duplicate_groups WHERE (hash_algorithm, content_hash) > (%s, %s)"
#: In this order, and not by IN: SQLite would read all groups of an algorithm.
_THESE = """(VALUES {marks}) AS asked CROSS JOIN duplicate_groups g
 WHERE g.hash_algorithm = asked.column1 AND g.content_hash = asked.column2"""


class Counted(NamedTuple):
    """What a group amounts to."""

    size_bytes: int
    file_count: int
    total_size_bytes: int
    inode_count: int
    reclaimable_bytes: int
    newest_ns: int
    sample_file_id: int
    spans_libraries: bool
    libraries: tuple[int, ...]


class Difference(NamedTuple):
    digest: Digest
    in_summary: Counted | None
    by_files: Counted | None

    def __str__(self) -> str:
        key = group_key(*self.digest)
        if self.in_summary is None or self.by_files is None:
            return f"{key} is {'missing' if self.in_summary is None else 'listed, but no two files have that content'}"
        pairs = zip(Counted._fields, self.in_summary, self.by_files, strict=True)
        wrong = [f"{name} is {listed}, not {right}" for name, listed, right in pairs if listed != right]
        return f"{key}: {', '.join(wrong)}"


@register_check("duplicate groups")
def check_groups() -> Iterator[Finding]:
    summary.bring_up_to_date()
    found = list(islice(confirmed(_differences()), ENOUGH))
    if found:
        named = "; ".join(map(str, found[:NAMED]))
        more = f"; and {len(found) - NAMED:,} more" if len(found) > NAMED else ""
        least = "at least " if len(found) == ENOUGH else ""
        words = "1 group is" if len(found) == 1 else f"{least}{len(found):,} groups are"
        yield error(f"{words} counted wrongly: {named}{more}", REMEDY, summary.recount)
    else:
        yield ok("their summary is what the files amount to")


def confirmed(differences: Iterable[Difference]) -> Iterator[Difference]:
    """Those that still differ when all that changed meanwhile is counted."""
    waiting: list[Difference] = []
    for difference in differences:
        waiting.append(difference)
        if len(waiting) == TOGETHER:
            yield from _look_again(waiting)
            waiting = []
    yield from _look_again(waiting)


def _look_again(differences: list[Difference]) -> list[Difference]:
    for _ in range(LOOKS):
        if not differences:
            break
        summary.bring_up_to_date()
        digests = sorted(each.digest for each in differences)
        listed = dict(_read_summary(_THESE.format(marks=_marks(digests)), digests))
        counts = {each.digest: each.by_files.file_count for each in differences if each.by_files is not None}
        right = dict(_recount((digest, counts.get(digest, 0)) for digest in digests))
        pairs = ((digest, listed.get(digest), right.get(digest)) for digest in digests)
        differences = [Difference(*each) for each in pairs if each[1] != each[2]]
    return differences


def _differences() -> Iterator[Difference]:
    """Both in the order of their digests, side by side."""
    summarised, counted = _summarised(), _counted()
    left, right = next(summarised, None), next(counted, None)
    while left or right:
        if right is None or (left is not None and left[0] < right[0]):
            assert left is not None
            yield Difference(left[0], left[1], None)
            left = next(summarised, None)
        elif left is None or right[0] < left[0]:
            yield Difference(right[0], None, right[1])
            right = next(counted, None)
        else:
            if left[1] != right[1]:
                yield Difference(left[0], left[1], right[1])
            left, right = next(summarised, None), next(counted, None)


# --- As the summary says ----------------------------------------------------------------------------------
def _summarised() -> Iterator[tuple[Digest, Counted]]:
    after: Digest = ("", b"")
    while page := list(_read_summary(_AFTER, [after])):
        yield from page
        after = page[-1][0]


def _read_summary(source: str, digests: Sequence[Digest]) -> Iterator[tuple[Digest, Counted]]:
    rows = _ask(_SUMMARY.format(source=source, page=PAGE), [part for digest in digests for part in digest])
    for algorithm, digest, *figures, spans, libraries in rows:
        ids = sorted({int(each) for each in libraries.strip(",").split(",")})
        yield (algorithm, bytes(digest)), Counted._make([*figures, bool(spans), tuple(ids)])


# --- As the files say -------------------------------------------------------------------------------------
def _counted() -> Iterator[tuple[Digest, Counted]]:
    after: Digest = ("", b"")
    while page := _ask(_TWICE.format(page=PAGE), list(after)):
        digests = [((algorithm, bytes(digest)), count) for algorithm, digest, count in page]
        yield from _recount(digests)
        after = digests[-1][0]


def _recount(digests: Iterable[tuple[Digest, int]]) -> Iterator[tuple[Digest, Counted]]:
    for digest, portions in groupby(in_portions(digests), key=lambda portion: portion[0]):
        counted = count(file for _, files in portions for file in files)
        if counted.file_count > 1:
            yield digest, counted


def count(files: Iterable[FileFacts]) -> Counted:
    """Count the files of one content, by inodes: names of one file are one copy.

    One that says it has no other name is a file of its own, whatever the number of its inode: disks that were mounted
    one after the other may have the same ones.
    """
    inodes: dict[tuple[int, int], _Inode] = {}
    names = 0
    libraries: set[int] = set()
    rest = iter(files)
    first = next(rest)
    size, newest, sample, total = first.size, first.mtime_ns, first.id, 0
    for file in chain([first], rest):
        key = (-1, file.id) if file.links == 1 else file.inode_key
        inodes.setdefault(key, _Inode()).add(file)
        names += 1
        libraries.add(file.place.id)
        size, newest, sample = min(size, file.size), max(newest, file.mtime_ns), min(sample, file.id)
        total += file.size
    free = sum(inode.can_be_freed for inode in inodes.values())
    one_stays = any(inode.stays for inode in inodes.values())
    # One copy stays. Where none does anyway, one of those that could be freed has to.
    freed = free if one_stays else max(free - 1, 0)
    spans = len(libraries) > 1
    return Counted(size, names, total, len(inodes), size * freed, newest, sample, spans, tuple(sorted(libraries)))


class _Inode:
    """One file on disk with the names of it that are in the index."""

    __slots__ = ("is_protected", "links", "names", "normal")

    def __init__(self) -> None:
        self.names = self.normal = 0
        self.is_protected = False
        self.links = 1

    def add(self, file: FileFacts) -> None:
        self.names += 1
        self.links = max(self.links, 1 if file.links is None else file.links)
        if file.place.role == LibraryRoot.Role.BACKUP:
            return
        if file.place.protects(file.path):
            self.is_protected = True
        else:
            self.normal += 1

    @property
    def can_be_freed(self) -> bool:
        """Every name of it is known, and may go."""
        return self.normal == self.names and self.names >= self.links

    @property
    def stays(self) -> bool:
        """A copy that nobody removes, and that is no backup."""
        return self.is_protected or (self.normal > 0 and not self.can_be_freed)


def _marks(digests: Sequence[Any]) -> str:
    return ", ".join(["(%s, %s)"] * len(digests))


def _ask(sql: str, parameters: list[Any]) -> list[Any]:
    with connections[POLICY].cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())
