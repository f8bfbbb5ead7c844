"""Carrying out a plan: exactly the saved one, batch by batch.

In each batch first what is intended is recorded, durably, and then written into the manifests beside the files
(`trash.preparing`); then each file is proved and acted on at once; then the folders are synced; then what became of it
is recorded. So whatever was moved stands in a manifest, and whatever stands in a manifest stands in the database: a
kill or a power cut anywhere leaves rows that say `intended`, and the disk says what became of them (`trash.settling`).

While a batch is acted on, the one before is recorded and the next is prepared (`trash.clerk`). Where there are many
files, a process of its own acts on them (`trash.hand`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import ExitStack

from django.conf import settings

from jobs.budgets import Meter
from jobs.collecting import little_collected
from jobs.errors import Stopping
from jobs.models import Job
from jobs.working import Work
from libraries.listening import files_changed
from libraries.names import to_display, to_text
from libraries.reading import signed
from trash import ending, item_storing, witness
from trash.acting_on_file import FileActing, Provers
from trash.checking_items import Ground
from trash.clerk import Clerk
from trash.empty_folders import remove_empty_folders
from trash.hand import Hand, Refused
from trash.heeding import Heeding
from trash.in_hand import InHand, nothing_in_hand
from trash.locking import Held
from trash.models import Act
from trash.noting_strays import note_strays
from trash.planned import DELETE, HARDLINK, Done, Linked, Planned
from trash.preparing import Prepared, Preparing
from trash.proof import ProofDraft
from trash.refusing import Refusal
from trash.void import refuse_older_database

#: What was read before the consumer says that it makes progress.
TOLD_BYTES = 8 << 20
#: Files after which it says so, and looks whether it has to stop.
TOLD_FILES = 64
#: Right before a file is moved it is asked whether the claim still holds, unless that was asked this long ago at the
#: most: a process that stood still in between asks.
ASK_SECONDS = 0.05
#: Nothing is done by a policy that was read longer ago.
FRESH_SECONDS = 5.0
#: How often those that want to know of changed files are told while there is more to do, or after how many of them.
#: Groups are counted then: many at once take less time for each.
LISTEN_SECONDS, LISTEN_FILES = 5.0, 10_000
#: How long to wait at a time for the next batch.
WAIT_SECONDS = 0.5
#: How long to sleep at a time while the I/O budget is used up.
NAP_SECONDS = 0.5


class Acting:
    """One run over what is left of one plan. Whoever makes it holds the lock."""

    def __init__(self, work: Work[Job], act: Act, lock: Held) -> None:
        assert act.plan is not None
        self.work, self.act, self.plan, self.lock = work, act, act.plan, lock
        self.preparing = Preparing(work, act, lock, self._is_ours)
        self.proof = ProofDraft(act)
        self.provers = Provers(self._read)
        self.heeding = Heeding(work, act)
        #: Files that are done with, for the progress.
        self.met = act.done_count + act.skipped_count
        self._touched: set[tuple[int, int]] = set()
        self._has_earlier = False
        self._meters: dict[int, Meter] = {}
        self._metered: tuple[Meter, ...] = ()
        self._metered_for = (0, 0)
        self._unsaid = 0
        #: The file of the batch that this process works on, and what it has read for it.
        self._number = self._read_of_this = 0
        #: The names that one keeper got by this run: each new link changes the ctime of all of them.
        self._linked: tuple[int, list[int]] = (0, [])
        self._listened_at = self._recorded_at = time.monotonic()
        #: Files that were recorded since then.
        self._unheard = 0
        #: The records of the batch before, as far as the clerk is with them.
        self._recorded: Future[None] | None = None
        self._hand: Hand | None = None
        #: When it was asked last whether the claim holds, and when the policy was read by which the batch goes.
        self._asked_at = self._read_at = 0.0

    def run(self) -> None:
        refuse_older_database(self.act)
        self.preparing.begin()
        # By this an older database is noticed, whatever becomes of what is done from here on.
        witness.keep()
        self.work.advance(self.met, self.act.file_count, doing=f"plan {self.plan.pk}")
        with self.proof:
            self._work_through()
            if self.plan.removes_empty_folders:
                remove_empty_folders(self.work, self.act, self.preparing.open_trash)
            files_changed()
            ending.end(self.act, Act.Status.COMPLETED, work=self.work, draft=self.proof)

    def _work_through(self) -> None:
        with self.preparing, little_collected(), Clerk() as clerk, ExitStack() as stack:
            self._in_hand = InHand(self.work, self.act, clerk)
            if self.plan.action != DELETE and self.act.file_count - self.met >= settings.ACT_HAND_FILES:
                hand = Hand(self.lock, links_despite_metadata=self.plan.links_despite_metadata)
                self._hand = stack.enter_context(hand)
            try:
                self._go_through(clerk)
            finally:
                self._refuse_unrecorded()

    def _go_through(self, clerk: Clerk) -> None:
        ahead = clerk.ask(self._prepare, 0)
        try:
            while (batch := self._ready(ahead)) is not None:
                with batch:
                    ahead = clerk.ask(self._prepare, batch.last)
                    self._carry_out(batch, clerk)
        except BaseException:
            self._leave(ahead)
            raise

    def _prepare(self, last: int) -> Prepared | None:
        """By the clerk."""
        batch = self.preparing.after(last)
        if batch is not None and self._hand is not None and self._is_for_the_hand(batch):
            self._hand.pack(batch)
        return batch

    def _ready(self, ahead: Future[Prepared | None]) -> Prepared | None:
        """Wait for the next batch. As long as more of its files are looked at, that is progress."""
        looked_at = b""
        while not wait([ahead], WAIT_SECONDS).done:
            if looked_at != (looked_at := self.preparing.looks_at):
                self.work.advance(doing=to_display(to_text(looked_at))[:200])
            self.work.check()
            self.heeding.heed()
        return ahead.result()

    def _leave(self, ahead: Future[Prepared | None]) -> None:
        """What is prepared for nobody is closed: whatever of it is intended is taken up again, or settled."""
        self.preparing.is_left = True
        if ahead.exception() is None and (batch := ahead.result()) is not None:
            batch.close()

    def _is_ours(self, device: int, inode: int) -> bool:
        """Whether this act moved or linked a name of that inode, in this run or an earlier one."""
        if not self._has_earlier:
            self._touched |= item_storing.touched_inodes(self.act.pk)
            self._has_earlier = True
        return (device, inode) in self._touched

    # --- A batch ------------------------------------------------------------------------------------------
    def _carry_out(self, batch: Prepared, clerk: Clerk) -> None:
        self.heeding.ask()
        self.preparing.refuse_switched_off()
        self.met += batch.skipped
        outcomes, leaving = self._act_on(batch)
        self._refuse_unrecorded()
        now = time.monotonic()
        # Where it is left half-way, the rest is intended still: not all of it is on record.
        recorded_to = batch.last if leaving is None else 0
        self._recorded = clerk.ask(self._record, outcomes, now - self._recorded_at, recorded_to)
        self._recorded_at = now
        self.met += len(outcomes)
        if leaving is not None:
            raise leaving
        self.work.advance(self.met, max(self.met, self.act.file_count))
        self.work.check()

    def _refuse_unrecorded(self) -> None:
        """Wait for the records of the batch before; raise what kept them from being written."""
        if self._recorded is not None:
            self._recorded.result()

    def _act_on(self, batch: Prepared) -> tuple[list[Done], Stopping | None]:
        """What became of its files; with the reason, where it has to be left half-way: the rest is intended still, and
        taken up again."""
        self._asked_at, self._read_at = time.monotonic(), batch.made_at
        self._in_hand.begin([each.item for each in batch.intents])
        if self._hand is not None and batch.packed:
            return self._hand_over(batch, self._hand)
        outcomes: list[Done] = []
        leaving: Stopping | None = None
        try:
            for done in self._each(batch):
                outcomes.append(done)
        except Stopping as reason:
            leaving = reason
        batch.ground.sync_touched()
        return outcomes, leaving

    def _each(self, batch: Prepared) -> Iterator[Done]:
        self._metered_for = (0, 0)

        def ask(item: Planned) -> None:
            self.heeding.heed(is_final=item.action == DELETE)
            self._check_now_and_then(batch)
            batch.ground.refuse_anew(item)

        acting = FileActing(
            batch.ground, self.provers, ask, self._touched, links_despite_metadata=self.plan.links_despite_metadata
        )
        for self._number, each in enumerate(batch.intents):
            self._read_of_this = 0
            if self._number % TOLD_FILES == 0:
                self._told(self._number, each.item.path, 0)
                self.work.check()
            self._meter(each.item, batch.ground)
            yield acting.act_on(each.item, batch.trash_of(each))

    def _check_now_and_then(self, batch: Prepared) -> bool:
        """Raise where the claim is lost, or where nothing more may be done; whether the policy was read anew."""
        now = time.monotonic()
        if now - self._asked_at >= ASK_SECONDS:
            self._asked_at = now
            self.work.check_lost()
            if self._recorded is not None and self._recorded.done():
                self._refuse_unrecorded()
        if now - self._read_at <= FRESH_SECONDS:
            return False
        self._read_at = now
        self.work.check()
        self.preparing.refuse_switched_off()
        batch.ground.read_anew([each.item for each in batch.intents])
        return True

    def _told(self, number: int, path: str, bytes_read: int) -> None:
        self.work.advance(self.met + number, doing=to_display(path)[:200])
        self._in_hand.reach(number, bytes_read)

    # --- By the hand --------------------------------------------------------------------------------------
    def _is_for_the_hand(self, batch: Prepared) -> bool:
        """Not what is final, where people are asked before each file, nor what somebody has limited, where the budget
        is: both wait for the database anyway."""
        files = [each.item for each in batch.intents]
        return DELETE not in {file.action for file in files} and not batch.ground.is_limited(files)

    def _hand_over(self, batch: Prepared, hand: Hand) -> tuple[list[Done], Stopping | None]:
        # For the look at the next files, which begins at once. The hand itself goes by what it has really touched.
        for each in batch.intents:
            if each.info is not None and (each.item.action == HARDLINK or each.info.st_nlink > 1):
                device = signed(each.info.st_dev)
                self._touched |= {(device, signed(each.info.st_ino)), (device, each.item.keeper.inode or 0)}

        def check() -> Refused | None:
            self.work.check()
            self.heeding.heed()
            return self._refused_anew(batch) if self._check_now_and_then(batch) else None

        return hand.act_on(batch, check, self._is_ours, self._told)

    def _refused_anew(self, batch: Prepared) -> Refused:
        """The files of the batch to which nothing may be done by the policy as it is now."""
        refused: Refused = {}
        for each in batch.intents:
            try:
                batch.ground.refuse_anew(each.item)
            except Refusal as reason:
                refused[each.item.id] = (reason.code, reason.message)
        return refused

    def _record(self, outcomes: list[Done], seconds: float, recorded_to: int) -> None:
        """By the clerk."""
        note_strays(self.act, outcomes)
        with item_storing.recording(self.work):
            counted = item_storing.store_outcomes(self.act.pk, outcomes)
            counted.seconds = seconds
            item_storing.store_touched(self._relinked(outcomes))
            item_storing.count(self.act.pk, counted)
            nothing_in_hand(self.act.pk)
        self._unheard += len(outcomes)
        if self._unheard >= LISTEN_FILES or time.monotonic() - self._listened_at > LISTEN_SECONDS:
            files_changed()
            self._listened_at, self._unheard = time.monotonic(), 0
        if self._hand is not None:
            # While it works; with few files the end is soon enough.
            self.proof.write_up_to(recorded_to)

    def _relinked(self, outcomes: list[Done]) -> Iterator[tuple[int, Linked]]:
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
        self._read_of_this += amount
        if self._unsaid >= TOLD_BYTES:
            self._unsaid = 0
            self._tell()
        for meter in self._metered:
            self._wait(meter.read(amount // len(self._metered)))

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, NAP_SECONDS))
            self._tell()

    def _tell(self) -> None:
        """It makes progress; and whether it may make more."""
        self.work.advance()
        self._in_hand.reach(self._number, self._read_of_this)
        self.work.check()
        self.heeding.heed()
