"""What became of the files that an act was about to act on: looked up on the disk, finished or taken back.

Whoever calls holds the lock (`trash.locking`), so nobody is in the middle of anything.
"""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack, suppress
from enum import Enum
from stat import S_ISREG

from django.db.models import QuerySet

from database.routing import EXECUTOR
from duplicates.facts import Place, read_places
from duplicates.models import Action, PlanFile
from libraries import mounts
from libraries.models import LibraryRoot
from libraries.names import to_bytes
from libraries.reading import open_file, open_folder, signed
from trash import item_storing, moving, steps
from trash.folders import Trash, info_of, open_trash
from trash.locking import Held
from trash.models import Act, TrashItem
from trash.moving import Place as At
from trash.moving import Seen
from trash.noting_strays import note_strays
from trash.planned import DELETED, SKIPPED, TRASHED, Done, Kept, Linked, Planned
from trash.proving import Found, is_same_file, open_name
from trash.refusing import Refusal
from trash.strays import with_stray

logger = logging.getLogger(__name__)
#: Rows of one transaction.
PORTION = 500
NOBODY_SAW = (
    "Whoever was to remove it for good died, and neither the file nor its place in the trash is there: it was removed,"
    " or somebody has moved it since."
)
NOBODY_KNOWS = (
    "Whoever was to remove it for good died, and what has its name by now is not the file of the plan: that was removed"
    " before this was saved, or this took its place. What is there is left as it is."
)


class Unsettled(Enum):
    """What else the disk may say than that something was done."""

    #: Nothing was done, or it was taken back.
    UNTOUCHED = "untouched"
    #: Its disk is not there, or can't be read: nobody can say.
    UNKNOWN = "unknown"


UNTOUCHED, UNKNOWN = Unsettled.UNTOUCHED, Unsettled.UNKNOWN
Outcome = Done | Unsettled


def settle_intended(lock: Held, act: Act | None = None, *, is_over: bool = False) -> int:
    """Those of one act, or all. Where the act is over, what was not done is forgotten."""
    settled, after = 0, 0
    while rows := _rows(act, after):
        after = rows[-1].pk
        with _Looking(lock) as looking:
            rows = looking.lock(rows)
            outcomes = [looking.look(row) for row in rows]
            looking.sync()
            settled += _record(rows, outcomes, is_over=is_over)
    return settled


def _rows(act: Act | None, after: int) -> list[TrashItem]:
    rows = _open_rows().filter(pk__gt=after)
    if act is not None:
        rows = rows.filter(act=act)
    return list(rows[:PORTION])


def _open_rows() -> QuerySet[TrashItem]:
    rows = TrashItem.objects.using(EXECUTOR).filter(status=TrashItem.Status.INTENDED)
    return rows.select_related("act", "plan_file__keeper").order_by("pk")


def _record(rows: list[TrashItem], outcomes: list[Outcome], *, is_over: bool) -> int:
    done = [(row, found) for row, found in zip(rows, outcomes, strict=True) if isinstance(found, Done)]
    # An act that ended otherwise than by its own run has nobody to take its files up again.
    undone = [
        row.pk
        for row, found in zip(rows, outcomes, strict=True)
        if found is UNTOUCHED and (is_over or not row.act.is_living)
    ]
    if not done and not undone:
        return 0
    acts = {row.act_id: row.act for row, _ in done}
    for act_id, act in acts.items():
        note_strays(act, [found for row, found in done if row.act_id == act_id])
    with item_storing.recording():
        for act_id in acts:
            mine = [found for row, found in done if row.act_id == act_id]
            item_storing.count(act_id, item_storing.store_outcomes(act_id, mine))
        TrashItem.objects.using(EXECUTOR).filter(pk__in=undone, status=TrashItem.Status.INTENDED).delete()
    return len(done) + len(undone)


