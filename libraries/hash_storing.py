"""How a hash job writes what it read: whole batches by id, each row only if it is still the version that was read.

Every call happens inside a fenced transaction of the executor. The token in each WHERE says that the file is still in
this consumer's hands; size, mtime and ctime say that no scan saw another version since.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import connections

from database.routing import EXECUTOR
from libraries.candidates import Candidate

#: Back-off of a file that can't be read: min(30·2^(n-1), 3600) s, where n counts this failure too.
_BACK_OFF = {
    "sqlite": "MIN(30 * (1 << MIN(hash_error_count, 7)), 3600)",
    "postgresql": "LEAST(30 * (1 << LEAST(hash_error_count, 7)), 3600)",
}
_LATER = {
    "sqlite": "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '+' || {} || ' seconds')",
    "postgresql": "STATEMENT_TIMESTAMP() + MAKE_INTERVAL(secs => {})",
}
_NOW = {"sqlite": "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'now')", "postgresql": "STATEMENT_TIMESTAMP()"}
_SAME = {"sqlite": "IS", "postgresql": "IS NOT DISTINCT FROM"}

_LET_GO = "hash_claim_token = NULL, hash_claimed_at = NULL"
_NO_ERROR = "hash_error_count = 0, hash_last_error = NULL, hash_last_error_at = NULL, hash_retry_after = NULL"


@dataclass
class Results:
    """What was read and is not stored yet."""

    samples: list[tuple[Candidate, bytes | None]] = field(default_factory=list)
    #: With the sample that was taken on the way, if one was.
    digests: list[tuple[Candidate, bytes, bytes | None]] = field(default_factory=list)
    rehashes: list[tuple[Candidate, bytes]] = field(default_factory=list)
    failures: list[tuple[Candidate, str]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.samples) + len(self.digests) + len(self.rehashes) + len(self.failures)


class HashStore:
    """The statements for one consumer's claims."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.vendor = connections[EXECUTOR].vendor
        self.now = _NOW[self.vendor]

    def store(self, results: Results, algorithm: str, *, is_switching: bool = False) -> None:
        self._samples(results.samples)
        if is_switching:
            self._forget_rehashes([row for row, *_ in results.digests])
        self._digests(results.digests, algorithm)
        self._rehashes(results.rehashes)
        self._failures(results.failures)

    def _samples(self, rows: Sequence[tuple[Candidate, bytes | None]]) -> None:
        self._many(
            f"UPDATE library_files SET sample_hash = %s, {_NO_ERROR}, {_LET_GO}, updated_at = {self.now}",
            [(sample, *self._version(row)) for row, sample in rows],
        )

    def _digests(self, rows: Sequence[tuple[Candidate, bytes, bytes | None]], algorithm: str) -> None:
        no = "0" if self.vendor == "sqlite" else "false"
        self._many(
            f"UPDATE library_files SET hash_algorithm = '{algorithm}', content_hash = %s,"
            " sample_hash = COALESCE(%s, sample_hash), hashed_size_bytes = size_bytes, hashed_mtime_ns = mtime_ns,"
            f" hashed_at = {self.now}, needs_hash = {no}, {_NO_ERROR}, {_LET_GO}, updated_at = {self.now}",
            [(digest, sample, *self._version(row)) for row, digest, sample in rows],
        )

    def _forget_rehashes(self, rows: Sequence[Candidate]) -> None:
        """A file that is hashed anew by the algorithm in force has another content than the one that was rehashed."""
        with connections[EXECUTOR].cursor() as cursor:
            cursor.executemany("DELETE FROM rehashes WHERE file_id = %s", [(row.id,) for row in rows])

    def _rehashes(self, rows: Sequence[tuple[Candidate, bytes]]) -> None:
        """The digest by the next algorithm stands beside the file until the system switches."""
        self._many(
            "INSERT INTO rehashes (file_id, content_hash, size_bytes, mtime_ns)"
            " SELECT id, %s, size_bytes, mtime_ns FROM library_files",
            [(digest, *self._version(row)) for row, digest in rows],
            "ON CONFLICT (file_id) DO UPDATE SET content_hash = excluded.content_hash,"
            " size_bytes = excluded.size_bytes, mtime_ns = excluded.mtime_ns",
        )
        self._many(
            f"UPDATE library_files SET {_NO_ERROR}, {_LET_GO}, updated_at = {self.now}",
            [self._version(row) for row, _ in rows],
        )

    def _failures(self, rows: Sequence[tuple[Candidate, str]]) -> None:
        later = _LATER[self.vendor].format(_BACK_OFF[self.vendor])
        self._many(
            "UPDATE library_files SET hash_error_count = hash_error_count + 1, hash_last_error = %s,"
            f" hash_last_error_at = {self.now}, hash_retry_after = {later}, {_LET_GO}, updated_at = {self.now}",
            [(reason, *self._version(row)) for row, reason in rows],
        )

    def _version(self, row: Candidate) -> tuple[Any, ...]:
        return row.id, self.token, row.size, row.mtime_ns, row.ctime_ns

    def _many(self, sql: str, rows: Sequence[tuple[Any, ...]], ending: str = "") -> None:
        if not rows:
            return
        # "IS TRUE", so that PostgreSQL looks for the row by its id: many rows have one token, and it would take the
        # index of tokens and go through all of them for each.
        still = (
            "WHERE id = %s AND (hash_claim_token = %s) IS TRUE AND size_bytes = %s AND mtime_ns = %s"
            f" AND ctime_ns {_SAME[self.vendor]} %s"
        )
        with connections[EXECUTOR].cursor() as cursor:
            cursor.executemany(f"{sql} {still} {ending}", rows)
