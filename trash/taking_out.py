"""Taking files out of the trash, batch by batch: what undoing and emptying have in common.

Each batch is durable in this order: that these files are about to be taken out; what the disk has of it (folders are
synced); what became of each. Killed anywhere in between, the rows that are open say where to look, and
`trash.settling_left` writes what became of them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from database.routing import EXECUTOR
from duplicates.facts import Place, read_places
from jobs.budgets import Meter
from jobs.errors import GivesWay, Stopping
from jobs.executing import PAUSED
from jobs.models import Job
from jobs.working import Work
from libraries.errors import Refused
from libraries.listening import files_changed
from libraries.models import LibraryRoot
from libraries.names import to_bytes
from trash.choosing_items import lying
from trash.folders import clear, open_trash, opened_top
from trash.heeding import Heeding
from trash.item_storing import recording
from trash.left_storing import Left, store_folders, store_intents, store_outcomes
from trash.locking import Busy, Held, held
from trash.making_folders import clear_half_made
from trash.models import Act, TrashItem
from trash.refusing import Refusal
from trash.taking_batch import Batch, TrashKey, below, is_folder, known_folders, trash_key

#: A batch ends after so many bytes, unless its first file has more, or so many files: their rows are in memory.
BATCH_BYTES = 64 << 20
BATCH_FILES = 2_000
#: Trashes that are open at the same time: each takes five descriptors, and a process has about a thousand.
BATCH_TRASHES = 40
#: A wait for the I/O budget is cut into such pieces, so that a lost lease is noticed.
_NAP_SECONDS = 1.0


class TakingOut:
    """One run of an act that takes files out of the trash."""

    status = ""
    #: Where a path went more than once, the order says which of its files is taken out first.
    newest_first = False

    def __init__(self, work: Work[Job], act: Act) -> None:
        self.work, self.act = work, act
        self.heeding = Heeding(work, act)
        self.places: Mapping[int, Place] = {}
        self._meters: dict[int, Meter] = {}
        self._last: int | None = None
        self._library_id = 0
        self._folders_back: dict[TrashKey, set[bytes]] = {}

    def run(self) -> None:
        """Raises `GivesWay` where somebody has paused it, `LeaseLost` where the claim is lost."""
        self.places = read_places(EXECUTOR)
        limits = LibraryRoot.objects.using(EXECUTOR).values_list("pk", "read_bytes_per_second")
        self._meters = {key: Meter(f"library:{key}", limit) for key, limit in limits}
        try:
            while items := self._next():
                self._check()
                self._batch(items)
            self._tidy()
        finally:
            files_changed()

    # --- Which --------------------------------------------------------------------------------------------
    def _rows(self) -> QuerySet[TrashItem]:
        """What was meant when it was asked for: nothing of an act that was authorised later. What was tried already
        and stays is not tried again."""
        rows = lying(self.act.selection, EXECUTOR).filter(act_id__lt=self.act.pk)
        return rows.filter(Q(left_by__isnull=True) | ~Q(left_by=self.act.pk))

    def _next(self) -> list[TrashItem]:
        rows = self._rows().select_related("act", "plan_file__keeper").order_by("-pk" if self.newest_first else "pk")
        if self._last is not None:
            rows = rows.filter(**{"pk__lt" if self.newest_first else "pk__gt": self._last})
        items: list[TrashItem] = []
        trashes: set[TrashKey] = set()
        size = 0
        for item in rows[: min(settings.ACT_BATCH_FILES, BATCH_FILES)]:
            size += item.plan_file.size_bytes
            trashes.add(trash_key(item))
            if items and (size > BATCH_BYTES or len(trashes) > BATCH_TRASHES):
                break
            items.append(item)
        if items:
            self._last = items[-1].pk
        return items

    def _check(self) -> None:
        self.work.check()
        told = Act.objects.using(EXECUTOR).filter(pk=self.act.pk).values_list("is_paused", "done_count")
        for is_paused, done in told:
            if is_paused:
                raise GivesWay(PAUSED, "It is paused.")
            self.work.advance(done, self.act.file_count)
        self.refuse_forbidden()

    def refuse_forbidden(self) -> None:
        """Raise `Refused` where it is not allowed any more; asked before each batch."""

    # --- One batch ----------------------------------------------------------------------------------------
    def _batch(self, items: list[TrashItem]) -> None:
        began = time.monotonic()
        with Batch(self.act, self.places, self._folders_back) as batch:
            batch.open_all(items)
            with recording(self.work):
                store_intents(self.act, [item.pk for item in items], self.status)
            # A row that somebody else has taken since it was read is theirs.
            lefts: list[Left] = []
            leaving: Stopping | Refused | None = None
            try:
                for item in self._taken(items):
                    lefts.append(self._one(batch, item))
            except (Stopping, Refused) as reason:
                leaving = reason  # what was done is recorded first; the rest is settled, and perhaps taken up again
            batch.sync()
            with recording(self.work):
                store_outcomes(lefts)
                for key, folders in batch.made():
                    store_folders(key[0], key[1], folders)
                self._store_figures(batch, time.monotonic() - began)
        if leaving is not None:
            raise leaving

    def _taken(self, items: list[TrashItem]) -> list[TrashItem]:
        keys = [item.pk for item in items]
        rows = TrashItem.objects.using(EXECUTOR).filter(pk__in=keys, status=self.status, left_by=self.act)
        taken = set(rows.values_list("pk", flat=True))
        ours = [item for item in items if item.pk in taken]
        for item in ours:
            item.left_by_id = self.act.pk
        return ours

    def _one(self, batch: Batch, item: TrashItem) -> Left:
        self.work.check_lost()
        self.heeding.heed()
        self._library_id = item.library_id
        self.work.advance(doing=f"{self.act.verb} {item.plan_file.relative_path}")
        try:
            return self.take_out(batch, item)
        except Refusal as refusal:
            is_last = refusal.code == "LAST_COPY"
            return Left(item, TrashItem.Status.TRASHED, refusal.code, refusal.message, is_last)

    def take_out(self, batch: Batch, item: TrashItem) -> Left:
        """Do it to one file; what became of it. Raises `Refusal` where it stays."""
        raise NotImplementedError

    def _store_figures(self, batch: Batch, seconds: float) -> None:
        values: dict[str, Any] = {"busy_seconds": F("busy_seconds") + seconds, "updated_at": Now()}
        Act.objects.using(EXECUTOR).filter(pk=self.act.pk).update(**values, **self.figures(batch))

    def figures(self, batch: Batch) -> dict[str, Any]:
        """More columns of the act that this batch changes."""
        return {}

    def report(self, amount: int) -> None:
        """Bytes were read: that is progress, and has to be paid to the library's budget."""
        self._tell()
        meter = self._meters.get(self._library_id)
        wait = meter.read(amount) if meter else 0.0
        while wait > 0:
            self._tell()
            time.sleep(min(wait, _NAP_SECONDS))
            wait -= _NAP_SECONDS

    def _tell(self) -> None:
        """It makes progress; and whether it may make more."""
        self.work.advance()
        self.work.check()
        self.heeding.heed()

    # --- Afterwards ---------------------------------------------------------------------------------------
    def _tidy(self) -> None:
        """Trashes of which this act took the last file; also those that a run before this one left."""
        taken = TrashItem.objects.using(EXECUTOR).filter(left_by=self.act).exclude(status=TrashItem.Status.TRASHED)
        rows = taken.order_by().values_list("act_id", "library_id", "trash_folder", "act__key").distinct()
        for act, library, folder, key in list(rows):
            place = self.places.get(library)
            if place is None:
                continue
            self.work.check_lost()
            self._note_folders((act, library, folder), to_bytes(place.root_path))
            tidy(to_bytes(place.root_path), to_bytes(folder), key)

    def _note_folders(self, key: TrashKey, root: bytes) -> None:
        """Folders that a run which was killed has made again."""
        _, away = known_folders(key)
        back = [below(key[2], path) for path in away]
        back = [folder for folder in back if is_folder(root, to_bytes(folder))]
        if back:
            with recording(self.work):
                store_folders(key[0], key[1], back)


def tidy(root: bytes, folder: bytes, key: str) -> None:
    """Take an act's folder away where no file is left in it, and the trash where it was the last. What can't be taken
    away harms nobody. Whoever calls holds the lock."""
    with suppress(OSError, Refusal, Busy), held() as lock:
        try:
            with open_trash(root, folder, key, is_made=False) as trash:
                lock.take(trash)
                clear_half_made(trash)
                trash.remove_if_empty()
                lock.take_away(trash)
        except FileNotFoundError:
            _clear(lock, root, folder, key)


def _clear(lock: Held, root: bytes, folder: bytes, key: str) -> None:
    """A kill may have left half of it."""
    with opened_top(root, folder) as top:
        lock.take(top)
        clear(root, folder, key)
        lock.take_away(top)