class _Looking:
    """Looks at the disk for rows that say `intended`, and finishes or takes back what was begun. Use it as a
    context."""

    def __init__(self, lock: Held) -> None:
        self._lock = lock
        self._places = read_places(EXECUTOR)
        self._kept = set(LibraryRoot.objects.using(EXECUTOR).kept().values_list("pk", flat=True))
        self._there: dict[tuple[int, str], bool] = {}
        self._trashes: dict[tuple[int, int, str], tuple[Trash, set[int]] | None] = {}
        self._stack = ExitStack()

    def __enter__(self) -> _Looking:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def sync(self) -> None:
        """A rename that only the memory knows of would be lost in a power cut."""
        for found in self._trashes.values():
            if found is not None:
                steps.sync(found[0].files)

    def lock(self, rows: list[TrashItem]) -> list[TrashItem]:
        """Lock the trashes of these, and read them again: whoever had one until a moment ago has written what became
        of his. Raises `Busy`."""
        for row in rows:
            place = self._places.get(row.library_id)
            if place is not None:
                with suppress(OSError):  # looking at it says what that means
                    self._trash(row, place)
        return list(_open_rows().filter(pk__in=[row.pk for row in rows]))

    def look(self, row: TrashItem) -> Outcome:
        """What became of it: or that nothing did, or that nobody can tell now."""
        place = self._places.get(row.library_id)
        if place is None or row.library_id not in self._kept:
            return UNTOUCHED  # nothing is done in a library that was removed, and its trash was empty then
        try:
            if not self._is_there(place, row.trash_folder):
                return UNKNOWN
            found = self._trash(row, place)
            if found is None:
                return UNTOUCHED
            trash, named = found
            return self._settle(row, place, trash) if row.plan_file_id in named else UNTOUCHED
        except OSError as error:
            logger.warning("What became of file %d of %s can't be told now: %s", row.plan_file_id, row.act, error)
            return UNKNOWN

    def _is_there(self, place: Place, folder: str) -> bool:
        """Whether the disk that the trash lies on is mounted: on another one there is of course nothing."""
        key = (place.id, folder)
        if key not in self._there:
            name = place.filesystems.get(folder)
            self._there[key] = _is_mounted(to_bytes(place.root_path), to_bytes(folder), name)
        return self._there[key]

    def _trash(self, row: TrashItem, place: Place) -> tuple[Trash, set[int]] | None:
        """The act's folder in the trash, locked, and the files its manifest names: only to those something was done."""
        key = (row.act_id, row.library_id, row.trash_folder)
        if key not in self._trashes:
            try:
                trash = open_trash(to_bytes(place.root_path), to_bytes(row.trash_folder), row.act.key, is_made=False)
            except (FileNotFoundError, Refusal):
                self._trashes[key] = None
            else:
                self._stack.callback(trash.close)
                self._lock.take(trash)
                # What came here before the kill is on the disk before the folders it left are synced.
                steps.sync(trash.files)
                named = {line["item"] for line in trash.read_manifest() if isinstance(line.get("item"), int)}
                self._trashes[key] = (trash, named)
        return self._trashes[key]

    # --- One file -----------------------------------------------------------------------------------------
    def _settle(self, row: TrashItem, place: Place, trash: Trash) -> Outcome:
        path = to_bytes(row.plan_file.relative_path)
        above, _, name = path.rpartition(b"/")
        with ExitStack() as stack:
            at = None
            with suppress(FileNotFoundError, NotADirectoryError):
                folder = open_folder(to_bytes(place.root_path), above)
                stack.callback(os.close, folder)
                at = At(folder, name)
            outcome = self._decide(row, at, trash)
            if isinstance(outcome, Done):
                outcome = with_stray(outcome, trash)
            if at is not None:
                steps.sync(at.folder)
        return outcome

    def _decide(self, row: TrashItem, at: At | None, trash: Trash) -> Outcome:
        name = b"%d" % row.plan_file_id
        seen = moving.look(at, trash, name)
        if row.plan_file.action == Action.HARDLINK:
            return self._settle_link(row, at, trash, name, seen)
        if seen.in_trash is None:
            return _removed(row, seen.at_place) if row.plan_file.action == Action.DELETE else UNTOUCHED
        if _is_same(seen):
            steps.unlink(name, dir_fd=trash.files)  # it was being moved back, by a link
            return UNTOUCHED
        is_it = _is_as_planned(seen.in_trash, row.plan_file)
        if is_it and row.plan_file.action == Action.TRASH and self._is_kept(row):
            return Done(_planned(row), TRASHED)
        return _put_back(row, at, trash, name, is_other=not is_it)

    def _settle_link(self, row: TrashItem, at: At | None, trash: Trash, name: bytes, seen: Seen) -> Outcome:
        if _is_linked(row, seen):
            return Done(_planned(row), TRASHED, linked=_link_of(row, seen.at_place))
        if at is None:
            # Its folder is gone, and perhaps it was the file's only name.
            return UNTOUCHED if seen.in_trash is None else _without_folder(row, seen.in_trash)
        keeper = row.plan_file.keeper
        if seen.in_trash is None or _is_inode(seen.in_trash, keeper) or _is_same(seen):
            moving.clear_half_link(at, trash, name)
            return UNTOUCHED
        if seen.at_place is not None and _is_inode(seen.at_place, keeper):
            return _exchange_back(row, at, trash, name)
        return Done(_planned(row), TRASHED, "VICTIM_CHANGED", "It lies in the trash: its place was taken meanwhile.")

    def _is_kept(self, row: TrashItem) -> bool:
        """Whether the file that stays is found by its path, as the plan has it."""
        keeper = row.plan_file.keeper
        place = None if keeper is None else self._places.get(keeper.library_id)
        if keeper is None or place is None:
            return False
        try:
            handle = open_file(to_bytes(place.root_path), to_bytes(keeper.relative_path))
        except OSError:
            return False
        try:
            return _is_as_planned(os.fstat(handle), keeper)
        finally:
            os.close(handle)


