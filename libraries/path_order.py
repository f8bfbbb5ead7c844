"""Files in the order of their paths, found along the index that each database has for it.

A PostgreSQL btree can't hold a path of 4,000 bytes, so there the index holds the beginnings of paths (`BEGINNING`), and
a statement asks for both: for the beginnings, which the index finds, and for the paths themselves, which decide. A path
that comes before another one never begins with something that comes after the other's beginning, so nothing is missed.
Paths are compared by their characters' numbers, as Python compares them, whatever the language of the database is.
"""

from __future__ import annotations

from typing import Any

#: Characters of a path in PostgreSQL's index: 2,000 bytes at the most, and a btree takes 2,700.
CHARACTERS = 500
BEGINNING = f'LEFT(relative_path, {CHARACTERS}) COLLATE "C"'

#: A text with what is put into its placeholders.
Sql = tuple[str, list[Any]]


def bounds_of(folder: str) -> tuple[str, str | None]:
    """Everything below a folder comes from the first on and before the second; None is the end of the library."""
    # "0" comes right after "/".
    return (f"{folder}/", f"{folder}0") if folder else ("", None)


def between(library: int, start: str, end: str | None, vendor: str) -> Sql:
    """Files of a library from a path on, up to but without another one, as a condition over `library_files`."""
    parts = ["library_id = %s"]
    values: list[Any] = [library]
    path = "relative_path" if vendor == "sqlite" else 'relative_path COLLATE "C"'
    for sign, bound in ((">=", start), ("<", end)):
        if not bound:
            continue
        parts.append(f"{path} {sign} %s")
        values.append(bound)
        if vendor != "sqlite":
            parts.append(f"{BEGINNING} {sign.rstrip('=')}= %s")
            values.append(bound[:CHARACTERS])
    return " AND ".join(parts), values


def by_path(vendor: str) -> str:
    """To order by: what stands first on PostgreSQL changes no order, and is what its index is sorted by."""
    return "relative_path" if vendor == "sqlite" else f'{BEGINNING}, relative_path COLLATE "C"'
