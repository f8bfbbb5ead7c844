"""Columns that Django doesn't have."""

from __future__ import annotations

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper


class PlainAutoField(models.BigAutoField):  # type: ignore[type-arg]  # it takes none when it runs
    """Numbers that may come again once their rows are gone.

    For any other SQLite keeps a sequence, and brings it up to date for every row that a trigger writes: that would cost
    more than the row.
    """

    def db_type_suffix(self, connection: BaseDatabaseWrapper) -> str | None:
        return None if connection.vendor == "sqlite" else super().db_type_suffix(connection)
