"""The files of groups, as keep rules, plans and pages look at them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from django.db import connections
from django.db.models import QuerySet

from database.portions import portions
from database.routing import POLICY
from libraries import mounts
from libraries.models import LibraryFile, LibraryRoot, LibraryState

#: (algorithm, digest)
Digest = tuple[str, bytes]

#: A join: SQLite would go through the whole index for `IN (VALUES …)`, and through all files for their order by id. An
#: outer one: for an inner one it may read the whole index into a Bloom filter first. So a digest without files has a
#: row of NULLs.
_FILES = """
SELECT f.hash_algorithm, f.content_hash, f.id, f.library_id, f.relative_path, f.size_bytes, f.mtime_ns, f.ctime_ns,
       f.inode, f.device, f.nlink, f.hashed_at
  FROM (VALUES {marks}) AS asked LEFT JOIN library_files f
    ON f.hash_algorithm = asked.column1 AND f.content_hash = asked.column2
   AND f.content_hash IS NOT NULL AND NOT f.is_missing AND NOT f.needs_hash
 ORDER BY +f.id"""
#: Digests that are asked about in one statement.
MOST_DIGESTS = 400


class Place(NamedTuple):
    """A library, as far as its files are concerned."""

    id: int
    name: str
    root_path: str
    role: str
    protected_folders: tuple[str, ...]
    #: Folder below the root ("" is the root) → the name of the filesystem that begins there.
    filesystems: dict[str, str]
    is_writable: bool | None
    mount: str
    #: Plans may take its files however lately they changed.
    takes_young: bool = False

    def protects(self, path: str) -> bool:
        """Whether nothing may ever be done to the file at that path."""
        return self.role == LibraryRoot.Role.PROTECTED or any(
            path.startswith(f"{folder}/") for folder in self.protected_folders
        )

    def is_young(self, changed_ns: int, young_after_ns: int | None) -> bool:
        """Whether a file that changed then may still be written."""
        return young_after_ns is not None and not self.takes_young and changed_ns > young_after_ns

    def filesystem_of(self, path: str) -> str:
        """The name of the filesystem that holds it; "" where none is known."""
        return self.filesystems.get(self.mount_of(path.rpartition("/")[0]), "")

    def mount_of(self, folder: str) -> str:
        """The folder where the filesystem begins that a folder lies on; "" is the root."""
        return mounts.mount_of(folder, self.filesystems)


class FileFacts(NamedTuple):
    """One present file of known content. A tuple, since there may be millions."""

    id: int
    place: Place
    path: str
    size: int
    mtime_ns: int
    ctime_ns: int | None
    inode: int | None
    device: int | None
    links: int | None
    hashed_at: Any

    @classmethod
    def of(cls, row: LibraryFile, places: dict[int, Place]) -> FileFacts:
        return cls(
            row.pk,
            places[row.library_id],
            row.relative_path,
            row.size_bytes,
            row.mtime_ns,
            row.ctime_ns,
            row.inode,
            row.device,
            row.nlink,
            row.hashed_at,
        )

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def is_protected(self) -> bool:
        return self.place.protects(self.path)

    @property
    def is_backup(self) -> bool:
        return self.place.role == LibraryRoot.Role.BACKUP

    @property
    def inode_key(self) -> tuple[int, int]:
        """Equal for names of one file."""
        if self.inode is None or self.device is None:
            return (-1, self.id)
        return (self.device, self.inode)


def read_places(using: str = POLICY) -> dict[int, Place]:
    """Every library by its id."""
    states = {state.pk: state for state in LibraryState.objects.using(using)}
    places = {}
    for library in LibraryRoot.objects.using(using):
        state = states.get(library.pk)
        places[library.pk] = Place(
            library.pk,
            library.name,
            library.root_path,
            library.role,
            tuple(filter(None, library.protected_folders.split("\n"))),
            state.filesystems if state else {},
            state.is_writable if state else None,
            state.mount if state else LibraryState.Mount.UNKNOWN,
            library.takes_young,
        )
    return places


def present_files(digest: Digest, using: str = POLICY) -> QuerySet[LibraryFile]:
    """The files of one content that are there, in the order of their ids."""
    algorithm, content_hash = digest
    files = LibraryFile.objects.using(using).filter(
        hash_algorithm=algorithm, content_hash=content_hash, is_missing=False, needs_hash=False
    )
    return files.order_by("pk")


def files_of(
    digests: Sequence[Digest], places: dict[int, Place] | None = None, using: str = POLICY
) -> dict[Digest, list[FileFacts]]:
    """The present files of each digest, oldest id first; a digest without any is not in the answer."""
    known = read_places(using) if places is None else places
    found: dict[Digest, list[FileFacts]] = {}
    for asked in portions(digests, MOST_DIGESTS):
        sql = _FILES.format(marks=", ".join(["(%s, %s)"] * len(asked)))
        with connections[using].cursor() as cursor:
            cursor.execute(sql, [part for digest in asked for part in digest])
            for algorithm, digest, key, library_id, *rest in cursor.fetchall():
                if key is not None:
                    facts = FileFacts(key, known[library_id], *rest)
                    found.setdefault((algorithm, bytes(digest)), []).append(facts)
    return found
