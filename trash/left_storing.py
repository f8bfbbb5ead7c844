"""What is written when files leave a trash: who is about to take them out, and what became of each.

Always inside a transaction on the path "act": of the executor that does it, or of whoever settles what one has left.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from django.db import connections
from django.db.models import F
from django.db.models.functions import Now

from database.portions import portions
from database.routing import EXECUTOR
from jobs.errors import LeaseLost
from libraries.reading import signed
from trash.item_storing import store_touched
from trash.models import Act, RemovedFolder, TrashItem

TAKING = (TrashItem.Status.UNDOING, TrashItem.Status.EMPTYING)
GONE = (TrashItem.Status.UNDONE, TrashItem.Status.EMPTIED)
#: Keys in one statement.
MOST_KEYS = 500
#: The file is the one the index has, at its place again: its digest still holds.
_BACK = """UPDATE library_files SET is_missing = %s, inode = %s, device = %s, mtime_ns = %s, hashed_mtime_ns = %s,
  ctime_ns = %s, nlink = %s, updated_at = CURRENT_TIMESTAMP
 WHERE id = %s AND library_id = %s AND relative_path = %s AND size_bytes = %s AND hash_algorithm = %s
   AND content_hash = %s"""


class Left(NamedTuple):
    """What became of one file of the trash."""

    item: TrashItem
    status: str
    code: str = ""
    reason: str = ""
    is_last_copy: bool = False
    #: The file at its place, where it is back, and the one whose link it was.
    info: os.stat_result | None = None
    link: os.stat_result | None = None
    #: Somebody tried: it is not tried again by the same act. Not so where a try ended before it began.
    is_tried: bool = True

    @property
    def is_gone(self) -> bool:
        return self.status in GONE

    @property
    def is_done(self) -> bool:
        """By whoever was to do it: what had left the trash before was done by somebody else."""
        return self.is_gone and self.code != "TRASH_GONE"

    @property
    def size(self) -> int:
        return int(self.item.plan_file.size_bytes)


def store_intents(act: Act, keys: Sequence[int], status: str) -> int:
    """Say what is about to be done; how many of them it will be done to."""
    taken = 0
    for some in portions(keys, MOST_KEYS):
        rows = TrashItem.objects.using(EXECUTOR).filter(pk__in=some, status=TrashItem.Status.TRASHED)
        taken += rows.update(status=status, left_by=act, reason_code="", reason="")
    return taken


def store_outcomes(lefts: Sequence[Left]) -> None:
    """The rows, what the acts still have in the trash, how far those are that took it, and the index."""
    changed = sum(_store(*group, keys) for group, keys in _alike(lefts).items())
    if changed != len(lefts):
        raise LeaseLost("somebody else has settled files that were in hand")
    _count_sources(left for left in lefts if left.is_gone)
    _count_takers(left for left in lefts if left.is_tried)
    _index(left for left in lefts if left.status == TrashItem.Status.UNDONE)


def _alike(lefts: Iterable[Left]) -> dict[tuple[str, str, str, bool, bool], list[int]]:
    """Most of them end the same way."""
    found: dict[tuple[str, str, str, bool, bool], list[int]] = {}
    for left in lefts:
        group = (left.status, left.code, left.reason, left.is_last_copy, left.is_tried)
        found.setdefault(group, []).append(left.item.pk)
    return found


def _store(status: str, code: str, reason: str, is_last_copy: bool, is_tried: bool, keys: list[int]) -> int:
    values: dict[str, Any] = {"status": status, "reason_code": code, "reason": reason, "is_last_copy": is_last_copy}
    if status in GONE:
        values["left_at"] = Now()
    elif not is_tried:
        values["left_by"] = None
    changed = 0
    for some in portions(keys, MOST_KEYS):
        changed += TrashItem.objects.using(EXECUTOR).filter(pk__in=some, status__in=TAKING).update(**values)
    return changed


def _count_sources(lefts: Iterable[Left]) -> None:
    files, sizes = Counter[int](), Counter[int]()
    for left in lefts:
        files[left.item.act_id] += 1
        sizes[left.item.act_id] += left.size
    for act, count in sorted(files.items()):
        Act.objects.using(EXECUTOR).filter(pk=act).update(
            trashed_count=F("trashed_count") - count, trashed_bytes=F("trashed_bytes") - sizes[act], updated_at=Now()
        )


def _count_takers(lefts: Iterable[Left]) -> None:
    done, skipped, sizes = Counter[int](), Counter[int](), Counter[int]()
    for left in lefts:
        by = left.item.left_by_id
        if by is not None:
            (done if left.is_done else skipped)[by] += 1
            sizes[by] += left.size
    for act, size in sorted(sizes.items()):
        Act.objects.using(EXECUTOR).filter(pk=act).update(
            done_count=F("done_count") + done[act],
            skipped_count=F("skipped_count") + skipped[act],
            bytes_done=F("bytes_done") + size,
            updated_at=Now(),
        )


def _index(lefts: Iterable[Left]) -> None:
    back, unlinked = [], []
    for left in lefts:
        file, info = left.item.plan_file, left.info
        # Nobody has read a stray: its digest is not the one that the index may still have.
        if info is not None and not left.item.is_stray:
            back.append((
                False, signed(info.st_ino), signed(info.st_dev), info.st_mtime_ns, info.st_mtime_ns, info.st_ctime_ns,
                info.st_nlink, file.file_id, file.library_id, file.relative_path, info.st_size, file.hash_algorithm,
                bytes(file.content_hash),
            ))  # fmt: skip
        if left.link is not None and file.keeper is not None:
            unlinked.append((file.keeper.file_id, left.link))  # the file that stayed has a name less
    if back:
        with connections[EXECUTOR].cursor() as cursor:
            cursor.executemany(_BACK, back)
    store_touched(unlinked)


def store_folders(act_id: int, library_id: int, folders: Sequence[str]) -> None:
    """Folders that went with their files are there again."""
    for some in portions(folders, MOST_KEYS):
        RemovedFolder.objects.using(EXECUTOR).filter(
            act_id=act_id, library_id=library_id, folder__in=some, is_back=False
        ).update(is_back=True)
