"""Choosing a folder on the server: what is shown of the folders below the libraries' roots, and which can be added.

A folder is named by the hex digits of its whole path, in addresses and in forms alike: names are bytes, and not all of
them are text. Showing one asks its disk in a process of its own with a time limit (`libraries.asking`). What is marked
here is for the eye; `libraries.adding` checks everything again when a folder is added.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.utils.translation import gettext as _

from libraries import asking, mounts
from libraries.asking import Look, Question
from libraries.browsing import names_below
from libraries.errors import Refused
from libraries.excluding import TRASH, Exclusions
from libraries.models import LibraryRoot
from libraries.names import to_bytes, to_display, to_text

#: A longer path doesn't fit into an address, which servers cut at 4 kB.
MOST_BYTES = 1_800
NAME_CHARACTERS = 120
_HEX = re.compile("(?:[0-9a-f]{2})+")


class NoSuchFolder(Refused):
    """What was sent names no folder below the libraries' roots."""


@dataclass(frozen=True)
class Crumb:
    """A folder on the way from a root to the one that is open."""

    label: str
    key: str


@dataclass(frozen=True)
class Folder:
    """One that lies in the open folder. `note` says why it is special."""

    name: str
    key: str
    note: str = ""
    can_open: bool = True


@dataclass(frozen=True)
class Picker:
    """A folder that is open, or, with no path, the roots to begin with."""

    path: bytes | None
    crumbs: list[Crumb]
    folders: list[Folder]
    #: Why it could not be read.
    problem: str = ""
    #: Why it can be opened but not added.
    refusal: str = ""
    folder_count: int = 0
    file_count: int = 0
    is_whole: bool = True

    @property
    def key(self) -> str:
        return "" if self.path is None else self.path.hex()

    @property
    def shown_path(self) -> str:
        return "" if self.path is None else to_display(to_text(self.path))

    @property
    def can_add(self) -> bool:
        return self.path is not None and not self.problem and not self.refusal

    @property
    def more_folders(self) -> int:
        return max(self.folder_count - len(self.folders), 0)

    @property
    def suggested_name(self) -> str:
        return "" if self.path is None else suggest_name(self.path)


# --- Where one may look -----------------------------------------------------------------------------------
def roots() -> list[bytes]:
    return [os.fsencode(Path(root)) for root in settings.LIBRARIES_ROOTS]


def has_own_root() -> bool:
    """Whether anybody said where the libraries are; else there is only the place of the demo."""
    return roots() != [os.fsencode(settings.STATE_ROOT / "libraries")]


def parse(key: str) -> bytes:
    """The path that a key names. Raises `NoSuchFolder` for what can be no folder at or below a root."""
    if len(key) > 2 * MOST_BYTES or not _HEX.fullmatch(key):
        raise NoSuchFolder(_("This is no folder below the libraries' folders."))
    path = bytes.fromhex(key)
    root_of(path)
    return path


def root_of(path: bytes) -> bytes:
    """The innermost root that the path is at or below, by its letters alone."""
    for root in sorted(roots(), key=len, reverse=True):
        try:
            names_below(root, path)
        except ValueError:
            continue
        return root
    raise NoSuchFolder(_("This is no folder below the libraries' folders."))


# --- What is there ----------------------------------------------------------------------------------------
def read(path: bytes | None) -> Picker:
    """The open folder; without one the only root, or the choice among several."""
    known = roots()
    if path is None and len(known) == 1:
        path = known[0]
    if path is None:
        return Picker(None, [], [Folder(_shown(root), root.hex()) for root in known], folder_count=len(known))
    root = root_of(path)
    look = asking.ask({0: Question(path, below=root)})[0]
    crumbs = list(_crumbs(root, path))
    if look is None or look.inside is None:
        return Picker(path, crumbs, [], problem=_problem(look))
    marks, inside = _Marks(), look.inside
    if marks.is_ours(look.real):
        return Picker(path, crumbs, [], problem=_("This is DedupFS's own folder."))
    return Picker(
        path,
        crumbs,
        [marks.folder(path, look.real, name) for name in inside.folders],
        refusal=marks.refusal(look.real),
        folder_count=inside.folder_count,
        file_count=inside.file_count,
        is_whole=inside.is_whole,
    )


