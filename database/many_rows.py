"""Many new rows by few statements: one for each row takes three times as long, on both databases."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from itertools import chain
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from database.portions import portions

#: Rows of one statement.
TOGETHER = 250


def insert_together(connection: BaseDatabaseWrapper, into: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """`into` is the statement up to its VALUES. Call it inside a transaction, or each portion is one of its own."""
    if not rows:
        return
    is_sqlite = connection.vendor == "sqlite"
    one = f"({', '.join(['?' if is_sqlite else '%s'] * len(rows[0]))})"
    connection.ensure_connection()
    with connection.wrap_database_errors, closing(connection.connection.cursor()) as cursor:
        for some in portions(rows, TOGETHER):
            # By the driver's own cursor: Django's would look for the marks in each statement anew.
            cursor.execute(f"{into} VALUES {', '.join([one] * len(some))}", list(chain.from_iterable(some)))
