"""The folders that are open while a batch is worked on, and what the disk says of the files in them. Knows nothing of
Django: what the database says is `trash.checking_items`."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, Self, TypeVar

from libraries import mounts
from libraries.names import to_bytes
from libraries.reading import open_folder, signed
from trash import filesystem_kinds
from trash.proving import Found
from trash.refusing import Refusal, refused
from trash.syncing import sync_folders

#: Folders that are open at the same time: a process may have about a thousand descriptors, and has others.
MOST_FOLDERS = 200
#: A folder that was found by its path so long ago at the most is taken to be there still.
SEEN_SECONDS = 0.05


class OnDisk:
    """A library, as far as the disk is concerned. `filesystems` are those that its last scan found, by the folder where
    each begins; files that changed after `young_after_ns` may still be written."""

    def __init__(self, id: int, root: bytes, filesystems: dict[str, str], young_after_ns: int | None) -> None:
        self.id, self.root, self.filesystems, self.young_after_ns = id, root, filesystems, young_after_ns

    def is_young(self, changed_ns: int) -> bool:
        return self.young_after_ns is not None and changed_ns > self.young_after_ns


class OpenFolder:
    """A folder of a library, opened step by step from its root."""

    __slots__ = ("device", "filesystem", "handle", "is_own_disk", "is_touched", "library", "name", "seen_at")

    def __init__(self, library: OnDisk, name: str) -> None:
        self.library, self.name = library, name
        #: The filesystem that the last scan found here; "" where none is known.
        self.filesystem = library.filesystems.get(mounts.mount_of(name, library.filesystems), "")
        self.is_touched = False
        #: The device of its files once that is known to be this filesystem, and whether only this machine writes there.
        self.device, self.is_own_disk = -1, False
        #: When it was found by its path last.
        self.seen_at = time.monotonic()
        self.handle = open_folder(library.root, to_bytes(name))

    def is_in_its_place(self) -> bool:
        """Whether its path leads to it still, step by step from the root and through no link."""
        asked_at = time.monotonic()
        try:
            now = open_folder(self.library.root, to_bytes(self.name))
        except OSError:
            return False
        try:
            is_itself = os.path.sameopenfile(now, self.handle)
        finally:
            os.close(now)
        self.seen_at = asked_at
        return is_itself


F = TypeVar("F", bound=OpenFolder)


class OpenFolders(ABC, Generic[F]):
    """Those of one batch, the longest unused closed first. Use it as a context."""

    def __init__(self, is_ours: Callable[[int, int], bool], most: int | None = None) -> None:
        self._most = MOST_FOLDERS if most is None else most
        #: Whether this very act touched an inode (device, inode, both signed): then its ctime says nothing.
        self.is_ours = is_ours
        self._filesystems: dict[tuple[int, int], tuple[str, bool]] = {}
        self._folders: OrderedDict[tuple[int, str], F] = OrderedDict()
        #: Where files of these folders went to: set by whoever moves them.
        self.sync_trashes: Callable[[], None] = lambda: None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for folder in self._folders.values():
            os.close(folder.handle)
        self._folders.clear()

    @abstractmethod
    def opened(self, library_id: int, name: str) -> F:
        """Open a folder. Raises `OSError`, or `Refusal` where its library is not there."""

    def folder(self, library_id: int, name: str, gone: str) -> F:
        """The folder, open. `gone` is the code where it is not there any more."""
        key = (library_id, name)
        found = self._folders.get(key)
        if found is not None:
            if len(self._folders) > self._most // 2:
                self._folders.move_to_end(key)
            return found
        try:
            found = self.opened(library_id, name)
        except OSError as error:
            what = "The file that stays" if gone == "KEEPER_GONE" else "The file"
            raise refused(error, gone=gone, what=what) from None
        self._folders[key] = found
        if len(self._folders) > self._most:
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
        touched = [folder for folder in self._folders.values() if folder.is_touched]
        sync_folders(folder.handle for folder in touched)
        for folder in touched:
            folder.is_touched = False

    # --- What the disk says -------------------------------------------------------------------------------
    def refuse_moved(self, folder: OpenFolder, *, for_certain: bool = False) -> None:
        """Raise `Refusal` where the folder was moved away since it was opened, which may be minutes ago: it may lie
        outside the library by now, or in a protected place. `for_certain` asks even if it was asked just now."""
        is_fresh = not for_certain and time.monotonic() - folder.seen_at < SEEN_SECONDS
        if not is_fresh and not folder.is_in_its_place():
            raise Refusal("VICTIM_GONE", "Its folder is not where it was any more.")

    def refuse_young(self, folder: OpenFolder, info: os.stat_result) -> None:
        library = folder.library
        if library.young_after_ns is None or not library.is_young(max(info.st_mtime_ns, info.st_ctime_ns)):
            return
        is_only_moved = not library.is_young(info.st_mtime_ns)
        if is_only_moved and self.is_ours(signed(info.st_dev), signed(info.st_ino)):
            return
        raise Refusal("TOO_YOUNG", "It was changed a short time ago and may still be written.")

    def on_its_disk(self, library_id: int, name: str, gone: str) -> F:
        """The folder, open, where its filesystem is the one that was scanned. Raises `Refusal`."""
        folder = self.folder(library_id, name, gone)
        if folder.device < 0:
            self.refuse_other_disk(folder, Found(folder.handle, os.fstat(folder.handle)))
        return folder

    def refuse_other_disk(self, folder: OpenFolder, found: Found) -> None:
        """The filesystem goes by its name, whatever number it has today."""
        device = found.info.st_dev
        if device == folder.device:
            return
        key = (folder.library.id, device)
        if key not in self._filesystems:
            # By the descriptor: a btrfs shows device numbers that no mount has.
            name = mounts.filesystem_name(b"/proc/self/fd/%d" % found.handle)
            self._filesystems[key] = name, filesystem_kinds.is_own(found.handle)
        name, is_own = self._filesystems[key]
        if not folder.filesystem or name != folder.filesystem:
            raise Refusal("OTHER_FILESYSTEM", "Another filesystem is mounted there than when the library was scanned.")
        folder.device, folder.is_own_disk = device, is_own
