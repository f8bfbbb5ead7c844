"""Scans for tests: real reader processes over real files, carried out in the test's own process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from jobs.models import Job
from libraries.models import LibraryFile, LibraryRoot, LibraryState
from libraries.names import to_bytes, to_text
from libraries.running_now import scan_now
from tests import factories


def library_at(root: Path, name: str = "photos", **fields: Any) -> LibraryRoot:
    library = factories.library(name, to_text(os.fsencode(root)))
    LibraryRoot.objects.filter(pk=library.pk).update(**fields)
    library.refresh_from_db()
    return library


def scan(library: LibraryRoot, *, accept_missing: bool = False) -> Job:
    return scan_now(library, actor="test", accept_missing=accept_missing)


def scanned(root: Path, **fields: Any) -> LibraryRoot:
    """A library that was scanned once, completely."""
    library = library_at(root, **fields)
    job = scan(library)
    assert job.status == "completed", job.error_message
    return library


def files_of(library: LibraryRoot) -> dict[bytes, LibraryFile]:
    return {to_bytes(file.relative_path): file for file in LibraryFile.objects.filter(library=library)}


def present(library: LibraryRoot) -> set[bytes]:
    return {path for path, file in files_of(library).items() if not file.is_missing}


def missing(library: LibraryRoot) -> set[bytes]:
    return {path for path, file in files_of(library).items() if file.is_missing}


def state_of(library: LibraryRoot) -> LibraryState:
    return LibraryState.objects.get(pk=library.pk)
