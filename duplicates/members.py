"""The files of groups in bounded portions: one content may have a million files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from database.routing import POLICY
from duplicates.facts import MOST_DIGESTS, Digest, FileFacts, files_of, present_files, read_places
from libraries.models import LibraryFile

#: Files that are held in memory at a time.
PORTION = 5_000


def files_after(digest: Digest, after: int, count: int, using: str = POLICY) -> list[LibraryFile]:
    """Up to `count` present files of that content with a larger id than `after`, in the order of their ids."""
    return list(present_files(digest, using).filter(pk__gt=after).select_related("library")[:count])


def in_portions(groups: Iterable[tuple[Digest, int]], using: str = POLICY) -> Iterator[tuple[Digest, list[FileFacts]]]:
    """The present files of each digest, given with about how many there are; those of a large one come in several
    portions, one after the other. A digest without any does not come."""
    waiting: list[Digest] = []
    held = 0
    for digest, count in groups:
        if waiting and (held + count > PORTION or len(waiting) == MOST_DIGESTS):
            yield from _together(waiting, using)
            waiting, held = [], 0
        if count > PORTION:
            yield from _alone(digest, using)
        else:
            waiting.append(digest)
            held += count
    yield from _together(waiting, using)


def _together(digests: list[Digest], using: str) -> Iterator[tuple[Digest, list[FileFacts]]]:
    found = files_of(digests, using=using) if digests else {}
    for digest in digests:
        if digest in found:
            yield digest, found[digest]


def _alone(digest: Digest, using: str) -> Iterator[tuple[Digest, list[FileFacts]]]:
    places = read_places(using)
    after = 0
    while files := files_after(digest, after, PORTION, using):
        after = files[-1].pk
        yield digest, [FileFacts.of(file, places) for file in files]
