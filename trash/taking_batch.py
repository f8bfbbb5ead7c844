"""What is open while one batch of files is taken out of the trash: trashes, locked; folders that files come back to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress

from database.routing import EXECUTOR
from duplicates.facts import Place
from libraries import mounts
from libraries.names import to_bytes, to_text
from libraries.reading import open_folder
from trash import locking, steps
from trash.folders import Trash, open_trash
from trash.making_folders import Folders, WasFolder
from trash.models import Act, RemovedFolder, TrashItem
from trash.putting_back import Entry
from trash.refusing import Refusal, refused
from trash.syncing import sync_folders

#: Folders that wait to be synced.
MOST_TOUCHED = 100

#: (act, library, folder of the trash)
TrashKey = tuple[int, int, str]


def trash_key(item: TrashItem) -> TrashKey:
    return (item.act_id, item.library_id, item.trash_folder)


def entry_of(item: TrashItem) -> Entry:
    """The file as it was recorded. Raises `Refusal` where its path does not lie below the folder of its trash."""
    file = item.plan_file
    path, folder = to_bytes(file.relative_path), to_bytes(item.trash_folder)
    if folder:
        if not path.startswith(folder + b"/"):
            raise Refusal("OUTSIDE", "It does not lie on the filesystem of its trash.")
        path = path[len(folder) + 1 :]
    entry = Entry(
        str(file.pk).encode(),
        path,
        file.size_bytes,
        file.hash_algorithm,
        bytes(file.content_hash),
        file.action == "hardlink",
        item.linked_inode,
    )
    if item.stray_size_bytes is None or item.stray_mtime_ns is None:
        return entry
    return entry.as_stray(item.stray_size_bytes, item.stray_mtime_ns)


class Batch:
    """What is open while one batch is worked on, and what has to be synced at its end. Use it as a context."""

    def __init__(self, act: Act, places: Mapping[int, Place], folders_back: dict[TrashKey, set[bytes]]) -> None:
        self.act, self.places = act, places
        #: Folders that this run has made again: their times are set anew by each batch that puts something into them.
        self.folders_back = folders_back
        self._stack = ExitStack()
        self._lock: locking.Held | None = None
        self._locked: set[tuple[int, int]] = set()
        self._trashes: dict[TrashKey, Trash | Refusal] = {}
        self._folders: dict[TrashKey, Folders] = {}
        self._touched: dict[tuple[int, int], int] = {}

    def __enter__(self) -> Batch:
        try:
            self._lock = self._stack.enter_context(locking.held(doing=str(self.act)))
        except locking.Busy as busy:
            raise locking.giving_way(busy) from None
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._touched.values():
            os.close(handle)
        self._touched.clear()
        for trash in self._trashes.values():
            if isinstance(trash, Trash):
                trash.close()
        self._stack.close()

    # --- What is open -------------------------------------------------------------------------------------
    def open_all(self, items: Iterable[TrashItem]) -> None:
        """Before anything is intended: whoever finds a trash locked gives way with nothing begun."""
        for item in items:
            with suppress(Refusal):
                self.trash(item)

    def trash(self, item: TrashItem) -> Trash:
        """The folder of the item's act in its trash. Raises `Refusal` where it is not there."""
        key = trash_key(item)
        if key not in self._trashes:
            self._trashes[key] = self._open(item)
        found = self._trashes[key]
        if isinstance(found, Refusal):
            raise found
        return found

    def _open(self, item: TrashItem) -> Trash | Refusal:
        place = self.places.get(item.library_id)
        if place is None:
            return Refusal("LIBRARY_GONE", "Its library was removed.")
        try:
            trash = open_trash(to_bytes(place.root_path), to_bytes(item.trash_folder), item.act.key, is_made=False)
        except FileNotFoundError:
            return Refusal("TRASH_GONE", "The trash it lies in is not there. Is its disk mounted?")
        except Refusal as refusal:
            return refusal
        except OSError as error:
            return refused(error, gone="TRASH_GONE", what="The trash it lies in")
        try:
            self._lock_once(trash)
        except OSError as error:
            trash.close()
            return refused(error, gone="TRASH_GONE", what="The lock of the trash it lies in")
        except BaseException:
            trash.close()
            raise
        return trash

    def _lock_once(self, trash: Trash) -> None:
        """Acts share a trash, and whoever has locked it once would wait for himself."""
        info = os.fstat(trash.top)
        if self._lock is None or (info.st_dev, info.st_ino) in self._locked:
            return
        try:
            self._lock.take(trash)
        except locking.Busy as busy:
            raise locking.giving_way(busy) from None
        self._locked.add((info.st_dev, info.st_ino))

    def folders(self, item: TrashItem) -> Folders:
        """The folders that files of this trash come back to."""
        key = trash_key(item)
        if key not in self._folders:
            known, ours = known_folders(key)
            self._folders[key] = Folders(self.trash(item), known, ours | self.folders_back.setdefault(key, set()))
        return self._folders[key]

    # --- What was done ------------------------------------------------------------------------------------
    def touch(self, handle: int) -> None:
        """Sync this folder at the end; its descriptor is ours from here on."""
        info = os.fstat(handle)
        if (info.st_dev, info.st_ino) in self._touched:
            os.close(handle)
            return
        self._touched[info.st_dev, info.st_ino] = handle
        if len(self._touched) >= MOST_TOUCHED:
            self._sync_touched()

    def _sync_touched(self) -> None:
        handles = list(self._touched.values())
        self._touched.clear()
        try:
            sync_folders(handles)
        finally:
            for handle in handles:
                os.close(handle)

    def sync(self) -> None:
        """First where files came to, then where they came from: so none can be in neither after a power cut."""
        self._sync_touched()
        for folders in self._folders.values():
            folders.set_times()
        for trash in self.opened():
            steps.sync(trash.files)

    def opened(self) -> Iterator[Trash]:
        return (trash for trash in self._trashes.values() if isinstance(trash, Trash))

    def opened_by_key(self) -> Iterator[tuple[TrashKey, Trash]]:
        return ((key, trash) for key, trash in self._trashes.items() if isinstance(trash, Trash))

    def made(self) -> Iterator[tuple[TrashKey, list[str]]]:
        """Folders that were made again, as the rows have them."""
        for key, folders in self._folders.items():
            if back := folders.back():
                self.folders_back[key].update(back)
                yield key, [below(key[2], path) for path in back]


