"""What became of an old database's rows: the report of an adoption."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: How many rows of a kind are named; the old file holds them all.
NAMED = 20


@dataclass(frozen=True)
class Recovered:
    """An active row that had to make room for the one that stays active."""

    table: str
    id: str
    was: str
    error_code: str
    kept_active: str

    @property
    def message(self) -> str:
        return f"It was {self.was} beside {self.kept_active} when this database was adopted; only one may be."


@dataclass
class Note:
    """Rows of one table of which the same is to be told."""

    rows: int = 0
    ids: list[str] = field(default_factory=list)

    def add(self, key: Any) -> None:
        self.rows += 1
        if len(self.ids) < NAMED:
            self.ids.append(str(key))


#: By table, then by what is told.
Notes = dict[str, dict[str, Note]]


@dataclass
class Tally:
    """What was found, what was copied, and what a person should know."""

    found: dict[str, int] = field(default_factory=dict)
    copied: dict[str, int] = field(default_factory=dict)
    left_out: Notes = field(default_factory=dict)
    changed: Notes = field(default_factory=dict)
    recovered: list[Recovered] = field(default_factory=list)
    unknown_tables: list[str] = field(default_factory=list)
    unknown_columns: dict[str, list[str]] = field(default_factory=dict)

    def leave_out(self, table: str, key: Any, why: str) -> None:
        self.left_out.setdefault(table, {}).setdefault(why, Note()).add(key)

    def change(self, table: str, key: Any, what: str) -> None:
        self.changed.setdefault(table, {}).setdefault(what, Note()).add(key)

    def rows_left_out(self, table: str) -> int:
        return sum(note.rows for note in self.left_out.get(table, {}).values())