def _problem(look: Look | None) -> str:
    if look is None:
        return _("It does not answer: its disk sleeps deeply, hangs, or its share is gone.")
    return _("It can't be read: %(reason)s.") % {"reason": look.problem}


def _crumbs(root: bytes, path: bytes) -> Iterator[Crumb]:
    if len(roots()) > 1:
        yield Crumb(_("All roots"), "")
    yield Crumb(_shown(root), root.hex())
    place = root.rstrip(b"/")
    for name in names_below(root, path):
        place += b"/" + name
        yield Crumb(_shown(name), place.hex())


def _shown(name: bytes) -> str:
    return to_display(to_text(name))


class _Marks:
    """Which folders are libraries already, are ours, or are left out of libraries."""

    def __init__(self) -> None:
        kept = LibraryRoot.objects.kept().values_list("root_path", "name")
        self.libraries = [(to_bytes(root), to_display(name)) for root, name in kept]
        self.exclusions = Exclusions()
        self.state = os.fsencode(os.path.realpath(settings.STATE_ROOT))

    def folder(self, path: bytes, real: bytes, name: bytes) -> Folder:
        whole = path.rstrip(b"/") + b"/" + name
        note, can_open = self._note(real.rstrip(b"/") + b"/" + name, name)
        if can_open and len(whole) > MOST_BYTES:
            note, can_open = _("too deep to be shown here: type its path"), False
        return Folder(_shown(name), whole.hex(), note, can_open)

    def _note(self, real: bytes, name: bytes) -> tuple[str, bool]:
        library = next((title for root, title in self.libraries if root == real), None)
        if library is not None:
            return _("is the library “%(name)s”") % {"name": library}, False
        if self.is_ours(real):
            return _("DedupFS's own folder"), False
        if name == os.fsencode(TRASH):
            return _("DedupFS's trash"), False
        if self.exclusions.cover(os.fsdecode(name), os.fsdecode(name)):
            return _("left out of libraries"), False
        held = [title for root, title in self.libraries if mounts.is_at_or_below(root, real)]
        return (_("holds the library “%(name)s”") % {"name": held[0]} if held else ""), True

    def refusal(self, real: bytes) -> str:
        """Why this very folder can't be added; it may still be gone through."""
        if self.is_ours(real) or mounts.is_at_or_below(self.state, real):
            return _("It holds files of DedupFS itself. Choose a folder beside them.")
        for root, title in self.libraries:
            if mounts.is_at_or_below(real, root):
                return _("It belongs to the library “%(name)s” already.") % {"name": title}
            if mounts.is_at_or_below(root, real):
                return _("It holds the library “%(name)s”. Choose a folder beside that one.") % {"name": title}
        return ""

    def is_ours(self, real: bytes) -> bool:
        """The state folder, but for the place in it that is made for libraries."""
        free = self.state + b"/libraries"
        return mounts.is_at_or_below(real, self.state) and not mounts.is_at_or_below(real, free)


def suggest_name(path: bytes) -> str:
    """The folder's own name; with the one above it, or a number, where a library has that name."""
    parts = [_shown(part) for part in path.split(b"/") if part] or [_("Files")]
    own, above = parts[-1][:NAME_CHARACTERS].strip() or _("Files"), parts[-2:-1]
    wishes = [own, *(f"{own} ({part[:NAME_CHARACTERS]})" for part in above)]
    wishes += [f"{own} {number}" for number in range(2, 50)]
    taken = set(LibraryRoot.objects.filter(name__in=wishes).values_list("name", flat=True))
    return next((wish for wish in wishes if wish not in taken), "")
