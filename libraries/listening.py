"""Rooms above that want to know when files or all digests have changed; this room knows nothing of them."""

from __future__ import annotations

from collections.abc import Callable

_when_files_changed: list[Callable[[], None]] = []
_when_switched: list[Callable[[str], object]] = []


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
