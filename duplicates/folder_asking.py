"""Asking the folders that lose files whether they let them go, before a person decides.

It is the one look that planning takes at the disks, and it reads no file. A library whose root can be written to may
hold a read-only disk, or a folder of somebody else. Each filesystem is asked by itself and within a time, so that one
which is dead holds up neither the plan nor the others; and of each the folders that lose most: there may be a million.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from duplicates.facts import Place
from duplicates.plan_storing import FolderKey, Loss
from libraries import asking
from libraries.asking import Look, Question
from libraries.models import LibraryState
from libraries.names import to_bytes

#: Of one filesystem. A spinning disk finds so many in a few seconds.
MOST_FOLDERS = 200
#: What is wrong with any other library is known, and warned of as a whole.
_ASKED = (LibraryState.Mount.PRESENT, LibraryState.Mount.UNKNOWN)


@dataclass
class Answers:
    """Whether files can be taken out of a folder, None where it is gone; and those that did not answer in time."""

    is_writable: dict[FolderKey, bool | None] = field(default_factory=dict)
    silent: list[FolderKey] = field(default_factory=list)


def ask_folders(
    losses: Mapping[FolderKey, Loss], places: Mapping[int, Place], give_up: Callable[[], bool] = lambda: False
) -> Answers:
    asked = dict(_by_filesystem(losses, places))
    looks = asking.ask(
        {where: _question(places[where[0]], where[1], folders) for where, folders in asked.items()}, give_up=give_up
    )
    answers = Answers()
    for (library, mount), folders in asked.items():
        _note(answers, library, mount, folders, looks[library, mount])
    return answers


def _by_filesystem(
    losses: Mapping[FolderKey, Loss], places: Mapping[int, Place]
) -> Iterator[tuple[FolderKey, list[str]]]:
    """Library and the folder where a filesystem begins → the folders to ask there."""
    found: dict[FolderKey, list[str]] = {}
    for library, folder in losses:
        place = places.get(library)
        if place is not None and place.mount in _ASKED and place.is_writable is not False:
            found.setdefault((library, place.mount_of(folder)), []).append(folder)
    for where, folders in found.items():
        yield where, _first(where[0], folders, losses)


def _first(library: int, folders: list[str], losses: Mapping[FolderKey, Loss]) -> list[str]:
    """Those that lose most."""
    return heapq.nsmallest(MOST_FOLDERS, folders, key=lambda folder: (-losses[library, folder].bytes, folder))


def _question(place: Place, mount: str, folders: list[str]) -> Question:
    path = to_bytes(place.root_path)
    if mount:
        path = path.rstrip(b"/") + b"/" + to_bytes(mount)
    return Question(path, loses=tuple(_inside(folder, mount) for folder in folders))


def _inside(folder: str, mount: str) -> str:
    return folder[len(mount) :].lstrip("/")


def _note(answers: Answers, library: int, mount: str, folders: list[str], look: Look | None) -> None:
    if look is None:
        answers.silent += [(library, folder) for folder in folders]
    elif look.lets_go is not None:
        answers.is_writable |= {(library, folder): look.lets_go[_inside(folder, mount)] for folder in folders}
