"""A disk that is dead: a real mounted filesystem which never answers, as a network share whose server is gone."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_libc = ctypes.CDLL(None, use_errno=True)
MNT_DETACH = 2


@contextmanager
def dead_disk(point: Path) -> Iterator[None]:
    """Mount it at `point`. The kernel asks through /dev/fuse, and nobody is there to read the questions."""
    point.mkdir(parents=True, exist_ok=True)
    try:
        questions = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        pytest.skip(f"a filesystem that never answers needs /dev/fuse: {error}")
    options = f"fd={questions},rootmode=40000,user_id=0,group_id=0".encode()
    if _libc.mount(b"dead", os.fsencode(point), b"fuse", 0, options):
        os.close(questions)
        pytest.skip(f"this user may not mount: {os.strerror(ctypes.get_errno())}")
    try:
        yield
    finally:
        _libc.umount2(os.fsencode(point), MNT_DETACH)
        os.close(questions)  # whoever still waits gets an error


@contextmanager
def mounted(*arguments: str) -> Iterator[None]:
    """`mount` with these arguments, of which the last is the place; skipped where this user may not."""
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this user may not mount: {done.stderr.strip()}")
    try:
        yield
    finally:
        _libc.umount2(os.fsencode(arguments[-1]), MNT_DETACH)
