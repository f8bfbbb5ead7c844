"""Rows of an act: what is intended, what became of it, and what the index knows of the files since.

An act may have a million files, so whole batches are written by plain statements. Each of these transactions is on the
disk when it is committed (the path "act"), and before and after it there is a place where a test can make the process
die (`DEDUPFS_CRASH_POINT=record:3`).
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import connections

from database.crash_points import reach
from database.many_keys import among, keys
from database.many_rows import insert_together
from database.routing import EXECUTOR
from jobs.enforcing import transaction_on
from jobs.errors import LeaseLost
from jobs.working import Work
from libraries.reading import signed
from trash.models import Act, TrashItem
from trash.path_keys import path_key
from trash.planned import INTENDED, SKIPPED, TRASHED, Done, Intent, Kept, Linked, Planned

POINT = "record"
#: Files of a plan that are fetched at a time.
_TOGETHER = 500
LIVING = ", ".join(repr(status.value) for status in Act.LIVING)
OPEN = ", ".join(repr(status.value) for status in TrashItem.OPEN)
_NOW = {"sqlite": "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'now')", "postgresql": "STATEMENT_TIMESTAMP()"}

_NEXT = """
SELECT * FROM (
  SELECT v.id, v.file_id, v.library_id, v.relative_path, v.size_bytes, v.mtime_ns, v.inode, v.hash_algorithm,
         v.content_hash, v.action, k.id AS keeper_id, k.file_id AS keeper_file_id, k.library_id AS keeper_library_id,
         k.relative_path AS keeper_path, k.size_bytes AS keeper_size, k.mtime_ns AS keeper_mtime_ns,
         k.inode AS keeper_inode, {known} AS known
    FROM plan_files v JOIN plan_files k ON k.id = v.keeper_id
   WHERE v.plan_id = %s AND v.id > %s AND v.role = 'remove' AND NOT v.is_out) AS going
 WHERE known IS NULL OR known = 'intended' ORDER BY id LIMIT %s"""
#: What is known of a file is looked up for each by itself. As a join, PostgreSQL goes by what it knows of how many rows
#: an act has, which is as old as its last look at the table: one that is in full swing was gone through for each file.
_KNOWN = "(SELECT t.status FROM trash_items t WHERE t.act_id = %s AND t.plan_file_id = v.id)"
_LAST_KNOWN = "SELECT MAX(plan_file_id) FROM trash_items WHERE act_id = %s"
_INTENTS = (
    "trash_items (act_id, plan_file_id, status, reason_code, reason, library_id, path_key, trash_folder, device, inode)"
)
_INTEND_AGAIN = """
UPDATE trash_items SET trash_folder = %s, device = %s, inode = %s
 WHERE act_id = %s AND plan_file_id = %s AND status = 'intended'"""
_SKIP = """
UPDATE trash_items SET status = 'skipped', reason_code = %s, reason = %s
 WHERE act_id = %s AND plan_file_id = %s AND status = 'intended'"""
_DONE = """
UPDATE trash_items SET status = %s, reason_code = %s, reason = %s, linked_inode = %s, acted_at = {now},
       stray_size_bytes = %s, stray_mtime_ns = %s, inode = COALESCE(%s, inode)
 WHERE act_id = %s AND plan_file_id = %s AND status = 'intended'"""
#: The same for most of them, all at once.
_TRASHED = """
UPDATE trash_items SET status = 'trashed', acted_at = {now}
 WHERE act_id = %s AND status = 'intended' AND plan_file_id {among}"""
#: By its id and its place: a scan may have given the row to another path meanwhile. In the order of their own ids, in
#: which they lie: in that of the plan SQLite would look for nearly each of them on another page.
_MISSING = """
UPDATE library_files SET is_missing = {true}, updated_at = {now}
 WHERE id {among} AND EXISTS (
   SELECT 1 FROM plan_files p
    WHERE p.plan_id = (SELECT plan_id FROM acts WHERE id = %s) AND p.file_id = library_files.id
      AND p.library_id = library_files.library_id AND p.relative_path = library_files.relative_path)"""
_LINKED = """
UPDATE library_files SET inode = %s, device = %s, mtime_ns = %s, hashed_mtime_ns = %s, ctime_ns = %s, nlink = %s,
       updated_at = {now}
 WHERE id = %s AND library_id = %s AND relative_path = %s"""
_TOUCHED = "UPDATE library_files SET ctime_ns = %s, nlink = %s, updated_at = {now} WHERE id = %s AND inode = %s"
_COUNT = """
UPDATE acts SET done_count = done_count + %s, skipped_count = skipped_count + %s, bytes_done = bytes_done + %s,
       trashed_count = trashed_count + %s, trashed_bytes = trashed_bytes + %s, busy_seconds = busy_seconds + %s,
       updated_at = {now}
 WHERE id = %s"""
_GOING = """
SELECT DISTINCT x.file_id FROM acts a JOIN plan_files x ON x.plan_id = a.plan_id
 WHERE a.verb = 'act' AND a.status IN ({living}) AND x.role = 'remove' AND NOT x.is_out AND x.file_id {among}"""


@dataclass
class Counted:
    """What a batch adds to the figures of its act."""

    done: int = 0
    skipped: int = 0
    bytes: int = 0
    trashed: int = 0
    trashed_bytes: int = 0
    seconds: float = 0.0

    def add(self, status: str, size: int, files: int = 1) -> None:
        """Files of which the same has become, and their size."""
        self.bytes += size
        if status == SKIPPED:
            self.skipped += files
            return
        self.done += files
        if status == TRASHED:
            self.trashed += files
            self.trashed_bytes += size


@contextmanager
def recording(work: Work[Any] | None = None) -> Iterator[None]:
    """A durable transaction, fenced by the lease; without one by the lock that its caller holds."""
    with work.fenced("act") if work is not None else transaction_on("act"):
        yield
        reach(POINT)
    reach(POINT)


# --- Reading ----------------------------------------------------------------------------------------------
def next_files(act: Act, after: int, most: int) -> Generator[Planned, None, None]:
    """The next files of the plan of which nothing is recorded yet, in the order of the plan: equal ones together. They
    are looked up as they are taken; whoever has enough closes it."""
    with connections[EXECUTOR].cursor() as cursor:
        cursor.execute(_LAST_KNOWN, [act.pk])
        (last,) = cursor.fetchone()
        # Only where it is taken up again: nothing is known of files behind the last of which anything is.
        known = [act.pk] if last is not None and last > after else []
        cursor.execute(_NEXT.format(known=_KNOWN if known else "NULL"), [*known, act.plan_id, after, most])
        while rows := cursor.fetchmany(_TOGETHER):
            yield from map(_planned, rows)


def _planned(row: tuple[Any, ...]) -> Planned:
    return Planned._make((*row[:8], bytes(row[8]), row[9], Kept._make(row[10:17]), row[17] is not None))


def going_elsewhere(file_ids: Iterable[int]) -> set[int]:
    """Those of the files that an act which lives is about to take away."""
    with connections[EXECUTOR].cursor() as cursor:
        cursor.execute(_GOING.format(living=LIVING, among=among(EXECUTOR)), [keys(EXECUTOR, set(file_ids))])
        return {key for (key,) in cursor.fetchall()}


def touched_inodes(act_id: int) -> set[tuple[int, int]]:
    """Device and inode of every file that the act did something to: a move changes the ctime of all their names."""
    rows = TrashItem.objects.using(EXECUTOR).filter(act_id=act_id).exclude(status=TrashItem.Status.SKIPPED)
    figures = rows.values_list("device", "inode", "linked_inode")
    return {(device or 0, inode or 0) for device, *both in figures for inode in both}


# --- Intents ----------------------------------------------------------------------------------------------
def intend(act_id: int, intents: Sequence[Intent]) -> None:
    """Write what is about to be done, and what will not be."""
    new = [_intent_row(act_id, each) for each in intents if not each.item.is_intended]
    again = [each for each in intents if each.item.is_intended]
    insert_together(connections[EXECUTOR], _INTENTS, new)
    with connections[EXECUTOR].cursor() as cursor:
        if some := [each for each in again if not each.code]:
            rows = [(each.trash_folder, *_inode(each.info), act_id, each.item.id) for each in some]
            cursor.executemany(_INTEND_AGAIN, rows)
        if some := [each for each in again if each.code]:
            cursor.executemany(_SKIP, [(each.code, each.reason, act_id, each.item.id) for each in some])


def _intent_row(act_id: int, intent: Intent) -> tuple[Any, ...]:
    item, path, trash_folder, info, code, reason = intent
    return (
        act_id, item.id, SKIPPED if code else INTENDED, code, reason, item.library_id, path_key(path), trash_folder,
        *_inode(info),
    )  # fmt: skip


def _inode(info: os.stat_result | None) -> tuple[int | None, int | None]:
    return (None, None) if info is None else (signed(info.st_dev), signed(info.st_ino))


# --- Outcomes ---------------------------------------------------------------------------------------------
def store_outcomes(act_id: int, outcomes: Sequence[Done]) -> Counted:
    """Write what became of files that were intended, and what the index knows of them from now on; return what that
    adds to the figures."""
    plain = [each.item for each in outcomes if each.is_plain]
    others = [each for each in outcomes if not each.is_plain] if len(plain) < len(outcomes) else []
    now = _moment()
    if _store_plain(act_id, plain, now) + _store_others(act_id, others, now) != len(outcomes):
        raise LeaseLost(f"act {act_id}: somebody else has settled files that were in hand")
    gone = [each.item for each in others if each.status != SKIPPED and each.linked is None]
    _store_index(act_id, [*plain, *gone], [each for each in others if each.linked is not None], now)
    counted = Counted()
    counted.add(TRASHED, sum([item.size for item in plain]), len(plain))
    for each in others:
        counted.add(each.status, each.item.size)
    return counted


def _store_plain(act_id: int, items: Sequence[Planned], now: str) -> int:
    if not items:
        return 0
    with connections[EXECUTOR].cursor() as cursor:
        cursor.execute(_written(_TRASHED, now), [act_id, keys(EXECUTOR, [item.id for item in items])])
        return int(cursor.rowcount)


def _store_others(act_id: int, others: Sequence[Done], now: str) -> int:
    skipped = [(each.code, each.reason, act_id, each.item.id) for each in others if each.status == SKIPPED]
    done = [
        (each.status, each.code, each.reason, each.linked and signed(each.linked.st_ino),
         *(each.stray or (None, None, None)), act_id, each.item.id)
        for each in others
        if each.status != SKIPPED
    ]  # fmt: skip
    changed = 0
    with connections[EXECUTOR].cursor() as cursor:
        for sql, some in ((_SKIP, skipped), (_DONE, done)):
            if some:
                cursor.executemany(_written(sql, now), some)
                changed += cursor.rowcount
    return changed


def _store_index(act_id: int, gone: Sequence[Planned], linked: Sequence[Done], now: str) -> None:
    """Only what is certain: whoever is linked has the content of the file that stays, so its digest holds."""
    with connections[EXECUTOR].cursor() as cursor:
        if gone:
            cursor.execute(_written(_MISSING, now), [keys(EXECUTOR, [item.file_id for item in gone]), act_id])
        if linked:
            cursor.executemany(_written(_LINKED, now), [_linked_row(each) for each in linked])


def _linked_row(done: Done) -> tuple[Any, ...]:
    info, item = done.linked, done.item
    assert info is not None
    return (
        signed(info.st_ino), signed(info.st_dev), info.st_mtime_ns, info.st_mtime_ns, info.st_ctime_ns, info.st_nlink,
        item.file_id, item.library_id, item.path,
    )  # fmt: skip


def store_touched(names: Iterable[tuple[int, Linked | os.stat_result]]) -> None:
    """Rows of names whose inode got one more link: nobody has to read them again because of that."""
    rows = [(info.st_ctime_ns, info.st_nlink, file_id, signed(info.st_ino)) for file_id, info in names]
    if rows:
        with connections[EXECUTOR].cursor() as cursor:
            cursor.executemany(_written(_TOUCHED), rows)


def count(act_id: int, counted: Counted) -> None:
    with connections[EXECUTOR].cursor() as cursor:
        figures = (counted.done, counted.skipped, counted.bytes, counted.trashed, counted.trashed_bytes)
        cursor.execute(_written(_COUNT), [*figures, counted.seconds, act_id])


def _written(sql: str, now: str | None = None) -> str:
    vendor = connections[EXECUTOR].vendor
    return sql.format(now=now or _NOW[vendor], true="1" if vendor == "sqlite" else "true", among=among(EXECUTOR))


def _moment() -> str:
    """The time, for many rows of one transaction. SQLite would work it out for each of them."""
    vendor = connections[EXECUTOR].vendor
    if vendor != "sqlite":
        return _NOW[vendor]
    with connections[EXECUTOR].cursor() as cursor:
        cursor.execute("SELECT STRFTIME('%Y-%m-%d %H:%M:%f', 'now')")
        return f"'{cursor.fetchone()[0]}'"
