"""The trees that are measured on: the same bytes on every machine, built once and used again.

A file's content is a BLAKE3 stream of its tree's seed and its content's number, so copies need no original to be
read from and any part of a tree can be written by any process.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from blake3 import blake3

KIB, MIB = 1 << 10, 1 << 20
HEAD = 64 * KIB
FOLDER_FILES, TOP_FOLDERS = 100, 100
BLOCK = MIB
#: A change of how trees are built; older ones are built anew.
EDITION = 1


@dataclass(frozen=True)
class Tree:
    name: str
    files: int
    redundant: float
    describe: str
    size_of: Callable[[float], int] = field(compare=False, repr=False)
    #: How many of the files are alike: of one size and with the same first 64 KiB, but with other content.
    alike: int = 0
    alike_bytes: int = 24 * MIB

    @property
    def edition(self) -> str:
        sizes = [self.size_of(tenth / 10) for tenth in range(10)]
        return f"{EDITION} {self!r} {sizes}\n"


TREES = {
    tree.name: tree
    for tree in (
        Tree(
            "a",
            200_000,
            0.3,
            "200,000 files of 1 to 16 KiB in 2,000 folders, 30 % redundant",
            lambda unit: int(KIB + 15 * KIB * unit),
        ),
        Tree(
            "b",
            400,
            0.3,
            "400 files of 1 to 64 MiB, 30 % redundant, 40 of them with equal size and first 64 KiB but other content",
            lambda unit: int(MIB * 64**unit),
            alike=40,
        ),
        Tree(
            "c",
            10_000,
            0.2,
            "10,000 files of 0.1 to 8 MB, most of them small, 20 % redundant",
            lambda unit: int(100_000 + 7_900_000 * unit**7),
        ),
        Tree(
            "small",
            200_000,
            0.3,
            "200,000 files of 200 to 1,200 bytes, 100 a folder, 30 % redundant",
            lambda unit: int(200 + 1_000 * unit),
        ),
        Tree(
            "large",
            2_000_000,
            0.3,
            "2,000,000 files of 200 to 1,200 bytes, 100 a folder, 30 % redundant",
            lambda unit: int(200 + 1_000 * unit),
        ),
    )
}


def built(name: str, work: Path) -> Path:
    """The tree's folder; it is built if it is not there, or was built by another definition."""
    tree, folder, marker = TREES[name], work / "trees" / name, work / "trees" / f"{name}.done"
    if marker.exists() and marker.read_text() == tree.edition:
        return folder
    marker.unlink(missing_ok=True)
    if folder.exists():
        shutil.rmtree(folder)
    print(f"building tree {name}: {tree.describe}", flush=True)
    _build(tree, folder)
    marker.write_text(tree.edition)
    return folder


def _build(tree: Tree, folder: Path) -> None:
    folder.mkdir(parents=True)
    contents = _contents(tree)
    tasks = (
        (tree.name, os.fsencode(folder), number, contents[start : start + FOLDER_FILES])
        for number, start in enumerate(range(0, len(contents), FOLDER_FILES))
    )
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        for _ in pool.imap_unordered(_fill, tasks, chunksize=8):
            pass
    os.sync()


def _contents(tree: Tree) -> list[int]:
    """Which content each file has, in the order of the files; contents that are alike have negative numbers."""
    draw = random.Random(f"dedupfs {tree.name}")
    plain = tree.files - tree.alike
    unique = plain - round(plain * tree.redundant)
    contents = [*range(unique), *(draw.randrange(unique) for _ in range(plain - unique)), *range(-tree.alike, 0)]
    draw.shuffle(contents)
    return contents


def _fill(task: tuple[str, bytes, int, list[int]]) -> None:
    name, root, number, contents = task
    tree = TREES[name]
    folder = b"%s/%03d/%03d" % (root, number // TOP_FOLDERS, number % TOP_FOLDERS)
    Path(os.fsdecode(folder)).mkdir(parents=True)
    for place, content in enumerate(contents):
        _write(b"%s/%07d.bin" % (folder, number * FOLDER_FILES + place), tree, content)


def _write(path: bytes, tree: Tree, content: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        for block in _blocks(tree, content):
            os.write(descriptor, block)
    finally:
        os.close(descriptor)


def _blocks(tree: Tree, content: int) -> Iterator[bytes]:
    stream = blake3(b"dedupfs/%s/%d" % (tree.name.encode(), content))
    if content < 0:
        yield blake3(b"dedupfs/%s/alike" % tree.name.encode()).digest(length=HEAD)
        size = tree.alike_bytes - HEAD
    else:
        # The stream's last bytes draw the size: its first ones are the content.
        size = tree.size_of(int.from_bytes(stream.digest(length=8, seek=1 << 40)) / 2**64)
    for start in range(0, size, BLOCK):
        yield stream.digest(length=min(BLOCK, size - start), seek=start)
