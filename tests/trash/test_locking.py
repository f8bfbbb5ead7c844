"""One hand at a time on people's files."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from jobs.errors import GivesWay
from tests.conftest import ROOT
from trash import steps
from trash.folders import Trash, keys_in, open_trash
from trash.locking import Busy, Held, giving_way, held

HOLD = """
import sys, django
django.setup()
from trash.locking import held
with held(doing="a test"):
    print("held", flush=True)
    sys.stdin.read()
"""
KEY = "00000000-0000-4000-8000-000000000000"
HOLD_TRASH = f"""
import os, sys, django
django.setup()
from trash.folders import open_trash
from trash.locking import held
with open_trash(os.fsencode(sys.argv[1]), b"", "{KEY}", is_made=False) as trash, held(trash):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _own_state(settings: Any, tmp_path: Path) -> None:
    settings.STATE_ROOT = tmp_path / "state"


def holder(tmp_path: Path, script: str = HOLD, *arguments: str) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "DEDUPFS_STATE_ROOT": str(tmp_path / "state"),
        "PYTHONPATH": str(ROOT),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_another_process_is_named_and_its_death_frees_the_lock(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    process = holder(tmp_path)
    try:
        with pytest.raises(Busy) as busy, held():
            pass
        assert f":{process.pid} since" in busy.value.who
        assert "a test" in busy.value.who
        reason = giving_way(busy.value)
        assert isinstance(reason, GivesWay)
        assert reason.code == "ACT_LOCKED"
    finally:
        process.kill()
        process.communicate()
    with held():
        pass


def test_another_thread_is_refused_and_the_same_one_is_not() -> None:
    refused = []

    def other() -> None:
        try:
            with held():
                pass
        except Busy:
            refused.append(True)

    with held() as lock, held() as inner:
        assert inner is lock
        thread = Thread(target=other)
        thread.start()
        thread.join()
    assert refused == [True]
    thread = Thread(target=other)
    thread.start()
    thread.join()
    assert refused == [True]


def test_a_trash_is_locked_for_those_with_another_state_folder(tmp_path: Path, settings: Any) -> None:
    root = tmp_path / "library"
    root.mkdir()
    with (
        open_trash(os.fsencode(root), b"", KEY, is_made=True) as trash,
        open_trash(os.fsencode(root), b"", KEY.replace("8", "9", 1), is_made=True) as again,
        held(trash) as lock,
    ):
        lock.take(again)  # the same trash: whoever has it does not wait for himself
        elsewhere = Thread(target=_hold_elsewhere, args=(settings, tmp_path, root))
        elsewhere.start()
        elsewhere.join()
        assert (tmp_path / "refused").exists()


def _hold_elsewhere(settings: Any, tmp_path: Path, root: Path) -> None:
    settings.STATE_ROOT = tmp_path / "other-state"
    with open_trash(os.fsencode(root), b"", KEY, is_made=True) as trash:
        try:
            with held(trash):
                pass
        except Busy:
            (tmp_path / "refused").touch()


# --- The lock of a trash ----------------------------------------------------------------------------------
@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "library").mkdir()
    return tmp_path / "library"


@contextmanager
def opened(root: Path, key: str = KEY) -> Iterator[Trash]:
    with open_trash(os.fsencode(root), b"", key, is_made=True) as trash:
        yield trash


@contextmanager
def locked_file(path: Path) -> Iterator[None]:
    """As somebody on another machine holds it, of whom this kernel knows nothing but the file's lock."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def test_it_is_on_a_file_which_servers_of_files_know(root: Path) -> None:
    lock = root / ".dedupfs-trash" / "lock"
    with opened(root) as trash, held() as mine:
        with locked_file(lock), pytest.raises(Busy, match="the same trash"):
            mine.take(trash)
        mine.take(trash)
        assert (lock.stat().st_size, lock.stat().st_mode & 0o777) == (0, 0o600)
        with pytest.raises(BlockingIOError), lock.open() as other:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with lock.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_one_that_was_refused_leaves_no_half_of_it(root: Path) -> None:
    with opened(root) as trash, opened(root) as again:
        with locked_file(root / ".dedupfs-trash" / "lock"), held() as mine, pytest.raises(Busy):
            mine.take(trash)
        other = Held(None)
        other.take(again)
        other.let_go()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_where_no_file_can_be_made_the_folder_is_locked(
    root: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(steps, "create", fail)
    with opened(root) as trash, opened(root) as again, held() as mine:
        mine.take(trash)
        with pytest.raises(Busy):
            Held(None).take(again)


def test_an_empty_trash_goes_with_its_lock(root: Path) -> None:
    second = KEY.replace("8", "9", 1)
    with held() as mine:
        with opened(root) as first, opened(root, second) as other:
            mine.take(first)
            assert first.remove_if_empty()
            mine.take_away(first)
            assert keys_in(os.fsencode(root), b"") == [second]
            assert (root / ".dedupfs-trash" / "lock").exists(), "another act has files there"
            assert other.remove_if_empty()
            mine.take_away(other)
        assert list(root.iterdir()) == []
        with opened(root) as anew:
            mine.take(anew)
            with pytest.raises(Busy):
                Held(None).take(anew)


def test_a_lock_that_was_taken_away_while_it_was_opened_is_opened_anew(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever had it let the empty trash go; somebody else has made an act's folder in it since."""
    create, lock = steps.create, root / ".dedupfs-trash" / "lock"
    opens = []

    def taken_away_after(name: bytes, *, dir_fd: int) -> int:
        handle = create(name, dir_fd=dir_fd)
        opens.append(handle)
        if len(opens) == 1:
            lock.unlink()
        return handle

    monkeypatch.setattr(steps, "create", taken_away_after)
    with opened(root) as trash, held() as mine:
        mine.take(trash)
        assert len(opens) == 2
        with pytest.raises(BlockingIOError), lock.open() as other:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_trash_that_was_taken_away_while_it_was_opened_is_not_locked(root: Path) -> None:
    with opened(root) as trash, held() as mine:
        shutil.rmtree(root / ".dedupfs-trash")
        with pytest.raises(Busy, match="takes the empty trash away"):
            mine.take(trash)


def test_a_lock_that_is_somebody_elses_is_not_taken_away(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk was full when we took the trash, so we could make none."""
    lock = root / ".dedupfs-trash" / "lock"

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with opened(root) as trash, held() as mine:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(steps, "create", full)
            mine.take(trash)
        with locked_file(lock):
            trash.remove_if_empty()
            mine.take_away(trash)
            assert lock.exists()


def test_it_survives_being_stopped_and_dies_with_its_process(tmp_path: Path, root: Path) -> None:
    with opened(root):
        pass
    (tmp_path / "state").mkdir()
    process = holder(tmp_path, HOLD_TRASH, str(root))
    try:
        process.send_signal(signal.SIGSTOP)
        with opened(root) as trash, pytest.raises(Busy):
            Held(None).take(trash)
    finally:
        process.kill()
        process.communicate()
    with opened(root) as trash:
        other = Held(None)
        other.take(trash)
        other.let_go()
