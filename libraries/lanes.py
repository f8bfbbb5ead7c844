"""The order in which files are read: a lane for each spinning disk, one for everything else, one for each budget.

A spinning disk has one reader, which goes over it from the beginning to the end. Other disks have all the readers there
are. A library with an I/O budget has a lane of its own on its disk, which stands still while the budget is used up.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter, deque
from collections.abc import Iterator
from typing import Protocol

from libraries import mounts
from libraries.candidates import Candidate
from libraries.disk_order import places
from libraries.names import to_bytes
from libraries.reading import SAMPLE_BYTES

#: Files that go to a reader in one task: what a task costs beside reading is then spread over many of them.
TASK_FILES = 32
TASK_BYTES = 16 << 20
#: The same for a spinning disk: its one reader waits for each next task.
SPINNING_TASK_BYTES = 64 << 20
#: Files that are compared with one another in one go.
MOST_TWINS = 8
#: Tasks that wait for each reader of disks that don't spin, so that none is idle while a batch is stored.
WAITING_TASKS = 4
#: A lane whose budget is charged after reading is let ahead by this many tasks.
BUDGETED_TASKS = 2
UNKNOWN_DISK = ""


class Unit:
    """One file to read; the rows of its hard links share it. Plain, since there is one for each file."""

    __slots__ = ("file", "likeness", "rows", "sample", "size", "verb")

    def __init__(self, verb: str, rows: list[Candidate], sample: bytes | None = None) -> None:
        #: sample, hash or rehash
        self.verb, self.rows = verb, rows
        self.file = rows[0]
        #: How many bytes are to be read.
        self.size = min(self.file.size, 3 * SAMPLE_BYTES) if verb == "sample" else self.file.size
        #: What an earlier reading in the same batch found.
        self.sample = sample
        #: Equal for files that are worth being read side by side: of one size, and of one sample where that is known.
        is_like = verb == "sample" or (verb == "hash" and sample is not None)
        self.likeness = (verb, self.file.size, sample) if is_like else None


class Disks(Protocol):
    """Which disk a file lies on; a name only where it spins."""

    def spinning(self, root: bytes, device: int | None) -> str: ...


class RealDisks:
    """Asked once for each device; a filesystem that shows no device of its own is known by its mount."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, int | None], str] = {}

    def spinning(self, root: bytes, device: int | None) -> str:
        key = (root, device)
        if key not in self._known:
            self._known[key] = self._ask(root, device)
        return self._known[key]

    def _ask(self, root: bytes, device: int | None) -> str:
        number = (device or 0) & ((1 << 64) - 1)
        try:
            if not mounts.has_disk(number):
                number = mounts.block_device(root)
            disk = mounts.disk_of(number)
            is_known = mounts.is_rotational(number)
        except (OSError, OverflowError, LookupError):
            return UNKNOWN_DISK
        return disk if is_known else UNKNOWN_DISK


class Lane:
    """Files of one budget on disks that don't spin, read as they come. Files that are probably equal wait together: one
    reader compares them while it hashes the first."""

    most_bytes = TASK_BYTES

    def __init__(self, disk: str) -> None:
        self.disk = disk
        #: The budget is asked after so many bytes; 0 where there is none.
        self.stride = 0
        self.ready_at = 0.0
        self._waiting: deque[list[Unit]] = deque()
        self._alike: dict[tuple[str, int, bytes | None], list[Unit]] = {}

    def put(self, root: bytes, units: list[Unit]) -> None:
        for unit in units:
            # A budget is kept inside each file, so each is read by itself.
            likeness = None if self.stride else unit.likeness
            twins = self._alike.get(likeness) if likeness else None
            if twins is not None and len(twins) < MOST_TWINS:
                twins.append(unit)
                continue
            self._waiting.append([unit])
            if likeness:
                self._alike[likeness] = self._waiting[-1]

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def first(self) -> list[Unit]:
        return self._waiting[0]

    def pop(self) -> list[Unit]:
        units = self._waiting.popleft()
        likeness = units[0].likeness
        if likeness and self._alike.get(likeness) is units:
            del self._alike[likeness]
        return units

    def task(self) -> list[Unit]:
        """The next files for one reader."""
        units: list[Unit] = []
        left = min(self.most_bytes, self.stride or self.most_bytes)
        while self and len(units) < TASK_FILES:
            left -= self._weight(self.first())
            if units and left < 0:
                break
            units += self.pop()
        return units

    def _weight(self, units: list[Unit]) -> int:
        """What is read of files that wait together, if they turn out to be equal."""
        return units[0].size if len(units) == 1 else sum([unit.file.size for unit in units])

    def empty(self) -> list[Unit]:
        return [unit for _ in iter(self.__bool__, False) for unit in self.pop()]


