"""Strays: a newer version of a file that came into the trash in the last moment, in the place of the one that was
proved, and could not go back. Knows nothing of Django (`trash.hand_process`)."""

from __future__ import annotations

from stat import S_ISREG

from libraries.small_files import nearest_storable, signed
from trash.folders import TrashFiles
from trash.planned import TRASHED, Done, Stray
from trash.proving import refuse_changed
from trash.refusing import Refusal


def with_stray(done: Done, trash: TrashFiles) -> Done:
    """The same, with what lies in the trash where that is another file than the planned one."""
    found = trash.info(b"%d" % done.item.id) if done.status == TRASHED and done.code else None
    if found is None or not S_ISREG(found.st_mode):
        return done
    try:
        refuse_changed(found, done.item, "VICTIM")
    except Refusal:
        # A time that no column holds must not keep the record of everything else from being written.
        return done._replace(stray=Stray(found.st_size, nearest_storable(found.st_mtime_ns), signed(found.st_ino)))
    return done
