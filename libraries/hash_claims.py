"""Batches of files in the hands of one consumer: `hash_claim_token` says whose, `hash_claimed_at` since when.

A token begins with the reign it was given under: a digest of the `worker_id` that holds the hash job. Only one hash job
runs at a time, so a token of another reign is nobody's. Within a reign a token that was not renewed for
`HASH_CLAIM_SECONDS` is stale: its consumer is gone, and others may take the files.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db import connections
from django.db.models import QuerySet
from django.db.models.functions import Now

from database.clock import SecondsFromNow
from database.routing import EXECUTOR
from jobs.enforcing import transaction_on
from libraries.candidates import REIGN_LETTERS, Bounds, Candidate, Search, free, in_sql, run
from libraries.models import LibraryFile


def reign_of(worker_id: str) -> str:
    return hashlib.sha256(worker_id.encode()).hexdigest()[:REIGN_LETTERS]


@dataclass(frozen=True)
class Claims:
    """All that one consumer has in hand under one reign."""

    reign: str
    token: str

    @classmethod
    def under(cls, worker_id: str) -> Claims:
        reign = reign_of(worker_id)
        return cls(reign, f"{reign}:{uuid.uuid4().hex}")

    def take(self, search: Search, bounds: Bounds) -> list[Candidate]:
        """Claim the next files that are due; none only when the look is over. Call inside a fenced transaction."""
        alone()
        while rows := search.next(bounds):
            if taken := self._take(rows):
                return taken
        return []

    def _take(self, rows: list[Candidate]) -> list[Candidate]:
        """Those of `rows` that nobody else took since they were found."""
        now, moment = in_sql(Now())
        is_free, parameters = free(self.reign)
        ids = [row.id for row in rows]
        marks = ", ".join(["%s"] * len(ids))
        with connections[EXECUTOR].cursor() as cursor:
            cursor.execute(
                f"UPDATE library_files AS f SET hash_claim_token = %s, hash_claimed_at = {now}"
                f" WHERE f.id IN ({marks}) AND {is_free}",
                [self.token, *moment, *ids, *parameters],
            )
            if cursor.rowcount == len(rows):
                return rows
        sql = f"SELECT id FROM library_files WHERE hash_claim_token = %s AND id IN ({marks})"
        mine = {key for (key,) in run(sql, [self.token, *ids])}
        return [row for row in rows if row.id in mine]

    def renew(self) -> None:
        """Say that this consumer still works on its files. Call inside a fenced transaction."""
        self._held().update(hash_claimed_at=Now())

    def let_go(self, ids: Sequence[int] | None = None) -> None:
        """Give files back, all or these: whoever looks next may take them."""
        held = self._held() if ids is None else self._held().filter(pk__in=ids)
        with transaction_on("hash"):
            held.update(hash_claim_token=None, hash_claimed_at=None)

    def _held(self) -> QuerySet[LibraryFile]:
        return LibraryFile.objects.using(EXECUTOR).filter(hash_claim_token=self.token)


def are_live(reign: str) -> bool:
    """Whether some consumer has files of this reign in hand."""
    claimed = LibraryFile.objects.using(EXECUTOR).filter(hash_claim_token__isnull=False)
    lately = SecondsFromNow(-settings.HASH_CLAIM_SECONDS)
    return claimed.filter(hash_claim_token__startswith=reign, hash_claimed_at__gt=lately).exists()


def alone() -> None:
    """One claim at a time. On PostgreSQL two would find the same files and one of them go empty-handed; SQLite has one
    writer anyway."""
    if connections[EXECUTOR].vendor == "postgresql":
        run("SELECT pg_advisory_xact_lock(hashtext('claim files to hash'))")
