"""Pictures on disk with rows of files, for tests of the queue: small ones, since how they are decoded is tested
elsewhere."""

from __future__ import annotations

import io
import os
from pathlib import Path

from PIL import Image

from libraries.models import LibraryFile
from libraries.names import to_text
from tests.indexing import indexed
from tests.tree import tree


def jpeg(size: tuple[int, int] = (64, 48), colour: int = 0) -> bytes:
    data = io.BytesIO()
    Image.new("RGB", size, (colour % 256, 90, 160)).save(data, "JPEG")
    return data.getvalue()


def photos(root: Path, *names: str | bytes, name: str = "photos") -> list[LibraryFile]:
    """A library of a picture by each of these names, each other than the rest; its files in the order of names."""
    tree(root, {os.fsencode(each): jpeg(colour=number) for number, each in enumerate(names)})
    found = LibraryFile.objects.filter(library=indexed(root, name)).select_related("library")
    by_path = {file.relative_path: file for file in found}
    return [by_path[to_text(os.fsencode(each))] for each in names]


def state_of(root: Path) -> dict[str, tuple[int, ...]]:
    """Inode, size, times and mode of everything below `root`: equal before and after, nothing was touched."""
    found: dict[str, tuple[int, ...]] = {}
    for folder, _, names in os.walk(root):
        for path in [folder, *(os.path.join(folder, name) for name in names)]:
            info = os.lstat(path)
            found[path] = (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_mode, info.st_nlink)
    return found


def pictures_in(thumb_root: Path) -> list[str]:
    """What lies in the thumbnail root, temporary files too."""
    return sorted(str(path.relative_to(thumb_root)) for path in thumb_root.rglob("*") if path.is_file())
