"""What became of files that somebody was taking out of the trash when he died: the disk knows, and is asked.

Whoever calls holds the lock (`trash.locking`), and that of each trash is taken here, so nobody is in the middle of
anything. What is found is synced before it is written: a rename that only the memory knows of would be undone by a
power cut.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from stat import S_ISREG

from django.db.models import QuerySet

from database.routing import EXECUTOR
from duplicates.facts import Place, read_places
from libraries.names import to_bytes
from libraries.reading import open_folder, signed
from trash import moving, steps
from trash.folders import Trash, info_of, open_trash
from trash.item_storing import recording
from trash.left_storing import TAKING, Left, store_outcomes
from trash.locking import Busy, Held
from trash.making_folders import Folders, clear_half_made, steps_of
from trash.models import TrashItem
from trash.moving import Place as At
from trash.proving import Found, is_same_file, open_name
from trash.putting_back import Entry, PuttingBack
from trash.refusing import Refusal
from trash.taking_batch import TrashKey, closing, entry_of, is_disk_there, known_folders, trash_key
from trash.taking_out import tidy

#: Rows that are settled in one transaction.
BATCH = 500


def settle_left(lock: Held) -> int:
    """Settle every row that is `undoing` or `emptying`; how many were. One whose disk is not there stays open, and so
    does one in whose trash somebody with another state folder is at work: he may be in the middle of it."""
    settled, after = 0, 0
    while True:
        items = list(_open_rows().filter(pk__gt=after)[:BATCH])
        if not items:
            return settled
        after = items[-1].pk
        settled += settle(lock, items)


def _open_rows() -> QuerySet[TrashItem]:
    rows = TrashItem.objects.using(EXECUTOR).filter(status__in=TAKING)
    return rows.select_related("act", "plan_file__keeper").order_by("pk")


def settle(lock: Held, items: Sequence[TrashItem]) -> int:
    """Settle these; how many could be."""
    places = read_places(EXECUTOR)
    free = _in_free_trashes(lock, places, items)
    # Read again: whoever had the trash until a moment ago has written what became of his.
    items = list(_open_rows().filter(pk__in=[item.pk for item in free]))
    with Looking(places) as looking:
        lefts = [left for left in map(looking.look, items) if left is not None]
        looking.sync()
        if lefts:
            with recording():
                store_outcomes(lefts)
        for root, folder, key in looking.trashes_left(lefts):
            tidy(root, folder, key)
    return len(lefts)


def _in_free_trashes(lock: Held, places: dict[int, Place], items: Sequence[TrashItem]) -> list[TrashItem]:
    """Those whose trash is locked by us from here on, or is not there."""
    is_free: dict[TrashKey, bool] = {}
    for item in items:
        key = trash_key(item)
        if key not in is_free:
            is_free[key] = _take(lock, places.get(item.library_id), item)
    return [item for item in items if is_free[trash_key(item)]]


def _take(lock: Held, place: Place | None, item: TrashItem) -> bool:
    if place is None:
        return True
    try:
        with open_trash(to_bytes(place.root_path), to_bytes(item.trash_folder), item.act.key, is_made=False) as trash:
            lock.take(trash)
    except Busy:
        return False
    except (OSError, Refusal):
        return True  # looking at it says what that means
    return True


class Looking:
    """Looks at the disk for rows that are open, and takes away what was half done. Use it as a context."""

    def __init__(self, places: dict[int, Place]) -> None:
        self.places = places
        self.putting = PuttingBack(lambda _amount: None)
        self._stack = ExitStack()
        self._trash: Trash | None = None
        self._key: TrashKey | None = None
        self._known: dict[TrashKey, tuple[bytes, bytes, str]] = {}
        #: Folders of the trash in hand that files came back to.
        self._filled: set[bytes] = set()

    def __enter__(self) -> Looking:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def look(self, item: TrashItem) -> Left | None:
        """What became of it; None where that can't be told now."""
        place = self.places.get(item.library_id)
        if place is None:
            return _stays(item)  # its library was removed: nothing is done to it any more
        try:
            trash = self._open(item, to_bytes(place.root_path))
            if item.status == TrashItem.Status.EMPTYING:
                return self._look_emptying(item, trash)
            return self._look_undoing(item, trash, entry_of(item), to_bytes(place.root_path))
        except Refusal:
            return _stays(item)
        except OSError:
            return None

    # --- Emptying -----------------------------------------------------------------------------------------
    def _look_emptying(self, item: TrashItem, trash: Trash | None) -> Left | None:
        if trash is None:
            # It goes with its last file, so the file is gone too, if its disk is there at all.
            return Left(item, TrashItem.Status.EMPTIED) if self._is_there(item) else None
        if trash.info(entry_of(item).name) is not None:
            return _stays(item)
        return Left(item, TrashItem.Status.EMPTIED)

    # --- Undoing ------------------------------------------------------------------------------------------
    def _look_undoing(self, item: TrashItem, trash: Trash | None, entry: Entry, root: bytes) -> Left | None:
        *_, name = steps_of(entry.path)
        with ExitStack() as stack:
            place = None
            with suppress(FileNotFoundError, NotADirectoryError):
                folder = open_folder(root, to_bytes(item.plan_file.relative_path).rpartition(b"/")[0])
                stack.enter_context(closing(folder))
                place = At(folder, name)
            if trash is None:
                found = info_of(name, dir_fd=place.folder) if place else None
                if place is not None and found is not None and signed(found.st_ino) == item.inode:
                    steps.sync(place.folder)
                    return Left(item, TrashItem.Status.UNDONE, info=found)
                return _stays(item) if self._is_there(item) else None
            return self._settle_undoing(item, trash, entry, place)

    def _settle_undoing(self, item: TrashItem, trash: Trash, entry: Entry, place: At | None) -> Left:
        seen = moving.look(place, trash, entry.name)
        if place is not None and seen.in_trash is not None:
            self._clear_beside(entry, place, seen.in_trash)
        if seen.in_trash is None:
            # Only undoing takes a file out of here; what has become of it since is its owner's business.
            is_ours = seen.at_place is not None and signed(seen.at_place.st_ino) == item.inode
            left = Left(item, TrashItem.Status.UNDONE, info=seen.at_place if is_ours else None)
        elif place is not None and seen.at_place is not None and is_same_file(seen.at_place, seen.in_trash):
            # Linked to its place; its name in the trash is one too many.
            steps.unlink(entry.name, dir_fd=trash.files)
            left = Left(item, TrashItem.Status.UNDONE, info=info_of(place.name, dir_fd=place.folder))
        elif place is not None and self._is_exchanged(item, entry, trash, place, seen):
            steps.unlink(entry.name, dir_fd=trash.files)
            left = Left(item, TrashItem.Status.UNDONE, info=info_of(place.name, dir_fd=place.folder))
        else:
            left = _stays(item)
        if place is not None:
            steps.sync(place.folder)
            if left.is_gone:
                names = entry.path.split(b"/")[:-1]
                self._filled |= {b"/".join(names[: depth + 1]) for depth in range(len(names))}
        return left

    def _clear_beside(self, entry: Entry, place: At, in_trash: os.stat_result) -> None:
        """The name that was to be renamed over the link: one more of the file in the trash."""
        beside = moving.temporary_name(entry.name)
        found = info_of(beside, dir_fd=place.folder)
        if found is not None and is_same_file(found, in_trash):
            steps.unlink(beside, dir_fd=place.folder)

    def _is_exchanged(self, item: TrashItem, entry: Entry, trash: Trash, place: At, seen: moving.Seen) -> bool:
        """Whether the file has its name again and the link lies in the trash, where nobody needs it: it has another
        name, or the file has its bytes."""
        at_place, in_trash = seen.at_place, seen.in_trash
        if not entry.is_linked or at_place is None or in_trash is None or not S_ISREG(at_place.st_mode):
            return False
        if signed(at_place.st_ino) != item.inode or signed(in_trash.st_ino) == item.inode:
            return False
        return in_trash.st_nlink > 1 or self._has_bytes(entry, place)

    def _has_bytes(self, entry: Entry, place: At) -> bool:
        with closing(open_name(place.folder, place.name)) as handle:
            return self.putting.is_as_recorded(Found(handle, os.fstat(handle)), entry)

    # --- What is open -------------------------------------------------------------------------------------
    def _open(self, item: TrashItem, root: bytes) -> Trash | None:
        """One at a time: the rows of an act stand together."""
        key = trash_key(item)
        if key != self._key:
            self.sync()
            self._stack.close()
            self._key, self._trash = key, None
            folder = to_bytes(item.trash_folder)
            self._known[key] = (root, folder, item.act.key)
            with suppress(FileNotFoundError):
                self._trash = self._stack.enter_context(open_trash(root, folder, item.act.key, is_made=False))
                clear_half_made(self._trash)
        return self._trash

    def sync(self) -> None:
        if self._trash is None or self._key is None:
            return
        if self._filled:
            # Whoever was killed did not come to that.
            folders = Folders(self._trash, *known_folders(self._key))
            folders.filled |= self._filled
            folders.set_times()
            self._filled.clear()
        steps.sync(self._trash.files)

    def _is_there(self, item: TrashItem) -> bool:
        return is_disk_there(self.places[item.library_id], item.trash_folder)

    def trashes_left(self, lefts: Sequence[Left]) -> list[tuple[bytes, bytes, str]]:
        """Trashes that files left."""
        self._stack.close()
        self._trash, self._key = None, None
        return [self._known[key] for key in {trash_key(left.item) for left in lefts if left.is_gone}]


def _stays(item: TrashItem) -> Left:
    """Nothing was done to it: it lies in the trash, and may be taken out again."""
    return Left(item, TrashItem.Status.TRASHED, is_tried=False)
