"""What only the logbook knows, also of rows that are gone: how often something happened, ever."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection

from database.objects import DatabaseObject


@dataclass(frozen=True)
class EventCount:
    """Events of one sort, counted by one of their columns. An index of their own holds them, and nothing else.

    `condition` is written out, without parameters: SQLite uses a partial index only for one that it can see.
    """

    name: str
    column: str
    condition: str

    @property
    def objects(self) -> list[DatabaseObject]:
        index = f"ix_logbook_events_{self.name}"
        create = f"CREATE INDEX {index} ON logbook_events ({self.column}) WHERE {self.condition}"
        return [DatabaseObject(vendor, "INDEX", index, create) for vendor in ("sqlite", "postgresql")]

    def count(self) -> dict[str, int]:
        """The logbook only grows, so these figures do too."""
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT {self.column}, COUNT(*) FROM logbook_events WHERE {self.condition} GROUP BY {self.column}"
            )
            return {str(value): int(count) for value, count in cursor.fetchall()}
