"""Pairs of small files proved in one call: it says yes only where everything is as planned."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from libraries import native
from libraries.reading import hasher, signed
from tests.native import require_native
from tests.odd_times import set_odd_time
from trash import small_pairs
from trash.open_folders import OnDisk, OpenFolder
from trash.planned import Kept, Planned
from trash.proving import is_unchanged
from trash.small_pairs import Looked

CONTENT = b"the same in both"


class Ground:
    """A library with one pair in it, as a plan has it."""

    def __init__(self, root: Path, young_after_ns: int | None = None) -> None:
        self.root, self.library = root, OnDisk(1, os.fsencode(root), {"": "a disk"}, young_after_ns)
        for side in ("goes", "stays"):
            (root / side).mkdir()
            self.path(side).write_bytes(CONTENT)
        (root / "trash").mkdir()
        self.folders = {side: self._opened(side) for side in ("goes", "stays", "trash")}
        self.pairs = small_pairs.small_pairs()

    def _opened(self, name: str) -> OpenFolder:
        folder = OpenFolder(self.library, name)
        folder.device = os.fstat(folder.handle).st_dev
        return folder

    def path(self, side: str) -> Path:
        return self.root / side / "file"

    def planned(self, **other: Any) -> Planned:
        info, kept = self.path("goes").stat(), self.path("stays").stat()
        keeper = Kept(2, 2, 1, "stays/file", kept.st_size, kept.st_mtime_ns, kept.st_ino)
        figures = (1, 1, 1, "goes/file", info.st_size, info.st_mtime_ns, info.st_ino)
        return Planned(*figures, "blake3", blake3(CONTENT).digest(), "trash", keeper, False)._replace(**other)

    def are_proved(self, item: Planned) -> bool:
        assert self.pairs is not None
        return self.pairs.are_proved(item, self.folders["goes"], b"file", self.folders["stays"], b"file")

    def has_moved(self) -> bool:
        assert self.pairs is not None
        return self.pairs.has_moved(self.folders["trash"].handle, b"1", os.fsencode(self.path("stays")))

    def close(self) -> None:
        assert self.pairs is not None
        self.pairs.close()

    def move(self) -> None:
        self.path("goes").rename(self.root / "trash" / "1")


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    require_native("small_pairs", small_pairs.VERSION)
    made = Ground(tmp_path)
    before = os.listdir("/proc/self/fd")
    yield made
    made.close()
    assert os.listdir("/proc/self/fd") == before, "nothing is left open"
    for folder in made.folders.values():
        os.close(folder.handle)


def test_a_pair_as_planned_is_proved_and_its_move_is_seen(ground: Ground) -> None:
    assert ground.are_proved(ground.planned())
    ground.move()
    assert ground.has_moved()


def _edit(path: Path) -> None:
    """The same inode, size and mtime: only reading tells."""
    info = path.stat()
    path.write_bytes(CONTENT[::-1])
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


def _replace(path: Path) -> None:
    info = path.stat()
    path.rename(path.with_name("aside"))  # else a new one might get its inode
    path.write_bytes(CONTENT)
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


def _link(path: Path) -> None:
    path.rename(path.with_name("aside"))
    path.symlink_to("aside")


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _grow(path: Path) -> None:
    info = path.stat()
    with path.open("ab") as file:
        file.write(b"more")
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


CHANGES: list[Callable[[Path], None]] = [
    _edit,
    _replace,
    _link,
    _pipe,
    _grow,
    Path.unlink,
    lambda path: os.utime(path, ns=(1, 1)),
]


@pytest.mark.parametrize("side", ["goes", "stays"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_changed_since_the_plan_is_not_proved(ground: Ground, side: str, change: Callable[[Path], None]) -> None:
    item = ground.planned()
    assert ground.are_proved(item)
    ground.close()
    change(ground.path(side))
    assert not ground.are_proved(item)


def test_both_changed_in_the_same_way_are_not_what_was_planned(ground: Ground) -> None:
    item = ground.planned()
    for side in ("goes", "stays"):
        _edit(ground.path(side))
    assert not ground.are_proved(item), "their digest is another one"


def test_two_names_of_one_file_are_no_pair(ground: Ground) -> None:
    ground.path("goes").unlink()
    os.link(ground.path("stays"), ground.path("goes"))
    assert not ground.are_proved(ground.planned())


def test_a_file_with_other_names_is_for_the_long_way_and_a_keeper_may_have_them(ground: Ground) -> None:
    """The other names of what goes get a new ctime, too, and that has to be noted."""
    os.link(ground.path("stays"), ground.root / "another")
    assert ground.are_proved(ground.planned())
    ground.close()
    os.link(ground.path("goes"), ground.root / "one more")
    assert not ground.are_proved(ground.planned())


def test_another_disk_is_not_proved(ground: Ground) -> None:
    for side in ("goes", "stays"):
        device = ground.folders[side].device
        ground.folders[side].device = device + 1
        assert not ground.are_proved(ground.planned())
        ground.folders[side].device = device
    assert ground.are_proved(ground.planned())


def test_what_is_young_is_not_proved(ground: Ground) -> None:
    """By the later of both times: nobody can set the ctime back."""
    for side in ("goes", "stays"):
        os.utime(ground.path(side), ns=(1, 1))
    last = max(ground.path(side).stat().st_ctime_ns for side in ("goes", "stays"))
    ground.library.young_after_ns = last
    assert ground.are_proved(ground.planned())
    ground.close()
    ground.library.young_after_ns = last - 1
    assert not ground.are_proved(ground.planned())


def test_a_time_in_the_future_is_young(ground: Ground) -> None:
    later = max(ground.path(side).stat().st_ctime_ns for side in ("goes", "stays")) + 10**12
    ground.library.young_after_ns = later
    for side in ("goes", "stays"):
        assert ground.are_proved(ground.planned())
        ground.close()
        os.utime(ground.path(side), ns=(later + 1, later + 1))
        assert not ground.are_proved(ground.planned())
        os.utime(ground.path(side), ns=(1, 1))


#: Touches a file again and again: its content, its length and its mtime stay.
_TOUCHER = """
import os, sys
when = os.stat(sys.argv[1]).st_mtime_ns
print("touches", flush=True)
while True:
    os.utime(sys.argv[1], ns=(when, when))
