"""What people have said of an act since it began, that it stops or rests: asked between two of its files.

The thread that keeps the lease learns of a stop too, but only now and then, and of a pause never: whole batches would
go until then.
"""

from __future__ import annotations

import time

from database.routing import EXECUTOR
from jobs.errors import GivesWay, LeaseLost
from jobs.executing import PAUSED
from jobs.models import Job
from jobs.working import Work
from trash.models import Act

#: A small file takes less time than the question, so it is asked now and then.
EVERY_SECONDS = 0.5


class Heeding:
    """Asks for one run of an act. Each question is one row by its key, outside of any transaction."""

    def __init__(self, work: Work[Job], act: Act) -> None:
        self._work, self._act = work, act
        self._asked_at = time.monotonic()

    def heed(self, *, is_final: bool = False) -> None:
        """Raises `LeaseLost` where it was stopped and `GivesWay` where it rests. What is final is asked for each time:
        nobody can undo the files that would go until the next question."""
        if is_final or time.monotonic() - self._asked_at >= EVERY_SECONDS:
            self.ask()

    def ask(self) -> None:
        """The same, at once."""
        self._asked_at = time.monotonic()
        rows = Act.objects.using(EXECUTOR).filter(pk=self._act.pk, job_id=self._work.row.pk)
        found = rows.values_list("job__status", "job__worker_id", "is_paused").first()
        if found is None or found[:2] != (Job.Status.RUNNING, self._work.lease.worker_id):
            raise LeaseLost(f"{self._act} was stopped, or another worker has it")
        if found[2]:
            raise GivesWay(PAUSED, "It is paused; nothing is given up.")
