"""Questions to a disk that may never answer.

A call to a dead network share hangs in the kernel, and a thread that hangs can't be ended: it would keep its web worker
or its consumer for ever. So the questions go to a short-lived process (this file, which knows nothing of Django), which
asks all of them at once, each in a thread, and tells every answer as it comes. When the time is up it is killed; one
that can't be killed yet is left alone and the disks it waits for are not asked again until it ends.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Thread
from typing import Any, TypeVar

from libraries import browsing, mounts
from libraries.browsing import Inside
from libraries.excluding import TRASH, TRASH_LOCK
from libraries.first_file import Visible, WithoutFiles, without_files
from libraries.names import to_bytes, to_text

#: A sleeping disk needs up to ten seconds to turn; what takes longer is dead.
ANSWER_SECONDS = 15.0
#: A fresh filesystem has this one; a library that holds nothing else is empty.
NOT_CONTENT = frozenset({os.fsencode(TRASH), b"lost+found"})
#: Without `site`, and with nothing on its path but this project: it starts in a few hundredths of a second.
COMMAND = [
    sys.executable,
    "-IS",
    "-c",
    "import sys; sys.path.insert(0, sys.argv[1]); from libraries.asking import main; main()",
    str(Path(__file__).resolve().parent.parent),
]
_POLL_SECONDS = 0.2

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Look:
    """What is at a path. `problem` says why it is no folder that can be read; the rest then holds nothing."""

    real: bytes
    places: tuple[tuple[int, bytes], ...]
    problem: str = ""
    is_empty: bool = True
    is_writable: bool = False
    #: Folder below the root where a filesystem begins → its name, as `LibraryState.filesystems` holds them.
    filesystems: Mapping[str, str] | None = None
    #: What was asked for with `visible`: those of them that begin inside the root and hold no file.
    without_files: WithoutFiles | None = None
    #: Folders below the root ("" is the root) whose trash holds something.
    trash_in: tuple[str, ...] = ()
    #: What was asked for with `below`.
    inside: Inside | None = None
    #: Each folder of `loses` → whether files can be taken out of it; None where it is not there.
    lets_go: Mapping[str, bool | None] | None = None


@dataclass(frozen=True)
class Question:
    """`where` asks only which place a path leads to; otherwise the folder itself is looked at.

    `visible` asks also which disks inside hold no file that is visible to a scan.
    `trash` asks also for trash: at the root, at every mount inside, and in these folders, where mounts once were.
    `below` asks which folders lie in it, following no link on the way down from that root, and for nothing else.
    `loses` asks of these folders below it whether they let files go, following no link to them, and for nothing else.
    """

    path: bytes
    where: bool = False
    trash: tuple[str, ...] | None = None
    below: bytes | None = None
    loses: tuple[str, ...] | None = None
    visible: Visible | None = None


def ask(
    questions: Mapping[K, Question], *, seconds: float | None = None, give_up: Callable[[], bool] = lambda: False
) -> dict[K, Look | None]:
    """Every question's answer; None for a disk that did not answer in time."""
    deadline = time.monotonic() + (ANSWER_SECONDS if seconds is None else seconds)
    silent = _still_waited_for()
    asked = {key: question for key, question in questions.items() if question.path not in silent}
    keys = list(asked)
    answers: dict[K, Look | None] = dict.fromkeys(questions)
    if asked:
        for number, answer in _answers(list(asked.values()), deadline, give_up):
            answers[keys[number]] = answer
    return answers


def look_at(path: bytes, *, seconds: float | None = None) -> Look | None:
    return ask({0: Question(path)}, seconds=seconds)[0]


# --- This side --------------------------------------------------------------------------------------------
#: Processes that could not be ended, with the paths they still wait for.
_left: list[tuple[subprocess.Popen[bytes], frozenset[bytes]]] = []
_left_lock = Lock()


def _still_waited_for() -> set[bytes]:
    with _left_lock:
        _left[:] = [(process, paths) for process, paths in _left if process.poll() is None]
        return set().union(*(paths for _, paths in _left))


def _answers(
    questions: list[Question], deadline: float, give_up: Callable[[], bool]
) -> Iterator[tuple[int, Look | None]]:
    process = _start()
    open_ones = set(range(len(questions)))
    try:
        _send(process, questions)
        for line in _lines(process, deadline, give_up):
            number, answer = json.loads(line)
            open_ones.discard(number)
            yield number, _from_json(answer)
    finally:
        _end(process, frozenset(questions[number].path for number in open_ones))


def _start() -> subprocess.Popen[bytes]:
    # A session of its own: Ctrl-C in a terminal is for the one who asked.
    return subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", start_new_session=True)


def _send(process: subprocess.Popen[bytes], questions: list[Question]) -> None:
    assert process.stdin is not None
    words = [
        [
            to_text(each.path),
            each.where,
            each.trash,
            None if each.below is None else to_text(each.below),
            each.loses,
            each.visible and vars(each.visible),
        ]
        for each in questions
    ]
    try:
        process.stdin.write(json.dumps(words).encode() + b"\n")
        process.stdin.close()
    except BrokenPipeError:
        pass  # it died at its start; then no answer comes


