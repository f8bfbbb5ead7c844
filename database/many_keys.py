"""Many whole numbers in one statement, as one parameter: `f"… WHERE id {among(alias)}"` with `keys(alias, …)`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import connections

#: PostgreSQL looks a key up among the numbers by a hash only where both are of one type; else it compares it with each.
_AMONG = {"sqlite": "IN (SELECT value FROM json_each(%s))", "postgresql": "= ANY(%s::bigint[])"}


def among(alias: str) -> str:
    return _AMONG[connections[alias].vendor]


def keys(alias: str, numbers: Iterable[int]) -> Any:
    """The parameter that belongs to it."""
    if connections[alias].vendor == "sqlite":
        return f"[{','.join(map(str, numbers))}]"
    return list(numbers)
