"""A reader process: takes tasks from a socket, reads the disk, and answers. It knows nothing of Django.

`python -m libraries.reader_process FD…` starts one reader for each socket. It is a fresh program, not a fork of the one
that asks: so it can be started from any thread, holds no database connection, and is small.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from libraries.excluding import Exclusions
from libraries.lockstep import hash_alike, sample_and_hash
from libraries.messages import receive, send
from libraries.reading import Changed, Reader, Walked, WalkRules, reason_of

#: While a file is read, a word about how far it is goes out this often.
REPORT_SECONDS = 0.5
#: Pages come before scans where both want a core.
NICENESS = 5


class Server:
    """One reader at its socket."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.reader = Reader()
        self.verbs: dict[str, Callable[..., Any]] = {
            "walk": self.walk,
            "small": self.small,
            "sample": self.sample,
            "hash": self.hash,
            "alike": self.alike,
            "class": self.size_class,
            "several": self.several,
        }

    def serve(self) -> None:
        self.send(-1, "ready", os.getpid())
        while True:
            try:
                task = receive(self.end)
            except EOFError:
                return
            self.carry_out(*task)

    def carry_out(self, key: int, verb: str, *arguments: Any) -> None:
        self.key = key
        before = resource.getrusage(resource.RUSAGE_SELF).ru_inblock
        what, value = self.answer(verb, *arguments)
        self.send(key, what, value, resource.getrusage(resource.RUSAGE_SELF).ru_inblock - before)

    def answer(self, verb: str, *arguments: Any) -> tuple[str, Any]:
        try:
            return "done", self.verbs[verb](*arguments)
        except Changed as error:
            return "changed", str(error)
        except OSError as error:
            return "failed", reason_of(error)

    def send(self, key: int, what: str, value: Any, blocks: int = 0) -> None:
        """`blocks` had to come from a disk, by the kernel's count."""
        send(self.end, (key, what, value, blocks))

    # --- Verbs --------------------------------------------------------------------------------------------
    def walk(
        self,
        root: bytes,
        patterns: tuple[str, ...],
        least_bytes: int,
        algorithm: str | None,
        most_files: int,
        folders: list[bytes],
    ) -> tuple[Any, ...]:
        rules = WalkRules(root, exclusions_of(patterns), least_bytes, algorithm)
        return told_of(self.reader.walk(rules, folders, most_files, self.hand_over))

    def hand_over(self, unit: Walked) -> None:
        """Send a part of the answer. That waits while nobody takes it, and so does the walk."""
        try:
            self.send(self.key, "part", told_of(unit))
        except OSError as error:  # not to be taken for trouble with the folder
            raise EOFError("nobody wants the answer any more") from error

    def small(self, root: bytes, algorithm: str, files: list[tuple[bytes, int, int]]) -> list[bytes | None]:
        """The digests of small files by path, size and mtime; None where one changed or can't be read: the hash job
        looks again and keeps the reason."""
        return [self.small_digest(root, algorithm, *file) for file in files]

    def small_digest(self, root: bytes, algorithm: str, path: bytes, size: int, mtime_ns: int) -> bytes | None:
        try:
            return self.reader.hash(root, path, size, mtime_ns, algorithm)
        except (OSError, Changed):
            return None

    def several(self, tasks: list[tuple[Any, ...]]) -> list[tuple[str, Any]]:
        """Small tasks in one, each answered as if it had come by itself: a message for each would cost more."""
        answers: list[tuple[str, Any]] = []
        for verb, *arguments in tasks:
            if verb in ("alike", "class"):
                answers += self.verbs[verb](*arguments)
            else:
                answers.append(self.answer(verb, *arguments))
        return answers

    def alike(self, algorithm: str, files: list[tuple[bytes, bytes, int, int]]) -> list[tuple[str, Any]]:
        """The digests of files that are probably equal, each answered as if it had come by itself."""
        return hash_alike(self.reader, algorithm, files, self.now_and_then())

    def size_class(self, algorithm: str, files: list[tuple[bytes, bytes, int, int]]) -> list[tuple[str, Any]]:
        """The samples of files of one size, with the digests of those that probably have a twin among them."""
        return sample_and_hash(self.reader, algorithm, files, self.now_and_then())

    def sample(self, root: bytes, path: bytes, size: int, mtime_ns: int) -> bytes:
        return self.reader.sample(root, path, size, mtime_ns)

    def hash(self, root: bytes, path: bytes, size: int, mtime_ns: int, algorithm: str, stride: int) -> bytes:
        report = self.in_strides(stride) if stride > 0 else self.now_and_then()
        return self.reader.hash(root, path, size, mtime_ns, algorithm, report)

    def now_and_then(self) -> Callable[[int], None]:
        """Tell of the bytes that were read every half second."""
        told_at, bytes_read = time.monotonic(), 0

        def report(length: int) -> None:
            nonlocal told_at, bytes_read
            bytes_read += length
            if time.monotonic() - told_at >= REPORT_SECONDS:
                self.send(self.key, "read", bytes_read)
                told_at, bytes_read = time.monotonic(), 0

        return report

    def in_strides(self, stride: int) -> Callable[[int], None]:
        """Stop after so many bytes until the budget lets the next ones be read."""
        bytes_read = 0

        def report(length: int) -> None:
            nonlocal bytes_read
            bytes_read += length
            if bytes_read >= stride:
                self.send(self.key, "read", bytes_read)
                bytes_read = 0
                receive(self.end)

        return report


def told_of(unit: Walked) -> tuple[Any, ...]:
    troubles = [tuple(trouble) for trouble in unit.troubles]
    return (
        unit.left,
        unit.pages,
        troubles,
        unit.folder_count,
        unit.file_count,
        unit.bytes_seen,
        unit.bytes_read,
    )


@cache
def exclusions_of(patterns: tuple[str, ...]) -> Exclusions:
    return Exclusions(patterns)


def main(sockets: list[int]) -> None:
    """Fork a reader for each socket; the parent of them waits until all are gone."""
    # Ctrl-C reaches the whole group: whoever gave the tasks decides when to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    for number, socket in enumerate(sockets):
        if os.fork() == 0:
            for other in sockets[:number] + sockets[number + 1 :]:
                os.close(other)
            try:
                Server(socket).serve()
            except (BrokenPipeError, ConnectionResetError, EOFError):
                pass  # nobody wants the answer any more
            finally:
                os._exit(0)
    for socket in sockets:
        os.close(socket)
    for _ in sockets:
        os.wait()
    os._exit(0)  # nothing is open: the interpreter need not take itself apart while somebody waits


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]])
