"""Transactions that outlive a power cut the moment they are committed.

For most of what is written here the last commits may be lost in one: they are done again. Not so what was done to
people's files, and not so a person's word that something is to stop.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from database.routing import POLICY

#: Only where a deployment has turned it off: what is stricter than "on" stays so.
_WAIT = "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"


@contextmanager
def durable_transaction() -> Iterator[None]:
    """One of policy's. Inside of another it belongs to that one, which is as durable as it was begun."""
    connection = connections[POLICY]
    with _full(connection), transaction.atomic(using=POLICY):
        wait_for_disk(connection)
        yield


def wait_for_disk(connection: BaseDatabaseWrapper) -> None:
    """Let the transaction in hand be on PostgreSQL's disk when it is committed."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(_WAIT)


@contextmanager
def _full(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """SQLite takes this only outside of a transaction."""
    if connection.vendor != "sqlite" or connection.in_atomic_block:
        yield
        return
    _set_synchronous(connection, "FULL")
    try:
        yield
    finally:
        if connection.connection is not None:
            _set_synchronous(connection, "NORMAL")


def _set_synchronous(connection: BaseDatabaseWrapper, mode: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA synchronous={mode}")
