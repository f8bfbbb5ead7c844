"""Which of the files that are being sampled have a twin among them, as far as one consumer can see."""

from __future__ import annotations

from dataclasses import dataclass, field

from libraries.lanes import Unit


@dataclass
class _Size:
    """Files of one size whose samples are being taken."""

    pending: int = 0
    #: Samples that several files have, and the first file of each other one.
    shared: set[bytes] = field(default_factory=set)
    alone: dict[bytes, Unit] = field(default_factory=dict)


class Alike:
    """Files go on as soon as their twin is seen; those that are left alone come out when their size is complete.

    A twin outside this consumer's hands is not seen here: the next look through the index finds it.
    """

    def __init__(self) -> None:
        self._sizes: dict[int, _Size] = {}

    def expect(self, units: list[Unit]) -> None:
        for unit in units:
            seen = self._sizes.get(unit.file.size)
            if seen is None:
                seen = self._sizes[unit.file.size] = _Size()
            seen.pending += 1

    def sampled(self, unit: Unit, digest: bytes, *, is_wanted: bool) -> list[Unit]:
        """Note a sample; return what is to be hashed now. `is_wanted` says that it is hashed with or without a twin."""
        seen = self._sizes[unit.file.size]
        first = seen.alone.pop(digest, None)
        if first is not None or digest in seen.shared or len(unit.rows) > 1:
            seen.shared.add(digest)
            return [unit] if first is None else [first, unit]
        if is_wanted:
            seen.shared.add(digest)
            return [unit]
        seen.alone[digest] = unit
        return []

    def hashed(self, unit: Unit, digest: bytes) -> Unit | None:
        """Note the sample of a file that is hashed already; return the one that waited for a twin of it."""
        seen = self._sizes[unit.file.size]
        seen.shared.add(digest)
        return seen.alone.pop(digest, None)

    def one_less(self, size: int) -> list[Unit]:
        """A file of that size is sampled, or never will be; return those that stay alone, once it was the last."""
        seen = self._sizes[size]
        seen.pending -= 1
        if seen.pending:
            return []
        del self._sizes[size]
        return list(seen.alone.values())