def _lines(process: subprocess.Popen[bytes], deadline: float, give_up: Callable[[], bool]) -> Iterator[bytes]:
    """Whole lines as they come, until the process has told everything or the time is up."""
    assert process.stdout is not None
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0 and not give_up():
            if not selector.select(min(left, _POLL_SECONDS)):
                continue
            read = os.read(process.stdout.fileno(), 1 << 16)
            *lines, rest = (rest + read).split(b"\n")
            yield from lines
            if not read:
                return


def _end(process: subprocess.Popen[bytes], unanswered: frozenset[bytes]) -> None:
    process.kill()
    assert process.stdout is not None
    process.stdout.close()
    try:
        process.wait(timeout=1.0)
    except subprocess.TimeoutExpired:
        with _left_lock:
            _left.append((process, unanswered))


def _from_json(answer: dict[str, Any]) -> Look:
    places = tuple((device, to_bytes(path)) for device, path in answer.pop("places"))
    trash_in = tuple(answer.pop("trash_in"))
    inside = answer.pop("inside")
    if inside is not None:
        inside = Inside(**{**inside, "folders": tuple(map(to_bytes, inside["folders"]))})
    return Look(real=to_bytes(answer.pop("real")), places=places, trash_in=trash_in, inside=inside, **answer)


def _to_json(look: Look) -> dict[str, Any]:
    places = [(device, to_text(path)) for device, path in look.places]
    inside = look.inside and {**vars(look.inside), "folders": [to_text(name) for name in look.inside.folders]}
    return {**vars(look), "real": to_text(look.real), "places": places, "inside": inside}


# --- The process ------------------------------------------------------------------------------------------


def look(question: Question) -> Look:
    """Look at the disk, however long that takes."""
    if question.below is not None:
        real, inside = browsing.folders_in(question.below, question.path)
        return Look(real, (), inside=inside)
    real = os.path.realpath(question.path)
    if question.loses is not None:
        lets_go = {folder: browsing.lets_files_go(real, to_bytes(folder)) for folder in question.loses}
        return Look(real, (), lets_go=lets_go)
    places = tuple(mounts.places(real))
    if question.where:
        return Look(real, places)
    problem = _problem(real)
    if problem:
        return Look(real, places, problem)
    filesystems = mounts.filesystems(real)
    return Look(
        real,
        places,
        is_empty=_is_empty(real),
        # The kernel says no for a filesystem that is mounted read-only too, even to root.
        is_writable=mounts.is_writable(real),
        filesystems=filesystems,
        without_files=without_files(real, filter(None, filesystems), question.visible) if question.visible else None,
        trash_in=_trash_in(real, {*filesystems, *question.trash}) if question.trash is not None else (),
    )


def _trash_in(root: bytes, folders: set[str]) -> tuple[str, ...]:
    return tuple(folder for folder in sorted(folders) if _holds_trash(root + b"/" + to_bytes(folder)))


def _problem(folder: bytes) -> str:
    try:
        with os.scandir(folder) as entries:
            next(entries, None)
    except OSError as error:
        return error.strerror or str(error)
    return "" if os.access(folder, os.R_OK | os.X_OK) else "Permission denied"


def _is_empty(folder: bytes) -> bool:
    with os.scandir(folder) as entries:
        return all(os.fsencode(entry.name) in NOT_CONTENT for entry in entries)


def _holds_trash(folder: bytes) -> bool:
    """Whether anything but empty folders and its lock is in it. A trash that can't be read may hold anything."""
    unreadable: list[OSError] = []
    trash = folder + b"/" + os.fsencode(TRASH)
    for above, _, files in os.walk(trash, onerror=unreadable.append):
        if above == trash and files == [os.fsencode(TRASH_LOCK)]:
            continue
        if files:
            return True
    return any(not isinstance(error, FileNotFoundError | NotADirectoryError) for error in unreadable)


def _tell(number: int, question: Question, lock: Lock) -> None:
    answer = _to_json(_looked(question))
    with lock:
        sys.stdout.buffer.write(json.dumps([number, answer]).encode() + b"\n")
        sys.stdout.buffer.flush()


def _looked(question: Question) -> Look:
    """What goes wrong on the way (a path too long, a folder that vanished) is an answer too."""
    try:
        return look(question)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        return Look(question.path, (), problem=reason or str(error))


def main() -> None:
    lock = Lock()
    words = json.loads(sys.stdin.buffer.read())
    questions = [
        Question(
            to_bytes(path),
            where,
            trash,
            None if below is None else to_bytes(below),
            loses,
            visible and Visible(**visible),
        )
        for path, where, trash, below, loses, visible in words
    ]
    threads = [
        Thread(target=_tell, args=(number, question, lock), daemon=True) for number, question in enumerate(questions)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
