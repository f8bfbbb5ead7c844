"""The folders in a folder, seen without following a link. Knows nothing of Django: it runs in `libraries.asking`.

Each step down from the root opens one name beside the last one (`openat`) and refuses a link, so that nothing that is
sent, and nothing that is swapped in meanwhile, leads out of the root. The root itself is the admin's own word: where it
is a link, that link is followed. What lies inside the folders that are found is not asked about: one of them may be the
mount point of a disk that is dead.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

#: So many are told, the first ones by name.
MOST_FOLDERS = 200
#: A folder with more entries than this is not read to its end.
MOST_ENTRIES = 100_000
#: Enough to step down; a folder that may be entered but not read is no obstacle on the way.
_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Inside:
    """What lies directly in a folder. Links are neither."""

    folders: tuple[bytes, ...] = ()
    folder_count: int = 0
    file_count: int = 0
    #: Whether all entries were looked at.
    is_whole: bool = True


def names_below(root: bytes, path: bytes) -> list[bytes]:
    """The way from the root to a folder at or below it; ValueError where there is none."""
    start = root.rstrip(b"/")
    if path == root:
        return []
    names = path[len(start) :].split(b"/")
    if not path.startswith(start + b"/") or b"\0" in path or any(name in (b"", b".", b"..") for name in names[1:]):
        raise ValueError("no folder below the root")
    return names[1:]


def folders_in(root: bytes, path: bytes) -> tuple[bytes, Inside]:
    """Where the folder really is, and what lies in it."""
    names, real = names_below(root, path), os.path.realpath(root)
    with _opened(real, names) as folder:
        return b"/".join([real.rstrip(b"/"), *names]) or b"/", _read(folder)


def lets_files_go(root: bytes, folder: bytes) -> bool | None:
    """Whether a file can be taken out of a folder of the root; None where there is no such folder any more."""
    try:
        with _opened(root, [name for name in folder.split(b"/") if name]) as opened:
            # The kernel says no for a filesystem that is mounted read-only too, even to root.
            return os.access(b".", os.W_OK | os.X_OK, dir_fd=opened)
    except PermissionError:
        return False
    except OSError:
        return None


@contextmanager
def _opened(root: bytes, names: Sequence[bytes]) -> Iterator[int]:
    folder = os.open(root, _STEP)
    try:
        for name in names:
            above, folder = folder, os.open(name, _STEP, dir_fd=folder)
            os.close(above)
        yield folder
    finally:
        os.close(folder)


def _read(folder: int) -> Inside:
    opened = os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        counts = {"folder": 0, "file": 0, "other": 0}
        first = heapq.nsmallest(MOST_FOLDERS, _folder_names(opened, counts), key=_order)
    finally:
        os.close(opened)
    return Inside(tuple(first), counts["folder"], counts["file"], sum(counts.values()) < MOST_ENTRIES)


def _folder_names(folder: int, counts: dict[str, int]) -> Iterator[bytes]:
    """As they come, counted by kind; never more in memory than are told."""
    with os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number == MOST_ENTRIES:
                return
            is_folder = entry.is_dir(follow_symlinks=False)
            counts["folder" if is_folder else "file" if entry.is_file(follow_symlinks=False) else "other"] += 1
            if is_folder:
                yield os.fsencode(entry.name)


def _order(name: bytes) -> tuple[str, bytes]:
    """Without regard to capitals, as people look for names."""
    return name.decode(errors="replace").casefold(), name
