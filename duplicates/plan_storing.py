"""Rows of a plan: written in batches, counted, taken away again.

A plan may have a million of them, so they are written by plain statements. Whoever calls holds the transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from django.db import connections
from django.db.models import F
from django.db.models.functions import Now

from database.many_rows import insert_together
from database.portions import portions
from duplicates.facts import Digest, FileFacts
from duplicates.models import Plan, PlanFile, PlanFolder

#: Digests in one question.
MOST_DIGESTS = 400
#: Rows that are taken away in one transaction.
MOST_CLEARED = 5_000

_COLUMNS = (
    "id", "plan_id", "role", "hash_algorithm", "content_hash", "file_id", "library_id", "relative_path", "folder",
    "size_bytes", "mtime_ns", "ctime_ns", "inode", "device", "nlink", "keeper_id", "action", "reason", "is_out",
)  # fmt: skip
_ROWS = f"plan_files ({', '.join(_COLUMNS)})"

#: First by inode, then by content: names of one file come back together or not at all.
_TOTALS = """
SELECT COUNT(CASE WHEN going > 0 THEN 1 END), SUM(names) - SUM(going), SUM(going), SUM(going_bytes), SUM(freed)
  FROM (SELECT SUM(names) AS names, SUM(going) AS going, SUM(going_bytes) AS going_bytes,
               SUM(CASE WHEN going = names AND going >= links THEN size ELSE 0 END) AS freed
          FROM (SELECT hash_algorithm, content_hash, COUNT(*) AS names, MAX(size_bytes) AS size,
                       MAX(COALESCE(nlink, 1)) AS links,
                       SUM(CASE WHEN role = 'remove' AND NOT is_out THEN 1 ELSE 0 END) AS going,
                       SUM(CASE WHEN role = 'remove' AND NOT is_out THEN size_bytes ELSE 0 END) AS going_bytes
                  FROM {rows}
                 GROUP BY hash_algorithm, content_hash,
                          CASE WHEN inode IS NULL OR device IS NULL THEN -1 ELSE device END,
                          CASE WHEN inode IS NULL OR device IS NULL THEN file_id ELSE inode END) inodes
         GROUP BY hash_algorithm, content_hash) contents"""


@dataclass(frozen=True)
class Totals:
    """What a plan, or a part of it, amounts to, less what a person took out."""

    group_count: int = 0
    #: Files that stay, those included that were taken out.
    keep_count: int = 0
    remove_count: int = 0
    remove_bytes: int = 0
    freed_bytes: int = 0

    def plus(self, other: Totals, sign: int = 1) -> Totals:
        return Totals(
            self.group_count + sign * other.group_count,
            self.keep_count + sign * other.keep_count,
            self.remove_count + sign * other.remove_count,
            self.remove_bytes + sign * other.remove_bytes,
            self.freed_bytes + sign * other.freed_bytes,
        )

    def columns(self) -> dict[str, int]:
        return {
            "group_count": self.group_count,
            "keep_count": self.keep_count,
            "remove_count": self.remove_count,
            "remove_bytes": self.remove_bytes,
            "freed_bytes": self.freed_bytes,
        }


class PlannedFile(NamedTuple):
    """One file of a group that is to be written; `keeper` is the id of the file that stays, in the index."""

    facts: FileFacts
    keeper: int | None
    reason: str

    @property
    def goes(self) -> bool:
        return self.keeper is not None


PlannedGroup = tuple[Digest, Sequence[PlannedFile]]
#: A folder: library and path.
FolderKey = tuple[int, str]


@dataclass(slots=True)
class Loss:
    """What goes of the files right inside a folder. Held for every folder of a plan until its end."""

    files: int = 0
    bytes: int = 0


# --- Writing ----------------------------------------------------------------------------------------------
def insert(plan: Plan, groups: Sequence[PlannedGroup], using: str) -> None:
    """Groups with their files; in each, what stays stands before what goes for it."""
    if not groups:
        return
    ordered = [(digest, sorted(files, key=lambda file: file.goes)) for digest, files in groups]
    ids = iter(_new_ids(sum(len(files) for _, files in ordered), using))
    rows: list[tuple[Any, ...]] = []
    for (algorithm, digest), files in ordered:
        keys = {file.facts.id: next(ids) for file in files}
        rows += [_row(plan, algorithm, digest, file, keys) for file in files]
    insert_together(connections[using], _ROWS, rows)


def _row(plan: Plan, algorithm: str, digest: bytes, file: PlannedFile, keys: dict[int, int]) -> tuple[Any, ...]:
    facts, role = file.facts, PlanFile.Role.REMOVE if file.goes else PlanFile.Role.KEEP
    keeper = None if file.keeper is None else keys[file.keeper]
    return (
        keys[facts.id], plan.pk, role.value, algorithm, digest, facts.id, facts.place.id, facts.path, facts.folder,
        facts.size, facts.mtime_ns, facts.ctime_ns, facts.inode, facts.device, facts.links, keeper,
        plan.action if file.goes else None, file.reason, False,
    )  # fmt: skip


def _new_ids(count: int, using: str) -> list[int]:
    """Keys that nobody else gets: a row names its keeper by it before either is written."""
    with connections[using].cursor() as cursor:
        if connections[using].vendor == "sqlite":
            # The transaction holds the only write lock.
            cursor.execute("SELECT COALESCE(MAX(id), 0) FROM plan_files")
            last = cursor.fetchone()[0]
            return list(range(last + 1, last + 1 + count))
        cursor.execute(
            "SELECT nextval(pg_get_serial_sequence('plan_files', 'id')) FROM generate_series(1, %s)", [count]
        )
        return [key for (key,) in cursor.fetchall()]


def planned_already(plan: Plan, file_ids: Sequence[int], using: str) -> set[int]:
    """Those that the plan has: a file whose content changed meanwhile comes by a second time."""
    found: set[int] = set()
    for some in portions(file_ids, 5_000):
        found |= set(
            PlanFile.objects.using(using).filter(plan=plan, file_id__in=some).values_list("file_id", flat=True)
        )
    return found


def clear_some(plan: Plan, using: str) -> int:
    """Take away some of the plan's rows. The last written go first: nothing is ever left without its keeper."""
    with connections[using].cursor() as cursor:
        cursor.execute("DELETE FROM plan_folders WHERE plan_id = %s", [plan.pk])
        cursor.execute(
            "DELETE FROM plan_files WHERE id IN"
            f" (SELECT id FROM plan_files WHERE plan_id = %s ORDER BY id DESC LIMIT {MOST_CLEARED})",
            [plan.pk],
        )
        return int(cursor.rowcount)


