"""I/O budgets over all consumers: one row of `io_rate_limits` for each bucket, a virtual clock.

What was read moves the bucket's clock on by the time it may take; whoever read it waits until the clock is reached.
Each byte is charged once, after it was read. A limit of 0 is no limit, and needs no row.
"""

from __future__ import annotations

from django.db import connections

from database.routing import EXECUTOR
from jobs.enforcing import transaction_on

#: A bucket is never further ahead than this: a clock that was set back would else hold it up for as long.
MOST_SECONDS = 3600
#: A meter charges so many times a second at the most, so that small reads don't cost a statement each.
CHARGES_A_SECOND = 8
LEAST_STRIDE, MOST_STRIDE = 64 << 10, 16 << 20

_NOW_MS = {
    "sqlite": "CAST((JULIANDAY('now') - 2440587.5) * 86400000 AS INTEGER)",
    "postgresql": "CAST(EXTRACT(EPOCH FROM CLOCK_TIMESTAMP()) * 1000 AS bigint)",
}
_LARGER = {"sqlite": "MAX", "postgresql": "GREATEST"}
_SMALLER = {"sqlite": "MIN", "postgresql": "LEAST"}


def charge(bucket: str, amount: int, limit: int) -> float:
    """Charge `amount` bytes to a bucket of `limit` bytes a second; return the seconds to wait until they are paid."""
    if limit <= 0 or amount <= 0:
        return 0.0
    with transaction_on("reserve"), connections[EXECUTOR].cursor() as cursor:
        sql = _advance()
        parameters: tuple[int, int, str] = (amount, limit, bucket)
        cursor.execute(sql, parameters)
        moved = cursor.fetchall()
        if not moved:
            cursor.execute("INSERT INTO io_rate_limits (bucket_key) VALUES (%s) ON CONFLICT DO NOTHING", [bucket])
            cursor.execute(sql, parameters)
            moved = cursor.fetchall()
    return max(float(moved[0][0]), 0.0) / 1000


def _advance() -> str:
    vendor = connections[EXECUTOR].vendor
    now, ahead = _NOW_MS[vendor], f"{_NOW_MS[vendor]} + {MOST_SECONDS * 1000}"
    start = f"{_LARGER[vendor]}({_SMALLER[vendor]}(next_available_at_ms, {ahead}), {now})"
    return (
        f"UPDATE io_rate_limits SET next_available_at_ms = {start} + %s * CAST(1000 AS bigint) / %s,"
        f" updated_at = CURRENT_TIMESTAMP WHERE bucket_key = %s RETURNING next_available_at_ms - {now}"
    )


class Meter:
    """Charges one bucket in steps that are worth a statement."""

    def __init__(self, bucket: str, limit: int) -> None:
        self.bucket, self.limit = bucket, limit
        self._owed = 0

    @property
    def stride(self) -> int:
        """How much may be read before the budget is asked."""
        return min(max(self.limit // CHARGES_A_SECOND, LEAST_STRIDE), MOST_STRIDE) if self.limit > 0 else 0

    def read(self, amount: int) -> float:
        """Note bytes that were read; return the seconds to wait before more are."""
        self._owed += amount if self.limit > 0 else 0
        return self.settle() if self._owed >= self.stride else 0.0

    def settle(self) -> float:
        """Charge what was read and not charged yet."""
        owed, self._owed = self._owed, 0
        return charge(self.bucket, owed, self.limit)
