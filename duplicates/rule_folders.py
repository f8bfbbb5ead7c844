"""Folders in rules as people write them: "library/path below it", one a line, or an absolute path inside a library.

Sets hold the library's id (`duplicates.rule_kinds`), so a renamed library keeps its rules. What leaves this machine as
a file names the library instead: an id means another library elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from duplicates.rule_kinds import Folder, WrongRule
from libraries.models import LibraryRoot
from libraries.names import to_bytes, to_display, to_text

#: `\\xe9` is a byte that is no text or can't be typed on a line; `\\\\` is a backslash.
_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|\\)")
_UNTYPABLE = re.compile("[\\\\\\x00-\\x1f\\x7f\uf780-\uf7ff]|\\A | \\Z")
#: A library by its number.
_GONE = re.compile(r"#(\d{1,18})(?:/|\Z)")


class Libraries:
    """The libraries there are, by id, name and path."""

    def __init__(self, libraries: Sequence[LibraryRoot] | None = None) -> None:
        found = LibraryRoot.objects.kept() if libraries is None else libraries
        self.names = {library.pk: library.name for library in found}
        self.ids = {library.name: library.pk for library in found}
        # The longest first: a library's name may hold a slash, and one name may begin another.
        by_length = sorted(found, key=lambda library: len(library.name), reverse=True)
        self._starts = [(library.name, library.pk) for library in by_length]
        self._starts += [(library.root_path.rstrip("/"), library.pk) for library in by_length]

    def read_line(self, line: str) -> Folder:
        """Raises `WrongRule` where no library is meant, or the path leaves it."""
        for start, library in self._starts:
            if line == start or line.startswith(f"{start}/"):
                return Folder.read({"library": library, "path": _unescaped(line[len(start) :].lstrip("/"))})
        if gone := _GONE.match(line):
            return Folder.read({"library": int(gone[1]), "path": _unescaped(line[gone.end() :])})
        words = _("%(line)s: begin with the name of a library, like %(example)s.")
        example = to_display(next(iter(self.ids), _("Photos")))
        raise WrongRule(words % {"line": to_display(line[:200]), "example": f"{example}/2019"})

    def write_line(self, folder: Folder) -> str:
        """What `read_line` reads as this folder; where the name doesn't say it, by the library's number."""
        path = f"/{_escaped(folder.path)}" if folder.path else ""
        name = self.names.get(folder.library)
        if name is not None and self.read_line(f"{name}{path}") == folder:
            return f"{name}{path}"
        # Gone; or "Photos/Old" in a place where there is a library of that name as well.
        return f"#{folder.library}{path}"


def _escaped(path: str) -> str:
    """Control characters, bytes that are no text, and spaces at an end as escapes."""
    return _UNTYPABLE.sub(lambda found: _escape(found[0]), path)


def _escape(character: str) -> str:
    return "\\\\" if character == "\\" else f"\\x{to_bytes(character)[0]:02x}"


def _unescaped(text: str) -> str:
    raw = to_bytes(text)
    return to_text(_ESCAPE.sub(lambda found: bytes([int(found[1], 16)]) if found[1] else b"\\", raw))


# --- As a file ----------------------------------------------------------------------------------------------
def with_names(rules: Sequence[Mapping[str, Any]], names: Mapping[int, str]) -> list[dict[str, Any]]:
    """Rules for another machine: each folder names its library. One that is gone keeps its number."""
    return _with_libraries(rules, lambda library: names.get(library, library))


def with_ids(rules: Any, ids: Mapping[str, int]) -> Any:
    """Rules as they are stored; whatever is no rule is left for `rules.parse` to refuse."""
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        return rules

    def number(library: Any) -> Any:
        if not isinstance(library, str):
            return library
        if library not in ids:
            raise WrongRule(_("There is no library “%(name)s”.") % {"name": to_display(library[:200])})
        return ids[library]

    return _with_libraries(rules, number)


def _with_libraries(rules: Sequence[Mapping[str, Any]], change: Any) -> list[dict[str, Any]]:
    changed = []
    for rule in rules:
        folders = rule.get("folders")
        if isinstance(folders, list):
            folders = [
                {**each, "library": change(each.get("library"))} if isinstance(each, dict) else each for each in folders
            ]
            rule = {**rule, "folders": folders}
        changed.append(dict(rule))
    return changed
