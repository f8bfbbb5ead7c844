"""Which files are due to be read by a hash job: SQL over the partial indexes, from the largest size to the smallest.

Only what can have a twin is read. A large file is sampled when another file, in any library, has its size, and hashed
when another has its size and sample. Small files are hashed while they are walked; those that the walk could not read
are due here, whatever their size. In a library that wants everything hashed, everything is due.

The conditions of `ix_library_files_size` and `ix_library_files_unhashed` stand literally in each statement: the
planners take a partial index only if they can see that it holds every row that is asked for. Each stage goes through
its index once, by a cursor, so a million files that can have no twin cost one look at each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connections
from django.db.models import Expression
from django.db.models.functions import Now

from database.clock import SecondsFromNow
from database.routing import EXECUTOR
from libraries.models import LibraryFile

#: The conditions of the two indexes, of a row `f`.
LARGE = "f.size_bytes > 65536 AND NOT f.is_missing"
UNHASHED = "f.needs_hash AND NOT f.is_missing"
#: Some file of that size has no digest yet: answered by the index alone.
_SIZE_HAS_UNHASHED = (
    "EXISTS (SELECT 1 FROM library_files u WHERE u.needs_hash AND NOT u.is_missing AND u.size_bytes = f.size_bytes)"
)
_COLUMNS = (
    "f.id, f.library_id, f.relative_path, f.size_bytes, f.mtime_ns, f.ctime_ns, f.inode, f.device, f.nlink,"
    " f.sample_hash, f.needs_hash"
)
#: Sizes, or sizes with a sample, that are looked at in one statement.
MOST_CLASSES = 1000
#: The first letters of a claim's token say under which lease of the job it was made (`libraries.hash_claims`).
REIGN_LETTERS = 24


class Candidate(NamedTuple):
    """A file that is due, as it stood in the index when it was found."""

    id: int
    library_id: int
    path: str
    size: int
    mtime_ns: int
    ctime_ns: int | None
    inode: int | None
    device: int | None
    links: int | None
    sample: bytes | None
    needs_hash: bool


Sql = tuple[str, list[Any]]


def run(sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Ask the executor's connection; the answer is fetched to its end, or the write lock would stay."""
    with connections[EXECUTOR].cursor() as cursor:
        cursor.execute(sql, parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def in_sql(expression: Expression) -> Sql:
    """An expression of Django's as a piece of SQL and its parameters."""
    compiler = LibraryFile.objects.using(EXECUTOR).query.get_compiler(EXECUTOR)
    sql, parameters = compiler.compile(expression)
    return sql, list(parameters)


def _rows(sql: str, parameters: Sequence[Any]) -> list[Candidate]:
    return [Candidate._make(_plain(row)) for row in run(sql, parameters)]


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Both databases' rows alike."""
    *figures, sample, needs_hash = row
    return (*figures, None if sample is None else bytes(sample), bool(needs_hash))


def free(reign: str) -> Sql:
    """A row `f` that nobody has in hand: no token, one that is stale, or one of an earlier lease of the job."""
    ago, parameters = in_sql(SecondsFromNow(-settings.HASH_CLAIM_SECONDS))
    sql = (
        "(f.hash_claim_token IS NULL OR f.hash_claimed_at IS NULL"
        f" OR f.hash_claimed_at <= {ago} OR SUBSTR(f.hash_claim_token, 1, {REIGN_LETTERS}) <> %s)"
    )
    return sql, [*parameters, reign]


def readable() -> Sql:
    """A row `f` that may be read now: its library is kept and not paused, its last error is long enough ago.

    The plus keeps the planners from going through whole libraries instead of the partial index.
    """
    now, parameters = in_sql(Now())
    sql = (
        "+f.library_id IN (SELECT id FROM library_roots WHERE NOT is_paused AND removing_at IS NULL)"
        f" AND (f.hash_retry_after IS NULL OR f.hash_retry_after <= {now})"
    )
    return sql, parameters


def due(reign: str) -> Sql:
    (can_read, one), (is_free, other) = readable(), free(reign)
    return f"{can_read} AND {is_free}", [*one, *other]


# --- The stages of a look through the index -----------------------------------------------------------------
@dataclass(frozen=True)
class Found:
    """Rows of one stage, and from where it goes on; None is its end."""

    rows: list[Candidate]
    cursor: Any


@dataclass(frozen=True)
class Bounds:
    """How much a batch may hold. The first file is always taken, however large."""

    files: int
    size: int

    def cut(self, rows: list[Candidate]) -> list[Candidate]:
        total = 0
        for number, row in enumerate(rows):
            total += row.size
            if number and total > self.size:
                return rows[:number]
        return rows


Stage = Callable[[Any, Bounds, str], Found]


def unsampled_sizes(below: int | None, limit: int) -> list[tuple[Any, ...]]:
    """Sizes that several files have, of which some is not sampled and some not hashed; and how many lack a sample."""
    before = "" if below is None else "AND f.size_bytes < %s"
    return run(
        f"SELECT f.size_bytes, COUNT(*) - COUNT(f.sample_hash) FROM library_files f WHERE {LARGE} {before}"
        f" GROUP BY f.size_bytes HAVING COUNT(*) > 1 AND COUNT(f.sample_hash) < COUNT(*) AND {_SIZE_HAS_UNHASHED}"
        f" ORDER BY f.size_bytes DESC LIMIT {limit}",
        [] if below is None else [below],
    )


def unsampled(below: int | None, bounds: Bounds, reign: str) -> Found:
    """Files to sample; also hashed ones, where one without a digest wants to be compared with them."""
    sizes, lacking = [], 0
    for size, count in unsampled_sizes(below, min(bounds.files, MOST_CLASSES)):
        sizes.append(size)
        lacking += count
        if lacking >= bounds.files:
            break
    if not sizes:
        return Found([], None)
    is_due, parameters = due(reign)
    rows = _rows(
        f"SELECT {_COLUMNS} FROM library_files f WHERE f.size_bytes IN ({_marks(sizes)}) AND {LARGE}"
        f" AND f.sample_hash IS NULL AND {is_due} ORDER BY f.size_bytes DESC, f.id LIMIT {bounds.files}",
        [*sizes, *parameters],
    )
    # A size that did not fit is looked at again: what was claimed is not found twice.
    return Found(rows, rows[-1].size + 1 if len(rows) == bounds.files else sizes[-1])


def twin_groups(cursor: tuple[str, int, bytes] | None, limit: int) -> list[tuple[Any, ...]]:
    """Sizes and samples that several files share, where some file of that size is not hashed."""
    before = "" if cursor is None else f"AND (f.size_bytes, f.sample_hash) {cursor[0]} (%s, %s)"
    return run(
        f"SELECT f.size_bytes, f.sample_hash FROM library_files f WHERE {LARGE} AND f.sample_hash IS NOT NULL {before}"
        f" GROUP BY f.size_bytes, f.sample_hash HAVING COUNT(*) > 1 AND {_SIZE_HAS_UNHASHED}"
        f" ORDER BY f.size_bytes DESC, f.sample_hash DESC LIMIT {limit}",
        [] if cursor is None else cursor[1:],
    )


def twins(cursor: tuple[str, int, bytes] | None, bounds: Bounds, reign: str) -> Found:
    """Sampled files without a digest whose size and sample another file has."""
    groups = [(size, bytes(sample)) for size, sample in twin_groups(cursor, min(bounds.files, MOST_CLASSES))]
    if not groups:
        return Found([], None)
    is_due, parameters = due(reign)
    found = _rows(
        f"WITH alike (size_bytes, sample_hash) AS (VALUES {', '.join(['(%s, %s)'] * len(groups))})"
        f" SELECT {_COLUMNS} FROM alike CROSS JOIN library_files f WHERE f.size_bytes = alike.size_bytes"
        f" AND f.sample_hash = alike.sample_hash AND {LARGE} AND f.needs_hash AND {is_due}"
        f" ORDER BY f.size_bytes DESC, f.sample_hash DESC, f.id LIMIT {bounds.files}",
        [value for group in groups for value in group] + parameters,
    )
    rows = bounds.cut(found)
    if len(rows) < len(found) or len(found) == bounds.files:
        return Found(rows, ("<=", rows[-1].size, rows[-1].sample))
    return Found(rows, ("<", *groups[-1]))


def small(cursor: tuple[int, int] | None, bounds: Bounds, reign: str) -> Found:
    """Small files that the walk could not hash."""
    return _unhashed("f.size_bytes >= 1 AND f.size_bytes <= 65536", cursor, bounds, reign)


_WANTING = "SELECT id FROM library_roots WHERE hash_everything AND NOT is_paused AND removing_at IS NULL"
_IS_WANTED = f"f.size_bytes > 65536 AND +f.library_id IN ({_WANTING})"


def everything(cursor: tuple[int, int] | None, bounds: Bounds, reign: str) -> Found:
    """Large files of libraries that want also what can have no twin."""
    if not run(f"{_WANTING} LIMIT 1"):
        return Found([], None)
    return _unhashed(_IS_WANTED, cursor, bounds, reign)


def _unhashed(condition: str, cursor: tuple[int, int] | None, bounds: Bounds, reign: str) -> Found:
    before = "" if cursor is None else "AND (f.size_bytes, f.id) < (%s, %s)"
    is_due, parameters = due(reign)
    found = _rows(
        f"SELECT {_COLUMNS} FROM library_files f WHERE {UNHASHED} AND {condition} {before} AND {is_due}"
        f" ORDER BY f.size_bytes DESC, f.id DESC LIMIT {bounds.files}",
        [*([] if cursor is None else cursor), *parameters],
    )
    rows = bounds.cut(found)
    is_last = len(rows) == len(found) < bounds.files
    return Found(rows, None if is_last else (rows[-1].size, rows[-1].id))


def outdated(after: int | None, bounds: Bounds, reign: str) -> Found:
    """Files whose digest is by the system's algorithm and that have none yet by the one it is switching to."""
    is_due, parameters = due(reign)
    found = _rows(
        f"SELECT {_COLUMNS} FROM library_files f WHERE f.id > %s AND NOT f.is_missing AND NOT f.needs_hash"
        " AND f.content_hash IS NOT NULL AND NOT EXISTS (SELECT 1 FROM rehashes r"
        " WHERE r.file_id = f.id AND r.size_bytes = f.size_bytes AND r.mtime_ns = f.mtime_ns)"
        f" AND {is_due} ORDER BY f.id LIMIT {bounds.files}",
        [after or 0, *parameters],
    )
    rows = bounds.cut(found)
    is_last = len(rows) == len(found) < bounds.files
    return Found(rows, None if is_last else rows[-1].id)


def _marks(values: Sequence[Any]) -> str:
    return ", ".join(["%s"] * len(values))


STAGES: tuple[Stage, ...] = (unsampled, twins, small, everything)
REHASH_STAGES: tuple[Stage, ...] = (outdated,)


class Search:
    """One look through the index, a batch at a time. What it finds is the caller's to claim, at once."""

    def __init__(self, reign: str, stages: Sequence[Stage] = STAGES) -> None:
        self.reign = reign
        #: The stage that found what was found last.
        self.found_by: Stage | None = None
        self._stages = list(stages)
        self._cursor: Any = None

    @property
    def is_over(self) -> bool:
        return not self._stages

    def next(self, bounds: Bounds) -> list[Candidate]:
        """The next files that are due; none only when the look is over."""
        while self._stages:
            self.found_by = self._stages[0]
            found = self.found_by(self._cursor, bounds, self.reign)
            self._cursor = found.cursor
            if found.cursor is None:
                self._stages.pop(0)
            if found.rows:
                return found.rows
        return []


# --- Figures ------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Amount:
    """Files and their bytes."""

    files: int = 0
    size: int = 0

    def __add__(self, other: Amount) -> Amount:
        return replace(self, files=self.files + other.files, size=self.size + other.size)


def outstanding() -> Amount:
    """What a hash job may have to read, at the most: sampling shows that much of it need not be read."""
    unread = run(
        "SELECT SUM(lacking), SUM(lacking * size_bytes) FROM (SELECT f.size_bytes, COUNT(*) - COUNT(f.sample_hash)"
        f" AS lacking FROM library_files f WHERE {LARGE} GROUP BY f.size_bytes"
        f" HAVING COUNT(*) > 1 AND COUNT(f.sample_hash) < COUNT(*) AND {_SIZE_HAS_UNHASHED}) sizes"
    )
    sampled = run(
        "SELECT COUNT(*), SUM(f.size_bytes) FROM (SELECT f.size_bytes, f.sample_hash FROM library_files f"
        f" WHERE {LARGE} AND f.sample_hash IS NOT NULL GROUP BY f.size_bytes, f.sample_hash"
        f" HAVING COUNT(*) > 1 AND {_SIZE_HAS_UNHASHED}) alike CROSS JOIN library_files f"
        f" WHERE f.size_bytes = alike.size_bytes AND f.sample_hash = alike.sample_hash AND {LARGE} AND f.needs_hash"
    )
    small_ones = run(
        f"SELECT COUNT(*), SUM(f.size_bytes) FROM library_files f WHERE {UNHASHED}"
        " AND f.size_bytes >= 1 AND f.size_bytes <= 65536"
    )
    return _amount(unread) + _amount(sampled) + _amount(small_ones) + _without_twins()


def _without_twins() -> Amount:
    """Large files that can have no twin, by their size or by their sample, where a library wants them all the same."""
    if not run(f"{_WANTING} LIMIT 1"):
        return Amount(0, 0)
    return _amount(
        run(
            f"SELECT COUNT(*), SUM(f.size_bytes) FROM library_files f WHERE {UNHASHED} AND {_IS_WANTED}"
            " AND NOT EXISTS (SELECT 1 FROM library_files o WHERE o.size_bytes = f.size_bytes AND o.size_bytes > 65536"
            " AND NOT o.is_missing AND o.id <> f.id AND (f.sample_hash IS NULL OR o.sample_hash = f.sample_hash))"
        )
    )


def outstanding_in_a_switch() -> Amount:
    """The same while the algorithm changes: what is hashed now is read again with everything else."""
    new = outstanding()
    return new + new + to_rehash()


def to_rehash() -> Amount:
    return _amount(
        run(
            "SELECT COUNT(*), SUM(f.size_bytes) FROM library_files f WHERE NOT f.is_missing AND NOT f.needs_hash"
            " AND f.content_hash IS NOT NULL AND NOT EXISTS (SELECT 1 FROM rehashes r"
            " WHERE r.file_id = f.id AND r.size_bytes = f.size_bytes AND r.mtime_ns = f.mtime_ns)"
        )
    )


def _amount(rows: list[tuple[Any, ...]]) -> Amount:
    ((files, size),) = rows
    return Amount(int(files or 0), int(size or 0))
