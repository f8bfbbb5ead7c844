"""How far a hash job is: one row of `hash_runs`, to which every consumer that works on the job adds its share."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import models
from django.db.models import Case, F, Value, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Greatest, Now

from database.routing import EXECUTOR
from libraries.candidates import Amount, Candidate
from libraries.models import HashRun
from libraries.showing import hash_pace


@dataclass
class Share:
    """What one consumer has done since it last told."""

    files: int = 0
    size: int = 0
    #: Bytes that need not be read after all: a sample shows that a file has no twin. Sampling itself adds to them.
    spared: int = 0

    def finish(self, rows: Sequence[Candidate], *, read: int) -> None:
        """Files are done with, of which the first so many were read to their end."""
        self.files += len(rows)
        for row in rows[read:]:
            self.spared += row.size


class Progress:
    """Figures of one consumer, told about once a second."""

    def __init__(self, job_id: str, *, is_owner: bool) -> None:
        self.job_id, self.is_owner = job_id, is_owner
        self.share = Share()
        self.busy_seconds = 0.0
        self.phase = HashRun.Phase.SAMPLING
        self._counted_at = time.monotonic()

    def open(self) -> None:
        """Call inside a fenced transaction."""
        HashRun.objects.using(EXECUTOR).get_or_create(pk=self.job_id)

    def begin(self, left: Amount) -> None:
        """Let the job's totals be what is done plus what is left, and hold what was shown by those before: more may be
        left than anybody knew. Call inside a fenced transaction."""
        self._row().update(
            files_total=F("files_done") + left.files,
            bytes_total=F("bytes_done") + left.size,
            share_held=hash_pace(self._row().get()).share or 0,
            updated_at=Now(),
        )

    def count_time(self, *, is_busy: bool) -> None:
        """Add the time since the last call, if readers were at work in it; only the owner's counts."""
        now = time.monotonic()
        self.busy_seconds += now - self._counted_at if is_busy and self.is_owner else 0.0
        self._counted_at = now

    def write(self) -> tuple[int, int]:
        """Add this consumer's share; return files done and in all. Call inside a fenced transaction."""
        share, self.share = self.share, Share()
        busy, self.busy_seconds = self.busy_seconds, 0.0
        size = F("bytes_done") + share.size
        self._row().update(
            files_done=F("files_done") + share.files,
            bytes_done=size,
            # What turns up on the way counts too: the total is never less than what is done.
            files_total=_if_measured(Greatest(F("files_total"), F("files_done") + share.files)),
            bytes_total=_if_measured(Greatest(F("bytes_total") - share.spared, size)),
            busy_seconds=F("busy_seconds") + busy,
            updated_at=Now(),
            **({"phase": self.phase} if self.is_owner else {}),
        )
        done = self._row().values_list("files_done", "files_total").first()
        return done or (0, 0)

    def _row(self) -> models.QuerySet[HashRun]:
        return HashRun.objects.using(EXECUTOR).filter(pk=self.job_id)


def _if_measured(total: Combinable) -> Case:
    """Whoever helps may be first to tell; by what it did alone all of the job would seem to be done."""
    return Case(When(files_total=0, then=Value(0)), default=total, output_field=models.BigIntegerField())
