"""Whether the disk below a library is the one it was: an unmounted or swapped disk must not look like lost files."""

from __future__ import annotations

import os
from collections.abc import Mapping

from libraries.errors import LibrariesError
from libraries.excluding import Exclusions
from libraries.models import LibraryState
from libraries.names import to_bytes, to_display
from libraries.walking import Unit

ABSENT, EMPTY, DIFFERENT = LibraryState.Mount.ABSENT, LibraryState.Mount.EMPTY, LibraryState.Mount.DIFFERENT
CODES = {ABSENT: "LIBRARY_ABSENT", EMPTY: "LIBRARY_EMPTY", DIFFERENT: "LIBRARY_DIFFERENT"}


class NotTheSame(LibrariesError):
    """The library's disk is not there, or not the one it was."""

    def __init__(self, mount: LibraryState.Mount, message: str) -> None:
        super().__init__(message)
        self.mount = mount
        self.code = CODES[mount]


def looked_after(filesystems: Mapping[str, str], exclude_patterns: str) -> dict[str, str]:
    """Those that a library has files on: its own, and those inside of it but for the ones in folders that it leaves
    out. Whether snapshots are mounted there, or a disk of somebody else's, is not its business."""
    exclusions = Exclusions(exclude_patterns.splitlines())
    return {
        folder: name
        for folder, name in filesystems.items()
        if not folder or not exclusions.cover_below(os.fsdecode(to_bytes(folder)))
    }


def compare(remembered: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Raise where a filesystem that was there is not, or another one is. One more than before is fine."""
    for folder, name in remembered.items():
        if found.get(folder) == name:
            continue
        place = f"the folder {to_display(folder)} of this library" if folder else "this library"
        now = f"now there is {found[folder]}" if folder in found else "now nothing is mounted there"
        raise NotTheSame(
            DIFFERENT,
            f"Another disk than before lies below {place}: it was {name}, {now}. Mount the right one and scan again;"
            " if the change is meant, scan once and accept what is missing.",
        )


def empty_inside(folder: str, library_name: str) -> NotTheSame:
    """A disk inside that holds nothing any more, however small a part of the library it is."""
    return NotTheSame(
        EMPTY,
        f"The disk below the folder {to_display(folder)} of {library_name} is empty, where files were before. Is it the"
        " right one? If it is meant to be empty, scan once and accept what is missing.",
    )


class InnerMounts:
    """Folders inside of a library where another filesystem begins, until the walk has found a file below them."""

    def __init__(self, filesystems: Mapping[str, str]) -> None:
        self.without_files = {folder for folder in filesystems if folder}

    def see(self, unit: Unit) -> None:
        if not self.without_files:
            return
        paths = [row[0] for row in unit.rows()]
        for folder in list(self.without_files):
            if any(path.startswith(f"{folder}/") for path in paths):
                self.without_files.discard(folder)
