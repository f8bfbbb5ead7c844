"""The name of a thumbnail: what it was made of and how. Another content, size or format has another name."""

from __future__ import annotations

import hashlib
import re

from libraries.models import LibraryFile
from thumbnails.models import Thumbnail

#: Raised when pictures are made in another way: then every thumbnail is made anew.
VERSION = 1
DIMENSION = 320
FORMAT = "webp"
EXTENSIONS = {"webp": "webp", "jpeg": "jpg"}
#: A group of equal files, or `file:` and an id for thumbnails that belong to none; blanks and capitals are forgiven.
GROUP_KEY = r"^\s*((blake3|sha256|BLAKE3|SHA256):[0-9a-fA-F]{64}|(file|FILE):[0-9]{1,19})\s*$"
FILE = "file:"
_KEY = re.compile(r"[0-9a-f]{64}")
#: The columns that a key is made of.
COLUMNS = ("id", "hash_algorithm", "content_hash", "size_bytes", "mtime_ns")


def thumb_key(file: LibraryFile, max_dimension: int = DIMENSION, format: str = FORMAT) -> str:
    """The key of a file's picture as the file is now."""
    made_of = (str(file.pk), fingerprint(file), str(max_dimension), format, f"v{VERSION}")
    return hashlib.sha256("\n".join(made_of).encode()).hexdigest()


def is_key(text: str) -> bool:
    """Whether there could be a thumbnail of that key: not all that comes from outside may go to the database."""
    return _KEY.fullmatch(text) is not None


def is_of_now(thumbnail: Thumbnail) -> bool:
    """Whether its file still has the content that it was made of."""
    return thumb_key(thumbnail.file, thumbnail.max_dimension, thumbnail.format) == thumbnail.thumb_key


def fingerprint(file: LibraryFile) -> str:
    """The content by its digest; where there is none, by size and time of change. (A scan takes the digest away from a
    file that changed, so the one that stands there is of now.)"""
    if file.content_hash is not None:
        return f"{file.hash_algorithm}:{bytes(file.content_hash).hex()}"
    return f"version:{file.size_bytes}:{file.mtime_ns}"


def relpath_of(key: str, format: str) -> str:
    """Where the picture lies below the thumbnail root."""
    return f"{key[:2]}/{key[2:4]}/{key}.{EXTENSIONS[format]}"


def place_of(thumbnail: Thumbnail) -> str:
    """The same for a row: as it was let in, whoever did it."""
    return thumbnail.output_relpath or relpath_of(thumbnail.thumb_key, thumbnail.format)


def group_of_file(file_id: int) -> str:
    """The group key of thumbnails that belong to no group of equal files."""
    return f"{FILE}{file_id}"
