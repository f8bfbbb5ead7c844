"""Exact figures of chosen pairs of folders, with everything below them, whatever the folders inside are called."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from duplicates.models import FolderPair, FolderSearch
from duplicates.overlap_tables import Numbers, Tables

Pair = tuple[int, int]


class _Shared:
    """What two folders share. Plain, since there are many."""

    __slots__ = ("bytes", "contents", "high_bytes", "high_files", "low_bytes", "low_files")

    def __init__(self) -> None:
        #: Each content once; and the files of each folder that the other one has too.
        self.contents = self.bytes = self.low_files = self.low_bytes = self.high_files = self.high_bytes = 0


class Counting:
    """Is told of every content, and gives the pairs with their figures."""

    def __init__(self, tables: Tables, numbers: Numbers, chosen: list[Pair]) -> None:
        self.numbers = numbers
        self.shared = {pair: _Shared() for pair in chosen}
        #: With whom a folder is paired.
        self.partners: dict[int, set[int]] = defaultdict(set)
        for low, high in chosen:
            self.partners[low].add(high)
            self.partners[high].add(low)
        self.folders = tables.folders(self.partners)

    def add(self, size: int, places: Mapping[tuple[int, str], int]) -> None:
        """A content lies in these folders, in so many files each."""
        files: dict[int, int] = {}
        for place, count in places.items():
            for number in self.numbers.chain(*place):
                if number in self.partners:
                    files[number] = files.get(number, 0) + count
        for low, low_files in files.items():
            partners = self.partners[low]
            for high in partners & files.keys() if len(partners) > 1 else partners:
                high_files = files.get(high)
                if low > high or high_files is None:
                    continue
                shared = self.shared[low, high]
                shared.contents += 1
                shared.bytes += size
                shared.low_files += low_files
                shared.low_bytes += low_files * size
                shared.high_files += high_files
                shared.high_bytes += high_files * size

    # --- The result ---------------------------------------------------------------------------------------
    def pairs(self, search: FolderSearch, libraries: Mapping[int, int]) -> list[FolderPair]:
        """Those that still share something, without what lies in another pair; the one that shares most bytes first."""
        sharing = [pair for pair, shared in self.shared.items() if shared.bytes > 0]
        # A pair shares at least what a pair inside it shares; of two that share the same the outer one goes first.
        order = {pair: (-self.shared[pair].bytes, sum(len(self._above(key)) for key in pair)) for pair in sharing}
        kept: dict[int, set[int]] = defaultdict(set)
        found = []
        for pair in sorted(sharing, key=order.__getitem__):
            if self._is_covered(pair, kept):
                continue
            kept[pair[0]].add(pair[1])
            kept[pair[1]].add(pair[0])
            found.append(self._row(pair, search, libraries))
        return found

    def _is_covered(self, pair: Pair, kept: Mapping[int, set[int]]) -> bool:
        above_high = set(self._above(pair[1]))
        return any(not kept[key].isdisjoint(above_high) for key in self._above(pair[0]) if key in kept)

    def _above(self, key: int) -> list[int]:
        """The folder itself and all that it lies in."""
        chain = []
        at: int | None = key
        while at is not None:
            chain.append(at)
            at = self.folders[at].parent_id
        return chain

    def _row(self, pair: Pair, search: FolderSearch, libraries: Mapping[int, int]) -> FolderPair:
        shared = self.shared[pair]
        sides = [
            self._side(pair[0], shared.low_files, shared.low_bytes, libraries),
            self._side(pair[1], shared.high_files, shared.high_bytes, libraries),
        ]
        # The one that holds less besides is on the left; of two that hold the same besides the one that lies deeper.
        left, right = sorted(sides, key=_besides)
        columns = {f"left_{name}": value for name, value in left.items() if name != "only_bytes"}
        columns |= {f"right_{name}": value for name, value in right.items() if name != "only_bytes"}
        return FolderPair(search=search, shared_files=shared.contents, shared_bytes=shared.bytes, **columns)

    def _side(self, key: int, files: int, size: int, libraries: Mapping[int, int]) -> dict[str, int | str]:
        """What stands in the columns of one side. Files may have come and gone since they were counted."""
        folder = self.folders[key]
        chain = self._above(key)
        return {
            "library_id": libraries[chain[-1]],
            "folder": "/".join(self.folders[each].name for each in reversed(chain[:-1])),
            "files": max(folder.files, files),
            "bytes": max(folder.bytes, size),
            "only_files": max(folder.files - files, 0),
            "only_bytes": max(folder.bytes - size, 0),
        }


def _besides(side: dict[str, int | str]) -> tuple[int | str, ...]:
    folder = str(side["folder"])
    return side["only_files"], side["only_bytes"], -folder.count("/"), -len(folder), side["library_id"], folder
