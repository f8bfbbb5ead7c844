"""Undo: files of the trash back to where they were. The handler's part for the verb `undo`."""

from __future__ import annotations

import os

from jobs.models import Job
from jobs.working import Work
from libraries.names import to_bytes
from libraries.reading import open_file, signed
from trash.left_storing import Left
from trash.models import Act, TrashItem
from trash.proving import Found
from trash.putting_back import PuttingBack
from trash.refusing import Refusal
from trash.taking_batch import Batch, closing, entry_of
from trash.taking_out import TakingOut


class Undoing(TakingOut):
    """One run over the files that an act brings back."""

    status = TrashItem.Status.UNDOING
    #: As the tree was last: of two files of one path, the one that went last gets its place.
    newest_first = True

    def __init__(self, work: Work[Job], act: Act) -> None:
        super().__init__(work, act)
        self.putting = PuttingBack(self.report)

    def take_out(self, batch: Batch, item: TrashItem) -> Left:
        try:
            return self._put_back(batch, item)
        except Refusal as refusal:
            # Somebody may have brought it back by the manifest alone.
            info = self._already_back(item) if refusal.code == "TRASH_GONE" else None
            if info is None:
                raise
        return Left(item, TrashItem.Status.UNDONE, info=info)

    def _put_back(self, batch: Batch, item: TrashItem) -> Left:
        back = self.putting.put_back(batch.trash(item), entry_of(item), batch.folders(item))
        batch.touch(back.folder)
        return Left(item, TrashItem.Status.UNDONE, back.code, back.reason, info=back.info, link=back.link)

    def _already_back(self, item: TrashItem) -> os.stat_result | None:
        """The file itself, at its place with its bytes; None where that is not so."""
        place, entry = self.places.get(item.library_id), entry_of(item)
        if place is None or item.inode is None:
            return None
        try:
            with closing(open_file(to_bytes(place.root_path), to_bytes(item.plan_file.relative_path))) as handle:
                info = os.fstat(handle)
                is_it = signed(info.st_ino) == item.inode and self.putting.is_as_recorded(Found(handle, info), entry)
                return info if is_it else None
        except OSError:
            return None
