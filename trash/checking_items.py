"""What has to hold of a file at the moment of acting, whichever way its plan came: read anew for each batch.

Nothing of it is taken from the plan: libraries may have got another role, another disk or another folder since, and
another plan may have been authorised. Any doubt is a `Refusal`, and the file is left as it is.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

from django.conf import settings

from database.routing import EXECUTOR
from duplicates.facts import Place, read_places
from libraries import mounts
from libraries.excluding import TRASH
from libraries.models import LibraryRoot
from libraries.names import to_bytes, to_display
from libraries.reading import open_folder, signed
from trash import steps
from trash.folders import trash_folder_of
from trash.item_storing import Kept, Planned, going_elsewhere
from trash.proving import Found
from trash.refusing import Refusal, refused

#: Folders that are open at the same time: a process may have about a thousand descriptors.
MOST_FOLDERS = 200


class Library:
    """A library that is there: its folder is the one that was added, not a link to another one."""

    def __init__(self, place: Place, limit: int) -> None:
        self.place, self.id = place, place.id
        self.root = to_bytes(place.root_path)
        #: The I/O budget.
        self.read_bytes_per_second = limit
        try:
            is_itself = self.root.startswith(b"/") and os.path.realpath(self.root, strict=True) == self.root
        except OSError:
            is_itself = False
        if not is_itself:
            raise Refusal("LIBRARY_GONE", f"The folder of the library “{to_display(place.name)}” is not there.")
        self.places = mounts.places(self.root)


class Folder:
    """A folder of a library, opened step by step from its root, and what holds for every file in it."""

    __slots__ = ("filesystem", "handle", "is_protected", "is_touched", "library", "name", "trash_folder")

    def __init__(self, library: Library, name: str) -> None:
        place, inside = library.place, f"{name}/x" if name else "x"
        self.library, self.name = library, name
        #: The filesystem that the last scan found here, and the folder whose trash it has.
        self.filesystem = place.filesystem_of(inside)
        self.trash_folder = trash_folder_of(inside, place.filesystems)
        self.is_protected = place.protects(inside)
        self.is_touched = False
        self.handle = open_folder(library.root, to_bytes(name))


class Ground:
    """What the checks of one batch go by, and the folders that are open for it. Use it as a context."""

    def __init__(self, files: Sequence[Planned], is_ours: Callable[[int, int], bool]) -> None:
        #: Whether this very act touched an inode (device, inode, both signed): then its ctime says nothing.
        self.is_ours = is_ours
        self._places = read_places(EXECUTOR)
        kept = LibraryRoot.objects.using(EXECUTOR).kept()
        self._limits = dict(kept.values_list("pk", "read_bytes_per_second"))
        self._going = going_elsewhere(each.keeper.file_id for each in files)
        self._libraries: dict[int, Library | Refusal] = {}
        self._pairs: dict[tuple[int, int], Refusal | None] = {}
        self._filesystems: dict[tuple[int, int], str] = {}
        self._folders: OrderedDict[tuple[int, str], Folder] = OrderedDict()
        self._newer: Ground | None = None
        #: Where files of these folders went to: set by whoever moves them.
        self.sync_trashes: Callable[[], None] = lambda: None
        hours = settings.YOUNG_HOURS
        self._young_after_ns = time.time_ns() - hours * 3600 * 10**9 if hours else None

    def __enter__(self) -> Ground:
        return self

    def __exit__(self, *_: object) -> None:
        for folder in self._folders.values():
            os.close(folder.handle)
        self._folders.clear()

    # --- Places -------------------------------------------------------------------------------------------
    def library(self, library_id: int) -> Library:
        if library_id not in self._libraries:
            self._libraries[library_id] = self._look_at(library_id)
        found = self._libraries[library_id]
        if isinstance(found, Refusal):
            raise found
        return found

    def _look_at(self, library_id: int) -> Library | Refusal:
        if library_id not in self._limits:
            return Refusal("LIBRARY_GONE", "Its library, or that of the file that stays, was removed.")
        try:
            return Library(self._places[library_id], self._limits[library_id])
        except Refusal as reason:
            return reason

    def folder(self, library_id: int, name: str, gone: str) -> Folder:
        """The folder, open. `gone` is the code where it is not there any more."""
        key = (library_id, name)
        found = self._folders.get(key)
        if found is not None:
            if len(self._folders) > MOST_FOLDERS // 2:
                self._folders.move_to_end(key)
            return found
        library = self.library(library_id)
        try:
            found = Folder(library, name)
        except OSError as error:
            what = "The file that stays" if gone == "KEEPER_GONE" else "The file"
            raise refused(error, gone=gone, what=what) from None
        self._folders[key] = found
        if len(self._folders) > MOST_FOLDERS:
            self._close_oldest()
        return found

    def _close_oldest(self) -> None:
        if next(iter(self._folders.values())).is_touched:
            self.sync_touched()  # all at once: the trashes are synced once for many folders
        _, oldest = self._folders.popitem(last=False)
        os.close(oldest.handle)

    def sync_touched(self) -> None:
        """First where files came to, then where they left from: so none can be in neither after a power cut."""
        self.sync_trashes()
        for folder in self._folders.values():
            if folder.is_touched:
                steps.sync(folder.handle)
                folder.is_touched = False

    # --- What the database says ---------------------------------------------------------------------------
    def refuse_by_policy(self, item: Planned, folder: Folder) -> None:
        keeper = item.keeper
        pair = (item.library_id, keeper.library_id)
        if pair not in self._pairs:
            self._pairs[pair] = self._why_not_between(*pair)
        if (reason := self._pairs[pair]) is not None:
            raise reason
        if folder.is_protected:
            raise Refusal("PROTECTED", "It lies in a protected place.")
        if keeper.file_id in self._going:
            raise Refusal("KEEPER_GOES", "The file that stays is to go by an authorised plan.")
        if TRASH in keeper.path and TRASH in keeper.path.split("/"):
            raise Refusal("KEEPER_IN_TRASH", "The file that stays lies in a trash.")
        if TRASH in item.path and TRASH in item.path.split("/"):
            raise Refusal("OUTSIDE", "It lies in a trash.")

    def _why_not_between(self, library_id: int, keeper_library_id: int) -> Refusal | None:
        try:
            library, keepers = self.library(library_id), self.library(keeper_library_id)
        except Refusal as reason:
            return reason
        if library.place.role == LibraryRoot.Role.BACKUP:
            return Refusal("BACKUP", "It lies in a backup library.")
        if library.place.role == LibraryRoot.Role.PROTECTED:
            return Refusal("PROTECTED", "It lies in a protected library.")
        if library is not keepers and mounts.overlap(library.places, keepers.places):
            return Refusal("LIBRARIES_OVERLAP", "Its library and that of the file that stays hold the same folder.")
        return None

    def read_anew(self, files: Sequence[Planned]) -> None:
        """What the database says now, where what was read at first is no longer fresh."""
        self._newer = Ground(files, self.is_ours)

    def refuse_anew(self, item: Planned, folder: Folder) -> None:
        """By what was read since the batch was prepared, if anything was."""
        if self._newer is None:
            return
        self._newer.refuse_by_policy(item, folder)
        if self._newer.library(item.library_id).place.protects(item.path):
            raise Refusal("PROTECTED", "It lies in a protected place.")

    def path_of(self, file: Planned | Kept) -> bytes:
        """The whole path. Raises `Refusal` where its library is not there."""
        return self.library(file.library_id).root + b"/" + to_bytes(file.path)

    def is_limited(self, files: Iterable[Planned]) -> bool:
        """Whether somebody has limited how quick the libraries of these files, or of those that stay, may be read."""
        libraries = {key for file in files for key in (file.library_id, file.keeper.library_id)}
        return any(map(self.limit_of, libraries))

    def limit_of(self, library_id: int) -> int:
        return self._limits.get(library_id, 0)

    # --- What the disk says -------------------------------------------------------------------------------
    def refuse_young(self, folder: Folder, info: os.stat_result) -> None:
        place, after = folder.library.place, self._young_after_ns
        if not place.is_young(max(info.st_mtime_ns, info.st_ctime_ns), after):
            return
        is_only_moved = not place.is_young(info.st_mtime_ns, after)
        if is_only_moved and self.is_ours(signed(info.st_dev), signed(info.st_ino)):
            return
        raise Refusal("TOO_YOUNG", "It was changed a short time ago and may still be written.")

    def refuse_other_disk(self, folder: Folder, found: Found) -> None:
        """The filesystem goes by its name, whatever number it has today."""
        key = (folder.library.id, found.info.st_dev)
        if key not in self._filesystems:
            # By the descriptor: a btrfs shows device numbers that no mount has.
            self._filesystems[key] = mounts.filesystem_name(b"/proc/self/fd/%d" % found.handle)
        if not folder.filesystem or self._filesystems[key] != folder.filesystem:
            raise Refusal("OTHER_FILESYSTEM", "Another filesystem is mounted there than when the library was scanned.")
