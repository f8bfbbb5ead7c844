"""Rows of files as a scan that could read no content would leave them: what a hash job begins with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from libraries.models import LibraryFile, LibraryRoot
from libraries.names import to_text
from libraries.reading import signed


def indexed(root: Path, name: str = "photos", **fields: Any) -> LibraryRoot:
    """A library of everything below `root`."""
    library = LibraryRoot.objects.create(name=name, root_path=str(root), **fields)
    LibraryFile.objects.bulk_create(_row(library, os.fsencode(root), path) for path in _paths(root))
    return library


def index_again(library: LibraryRoot, path: str) -> LibraryFile:
    """Let the row of one file be as a scan that saw it changed would leave it."""
    LibraryFile.objects.filter(library=library, relative_path=path).delete()
    row = _row(library, os.fsencode(library.root_path), os.fsencode(path))
    row.save()
    return row


def _paths(root: Path) -> list[bytes]:
    base = os.fsencode(root)
    return sorted(
        os.path.relpath(os.path.join(folder, name), base) for folder, _, names in os.walk(base) for name in names
    )


def _row(library: LibraryRoot, root: bytes, path: bytes) -> LibraryFile:
    info = os.lstat(os.path.join(root, path))
    return LibraryFile(
        library=library,
        relative_path=to_text(path),
        size_bytes=info.st_size,
        mtime_ns=info.st_mtime_ns,
        ctime_ns=info.st_ctime_ns,
        inode=signed(info.st_ino),
        device=signed(info.st_dev),
        nlink=info.st_nlink,
        is_missing=False,
        needs_hash=True,
    )