"""


@pytest.mark.parametrize("side", ["goes", "stays"])
def test_what_is_touched_while_it_is_read_is_not_proved(ground: Ground, side: str) -> None:
    """Not each time: it has to happen between the first look and the last."""
    item = ground.planned()
    with subprocess.Popen([sys.executable, "-c", _TOUCHER, ground.path(side)], stdout=subprocess.PIPE) as toucher:
        assert toucher.stdout is not None
        toucher.stdout.readline()
        try:
            answers = set()
            for _ in range(20_000):
                answers.add(ground.are_proved(item))
                ground.close()
        finally:
            toucher.kill()
    assert False in answers


def test_empty_files_are_a_pair(ground: Ground) -> None:
    for side in ("goes", "stays"):
        ground.path(side).write_bytes(b"")
    assert ground.are_proved(ground.planned(digest=blake3(b"").digest()))


def test_a_file_that_stays_is_hashed_once_for_many_and_anew_when_it_changes(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []

    def noted(algorithm: str) -> Any:
        hashed.append(algorithm)
        return hasher(algorithm)

    monkeypatch.setattr(small_pairs, "hasher", noted)

    def read(content: bytes = CONTENT, algorithm: str = "blake3") -> int:
        digest = hasher(algorithm)(content).digest()
        assert ground.are_proved(ground.planned(digest=digest, algorithm=algorithm))
        ground.close()
        assert ground.pairs is not None
        return ground.pairs.bytes_read

    both, one = 2 * len(CONTENT), len(CONTENT)
    assert [read(), read()] == [both, one]
    assert hashed == ["blake3"]
    assert read(algorithm="sha256") == one
    assert hashed == ["blake3", "sha256"]
    _edit(ground.path("stays"))
    _edit(ground.path("goes"))
    assert read(CONTENT[::-1], "sha256") == both
    assert hashed == ["blake3", "sha256", "sha256"]


def test_what_was_read_and_not_proved_is_read_again(ground: Ground) -> None:
    """Else its digest would be taken for that of the file before."""
    item = ground.planned()
    assert ground.are_proved(item)
    ground.close()
    _edit(ground.path("stays"))
    assert not ground.are_proved(item), "they differ"
    _edit(ground.path("goes"))
    assert not ground.are_proved(item), "they are equal, and not what was planned"


@pytest.mark.parametrize("side", ["goes", "stays"])
@pytest.mark.parametrize("change", [_replace, _link, _grow, Path.unlink])
def test_what_is_another_one_after_the_move_is_seen(ground: Ground, side: str, change: Callable[[Path], None]) -> None:
    item = ground.planned()
    assert ground.are_proved(item)
    if side == "goes":
        change(ground.path(side))
    if os.path.lexists(ground.path("goes")):
        ground.move()
    if side == "stays":
        change(ground.path(side))
    assert not ground.has_moved()


@pytest.mark.parametrize("change", CHANGES)
def test_what_stays_is_looked_at_once_more_after_the_move(ground: Ground, change: Callable[[Path], None]) -> None:
    """As its descriptor tells: what has its name may be another file, which is for others to see."""
    assert ground.pairs is not None
    assert ground.are_proved(ground.planned())
    ground.move()
    assert ground.pairs.stays_untouched()
    change(ground.path("stays"))
    assert not ground.pairs.stays_untouched()
    assert not ground.has_moved()


@pytest.mark.parametrize("side", ["goes", "stays"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_changed_since_the_proof_is_not_proved_any_more(
    ground: Ground, side: str, change: Callable[[Path], None]
) -> None:
    assert ground.pairs is not None
    assert ground.are_proved(ground.planned())
    assert ground.pairs.are_still_proved()
    change(ground.path(side))
    assert not ground.pairs.are_still_proved()


def test_a_proof_that_breaks_off_leaves_nothing_open_and_no_digest(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = ground.planned()

    def fail(_algorithm: str) -> Any:
        raise MemoryError

    held = os.listdir("/proc/self/fd")
    monkeypatch.setattr(small_pairs, "hasher", fail)
    with pytest.raises(MemoryError):
        ground.are_proved(item)
    monkeypatch.setattr(small_pairs, "hasher", hasher)
    assert os.listdir("/proc/self/fd") == held
    assert ground.are_proved(item), "it is hashed now, though its content was read before"


@pytest.mark.parametrize("side", ["goes", "stays"])
def test_a_time_that_can_t_be_stored_is_not_what_was_planned(ground: Ground, side: str) -> None:
    set_odd_time(ground.path(side))
    wrapped = signed(ground.path(side).stat().st_mtime_ns)
    item = ground.planned()
    item = (
        item._replace(mtime_ns=wrapped)
        if side == "goes"
        else item._replace(keeper=item.keeper._replace(mtime_ns=wrapped))
    )
    assert not ground.are_proved(item)


def test_what_was_proved_is_told_as_the_system_tells_it(ground: Ground) -> None:
    item = ground.planned()
    assert is_unchanged(Looked.of(item, ground.folders["goes"]), ground.path("goes").stat())
    assert is_unchanged(Looked.of(item.keeper, ground.folders["stays"]), ground.path("stays").stat())
    assert Looked.of(item._replace(inode=-1), ground.folders["goes"]).st_ino == (1 << 64) - 1


def test_without_a_build_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "library", lambda *_: None)
    assert small_pairs.small_pairs() is None
