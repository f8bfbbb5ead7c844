"""Files of a plan on their way through an act: what is planned, what is intended, what became of it. Plain values that
know nothing of Django, for whoever works on the disk (`trash.hand_process`)."""

from __future__ import annotations

import os
from typing import NamedTuple

#: As the rows have them.
INTENDED, SKIPPED, TRASHED, DELETED = "intended", "skipped", "trashed", "deleted"
HARDLINK, DELETE = "hardlink", "delete"


class Kept(NamedTuple):
    """The file that stays, as the plan has it."""

    id: int
    file_id: int
    library_id: int
    path: str
    size: int
    mtime_ns: int
    inode: int | None


class Planned(NamedTuple):
    """A file that goes, as the plan has it. Whether it was intended before, by a run that was killed."""

    id: int
    file_id: int
    library_id: int
    path: str
    size: int
    mtime_ns: int
    inode: int | None
    algorithm: str
    digest: bytes
    action: str
    keeper: Kept
    is_intended: bool


class Intent(NamedTuple):
    """What is about to be done to a file; with a reason, that nothing will be. Its path as bytes."""

    item: Planned
    path: bytes
    trash_folder: str = ""
    info: os.stat_result | None = None
    code: str = ""
    reason: str = ""


class Linked(NamedTuple):
    """What a name is that became a link of the file that stays; called as `os.stat_result` calls it."""

    st_ino: int
    st_dev: int
    st_mtime_ns: int
    st_ctime_ns: int
    st_nlink: int

    @classmethod
    def of(cls, info: os.stat_result) -> Linked:
        return cls(info.st_ino, info.st_dev, info.st_mtime_ns, info.st_ctime_ns, info.st_nlink)


class Stray(NamedTuple):
    """Another file than the planned one that came into the trash in the last moment and could not go back, as it was
    found there. Nobody has read it: that is all by which it is known again."""

    size: int
    mtime_ns: int
    #: Signed, as the column is.
    inode: int


class Done(NamedTuple):
    """What became of a file. `linked` is what its name is now, where that is a link of the file that stays; `stray` is
    what lies in the trash, where that is another file than the planned one."""

    item: Planned
    status: str
    code: str = ""
    reason: str = ""
    linked: Linked | None = None
    stray: Stray | None = None

    @property
    def is_plain(self) -> bool:
        """In the trash, and nothing else is to be said: nearly all of them."""
        return self.status == TRASHED and not self.code and self.linked is None
