"""Hands of acts at work: found among the processes, and stopped at a place where a test has something to do."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import connections

from database.crash_points import STOP_VARIABLE
from tests.waiting import until


def hands_of(parent: int) -> list[int]:
    """Process numbers of the hands that a process has."""
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_hand(pid, parent)]


def _is_hand(pid: int, parent: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return b"trash.hand_process" in words and int(_after_name(pid)[1]) == parent
    except (FileNotFoundError, ProcessLookupError):
        return False


def stands_still(pid: int) -> bool:
    return _after_name(pid)[0] == "T"


def _after_name(pid: int) -> list[str]:
    """State, parent, …; the name before them may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


@contextmanager
def when_in_hand(patch: pytest.MonkeyPatch, number: int, verb: Callable[[], object]) -> Iterator[None]:
    """Do something while the hand of an act that this process carries out stands still between the proof and the move
    of its file of that number."""
    failures: list[BaseException] = []

    def interrupt() -> None:
        try:
            hand = until(lambda: next(filter(stands_still, hands_of(os.getpid())), None), "the hand to stand still")
            try:
                verb()
            finally:
                os.kill(hand, signal.SIGCONT)
        except BaseException as failure:
            failures.append(failure)
        finally:
            connections.close_all()

    thread = threading.Thread(target=interrupt)
    # This process has read its variables long ago: only the hand stops.
    patch.setenv(STOP_VARIABLE, f"proved:{number}")
    thread.start()
    try:
        yield
    finally:
        thread.join()
        patch.delenv(STOP_VARIABLE)
    assert not failures, failures
