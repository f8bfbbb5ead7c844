"""The kinds of keep rules, and how each is written as JSON, for example
`{"kind": "keep_in", "folders": [{"library": 3, "path": "2019"}]}`.

A rule can do three things. It can *hold* files: they stay, wherever the rule stands in the order. It can *rank* files:
of two copies the one with the smaller rank goes before the other. And it can say how many copies are *wanted*.

A folder is known by its library's id, so renaming a library changes no rule, and by its path below it as it is stored;
no path is the whole library. A library that is gone holds no files, so its folder simply has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property
from typing import Any, ClassVar, Self

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from duplicates.facts import FileFacts
from libraries.names import to_display

MOST_FOLDERS = 100
MOST_COPIES = 1000
PATTERN_CHARACTERS = 255
PATH_CHARACTERS = 4096
LARGEST_ID = 2**63 - 1
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class WrongRule(ValueError):
    """A rule that can't be used; its text says why."""


@dataclass(frozen=True)
class Folder:
    library: int
    path: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"library": self.library, "path": self.path}

    @classmethod
    def read(cls, given: Any) -> Self:
        if not isinstance(given, dict) or set(given) - {"library", "path"}:
            raise WrongRule(_("A folder is written as an object with “library” and “path”."))
        library, path = given.get("library"), given.get("path", "")
        if isinstance(library, bool) or not isinstance(library, int) or not 0 < library <= LARGEST_ID:
            raise WrongRule(_("A folder's library is the library's number."))
        if not isinstance(path, str) or len(path) > PATH_CHARACTERS:
            raise WrongRule(_("A folder's path is text of at most %(most)d characters.") % {"most": PATH_CHARACTERS})
        _check_text(path)
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts or path.startswith("/"):
            shown = to_display(path[:200])
            raise WrongRule(_("%(path)s: write the path below the library, without “..”.") % {"path": shown})
        return cls(library, "/".join(parts))


def _check_text(text: str) -> None:
    """Refuse what no database stores and no name holds."""
    if _UNSTORABLE.search(text):
        shown = to_display(text[:200].encode(errors="replace").decode())
        raise WrongRule(_("“%(text)s” holds a character that no name has.") % {"text": shown})


class Rule:
    """One rule. What a kind doesn't say of itself, it doesn't do."""

    kind: ClassVar[str]
    label: ClassVar[Any]
    #: What it needs besides its kind: the name of a field, or "" for nothing.
    takes: ClassVar[str] = ""
    does_hold: ClassVar[bool] = False
    does_rank: ClassVar[bool] = False
    #: A set has at most one of these.
    is_single: ClassVar[bool] = False

    def holds(self, file: FileFacts) -> bool:
        """Whether the file stays in any case."""
        raise NotImplementedError

    def rank(self, file: FileFacts) -> int:
        """Smaller goes first."""
        raise NotImplementedError

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, **self._fields()}

    def _fields(self) -> dict[str, Any]:
        return {}

    @classmethod
    def read(cls, given: dict[str, Any]) -> Self:
        unknown = sorted(str(key)[:40] for key in set(given) - {"kind", cls.takes})
        if unknown:
            words = _("A rule of the kind %(kind)s has no %(fields)s.")
            raise WrongRule(words % {"kind": cls.kind, "fields": ", ".join(unknown)})
        return cls._read(given.get(cls.takes))

    @classmethod
    def _read(cls, _value: Any) -> Self:
        return cls()


# --- By folder ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class FolderRule(Rule):
    folders: tuple[Folder, ...]
    takes = "folders"

    @cached_property
    def _starts(self) -> list[tuple[int, str]]:
        return [(folder.library, f"{folder.path}/" if folder.path else "") for folder in self.folders]

    def position(self, file: FileFacts) -> int:
        """Which of the folders is the first that holds it; past the last where none does. Asked of every file."""
        library, path = file.place.id, file.path
        position = 0
        for of_library, start in self._starts:
            if library == of_library and path.startswith(start):
                return position
            position += 1
        return position

    def is_inside(self, file: FileFacts) -> bool:
        return self.position(file) < len(self.folders)

    def folder_of(self, file: FileFacts) -> Folder | None:
        return self.folders[self.position(file)] if self.is_inside(file) else None

    def _fields(self) -> dict[str, Any]:
        return {"folders": [folder.as_json() for folder in self.folders]}

    @classmethod
    def _read(cls, value: Any) -> Self:
        if not isinstance(value, list) or not value:
            raise WrongRule(_("Name at least one folder."))
        if len(value) > MOST_FOLDERS:
            words = _("A rule may name %(most)d folders; this one names %(count)d.")
            raise WrongRule(words % {"most": MOST_FOLDERS, "count": len(value)})
        return cls(tuple(dict.fromkeys(Folder.read(each) for each in value)))


class KeepIn(FolderRule):
    kind = "keep_in"
    label = gettext_lazy("Keep in folders")
    does_rank = True

    rank = FolderRule.position


class NeverTouch(FolderRule):
    kind = "never_touch"
    label = gettext_lazy("Never touch folders")
    does_hold = True

    holds = FolderRule.is_inside