Placed = tuple[tuple[int, int], int, Unit]


class SpinningLane(Lane):
    """Files of one budget on a spinning disk, read in one sweep after the other from its beginning to its end."""

    most_bytes = SPINNING_TASK_BYTES

    def __init__(self, disk: str) -> None:
        super().__init__(disk)
        #: The files ahead of the sweep that goes on, and those that it has passed already.
        self._ahead: list[Placed] = []
        self._behind: list[Placed] = []
        self._head = (0, 0)
        self._number = 0

    def put(self, root: bytes, units: list[Unit]) -> None:
        found = places(root, [(to_bytes(unit.file.path), unit.file.inode or 0) for unit in units])
        for place, unit in zip(found, units, strict=True):
            self._number += 1
            heapq.heappush(self._ahead if place >= self._head else self._behind, (place, self._number, unit))

    def __bool__(self) -> bool:
        return bool(self._ahead or self._behind)

    def first(self) -> list[Unit]:
        if not self._ahead:
            self._ahead, self._behind, self._head = self._behind, [], (0, 0)
        return [self._ahead[0][2]]

    def pop(self) -> list[Unit]:
        units = self.first()
        self._head = heapq.heappop(self._ahead)[0]
        return units


LaneKey = tuple[str, int]


class Lanes:
    """All that waits to be read."""

    def __init__(self, readers: int, disks: Disks) -> None:
        self.readers, self.disks = readers, disks
        self.files = self.bytes = 0
        self._lanes: dict[LaneKey, Lane] = {}
        self._in_hand: Counter[str] = Counter()
        self._budgeted: Counter[LaneKey] = Counter()

    def put(self, root: bytes, units: list[Unit], stride: int = 0) -> None:
        """Let files of one library wait. A `stride` says that its budget is asked after each so many bytes."""
        for disk, waiting in self._by_disk(root, units).items():
            key = (disk, waiting[0].file.library_id if stride else 0)
            if key not in self._lanes:
                self._lanes[key] = Lane(disk) if disk == UNKNOWN_DISK else SpinningLane(disk)
            self._lanes[key].stride = stride
            self._lanes[key].put(root, waiting)
        self.files += len(units)
        self.bytes += sum([unit.size for unit in units])

    def _by_disk(self, root: bytes, units: list[Unit]) -> dict[str, list[Unit]]:
        by_device: dict[int | None, list[Unit]] = {}
        for unit in units:
            by_device.setdefault(unit.file.device, []).append(unit)
        by_disk: dict[str, list[Unit]] = {}
        for device, waiting in by_device.items():
            by_disk.setdefault(self.disks.spinning(root, device), []).extend(waiting)
        return by_disk

    def ready(self) -> Iterator[tuple[LaneKey, list[Unit]]]:
        """Tasks that may be handed to readers now; each is in hand until `ended`."""
        now = time.monotonic()
        for key, lane in self._lanes.items():
            while lane and lane.ready_at <= now and self._has_room(key, lane):
                units = lane.task()
                self._in_hand[lane.disk] += 1
                self._budgeted[key] += 1
                self._forget(units)
                yield key, units

    def ended(self, key: LaneKey) -> None:
        self._in_hand[key[0]] -= 1
        self._budgeted[key] -= 1

    def hold(self, key: LaneKey, seconds: float) -> None:
        """Let a lane stand still until its budget is paid."""
        lane = self._lanes[key]
        lane.ready_at = max(lane.ready_at, time.monotonic() + seconds)

    @property
    def held_seconds(self) -> float | None:
        """How long until the first lane that waits for its budget may go on."""
        now = time.monotonic()
        held = [lane.ready_at - now for lane in self._lanes.values() if lane and lane.ready_at > now]
        return min(held, default=None)

    def empty(self) -> list[Unit]:
        """Take everything out that is in nobody's hand."""
        units = [unit for lane in self._lanes.values() for unit in lane.empty()]
        self._forget(units)
        return units

    def _has_room(self, key: LaneKey, lane: Lane) -> bool:
        if lane.stride and self._budgeted[key] >= BUDGETED_TASKS:
            return False
        if lane.disk != UNKNOWN_DISK:
            return self._in_hand[lane.disk] < 1
        spinning = len({each.disk for each in self._lanes.values() if each.disk != UNKNOWN_DISK})
        # A reader stays free for each spinning disk, or its next file would wait behind all the others.
        most = max(self.readers - spinning, 1) if spinning else self.readers * WAITING_TASKS
        return self._in_hand[UNKNOWN_DISK] < most

    def _forget(self, units: list[Unit]) -> None:
        self.files -= len(units)
        self.bytes -= sum([unit.size for unit in units])
