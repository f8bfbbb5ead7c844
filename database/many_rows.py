"""Many new rows in the way that each database takes them quickest: SQLite by few statements, PostgreSQL by COPY. One
statement for each row takes three times as long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from database.portions import portions

#: Rows of one statement on SQLite.
TOGETHER = 250


def insert_together(connection: BaseDatabaseWrapper, into: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """`into` is a table and its columns, as in "names (id, name)"."""
    if not rows:
        return
    connection.ensure_connection()
    # By the driver's own cursor: Django's would look for marks in each statement anew.
    with connection.wrap_database_errors, closing(connection.connection.cursor()) as cursor:
        if connection.vendor != "sqlite":
            with cursor.copy(f"COPY {into} FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
            return
        one = f"({', '.join(['?'] * len(rows[0]))})"
        for some in portions(rows, TOGETHER):
            cursor.execute(f"INSERT INTO {into} VALUES {', '.join([one] * len(some))}", list(chain.from_iterable(some)))


@contextmanager
def savepoint(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """For scratch tables of SQLite, outside a transaction: else each statement would be one, and one of Django's would
    lock all other writers out."""
    connection.ensure_connection()
    connection.connection.execute("SAVEPOINT scratch_rows")
    try:
        yield
    except BaseException:
        # Left open, it would keep all other writers waiting, and the outcome of the job with them. Some errors end it.
        if connection.connection.in_transaction:
            connection.connection.execute("ROLLBACK TO scratch_rows")
            connection.connection.execute("RELEASE scratch_rows")
        raise
    connection.connection.execute("RELEASE scratch_rows")
