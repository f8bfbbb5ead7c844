"""A process of its own that proves and moves the files of an act (`trash.hand_process`), and what it is told meanwhile.

It is a fresh program, not a fork: it holds no database connection and no lease, and both cores are used: one for the
files, one for their records. It gets descriptors of the locks that this process holds, so nobody else gets those before
it has ended, whatever becomes of this process.
"""

from __future__ import annotations

import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Self

from django.conf import settings

from database.portions import portions
from jobs.errors import GivesWay, Stopping
from libraries.messages import encoded, receive
from trash.hand_messages import MOST_HANDLES, given, heard
from trash.locking import Held
from trash.outbox import Outbox
from trash.planned import Done, Planned
from trash.preparing import Prepared

#: A new word is given this often.
WORD_SECONDS = 0.1
#: How long a hand that is not wanted any more may take to end.
END_SECONDS = 5.0
#: Item → code and words.
Refused = dict[int, tuple[str, str]]
#: Is told the number of the file that is worked on, its path, and how many bytes were read for it.
Tell = Callable[[int, str, int], None]


class HandGone(GivesWay):
    """It ended by itself; the files it had are settled, and the job is tried again."""

    def __init__(self) -> None:
        super().__init__("HAND_GONE", "The process that moves files was killed; the machine may be out of memory.")


class Hand:
    """Use it as a context: at its end the process is gone, and its hold on the locks with it."""

    def __init__(self, lock: Held, *, links_despite_metadata: bool) -> None:
        self._lock, self._links_despite_metadata = lock, links_despite_metadata

    def __enter__(self) -> Self:
        self._socket, theirs = socket.socketpair()
        self._outbox = Outbox(self._socket)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "trash.hand_process", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                cwd=settings.BASE_DIR,
                stdin=subprocess.DEVNULL,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            # It hangs on a dead disk, perhaps in the middle of a move: it keeps the locks until it is really gone.
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(END_SECONDS)

    def act_on(
        self,
        batch: Prepared,
        check: Callable[[], Refused | None],
        is_ours: Callable[[int, int], bool],
        tell: Tell,
    ) -> tuple[list[Done], Stopping | None]:
        """Have a batch acted on. `check` raises where nothing more may be done; what it returns may not be done to
        these files. What became of the files is on the disk when it returns; with the reason, where the batch was left
        half-way."""
        try:
            refused = self._flush(check)
            self._give(batch)
            if refused is not None:
                self._send("refuse", refused)
            return self._follow([each.item for each in batch.intents], check, is_ours, tell)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return [], HandGone()

    def pack(self, batch: Prepared) -> None:
        """Put the batch into the words in which it goes to the hand: that takes a while, in which the hand would have
        nothing to do."""
        trashes = {key: number for number, key in enumerate(batch.trashes)}
        libraries = [(each.id, each.root, each.filesystems, each.young_after_ns) for each in batch.ground.libraries()]
        files = [(trashes[each.item.library_id, each.trash_folder], *given(each.item)) for each in batch.intents]
        batch.packed = encoded(("act", libraries, self._links_despite_metadata, files))

    def _give(self, batch: Prepared) -> None:
        """Nothing is done by this alone: that takes a word."""
        trashes, locks = [trash.files for trash in batch.trashes.values()], self._lock.handles()
        self._send("handles", len(trashes), len(locks))
        for some in portions([*trashes, *locks], MOST_HANDLES):
            socket.send_fds(self._socket, [b"."], list(some))
        self._outbox.put_encoded(batch.packed)

    def _flush(self, check: Callable[[], Refused | None]) -> Refused | None:
        """Wait until it has taken all that was said of the batch before. Raises, and returns, what `check` does: a hand
        that stands still takes nothing."""
        refused = None
        while not self._outbox.has_room():
            refused = check() or refused
            select.select([], [self._socket], [], WORD_SECONDS)
            self._outbox.flush()
        return refused

    def _follow(
        self,
        items: Sequence[Planned],
        check: Callable[[], Refused | None],
        is_ours: Callable[[int, int], bool],
        tell: Tell,
    ) -> tuple[list[Done], Stopping | None]:
        leaving: Stopping | None = None
        while True:
            if leaving is None:
                leaving = self._say(check)
            else:
                with suppress(Stopping):
                    check()  # the claim may be lost all the same, where the hand hangs on a dead disk
            for what, *rest in self._heard():
                if what == "ended":
                    return [heard(item, told) for item, told in zip(items, rest[0], strict=False)], leaving
                if what == "told":
                    tell(*rest)
                elif what == "ours":
                    self._send("ours", is_ours(*rest))

    def _say(self, check: Callable[[], Refused | None]) -> Stopping | None:
        """A fresh word, or that the batch has to be left. Where the claim is lost that is raised: then nothing may be
        recorded, and nobody waits for the hand but its end."""
        asked_at = time.monotonic()
        try:
            refused = check()
        except Stopping as reason:
            self._send("stop")
            return reason
        if refused is not None:
            self._send("refuse", refused)
        # One that takes no words, since it waits for a disk, has enough of them: they only grow old.
        if self._outbox.has_room():
            self._send("word", asked_at)
        return None

    def _heard(self) -> list[tuple[Any, ...]]:
        end = self._socket
        is_there, is_taking, _ = select.select([end], [end] if self._outbox else [], [], WORD_SECONDS)
        if is_taking:
            self._outbox.flush()
        return [receive(end.fileno())] if is_there else []

    def _send(self, *message: Any) -> None:
        self._outbox.put(*message)
