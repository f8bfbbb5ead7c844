"""The next files of an act, made ready: looked at as far as that is cheap, and what is intended recorded durably, in
the database and then in the manifests beside the files."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from itertools import groupby
from stat import S_ISREG
from typing import Self

from django.conf import settings
from django.db.models.functions import Now

from database.portions import portions
from database.routing import EXECUTOR
from duplicates.models import Plan
from jobs.errors import GivesWay, LeaseLost, Stopping
from jobs.executing import PAUSED
from jobs.models import Job
from jobs.working import Work
from libraries.names import to_bytes
from trash import item_storing, manifest, steps, switching
from trash.checking_items import Folder, Ground
from trash.errors import ActFailed
from trash.fetching import Fetching
from trash.folders import Trash, open_trash
from trash.in_hand import nothing_in_hand
from trash.item_storing import Counted
from trash.locking import Held
from trash.manifest_writing import lines_of, write
from trash.models import Act, TrashItem
from trash.planned import Intent, Planned
from trash.proving import refuse_changed
from trash.refusing import Refusal, refused

#: What a batch reads at the most, unless one file alone is larger: two of them have to fit into the memory of a NAS.
BATCH_BYTES = 256 << 20
#: The first batch and the last are small, since nobody works beside whoever prepares the one and records the other. In
#: between they are large, each some times the one before: a record for many files costs less for each of them.
LEAST_FILES, TIMES, SHARE = 1_000, 4, 3
#: So many files are looked at between two questions whether they come from a disk.
LOOK_FILES = 64
TrashKey = tuple[int, str]


class Prepared:
    """A batch that may be acted on: what is intended, and what is open for it. Whoever has it closes it."""

    def __init__(self, files: list[Planned], ground: Ground) -> None:
        self.ground, self.last = ground, files[-1].id
        self.made_at = time.monotonic()
        self.intents: list[Intent] = []
        self.skipped = 0
        self.trashes: dict[TrashKey, Trash] = {}
        #: As it goes to the hand of the act, where it does.
        self.packed = b""
        self._stack = ExitStack()
        self._stack.enter_context(ground)
        # Only what it needs: a batch that refers to itself would stay in memory until the collector looks for it.
        ground.sync_trashes = partial(_sync, self.trashes)

    def __enter__(self) -> Prepared:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stack.close()

    def keep(self, key: TrashKey, trash: Trash) -> None:
        self.trashes[key] = self._stack.enter_context(trash)

    def trash_of(self, intent: Intent) -> Trash:
        return self.trashes[intent.item.library_id, intent.trash_folder]


def _sync(trashes: dict[TrashKey, Trash]) -> None:
    for trash in trashes.values():
        steps.sync(trash.files)


def _folder_by_folder(files: list[Planned]) -> list[Planned]:
    """A plan goes by size, so its files lie here and there; in the order of their folders each of these is opened and
    synced once. Files that go for the same one stay together, and the first and the last of them in their places: the
    batch before may have begun with them, and the next may go on."""
    runs = [list(some) for _, some in groupby(files, key=lambda file: file.keeper.id)]
    inner = sorted(runs[1:-1], key=lambda run: (run[0].library_id, run[0].path.rpartition("/")[0]))
    return [file for run in [*runs[:1], *inner, *runs[1:][-1:]] for file in run]


class Preparing:
    """One run over what is left of one plan. Whoever makes it holds the lock."""

    def __init__(self, work: Work[Job], act: Act, lock: Held, is_ours: Callable[[int, int], bool]) -> None:
        assert act.plan is not None
        self.work, self.act, self.plan, self.lock, self.is_ours = work, act, act.plan, lock, is_ours
        self.space: dict[str, list[int]] = dict(act.space)
        self._headed: set[TrashKey] = set()
        self.fetching = Fetching()
        #: Files that were given out, and how many the next batch may have.
        self._given, self._most = act.done_count + act.skipped_count, LEAST_FILES
        #: The file that is looked at, and whether nobody waits for it any more: for another thread to read and to say.
        self.looks_at, self.is_left = b"", False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.fetching.close()

    def begin(self) -> None:
        self.refuse_switched_off()
        with item_storing.recording(self.work):
            self._refuse_ended()
            nothing_in_hand(self.act.pk)

    def after(self, last: int) -> Prepared | None:
        """The next batch, with its intents and the lines of its manifests on the disk; None where nothing is left."""
        files = self._next(last)
        if not files:
            return None
        self.refuse_switched_off()
        batch = Prepared(files, Ground(files, self.is_ours))
        try:
            intents = self._look_at(_folder_by_folder(files), batch)
            counted = Counted()
            for each in intents:
                if each.code:
                    counted.add(TrashItem.Status.SKIPPED, each.item.size)
            with item_storing.recording(self.work):
                self._refuse_ended()
                item_storing.intend(self.act.pk, intents)
                item_storing.count(self.act.pk, counted)
                Act.objects.using(EXECUTOR).filter(pk=self.act.pk).update(space=self.space)
            batch.intents, batch.skipped = [each for each in intents if not each.code], counted.skipped
            self._write_manifests(batch)
        except BaseException:
            batch.close()
            raise
        return batch

    def _write_manifests(self, batch: Prepared) -> None:
        by_trash: dict[TrashKey, list[Intent]] = {}
        for each in batch.intents:
            by_trash.setdefault((each.item.library_id, each.trash_folder), []).append(each)
        for key, some in by_trash.items():
            write(batch.trashes[key], lines_of(some, batch.ground.library(key[0]).root, key[1]))

    def _next(self, after: int) -> list[Planned]:
        """So many files, and not too much to read."""
        files: list[Planned] = []
        total, keeper = 0, 0
        with closing(item_storing.next_files(self.act, after, self._most_files())) as following:
            for file in following:
                total += file.size if file.keeper.id == keeper else 2 * file.size
                keeper = file.keeper.id
                if files and total > BATCH_BYTES:
                    break
                files.append(file)
        self._given += len(files)
        self._most *= TIMES
        return files

    def _most_files(self) -> int:
        share = max(self.act.file_count - self._given, 0) // SHARE
        return min(settings.ACT_BATCH_FILES, max(LEAST_FILES, min(self._most, share)))

    # --- May it go on? ------------------------------------------------------------------------------------
    def refuse_switched_off(self) -> None:
        if words := switching.why_not_act(self.plan.action):
            raise ActFailed("SWITCHED_OFF", words)

    def _refuse_ended(self) -> None:
        """Inside the transaction that is fenced by the lease."""
        row = Act.objects.using(EXECUTOR).filter(pk=self.act.pk, job_id=self.work.row.pk)
        found = row.values_list("status", "is_paused", "plan__status").first()
        if found is None or found[0] not in Act.LIVING or found[2] != Plan.Status.AUTHORISED:
            raise LeaseLost(f"{self.act} is not authorised any more")
        if found[1]:
            raise GivesWay(PAUSED, "It is paused; nothing is given up.")
        if found[0] == Act.Status.AUTHORISED:
            row.update(status=Act.Status.RUNNING, updated_at=Now())

    # --- Looking ------------------------------------------------------------------------------------------
    def _look_at(self, files: list[Planned], batch: Prepared) -> list[Intent]:
        """Where they come from a disk, both files of the next pairs are fetched meanwhile: they are read soon. Unless
        somebody has limited that."""
        intents: list[Intent] = []
        for some in portions(files, LOOK_FILES):
            if self.is_left:
                raise Stopping("nobody waits for these files any more")
            intents += [self._look(file, batch) for file in some]
            following = files[len(intents) : len(intents) + LOOK_FILES]
            if self.fetching.is_wanted(len(some)) and not batch.ground.is_limited(following):
                self.fetching.fetch(following, batch.ground)
        return intents

    def _look(self, item: Planned, batch: Prepared) -> Intent:
        """What is cheap to know: what is refused here is neither intended nor read."""
        self.looks_at = path = to_bytes(item.path)
        ground, above, name = batch.ground, item.path.rpartition("/")[0], path.rpartition(b"/")[2]
        try:
            folder = ground.folder(item.library_id, above, "VICTIM_GONE")
            ground.refuse_by_policy(item, is_protected=folder.is_protected)
            try:
                info = os.stat(name, dir_fd=folder.handle, follow_symlinks=False)
            except OSError as error:
                raise refused(error, gone="VICTIM_GONE") from None
            if not S_ISREG(info.st_mode):
                raise Refusal("NOT_A_FILE", "It is no file any more.")
            refuse_changed(info, item, "VICTIM")
            ground.refuse_young(folder, info)
            key = (item.library_id, folder.trash_folder)
            if key not in batch.trashes:
                batch.keep(key, self.open_trash(folder))
            return Intent(item, path, folder.trash_folder, info)
        except Refusal as reason:
            return Intent(item, path, code=reason.code, reason=reason.message)

    def open_trash(self, folder: Folder) -> Trash:
        """The trash of a folder's filesystem, locked, with the beginning of its manifest. Raises `Refusal`."""
        library, key = folder.library, (folder.place.id, folder.trash_folder)
        try:
            trash = open_trash(library.root, to_bytes(folder.trash_folder), self.act.key, is_made=True)
        except OSError as error:
            raise refused(error, gone="NO_TRASH", what="The trash") from None
        try:
            self._lock(trash)
            if key not in self._headed:
                self._write_head(trash, folder.place.name)
                self._headed.add(key)
            if folder.filesystem and folder.filesystem not in self.space:
                free = _free_bytes(trash.mount)
                self.space[folder.filesystem] = [free, free]
        except BaseException:
            trash.close()
            raise
        return trash

    def _lock(self, trash: Trash) -> None:
        try:
            self.lock.take(trash)
        except OSError as error:
            raise refused(error, gone="NO_TRASH", what="The lock of the trash") from None

    def _write_head(self, trash: Trash, library: str) -> None:
        if next(trash.read_manifest(), None) is None:
            act = self.act
            line = manifest.head_line(
                key=act.key,
                plan=act.plan_id,
                approved_by=act.authorised_by,
                approved_at=act.authorised_at.isoformat(),
                library=library,
            )
            write(trash, [line])


def _free_bytes(handle: int) -> int:
    figures = os.fstatvfs(handle)
    return figures.f_bavail * figures.f_frsize
