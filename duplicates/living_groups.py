"""Which groups there are still, for rooms below that keep something for each."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection

from database.portions import portions
from duplicates.cursors import BadGroupKey, parse_group_key
from duplicates.models import group_key
from duplicates.summary import bring_up_to_date

#: Counting may take so long here; the rest is left for another time.
SECONDS = 1.0
#: Digests that are asked for in one statement.
BATCH = 300


def living_among(keys: Sequence[str]) -> set[str] | None:
    """Those of the keys that are groups of equal files now; None while not all changes are counted."""
    if not bring_up_to_date(seconds=SECONDS):
        return None
    found: set[str] = set()
    for some in portions(keys, BATCH):
        found |= _among(some)
    return found


def _among(keys: Sequence[str]) -> set[str]:
    digests = []
    for key in keys:
        try:
            digests.append(parse_group_key(key))
        except BadGroupKey:
            continue  # no group of ours: nobody needs its pictures
    if not digests:
        return set()
    marks = ", ".join(["(%s, %s)"] * len(digests))
    # SQLite would go through the whole index for `IN (VALUES …)`.
    join = "CROSS JOIN" if connection.vendor == "sqlite" else "JOIN"
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT g.hash_algorithm, g.content_hash FROM (VALUES {marks}) AS asked {join} duplicate_groups g"
            " ON g.hash_algorithm = asked.column1 AND g.content_hash = asked.column2",
            [part for digest in digests for part in digest],
        )
        return {group_key(algorithm, digest) for algorithm, digest in cursor.fetchall()}
