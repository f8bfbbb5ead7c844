"""What is left out of a library."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from fnmatch import translate
from typing import Any

#: Never part of a library, whatever its list says: a trashed file is nobody's keeper.
TRASH = ".dedupfs-trash"
#: In it, beside the folders of the acts: what its lock is on. It holds nothing.
TRASH_LOCK = "lock"

#: Nor are links that are on their way to take a file's place.
LINK_ENDING = ".dedupfs-link"

#: What a new library leaves out: thumbnails, recycle bins, snapshots and databases that other programs keep beside
#: people's files.
DEFAULT_PATTERNS = (
    "@eaDir",
    "#recycle",
    "$RECYCLE.BIN",
    "lost+found",
    ".snapshots",
    ".zfs",
    ".stversions",
    ".git",
    "*.photoslibrary",
    "*.lrdata",
)


class Exclusions:
    """Patterns with `*`, `?` and `[…]`. One with a slash is matched against the path below the library, others
    against each name on the way; whatever is below an excluded folder is excluded with it.

    Names and paths are text as `os.fsdecode` makes it. Each is asked about once for every file there is, so the plain
    cases are looked up in a set and only the rest is matched.
    """

    def __init__(self, patterns: Iterable[str] = DEFAULT_PATTERNS) -> None:
        patterns = [pattern.strip() for pattern in patterns if pattern.strip()]
        names = [pattern for pattern in patterns if "/" not in pattern]
        endings = {name for name in names if name[0] == "*" and len(name) > 1 and not _has_wildcard(name[1:])}
        self.plain = frozenset({name for name in names if not _has_wildcard(name)} | {TRASH})
        self.endings = (LINK_ENDING, *(ending[1:] for ending in endings))
        self._names = _matcher(name for name in names if _has_wildcard(name) and name not in endings)
        self._paths = _matcher(pattern.strip("/") for pattern in patterns if "/" in pattern)
        #: Whether `plain` and `endings` say it all.
        self.is_simple = self._names is None and self._paths is None

    def cover(self, name: str, path: str) -> bool:
        if name in self.plain or name.endswith(self.endings):
            return True
        if self._names is not None and self._names(name):
            return True
        return self._paths is not None and self._paths(path) is not None

    def cover_below(self, path: str) -> bool:
        """Whether a file at `path` is left out, by itself or with a folder on its way."""
        parts = path.split("/")
        return any(self.cover(part, "/".join(parts[: depth + 1])) for depth, part in enumerate(parts))


def _has_wildcard(pattern: str) -> bool:
    return any(sign in pattern for sign in "*?[")


def _matcher(patterns: Iterable[str]) -> Callable[[str], Any] | None:
    # A pattern is typed as text and may stand for a name that is none: both sides are read the way names are.
    joined = "|".join(translate(os.fsdecode(pattern.encode())) for pattern in patterns)
    return re.compile(joined).match if joined else None