# --- Counting ---------------------------------------------------------------------------------------------
def totals_of(plan_id: int, using: str, digests: Sequence[Digest] | None = None) -> Totals:
    """Counted from the rows: of the whole plan, or of some contents in it."""
    if digests is None:
        return _count("plan_files WHERE plan_id = %s", [plan_id], using)
    total = Totals()
    for some in portions(digests, MOST_DIGESTS):
        # The small table stands first: SQLite would go through the whole plan for `IN (VALUES …)`.
        rows = (
            f"(VALUES {', '.join(['(%s, %s)'] * len(some))}) AS wanted CROSS JOIN plan_files"
            f" WHERE hash_algorithm = wanted.column1 AND content_hash = wanted.column2 AND plan_id = %s"
        )
        total = total.plus(_count(rows, [*(part for digest in some for part in digest), plan_id], using))
    return total


def _count(rows: str, values: list[Any], using: str) -> Totals:
    with connections[using].cursor() as cursor:
        cursor.execute(_TOTALS.format(rows=rows), values)
        return Totals(*(int(figure or 0) for figure in cursor.fetchone()))


def totals_of_group(files: Sequence[PlannedFile]) -> Totals:
    """The same of one group that is not written yet."""
    going = [file.facts for file in files if file.goes]
    names: dict[tuple[int, int], int] = {}
    for file in files:
        names[file.facts.inode_key] = names.get(file.facts.inode_key, 0) + (1 if file.goes else 0)
    links = {file.facts.inode_key: 0 for file in files}
    every = dict(links)
    for file in files:
        key = file.facts.inode_key
        links[key] = max(links[key], 1 if file.facts.links is None else file.facts.links)
        every[key] += 1
    freed = sum(
        each.size
        for each in {facts.inode_key: facts for facts in going}.values()
        if names[each.inode_key] == every[each.inode_key] and names[each.inode_key] >= links[each.inode_key]
    )
    return Totals(1 if going else 0, len(files) - len(going), len(going), sum(facts.size for facts in going), freed)


# --- Folders ----------------------------------------------------------------------------------------------
def add_folders(
    plan: Plan,
    rows: Iterable[tuple[FolderKey, Loss, int]],
    using: str,
    is_writable: Mapping[FolderKey, bool | None] = MappingProxyType({}),
) -> None:
    """What each folder loses, with how many files there are right inside it; and what it said when it was asked."""
    values = [(plan.pk, *key, inside, loss.files, loss.bytes, is_writable.get(key)) for key, loss, inside in rows]
    with connections[using].cursor() as cursor:
        cursor.executemany(
            "INSERT INTO plan_folders"
            " (plan_id, library_id, folder, file_count, remove_count, remove_bytes, is_writable)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s)",
            values,
        )


def change_folder(plan_id: int, key: FolderKey, files: int, size: int) -> bool:
    """Let a folder lose so much more, or less; whether the plan knows it."""
    library, folder = key
    rows = PlanFolder.objects.filter(plan_id=plan_id, library_id=library, folder=folder)
    changed = rows.update(remove_count=F("remove_count") + files, remove_bytes=F("remove_bytes") + size)
    return changed > 0


def set_totals(plan_id: int, totals: Totals, using: str, **columns: Any) -> int:
    rows = Plan.objects.using(using).filter(pk=plan_id)
    return rows.update(**totals.columns(), **columns, updated_at=Now())
