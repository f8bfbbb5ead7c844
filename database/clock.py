"""Times are taken and compared inside the database: one clock for every process and machine.

On SQLite a time is text, and texts of different precision are never equal; so no time that went through
Python is ever compared with one in a column.
"""

from __future__ import annotations

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import DateTimeField, Func
from django.db.models.functions import Now
from django.db.models.sql.compiler import SQLCompiler

__all__ = ["Now", "SecondsFromNow"]

_Sql = tuple[str, list[Any]]


class SecondsFromNow(Func):
    """The database's time in `seconds` from now (before now where negative)."""

    output_field = DateTimeField()

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = float(seconds)

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any) -> _Sql:  # type: ignore[override]
        return "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'now', %s)", [f"{self.seconds:+.3f} seconds"]

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any) -> _Sql:
        return "STATEMENT_TIMESTAMP() + MAKE_INTERVAL(secs => %s)", [self.seconds]