def _is_mounted(root: bytes, folder: bytes, filesystem: str | None) -> bool:
    if not filesystem or os.path.realpath(root) != root:
        return False
    try:
        handle = open_folder(root, folder)
    except OSError:
        return False
    try:
        return mounts.filesystem_name(b"/proc/self/fd/%d" % handle) == filesystem
    finally:
        os.close(handle)


def _is_as_planned(info: os.stat_result, file: PlanFile) -> bool:
    is_inode = file.inode is None or signed(info.st_ino) == file.inode
    return is_inode and S_ISREG(info.st_mode) and (info.st_size, info.st_mtime_ns) == (file.size_bytes, file.mtime_ns)


def _is_inode(info: os.stat_result, file: PlanFile | None) -> bool:
    return file is not None and signed(info.st_ino) == file.inode


def _is_linked(row: TrashItem, seen: Seen) -> bool:
    """Whether a link has taken the place of the very file that was proved. One that was edited since gets it back."""
    if row.inode is None or not moving.is_linked(seen, row.inode & (1 << 64) - 1):
        return False
    return seen.in_trash is not None and _is_as_planned(seen.in_trash, row.plan_file)


def _link_of(row: TrashItem, info: os.stat_result | None) -> Linked | None:
    """What has the name now, where that is the file that stays, unchanged: of anything else the index knows nothing."""
    keeper = row.plan_file.keeper
    return Linked.of(info) if info is not None and keeper is not None and _is_as_planned(info, keeper) else None


def _is_same(seen: Seen) -> bool:
    return seen.at_place is not None and seen.in_trash is not None and is_same_file(seen.at_place, seen.in_trash)


def _without_folder(row: TrashItem, in_trash: os.stat_result) -> Done:
    if _is_as_planned(in_trash, row.plan_file):
        return Done(_planned(row), TRASHED)
    return Done(_planned(row), TRASHED, "VICTIM_CHANGED", "Its folder is gone; what lies in the trash is another file.")


def _removed(row: TrashItem, at_place: os.stat_result | None) -> Outcome:
    """Removed for good, or never touched: then its name is there, unless somebody has moved it since or saved something
    else under it. An inode's number does not tell: the next new file may get it."""
    if at_place is None:
        return Done(_planned(row), DELETED, "VICTIM_GONE", NOBODY_SAW)
    if _is_as_planned(at_place, row.plan_file):
        return UNTOUCHED
    return Done(_planned(row), SKIPPED, "VICTIM_CHANGED", NOBODY_KNOWS)


def _put_back(row: TrashItem, at: At | None, trash: Trash, name: bytes, *, is_other: bool) -> Outcome:
    """It should not be in the trash: another file was moved (`is_other`), the one that stays is gone, or it was to be
    deleted."""
    try:
        if at is None:
            raise Refusal("FOLDER_GONE", "The folder it came from is gone.")
        moving.put_back(trash, name, at)
    except Refusal as reason:
        words = f"It lies in the trash and could not be moved back: {reason.message}"
        if is_other:
            return Done(_planned(row), TRASHED, "VICTIM_CHANGED", f"It became another file in the last moment. {words}")
        return Done(_planned(row), TRASHED, reason.code, words)
    return UNTOUCHED


def _exchange_back(row: TrashItem, at: At, trash: Trash, name: bytes) -> Outcome:
    """A link took the place of a file that was not the one that was proved: that one gets its name back."""
    handle = open_name(at.folder, at.name)
    try:
        moving.give_name_back(at, Found(handle, os.fstat(handle)), trash, name)
    except Refusal as reason:
        linked = _link_of(row, info_of(at.name, dir_fd=at.folder))
        return Done(_planned(row), TRASHED, reason.code, reason.message, linked)
    finally:
        os.close(handle)
    return UNTOUCHED


def _planned(row: TrashItem) -> Planned:
    file, keeper = row.plan_file, row.plan_file.keeper
    assert keeper is not None
    kept = Kept(
        keeper.pk,
        keeper.file_id,
        keeper.library_id,
        keeper.relative_path,
        keeper.size_bytes,
        keeper.mtime_ns,
        keeper.inode,
    )
    return Planned(
        file.pk,
        file.file_id,
        file.library_id,
        file.relative_path,
        file.size_bytes,
        file.mtime_ns,
        file.inode,
        file.hash_algorithm,
        bytes(file.content_hash),
        file.action or "",
        kept,
        True,
    )
