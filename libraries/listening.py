"""Rooms above that want to know when files or all digests have changed, or a library is to go; this room knows nothing
of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class BeforeRemoval(Protocol):
    def __call__(self, library_id: int, *, even_if_unseen: bool) -> object: ...


_when_files_changed: list[Callable[[], None]] = []
_when_switched: list[Callable[[str], object]] = []
_before_removal: list[BeforeRemoval] = []


def when_files_changed(verb: Callable[[], None]) -> None:
    """Have `verb` called by every executor that has changed what is known of files: at the end of its work, and now
    and then before it. It is called outside of transactions and may take its time."""
    _when_files_changed.append(verb)


def files_changed() -> None:
    for verb in _when_files_changed:
        verb()


def when_algorithm_switches(verb: Callable[[str], object]) -> None:
    """Have `verb` called with the new algorithm, by the executor in the transaction that switches, on the path "hash":
    the files still have their old digests then, and `rehashes` has the new ones."""
    _when_switched.append(verb)


def algorithm_switches(algorithm: str) -> None:
    for verb in _when_switched:
        verb(algorithm)


def before_removal(verb: BeforeRemoval) -> None:
    """Have `verb` called with a library that is to be removed: before its disk is looked at, and again inside of the
    transaction that removes it. It raises `Refused` with words; what it returns has to be the same both times, else
    something began meanwhile."""
    _before_removal.append(verb)


def ask_before_removal(library_id: int, *, even_if_unseen: bool) -> list[object]:
    return [verb(library_id, even_if_unseen=even_if_unseen) for verb in _before_removal]