class RemoveOnlyUnder(FolderRule):
    """It holds what lies elsewhere; and where it stands in the order, what lies elsewhere goes before what may go."""

    kind = "remove_only_under"
    label = gettext_lazy("Remove only under folders")
    does_hold = True
    does_rank = True

    def holds(self, file: FileFacts) -> bool:
        return not self.is_inside(file)

    def rank(self, file: FileFacts) -> int:
        return 1 if self.is_inside(file) else 0


# --- By what the file is ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class PlainRule(Rule):
    does_rank = True


class KeepOldest(PlainRule):
    kind = "keep_oldest"
    label = gettext_lazy("Keep the oldest")

    def rank(self, file: FileFacts) -> int:
        return file.mtime_ns


class KeepNewest(PlainRule):
    kind = "keep_newest"
    label = gettext_lazy("Keep the newest")

    def rank(self, file: FileFacts) -> int:
        return -file.mtime_ns


def path_characters(file: FileFacts) -> int:
    """How long the whole path is, from the root of the machine."""
    return len(file.place.root_path) + 1 + len(file.path)


class KeepShortestPath(PlainRule):
    kind = "keep_shortest_path"
    label = gettext_lazy("Keep the shortest path")

    def rank(self, file: FileFacts) -> int:
        return path_characters(file)


class KeepLongestPath(PlainRule):
    kind = "keep_longest_path"
    label = gettext_lazy("Keep the longest path")

    def rank(self, file: FileFacts) -> int:
        return -path_characters(file)


class KeepMostLinks(PlainRule):
    kind = "keep_most_links"
    label = gettext_lazy("Keep the one with most hard links")

    def rank(self, file: FileFacts) -> int:
        return -(file.links or 1)


@dataclass(frozen=True)
class NameRule(Rule):
    """A pattern with `*`, `?` and `[…]` on the whole name, capitals or not. No regular expressions: some of them never
    come to an end, and `fnmatch` writes its own so that they do."""

    pattern: str
    takes = "pattern"
    does_rank = True

    @cached_property
    def _match(self) -> Callable[[str], object]:
        return re.compile(translate(self.pattern), re.IGNORECASE).match

    def fits(self, file: FileFacts) -> bool:
        return self._match(file.path.rpartition("/")[2]) is not None

    def _fields(self) -> dict[str, Any]:
        return {"pattern": self.pattern}

    @classmethod
    def _read(cls, value: Any) -> Self:
        if not isinstance(value, str) or not value:
            raise WrongRule(_("Write a pattern, like *.jpg or IMG_*."))
        if len(value) > PATTERN_CHARACTERS:
            words = _("A pattern may have %(most)d characters; this one has %(count)d.")
            raise WrongRule(words % {"most": PATTERN_CHARACTERS, "count": len(value)})
        _check_text(value)
        if "/" in value:
            raise WrongRule(_("A pattern is about the name alone: leave out the slash, or use a rule about folders."))
        return cls(value)


class KeepName(NameRule):
    kind = "keep_name"
    label = gettext_lazy("Keep names like")

    def rank(self, file: FileFacts) -> int:
        return 0 if self.fits(file) else 1


class AvoidName(NameRule):
    kind = "avoid_name"
    label = gettext_lazy("Rather not keep names like")

    def rank(self, file: FileFacts) -> int:
        return 1 if self.fits(file) else 0


# --- How many -----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class KeepCopies(Rule):
    count: int
    kind = "keep_copies"
    label = gettext_lazy("Keep so many copies")
    takes = "count"
    is_single = True

    def _fields(self) -> dict[str, Any]:
        return {"count": self.count}

    @classmethod
    def _read(cls, value: Any) -> Self:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_COPIES:
            raise WrongRule(_("Write how many copies stay: a number from 1 to %(most)d.") % {"most": MOST_COPIES})
        return cls(value)


@dataclass(frozen=True)
class KeepPer(Rule):
    per: str
    kind = "keep_per"
    label = gettext_lazy("Keep one in each")
    takes = "per"
    is_single = True

    def part_of(self, file: FileFacts) -> Any:
        return file.place.id if self.per == "library" else filesystem_of(file)

    def _fields(self) -> dict[str, Any]:
        return {"per": self.per}

    @classmethod
    def _read(cls, value: Any) -> Self:
        if value not in ("library", "filesystem"):
            raise WrongRule(_("One in each “library” or one in each “filesystem”."))
        return cls(value)


def filesystem_of(file: FileFacts) -> tuple[str, Any]:
    """Equal where two files surely lie on one filesystem. Of a file whose filesystem is unknown nothing is sure."""
    if name := file.place.filesystem_of(file.path):
        return ("name", name)
    return ("device", file.device) if file.device is not None else ("file", file.id)


#: In the order in which pages offer them.
KINDS: dict[str, type[Rule]] = {
    each.kind: each
    for each in (
        KeepIn,
        NeverTouch,
        RemoveOnlyUnder,
        KeepOldest,
        KeepNewest,
        KeepShortestPath,
        KeepLongestPath,
        KeepName,
        AvoidName,
        KeepMostLinks,
        KeepCopies,
        KeepPer,
    )
}
