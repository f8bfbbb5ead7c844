"""One file out of the trash, back to where it was: read again on the way, and nothing is ever overwritten.

It knows nothing of the database: undoing by the records and undoing by a manifest alone both come here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from stat import S_ISREG
from typing import NamedTuple

from libraries.reading import Reader, signed, version_of
from libraries.small_files import nearest_storable
from trash import moving
from trash.folders import Trash, info_of
from trash.making_folders import Folders, steps_of
from trash.moving import Place
from trash.proving import Found, Prover, is_unchanged, open_name
from trash.refusing import Refusal, refused

Report = Callable[[int], None]
TAKEN_UP = (
    "It came back, and in the same moment it was changed, something else was saved under its name, or it was taken"
    " away. What is there now is left as it is."
)


class Entry(NamedTuple):
    """A file in the trash, as it was recorded when it came there."""

    #: Its name there.
    name: bytes
    #: Where it came from, below the folder that holds the trash.
    path: bytes
    size: int
    algorithm: str
    digest: bytes
    #: A hard link took its place; and that link's inode (signed), where it is known.
    is_linked: bool = False
    linked_inode: int | None = None
    #: Of a stray (`trash.strays`): when it was written. Nobody has read it, so there is no digest of it.
    stray_mtime_ns: int | None = None

    def as_stray(self, size: int, mtime_ns: int) -> Entry:
        """Another file lies in its place in the trash. Even where a link took the place of the planned one, that is
        not given up for this: their bytes are not the same."""
        return self._replace(
            size=size, algorithm="", digest=b"", is_linked=False, linked_inode=None, stray_mtime_ns=mtime_ns
        )


class Back(NamedTuple):
    """What it is now, and the folder it is in: whoever gets it syncs that and closes it."""

    #: None where its name has been used since: what is there now is somebody's, and is left as it is.
    info: os.stat_result | None
    folder: int
    #: Of the link that gave its place up for it, where one did, as its file is now.
    link: os.stat_result | None

    @property
    def code(self) -> str:
        return "" if self.info else "VICTIM_CHANGED"

    @property
    def reason(self) -> str:
        return "" if self.info else TAKEN_UP


class PuttingBack:
    """Reads with one pair of buffers, whatever the algorithm; `report` is told of the bytes as they are read."""

    def __init__(self, report: Report) -> None:
        self.report, self.reader = report, Reader()
        self._provers: dict[str, Prover] = {}

    def put_back(self, trash: Trash, entry: Entry, folders: Folders) -> Back:
        """Raises `Refusal` where it stays in the trash."""
        *_, name = steps_of(entry.path)
        own = self.open_proved(trash, entry)
        made = len(folders.made)
        try:
            folder = folders.open(entry.path.rpartition(b"/")[0])
            try:
                return self._move(trash, entry, own, Place(folder, name))
            except BaseException:
                os.close(folder)
                raise
        except Refusal:
            folders.unmake(made)
            raise
        finally:
            os.close(own.handle)

    def open_proved(self, trash: Trash, entry: Entry) -> Found:
        """The file in the trash, open, as it was recorded. Raises `Refusal`."""
        try:
            handle = open_name(trash.files, entry.name)
        except OSError as error:
            raise refused(error, gone="TRASH_GONE", what="The file in the trash") from None
        try:
            own = Found(handle, os.fstat(handle))
            if not self._is_as_recorded(own, entry):
                raise Refusal("TRASH_CHANGED", "The file in the trash is not what was put there; it is left as it is.")
        except BaseException:
            os.close(handle)
            raise
        return own

    def _is_as_recorded(self, file: Found, entry: Entry) -> bool:
        try:
            return self.is_as_recorded(file, entry)
        except OSError as error:
            raise refused(error, gone="UNREADABLE") from None

    def is_as_recorded(self, file: Found, entry: Entry) -> bool:
        """Whether it has the recorded bytes, and nobody changed it while it was read; of a stray, whether nobody has
        changed it since it came into the trash."""
        if not S_ISREG(file.info.st_mode) or file.info.st_size != entry.size:
            return False
        if entry.stray_mtime_ns is not None:
            return nearest_storable(file.info.st_mtime_ns) == entry.stray_mtime_ns
        is_it = self._prover(entry.algorithm).hash(file.handle) == entry.digest
        return is_it and version_of(os.fstat(file.handle)) == version_of(file.info)

    def _prover(self, algorithm: str) -> Prover:
        if algorithm not in self._provers:
            self._provers[algorithm] = Prover(algorithm, self.report, self.reader)
        return self._provers[algorithm]

    def _move(self, trash: Trash, entry: Entry, own: Found, place: Place) -> Back:
        now = trash.info(entry.name)
        if now is None or version_of(now) != version_of(own.info):
            raise Refusal("TRASH_CHANGED", "It became another one in the last moment; it stays in the trash.")
        link = None
        if entry.is_linked and info_of(place.name, dir_fd=place.folder) is not None:
            link = self._take_links_place(trash, entry, own, place)
        else:
            moving.put_back(trash, entry.name, place)
        return Back(_as_read(own, place), place.folder, link)

    def _take_links_place(self, trash: Trash, entry: Entry, own: Found, place: Place) -> os.stat_result:
        """Only of a name that is still the link, with the same bytes: then nothing is lost with it."""
        taken = Refusal("PLACE_TAKEN", "Something else than the link has its name by now; it stays in the trash.")
        try:
            handle = open_name(place.folder, place.name)
        except OSError:
            raise taken from None
        try:
            link = Found(handle, os.fstat(handle))
            if not _is_the_link(link, own, entry) or not self._is_as_recorded(link, entry):
                raise taken
            moving.unlink_over(place, link, trash, entry.name)
            return os.fstat(handle)
        finally:
            os.close(handle)


def _is_the_link(link: Found, own: Found, entry: Entry) -> bool:
    if (link.info.st_dev, link.info.st_ino) == (own.info.st_dev, own.info.st_ino):
        return False
    if entry.linked_inode is not None:
        return signed(link.info.st_ino) == entry.linked_inode
    return link.info.st_nlink > 1  # a file of a single name is nobody's link


def _as_read(own: Found, place: Place) -> os.stat_result | None:
    """What has the name now, where that is the file that was read, as it was. Anything else was saved by somebody, who
    looks for it there."""
    now = info_of(place.name, dir_fd=place.folder)
    return now if now is not None and is_unchanged(now, own.info) else None
