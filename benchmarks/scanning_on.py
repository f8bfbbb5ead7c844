"""Asks for scans without an end; in a process of its own, since clients would keep it waiting at the web server."""

from __future__ import annotations

import time
from pathlib import Path

#: Before a library is scanned again, one file in so many has changed: a scan that finds nothing stores nothing.
ONE_IN = 5
LOOK_SECONDS = 0.1


def keep_scanning() -> None:
    """Ask for each library whenever no scan of it waits or runs."""
    from libraries import queueing
    from libraries.models import LibraryRoot, ScanRequest

    while True:
        for library in LibraryRoot.objects.kept():
            if queueing.current(library.pk) is None:
                change_some(Path(library.root_path))
                queueing.submit(library.pk, ScanRequest.Priority.HIGH, actor="benchmark")
        time.sleep(LOOK_SECONDS)


def change_some(folder: Path) -> None:
    """Each time they become longer: that is seen whatever the clock of the disk is like."""
    for path in sorted(folder.rglob("*.jpg"))[::ONE_IN]:
        with path.open("ab") as file:
            file.write(b"more ")
