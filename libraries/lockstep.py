"""Hashing files that are probably equal: read side by side, one is hashed and the others are compared with it.

To compare bytes takes a third of the time that it takes to hash them. Whatever differs after all is hashed by itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from libraries.reading import OPEN_FOLDER, Changed, Reader, hasher, opened, reason_of
from libraries.streams import Stream

Answer = tuple[str, Any]
File = tuple[bytes, bytes, int, int]
Report = Callable[[int], None]


def hash_alike(reader: Reader, algorithm: str, files: list[File], report: Report) -> list[Answer]:
    """Files (root, path, size, mtime_ns) whose samples are equal: for each "done" and its digest, or why it has
    none."""
    return _Lockstep(reader, algorithm, files, report).hash_all()


def sample_and_hash(reader: Reader, algorithm: str, files: list[File], report: Report) -> list[Answer]:
    """Files of one size: for each "done" and its sample and, if another has the same, its digest."""
    return _Lockstep(reader, algorithm, files, report).hash_twins()


class _Lockstep:
    def __init__(self, reader: Reader, algorithm: str, files: list[File], report: Report) -> None:
        self.reader, self.algorithm, self.files, self.report = reader, algorithm, files, report
        self.answers: dict[int, Answer] = {}
        self.open: dict[int, opened] = {}

    def hash_all(self) -> list[Answer]:
        self._open_all()
        self._hash_together(list(self.open))
        return [self.answers[number] for number in range(len(self.files))]

    def hash_twins(self) -> list[Answer]:
        self._open_all()
        samples: dict[int, bytes] = {}
        for number in list(self.open):
            self._try(number, partial(self._sample, number, samples))
        by_sample: dict[bytes, list[int]] = {}
        for number, sample in samples.items():
            by_sample.setdefault(sample, []).append(number)
        for numbers in by_sample.values():
            if len(numbers) > 1:
                self._hash_together(numbers)
            else:
                self._try(numbers[0], partial(self._close, numbers[0], None))
        return [self._with_sample(number, samples.get(number)) for number in range(len(self.files))]

    def _with_sample(self, number: int, sample: bytes | None) -> Answer:
        what, value = self.answers[number]
        return (what, (sample, value)) if what == "done" else (what, value)

    def _open_all(self) -> None:
        roots: dict[bytes, int] = {}
        try:
            for number, file in enumerate(self.files):
                self._try(number, partial(self._open, number, file, roots))
        finally:
            for handle in roots.values():
                os.close(handle)

    def _hash_together(self, numbers: list[int]) -> None:
        if not numbers:
            return
        digest = self._read_together(numbers)
        for number in numbers:
            if number in self.open:
                self._try(number, partial(self._close, number, digest))
            elif number not in self.answers:
                self._try(number, partial(self._alone, number, self.files[number]))

    def _try(self, number: int, step: Callable[[], None]) -> None:
        try:
            step()
        except Changed as error:
            self.answers[number] = ("changed", str(error))
        except OSError as error:
            self.answers[number] = ("failed", reason_of(error))

    def _open(self, number: int, file: File, roots: dict[bytes, int]) -> None:
        root, path, size, mtime_ns = file
        if root not in roots:
            roots[root] = os.open(root, OPEN_FOLDER)
        self.open[number] = one = opened(roots[root], path, size, mtime_ns)
        try:
            one.__enter__()
        except BaseException:
            del self.open[number]
            raise

    def _sample(self, number: int, samples: dict[int, bytes]) -> None:
        try:
            samples[number] = self.reader.sample_of(self.open[number].file, self.files[number][2])
        except OSError:
            self._drop(number)
            raise

    def _read_together(self, numbers: list[int]) -> bytes:
        """The digest of the first; whatever is not equal to it, or can't be read on, drops out."""
        first, *others = numbers
        make, streams = hasher(self.algorithm)(), {number: self._stream(number) for number in numbers}
        buffers = self.reader.buffers
        mine, theirs, same = buffers.first, buffers.second, buffers.are_equal
        try:
            while length := streams[first].read_into(mine):
                make.update(mine[:length])
                self.report(length)
                others = [each for each in others if self._keeps_up(each, streams[each], theirs, length, same)]
        except OSError:
            # Not the others' fault: each is tried by itself.
            for number in [first, *others]:
                self._drop(number)
            others = []
        # One that goes on where the first has ended is no twin.
        for number in others:
            if streams[number].read_into(theirs):
                self._drop(number)
        return bytes(make.digest())

    def _stream(self, number: int) -> Stream:
        return Stream(self.open[number].file, self.files[number][2])

    def _keeps_up(self, number: int, stream: Stream, buffer: Any, length: int, same: Callable[[int], bool]) -> bool:
        try:
            is_equal = stream.read_into(buffer) == length and same(length)
        except OSError:
            is_equal = False
        if not is_equal:
            self._drop(number)
            return False
        self.report(length)
        return True

    def _drop(self, number: int) -> None:
        os.close(self.open.pop(number).file)

    def _close(self, number: int, digest: bytes | None) -> None:
        self.open.pop(number).__exit__(None)
        self.answers[number] = ("done", digest)

    def _alone(self, number: int, file: File) -> None:
        self.answers[number] = ("done", self.reader.hash(*file, self.algorithm, self.report))
