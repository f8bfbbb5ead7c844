"""Emptying the trash: files are removed for good, each only after a living copy of it was read. The handler's part for
the verb `empty`.

Nothing brings them back. So it is asked again before each file whether removing is allowed, and a file of which no
copy is found outside every trash stays, whatever became of the one that was kept for it.
"""

from __future__ import annotations

import os
from datetime import timedelta
from stat import S_ISREG
from typing import Any

from django.db.models import QuerySet

from database.crash_points import reach
from jobs.models import Job
from jobs.working import Work
from libraries.errors import Refused
from libraries.reading import version_of
from trash import steps, switching
from trash.errors import ActFailed
from trash.folders import Trash
from trash.left_storing import Left
from trash.living_copies import Copy, LivingCopies, refuse_lost
from trash.models import Act, TrashItem
from trash.proving import Found, open_name
from trash.refusing import Refusal, refused
from trash.taking_batch import Batch, closing, entry_of, is_disk_there
from trash.taking_out import TakingOut

STRAY = (
    "It is another version than the plan named, saved in the last moment: nobody has approved that it goes, and it may"
    " be the only one. It stays; undo puts it back."
)
MORE = (
    "It would be {meant:,} files by now, and the number that was authorised is {typed:,}: more files lie in the trash"
    " since. Nothing more is removed. Look at them, and authorise it anew."
)


class Emptying(TakingOut):
    """One run over the files that an act removes for good."""

    status = TrashItem.Status.EMPTYING

    def __init__(self, work: Work[Job], act: Act) -> None:
        super().__init__(work, act)
        self._copies: LivingCopies | None = None
        #: Filesystem → free bytes before the first file went and after the last one.
        self._space: dict[str, list[int]] = {name: list(figures) for name, figures in act.space.items()}

    @property
    def copies(self) -> LivingCopies:
        if self._copies is None:
            self._copies = LivingCopies(self.places, self.report)
        return self._copies

    def _rows(self) -> QuerySet[TrashItem]:
        """Nor what came into the trash, or grew old, since it was authorised: it waited, or was paused."""
        until = self.act.authorised_at - timedelta(days=self.act.selection.get("older_than_days", 0))
        return super()._rows().filter(acted_at__lte=until)

    def run(self) -> None:
        self._refuse_more()
        super().run()

    def _refuse_more(self) -> None:
        """Whatever has come to the files that were meant since somebody typed their number, be it by a clock that was
        set back: no more go than that. Nobody else takes files in or out as long as this act runs."""
        meant = self.act.done_count + self._rows().count()
        if meant > self.act.file_count:
            raise ActFailed("MORE_THAN_AUTHORISED", MORE.format(meant=meant, typed=self.act.file_count))

    def refuse_forbidden(self) -> None:
        _refuse_switched_off()
        self.copies.forget()

    def take_out(self, batch: Batch, item: TrashItem) -> Left:
        try:
            trash = batch.trash(item)
        except Refusal as refusal:
            # Somebody took the whole trash away by hand.
            place = self.places.get(item.library_id)
            if refusal.code == "TRASH_GONE" and place is not None and is_disk_there(place, item.trash_folder):
                return _was_gone(item)
            raise
        self._measure(item, trash)
        try:
            handle = open_name(trash.files, entry_of(item).name)
        except FileNotFoundError:
            return _was_gone(item)
        except OSError as error:
            raise refused(error, gone="TRASH_GONE", what="The file in the trash") from None
        with closing(handle):
            self._remove(item, trash, Found(handle, os.fstat(handle)))
        return Left(item, TrashItem.Status.EMPTIED)

    def _remove(self, item: TrashItem, trash: Trash, own: Found) -> None:
        entry = entry_of(item)
        if item.is_stray:
            raise Refusal("STRAY", STRAY)
        if not S_ISREG(own.info.st_mode) or own.info.st_size != entry.size:
            raise Refusal("TRASH_CHANGED", "The file in the trash is not what was put there; it is left as it is.")
        copy = self.copies.prove((entry.algorithm, entry.digest), item.plan_file.keeper, own)
        with closing(copy.file.handle):
            self.heeding.heed(is_final=True)
            _refuse_switched_off()
            reach("proved")
            # Once more: to ask may have taken a while.
            _refuse_changed(trash, entry.name, own, copy)
            try:
                steps.unlink(entry.name, dir_fd=trash.files)
            except OSError as error:
                raise refused(error, gone="TRASH_GONE", what="The file in the trash") from None

    # --- Space --------------------------------------------------------------------------------------------
    def figures(self, batch: Batch) -> dict[str, Any]:
        for (_act, library, folder), trash in batch.opened_by_key():
            name = self._filesystem(library, folder)
            if name in self._space:
                self._space[name][1] = _free_bytes(trash)
        return {"space": self._space}

    def _measure(self, item: TrashItem, trash: Trash) -> None:
        """Before the first file of a filesystem goes; a run that takes another one's place keeps what that saw."""
        name = self._filesystem(item.library_id, item.trash_folder)
        if name not in self._space:
            self._space[name] = [_free_bytes(trash)] * 2

    def _filesystem(self, library: int, folder: str) -> str:
        place = self.places.get(library)
        return (place.filesystem_of(f"{folder}/x" if folder else "x") if place else "") or f"library {library}"


def _refuse_switched_off() -> None:
    if words := switching.why_not_remove():
        raise Refused(words)


def _refuse_changed(trash: Trash, name: bytes, own: Found, copy: Copy) -> None:
    """Raise `Refusal` unless the file in the trash and its living copy are still found by their names, as they were
    proved."""
    try:
        now = trash.info(name)
        if now is None or version_of(now) != version_of(own.info):
            raise Refusal("TRASH_CHANGED", "The file in the trash became another one in the last moment.")
        refuse_lost(copy)
    except OSError as error:
        raise refused(error, gone="UNREADABLE") from None


def _was_gone(item: TrashItem) -> Left:
    words = "Somebody had taken it out of the trash, or removed it there."
    return Left(item, TrashItem.Status.EMPTIED, "TRASH_GONE", words)


def _free_bytes(trash: Trash) -> int:
    figures = os.fstatvfs(trash.mount)
    return figures.f_bavail * figures.f_frsize
