"""Carrying out a plan: exactly the saved one, batch by batch.

In each batch first what is intended is recorded, durably; then it is written into the manifests beside the files; then
each file is proved and acted on at once; then the folders are synced; then what became of it is recorded. So whatever
was moved stands in a manifest, and whatever stands in a manifest stands in the database: a kill or a power cut anywhere
leaves rows that say `intended`, and the disk says what became of them (`trash.settling`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from stat import S_ISREG
from typing import Any

from django.conf import settings
from django.db.models.functions import Now

from database.routing import EXECUTOR
from duplicates.models import Plan
from jobs.budgets import Meter
from jobs.errors import GivesWay, LeaseLost, Stopping
from jobs.executing import PAUSED
from jobs.models import Job
from jobs.working import Work
from libraries.listening import files_changed
from libraries.names import to_bytes, to_display
from trash import ending, item_storing, manifest, steps, switching
from trash.acting_on_file import SKIPPED, FileActing, Provers
from trash.checking_items import Folder, Ground
from trash.empty_folders import remove_empty_folders
from trash.errors import ActFailed
from trash.folders import Trash, open_trash
from trash.item_storing import Counted, Done, Intent, Planned
from trash.locking import Held
from trash.manifest_writing import line_of, write
from trash.models import Act
from trash.proving import Wanted, refuse_changed
from trash.refusing import Refusal, refused
from trash.void import refuse_older_database

#: What a batch reads at the most, unless one file alone is larger.
BATCH_BYTES = 64 << 20
#: What was read before the consumer says that it makes progress.
TOLD_BYTES = 8 << 20
#: Files after which it says so, and looks whether it has to stop.
TOLD_FILES = 64
#: Right before a file is moved it is asked whether the claim still holds, unless that was asked this long ago at the
#: most: a process that stood still in between asks.
ASK_SECONDS = 0.05
#: A proof that took longer has the policy looked at again before anything is done.
FRESH_SECONDS = 5.0
#: How often those that want to know of changed files are told while there is more to do.
LISTEN_SECONDS = 10.0
#: How long to sleep at a time while the I/O budget is used up.
NAP_SECONDS = 0.5
TrashKey = tuple[int, str]


class Acting:
    """One run over what is left of one plan. Whoever makes it holds the lock."""

    def __init__(self, work: Work[Job], act: Act, lock: Held) -> None:
        assert act.plan is not None
        self.work, self.act, self.plan, self.lock = work, act, act.plan, lock
        self.provers = Provers(self._read)
        self.met = act.done_count + act.skipped_count
        self.space: dict[str, list[int]] = dict(act.space)
        self._touched: set[tuple[int, int]] = set()
        self._has_earlier = False
        self._headed: set[TrashKey] = set()
        self._meters: dict[int, Meter] = {}
        self._metered: tuple[Meter, ...] = ()
        self._metered_for = (0, 0)
        self._unsaid = 0
        #: The names that one keeper got by this run: each new link changes the ctime of all of them.
        self._linked: tuple[int, list[int]] = (0, [])
        self._listened_at = time.monotonic()

    def run(self) -> None:
        self._begin()
        after = 0
        while files := self._next(after):
            self._carry_out(files)
            after = files[-1].id
            if time.monotonic() - self._listened_at > LISTEN_SECONDS:
                files_changed()
                self._listened_at = time.monotonic()
        if self.plan.removes_empty_folders:
            remove_empty_folders(self.work, self.act, self._open_trash)
        files_changed()
        ending.end(self.act, Act.Status.COMPLETED, work=self.work)

    def _begin(self) -> None:
        refuse_older_database(self.act)
        self._refuse_switched_off()
        with item_storing.recording(self.work):
            self._refuse_ended()
        self.work.advance(self.met, self.act.file_count, doing=f"plan {self.plan.pk}")

    def _next(self, after: int) -> list[Planned]:
        """The next batch: so many files, and not too much to read."""
        files = item_storing.next_files(self.act, after, settings.ACT_BATCH_FILES)
        total, keeper = 0, 0
        for number, file in enumerate(files):
            total += file.size if file.keeper.id == keeper else 2 * file.size
            keeper = file.keeper.id
            if number and total > BATCH_BYTES:
                return files[:number]
        return files

    # --- May it go on? ------------------------------------------------------------------------------------
    def _refuse_switched_off(self) -> None:
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

    def _is_ours(self, device: int, inode: int) -> bool:
        """Whether this act moved or linked a name of that inode, in this run or an earlier one."""
        if not self._has_earlier:
            self._touched |= item_storing.touched_inodes(self.act.pk)
            self._has_earlier = True
        return (device, inode) in self._touched

    # --- A batch ------------------------------------------------------------------------------------------
    def _carry_out(self, files: list[Planned]) -> None:
        started = time.monotonic()
        self._refuse_switched_off()
        counted = Counted()
        with Ground(files, self._is_ours) as ground, ExitStack() as stack:
            trashes: dict[TrashKey, Trash] = {}
            intents = [self._look(file, ground, trashes, stack) for file in files]
            for each in intents:
                if each.code:
                    counted.add(SKIPPED, each.item.size)
            with item_storing.recording(self.work):
                self._refuse_ended()
                item_storing.intend(self.act.pk, intents)
                item_storing.count(self.act.pk, counted)
                Act.objects.using(EXECUTOR).filter(pk=self.act.pk).update(space=self.space)
            self.met += counted.skipped
            intents = [each for each in intents if not each.code]
            self._write_manifests(intents, trashes)
            self._act_on(intents, trashes, ground, started)
        self.work.advance(self.met, max(self.met, self.act.file_count))
        self.work.check()

    def _look(self, item: Planned, ground: Ground, trashes: dict[TrashKey, Trash], stack: ExitStack) -> Intent:
        """What is cheap to know: what is refused here is neither intended nor read."""
        path = to_bytes(item.path)
        name = path.rpartition(b"/")[2]
        try:
            folder = ground.folder(item.library_id, item.path.rpartition("/")[0], "VICTIM_GONE")
            ground.refuse_by_policy(item, folder)
            try:
                info = os.stat(name, dir_fd=folder.handle, follow_symlinks=False)
            except OSError as error:
                raise refused(error, gone="VICTIM_GONE") from None
            if not S_ISREG(info.st_mode):
                raise Refusal("NOT_A_FILE", "It is no file any more.")
            refuse_changed(info, Wanted(item.size, item.mtime_ns, item.inode), "VICTIM")
            ground.refuse_young(folder, info)
            key = (item.library_id, folder.trash_folder)
            if key not in trashes:
                trashes[key] = stack.enter_context(self._open_trash(ground, folder))
            return Intent(item, path, name, folder.trash_folder, info)
        except Refusal as reason:
            return Intent(item, path, name, code=reason.code, reason=reason.message)

    def _open_trash(self, ground: Ground, folder: Folder) -> Trash:
        """The trash of a folder's filesystem, locked, with the beginning of its manifest. Raises `Refusal`."""
        library, key = folder.library, (folder.library.id, folder.trash_folder)
        try:
            trash = open_trash(library.root, to_bytes(folder.trash_folder), self.act.key, is_made=True)
        except OSError as error:
            raise refused(error, gone="NO_TRASH", what="The trash") from None
        try:
            self.lock.take(trash)
            if key not in self._headed:
                self._write_head(trash, library.place.name)
                self._headed.add(key)
            if folder.filesystem and folder.filesystem not in self.space:
                free = _free_bytes(trash.mount)
                self.space[folder.filesystem] = [free, free]
        except BaseException:
            trash.close()
            raise
        return trash

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

    def _write_manifests(self, intents: list[Intent], trashes: dict[TrashKey, Trash]) -> None:
        lines: dict[TrashKey, list[dict[str, Any]]] = {}
        for each in intents:
            lines.setdefault((each.item.library_id, each.trash_folder), []).append(
                line_of(each, trashes[each.item.library_id, each.trash_folder].mount)
            )
        for key, some in lines.items():
            write(trashes[key], some)

    def _act_on(self, intents: list[Intent], trashes: dict[TrashKey, Trash], ground: Ground, started: float) -> None:
        outcomes: list[Done] = []
        leaving: Stopping | None = None
        try:
            for done in self._each(intents, trashes, ground):
                outcomes.append(done)
        except Stopping as reason:
            leaving = reason  # what was done is recorded first; the rest is intended still, and taken up again
        ground.sync_touched()
        for key in {(each.item.library_id, each.trash_folder) for each in intents}:
            steps.sync(trashes[key].files)
        self._record(outcomes, time.monotonic() - started)
        if leaving is not None:
            raise leaving

    def _each(self, intents: list[Intent], trashes: dict[TrashKey, Trash], ground: Ground) -> Iterator[Done]:
        made_at = asked_at = time.monotonic()
        self._metered_for = (0, 0)

        def ask(item: Planned, folder: Folder) -> None:
            nonlocal asked_at
            now = time.monotonic()
            if now - asked_at < ASK_SECONDS:
                return
            asked_at = now
            self.work.check_lost()
            if now - made_at > FRESH_SECONDS:
                self.work.check()
                self._refuse_switched_off()
                ground.refuse_anew(item, folder)

        acting = FileActing(
            ground, self.provers, ask, self._touched, links_despite_metadata=self.plan.links_despite_metadata
        )
        for number, each in enumerate(intents):
            if number % TOLD_FILES == 0:
                self.work.advance(self.met + number, doing=to_display(each.item.path)[:200])
                self.work.check()
            self._meter(each.item, ground)
            yield acting.act_on(each, trashes[each.item.library_id, each.trash_folder])

    def _record(self, outcomes: list[Done], seconds: float) -> None:
        counted = Counted(seconds=seconds)
        for done in outcomes:
            counted.add(done.status, done.item.size)
        with item_storing.recording(self.work):
            item_storing.store_outcomes(self.act.pk, outcomes)
            item_storing.store_touched(self._relinked(outcomes))
            item_storing.count(self.act.pk, counted)
        self.met += len(outcomes)

    def _relinked(self, outcomes: list[Done]) -> Iterator[tuple[int, os.stat_result]]:
        """Every name of a file that stays, as its last new link left it: the keeper's, and those it got before."""
        last: dict[int, Done] = {}
        for done in outcomes:
            if done.linked is not None:
                last[done.item.keeper.id] = done
                keeper, names = self._linked
                if keeper != done.item.keeper.id:
                    names = [done.item.keeper.file_id]
                self._linked = (done.item.keeper.id, [*names, done.item.file_id])
        by_keeper: dict[int, list[int]] = {}
        for done in outcomes:
            if done.linked is not None:
                by_keeper.setdefault(done.item.keeper.id, [done.item.keeper.file_id]).append(done.item.file_id)
        by_keeper |= {self._linked[0]: self._linked[1]} if self._linked[0] in by_keeper else {}
        for keeper, names in by_keeper.items():
            info = last[keeper].linked
            assert info is not None
            yield from ((file_id, info) for file_id in names)

    # --- Reading ------------------------------------------------------------------------------------------
    def _meter(self, item: Planned, ground: Ground) -> None:
        """Whose budgets the next reads are charged to."""
        pair = (item.library_id, item.keeper.library_id)
        if pair == self._metered_for:
            return
        self._metered_for, libraries = pair, set(pair)
        limits = [(key, ground.limit_of(key)) for key in libraries]
        if not any(limit for _, limit in limits):
            self._metered = ()
            return
        for key, limit in limits:
            self._meters.setdefault(key, Meter(f"library:{key}", limit)).limit = limit
        self._metered = tuple(self._meters[key] for key in libraries)

    def _read(self, amount: int) -> None:
        """Bytes were read: that is progress, and has to be paid where there is a budget."""
        self._unsaid += amount
        if self._unsaid >= TOLD_BYTES:
            self._unsaid = 0
            self.work.advance()
            self.work.check()
        for meter in self._metered:
            self._wait(meter.read(amount // len(self._metered)))

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, NAP_SECONDS))
            self.work.advance()
            self.work.check()


def _free_bytes(handle: int) -> int:
    figures = os.fstatvfs(handle)
    return figures.f_bavail * figures.f_frsize
