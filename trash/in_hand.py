"""How much of a batch was worked on before any of it is on record: so that a page tells how far it is, and how long
still, in the middle of a file that takes an hour."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future

from database.routing import EXECUTOR
from jobs.models import Job
from jobs.working import Work
from trash.clerk import Clerk
from trash.models import Act
from trash.planned import Planned

#: How often it is written; a batch that takes less time than this is soon on record anyway.
SHOW_SECONDS = 2.0


class InHand:
    """For one run of an act, batch after batch."""

    def __init__(self, work: Work[Job], act: Act, clerk: Clerk) -> None:
        self._work, self._act, self._clerk = work, act, clerk
        self._shown: Future[None] | None = None

    def begin(self, files: Sequence[Planned]) -> None:
        self._files, self._number, self._met = files, 0, 0
        self._began_at = self._shown_at = time.monotonic()

    def reach(self, number: int, bytes_read: int) -> None:
        """Those before file `number` are done with, and so much was read for it: of both files of its pair, mostly."""
        self._met += sum([file.size for file in self._files[self._number : number]])
        self._number = number
        now = time.monotonic()
        # The clerk's time is for records: it is only asked where it has nothing else to do, and nobody waits for it.
        if now - self._shown_at < SHOW_SECONDS or not self._clerk.is_idle:
            return
        self._shown_at = now
        if self._shown is not None:
            self._shown.result()
        of_this = min(self._files[number].size, bytes_read // 2)
        self._shown = self._clerk.ask(self._write, self._met + of_this, now - self._began_at)

    def _write(self, size: int, seconds: float) -> None:
        with self._work.fenced("act"):
            Act.objects.using(EXECUTOR).filter(pk=self._act.pk).update(bytes_in_hand=size, seconds_in_hand=seconds)


def nothing_in_hand(act_id: int) -> None:
    """What was is on record, or is begun anew."""
    Act.objects.using(EXECUTOR).filter(pk=act_id).update(bytes_in_hand=0, seconds_in_hand=0)