def known_folders(key: TrashKey) -> tuple[dict[bytes, WasFolder], set[bytes]]:
    """Folders that went with their files, by their path below the folder that holds the trash; and those of them that
    are not on record as back."""
    act, library, trash_folder = key
    prefix = to_bytes(trash_folder) + b"/" if trash_folder else b""
    found: dict[bytes, WasFolder] = {}
    away: set[bytes] = set()
    for row in RemovedFolder.objects.using(EXECUTOR).filter(act_id=act, library_id=library).order_by("pk"):
        path = to_bytes(row.folder)
        if path.startswith(prefix):
            inside = path[len(prefix) :]
            found[inside] = WasFolder(row.mode, row.uid, row.gid, row.mtime_ns, row.attributes)
            if not row.is_back:
                away.add(inside)
    return found, away


def below(folder: str, path: bytes) -> str:
    """A path below the folder that holds a trash, as the rows have it: below the library."""
    return f"{folder}/{to_text(path)}" if folder else to_text(path)


def is_folder(root: bytes, folder: bytes) -> bool:
    """Whether it is there, through no link."""
    try:
        os.close(open_folder(root, folder))
    except OSError:
        return False
    return True


def is_disk_there(place: Place, folder: str) -> bool:
    """Whether the very filesystem is mounted on which a trash was, with something in it. Only then what is not found
    there is gone: a folder that was moved away, or where no disk is mounted now, may still have its trash."""
    root = to_bytes(place.root_path)
    try:
        with closing(open_folder(root, to_bytes(folder))) as handle:
            if mounts.filesystem_name(b"/proc/self/fd/%d" % handle) != place.filesystems.get(folder):
                return False
            with os.scandir(handle) as entries:
                return next(entries, None) is not None
    except OSError:
        return False


@contextmanager
def closing(handle: int) -> Iterator[int]:
    try:
        yield handle
    finally:
        os.close(handle)
