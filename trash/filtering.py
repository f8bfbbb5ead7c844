"""Which files of the trash a page shows: the filter that stands in its address, and what it is in SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.utils.translation import gettext as _

from duplicates.filtering import BadFilter, Filter, Sql

__all__ = ["BadFilter", "TrashFilter"]

#: By their content. The offset says nothing, but keeps PostgreSQL from reading the whole index instead of a few files.
_HAS_COPY = """EXISTS (SELECT 1 FROM library_files f
  WHERE f.hash_algorithm = p.hash_algorithm AND f.content_hash = p.content_hash AND f.content_hash IS NOT NULL
    AND NOT f.is_missing AND NOT f.needs_hash LIMIT 1 OFFSET 0)"""
#: Once the libraries have another algorithm no digests can be compared: then the one that stayed, as it was, will do.
_HAS_KEEPER = """EXISTS (SELECT 1 FROM plan_files k JOIN library_files f ON f.id = k.file_id
  WHERE k.id = p.keeper_id AND f.hash_algorithm <> p.hash_algorithm AND NOT f.is_missing
    AND f.size_bytes = k.size_bytes AND f.mtime_ns = k.mtime_ns LIMIT 1 OFFSET 0)"""
#: Of a row `i` of the trash and its file `p`: the index knows no file outside every trash that has its content.
NO_COPY = f"NOT {_HAS_COPY} AND NOT {_HAS_KEEPER}"
#: Of a stray nothing is known, so no copy either.
IS_LAST = f"(i.is_last_copy OR i.stray_size_bytes IS NOT NULL OR ({NO_COPY}))"


@dataclass(frozen=True)
class TrashFilter:
    """Which files: all that is said has to hold."""

    library: int | None = None
    #: They came from below this folder of that library: a path from its root, as it is stored.
    folder: str = ""
    plan: int | None = None
    #: Only those of whose content no other copy is known.
    last: bool = False

    @classmethod
    def parse(cls, params: Mapping[str, Any]) -> TrashFilter:
        """What an address says. Raises `BadFilter` with words for whoever wrote it."""
        place = Filter.parse({name: params.get(name) or "" for name in ("library", "folder")})
        return cls(place.library, place.folder, _plan(params.get("plan") or ""), bool(params.get("last")))

    def query(self) -> str:
        said = {"library": self.library, "folder": self.folder, "plan": self.plan, "last": int(self.last)}
        return urlencode({name: value for name, value in said.items() if value})

    def selection(self) -> dict[str, Any] | None:
        """The same as `trash.choosing_items` would say it; None where it can't."""
        if self.last or (self.plan and self.library):
            return None
        if self.plan:
            return {"plan": self.plan}
        return {"folder": [self.library, self.folder]} if self.library else {"all": True}

    def conditions(self) -> Sql:
        """Of a row `i` of `trash_items` and its row `p` of `plan_files`; "" where everything is meant."""
        parts: list[str] = []
        values: list[Any] = []
        if self.library:
            parts.append("i.library_id = %s")
            values.append(self.library)
        if self.folder:
            # No LIKE: SQLite's takes upper and lower case for the same.
            parts.append("SUBSTR(p.relative_path, 1, %s) = %s")
            values += [len(self.folder) + 1, f"{self.folder}/"]
        if self.plan:
            parts.append("p.plan_id = %s")
            values.append(self.plan)
        if self.last:
            parts.append(IS_LAST)
        return " AND ".join(parts), values


def _plan(text: object) -> int | None:
    said = str(text)
    if not said:
        return None
    if not (said.isascii() and said.isdecimal() and len(said) <= 18 and int(said)):
        raise BadFilter(_("A plan is chosen by its number, not by “%(text)s”.") % {"text": said[:80]})
    return int(said)
