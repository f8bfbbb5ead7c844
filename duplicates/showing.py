"""Groups as the list shows them, from the index alone: a page never touches a library's disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db import connections
from django.utils.translation import ngettext

from database.routing import POLICY
from duplicates.facts import Digest, Place, read_places
from duplicates.filtering import MEDIA
from duplicates.ignoring import ignored_among
from duplicates.models import DuplicateGroup
from duplicates.path_difference import Part, differences
from frame.templatetags.human import count_words
from libraries.names import to_display
from libraries.templatetags.names import short
from thumbnails.showing import Picture, pictures

#: Paths that a row shows; one of a group with more says how many there are besides.
FIRST_PATHS = 3
#: Letters of a path in a row.
PATH_LETTERS = 76
#: Letters of a name where it is only read out.
CALLED_LETTERS = 60
#: Libraries that a row names.
FIRST_PLACES = 4

_MEDIA_OF = {extension: media for media, extensions in MEDIA.items() for extension in extensions}
#: A few rows of each digest, by the index of digests, however many copies there are.
_FIRST = """SELECT * FROM (
SELECT f.hash_algorithm, f.content_hash, f.id, f.library_id, f.relative_path FROM library_files f
 WHERE f.hash_algorithm = %s AND f.content_hash = %s AND f.content_hash IS NOT NULL
   AND NOT f.is_missing AND NOT f.needs_hash
 ORDER BY f.id LIMIT {most}) AS first_files"""


class FirstFile(NamedTuple):
    """One of the few files by which a row tells what the group is."""

    id: int
    library: int
    path: str


class ShownPath(NamedTuple):
    """Where one copy is."""

    place: Place
    parts: tuple[Part, ...]
    whole: str


@dataclass(frozen=True)
class ShownGroup:
    """A row of the list."""

    group: DuplicateGroup
    name: str
    media: str
    places: list[Place]
    paths: list[ShownPath]
    is_ignored: bool
    picture: Picture | None

    @property
    def row_id(self) -> str:
        """For the page: groups are counted anew, so their numbers don't last, but their content does."""
        return f"group-{self.group.hash_algorithm}-{bytes(self.group.content_hash).hex()}"

    @property
    def called(self) -> str:
        """A short name, for what is only read out."""
        return short(self.name, CALLED_LETTERS)

    @property
    def data_bytes(self) -> str:
        """What could be won, for the page's script: no language's commas."""
        return str(self.group.reclaimable_bytes)

    @property
    def copies_words(self) -> str:
        """Not in the template: `blocktranslate` takes ten times as long, and a list has many rows."""
        count = self.group.file_count
        return ngettext("%(copies)s copy", "%(copies)s copies", count) % {"copies": count_words(count)}

    @property
    def has_places(self) -> bool:
        """Whether it matters which library a copy is in."""
        return len(self.places) > 1

    @property
    def more_paths(self) -> int:
        return max(self.group.file_count - len(self.paths), 0)

    @property
    def first_places(self) -> list[Place]:
        return self.places if len(self.places) <= FIRST_PLACES else self.places[: FIRST_PLACES - 1]

    @property
    def other_places(self) -> str:
        """The names of those that the row has no room for."""
        return ", ".join(to_display(place.name) for place in self.places[len(self.first_places) :])

    @property
    def more_places(self) -> int:
        return len(self.places) - len(self.first_places)

    @property
    def linked_count(self) -> int:
        """Names that are hard links of other copies."""
        return self.group.file_count - self.group.inode_count


def as_shown(groups: Sequence[DuplicateGroup], using: str = POLICY) -> list[ShownGroup]:
    """Groups ready for a template, in a fixed number of queries."""
    if not groups:
        return []
    places = read_places(using)
    digests = [(group.hash_algorithm, bytes(group.content_hash)) for group in groups]
    first, ignored = _first_files(digests, using), ignored_among(digests, using)
    seen = pictures({digest: [(file.id, file.path) for file in files] for digest, files in first.items()})
    return [
        _shown(group, first.get(digest, []), places, digest in ignored, seen.get(digest))
        for group, digest in zip(groups, digests, strict=True)
    ]


def _shown(
    group: DuplicateGroup,
    files: list[FirstFile],
    places: dict[int, Place],
    is_ignored: bool,
    picture: Picture | None,
) -> ShownGroup:
    # All of them, or two and "how many more".
    listed = files if group.file_count <= FIRST_PATHS else files[: FIRST_PATHS - 1]
    parts = differences([file.path for file in listed], PATH_LETTERS)
    paths = [
        ShownPath(places[file.library], part, to_display(file.path))
        for file, part in zip(listed, parts, strict=True)
        if file.library in places
    ]
    name = files[0].path.rpartition("/")[2] if files else ""
    held = {int(key) for key in group.library_ids.split(",") if key}
    named = sorted((places[key] for key in held if key in places), key=lambda place: place.name)
    return ShownGroup(group, name, media_of(name), named, paths, is_ignored, picture)


def _first_files(digests: Sequence[Digest], using: str) -> dict[Digest, list[FirstFile]]:
    sql = " UNION ALL ".join([_FIRST.format(most=FIRST_PATHS)] * len(digests))
    found: dict[Digest, list[FirstFile]] = {}
    with connections[using].cursor() as cursor:
        cursor.execute(sql, [part for digest in digests for part in digest])
        for algorithm, digest, *file in sorted(cursor.fetchall(), key=lambda row: row[2]):
            found.setdefault((algorithm, bytes(digest)), []).append(FirstFile(*file))
    return found


def media_of(name: str) -> str:
    """What kind of file it is by its name: a key of `MEDIA`, or "file"."""
    return _MEDIA_OF.get(name.rpartition(".")[2].lower(), "file") if "." in name else "file"
