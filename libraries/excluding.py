"""What is left out of a library."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from fnmatch import translate
from typing import Any

#: Never part of a library, whatever its list says: a trashed file is nobody's keeper.
TRASH = b".dedupfs-trash"

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
    against each name on the way; whatever is below an excluded folder is excluded with it."""

    def __init__(self, patterns: Iterable[str] = DEFAULT_PATTERNS) -> None:
        patterns = [pattern.strip() for pattern in patterns if pattern.strip()]
        names = [pattern for pattern in patterns if "/" not in pattern]
        self._plain = {os.fsencode(name) for name in names if not _has_wildcard(name)} | {TRASH}
        self._names = _matcher(name for name in names if _has_wildcard(name))
        self._paths = _matcher(pattern.strip("/") for pattern in patterns if "/" in pattern)

    def cover(self, name: bytes, path: bytes) -> bool:
        if name in self._plain:
            return True
        if self._names is not None and self._names(name):
            return True
        return self._paths is not None and self._paths(path) is not None


def _has_wildcard(pattern: str) -> bool:
    return any(sign in pattern for sign in "*?[")


def _matcher(patterns: Iterable[str]) -> Callable[[bytes], Any] | None:
    joined = "|".join(translate(pattern) for pattern in patterns)
    return re.compile(os.fsencode(joined)).match if joined else None
