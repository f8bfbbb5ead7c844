"""What has to hold of a file at the moment of acting, whichever way its plan came: read anew for each batch.

Nothing of it is taken from the plan: libraries may have got another role, another disk or another folder since, and
another plan may have been authorised. Any doubt is a `Refusal`, and the file is left as it is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence

from django.conf import settings

from database.routing import EXECUTOR
from duplicates.facts import Place, read_places
from libraries import mounts
from libraries.excluding import TRASH
from libraries.models import LibraryRoot
from libraries.names import to_bytes, to_display
from trash.folders import trash_folder_of
from trash.item_storing import going_elsewhere
from trash.open_folders import OnDisk, OpenFolder, OpenFolders
from trash.planned import Kept, Planned
from trash.refusing import Refusal


class Library(OnDisk):
    """A library that is there: its folder is the one that was added, not a link to another one."""

    def __init__(self, place: Place, young_after_ns: int | None) -> None:
        root = to_bytes(place.root_path)
        super().__init__(place.id, root, place.filesystems, None if place.takes_young else young_after_ns)
        self.place = place
        try:
            is_itself = root.startswith(b"/") and os.path.realpath(root, strict=True) == root
        except OSError:
            is_itself = False
        if not is_itself:
            raise Refusal("LIBRARY_GONE", f"The folder of the library “{to_display(place.name)}” is not there.")
        self.places = mounts.places(root)


class Folder(OpenFolder):
    """A folder, and what holds for every file in it."""

    __slots__ = ("is_protected", "place", "trash_folder")

    def __init__(self, library: Library, name: str) -> None:
        super().__init__(library, name)
        place, inside = library.place, f"{name}/x" if name else "x"
        self.place, self.is_protected = place, place.protects(inside)
        #: The folder whose trash it has.
        self.trash_folder = trash_folder_of(inside, place.filesystems)


class Ground(OpenFolders[Folder]):
    """What the checks of one batch go by, and the folders that are open for it."""

    def __init__(self, files: Sequence[Planned], is_ours: Callable[[int, int], bool]) -> None:
        super().__init__(is_ours)
        self._places = read_places(EXECUTOR)
        kept = LibraryRoot.objects.using(EXECUTOR).kept()
        #: The I/O budgets.
        self._limits = dict(kept.values_list("pk", "read_bytes_per_second"))
        self._going = going_elsewhere(each.keeper.file_id for each in files)
        self._libraries: dict[int, Library | Refusal] = {}
        self._pairs: dict[tuple[int, int], Refusal | None] = {}
        self._newer: Ground | None = None
        hours = settings.YOUNG_HOURS
        self._young_after_ns = time.time_ns() - hours * 3600 * 10**9 if hours else None

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
            return Library(self._places[library_id], self._young_after_ns)
        except Refusal as reason:
            return reason

    def opened(self, library_id: int, name: str) -> Folder:
        return Folder(self.library(library_id), name)

    def libraries(self) -> list[Library]:
        """Those that files of the batch lie in, or files that stay, as far as they are there."""
        return [library for library in self._libraries.values() if isinstance(library, Library)]

    # --- What the database says ---------------------------------------------------------------------------
    def refuse_by_policy(self, item: Planned, *, is_protected: bool) -> None:
        """`is_protected` is the place of the file that goes."""
        keeper = item.keeper
        pair = (item.library_id, keeper.library_id)
        if pair not in self._pairs:
            self._pairs[pair] = self._why_not_between(*pair)
        if (reason := self._pairs[pair]) is not None:
            raise reason
        if is_protected:
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

    def refuse_anew(self, item: Planned) -> None:
        """By what was read since the batch was prepared, if anything was."""
        if self._newer is not None:
            place = self._newer._places.get(item.library_id)
            self._newer.refuse_by_policy(item, is_protected=place is not None and place.protects(item.path))

    def path_of(self, file: Planned | Kept) -> bytes:
        """The whole path. Raises `Refusal` where its library is not there."""
        return self.library(file.library_id).root + b"/" + to_bytes(file.path)

    def is_limited(self, files: Iterable[Planned]) -> bool:
        """Whether somebody has limited how quick the libraries of these files, or of those that stay, may be read."""
        if not any(self._limits.values()):
            return False
        libraries = {key for file in files for key in (file.library_id, file.keeper.library_id)}
        return any(map(self.limit_of, libraries))

    def limit_of(self, library_id: int) -> int:
        return self._limits.get(library_id, 0)
