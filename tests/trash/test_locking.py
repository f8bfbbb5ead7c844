"""One hand at a time on people's files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from jobs.errors import GivesWay
from tests.conftest import ROOT
from trash.folders import open_trash
from trash.locking import Busy, giving_way, held

HOLD = """
import sys, django
django.setup()
from trash.locking import held
with held(doing="a test"):
    print("held", flush=True)
    sys.stdin.read()
"""
KEY = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(autouse=True)
def _own_state(settings: Any, tmp_path: Path) -> None:
    settings.STATE_ROOT = tmp_path / "state"


def holder(tmp_path: Path) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "DEDUPFS_STATE_ROOT": str(tmp_path / "state"),
        "PYTHONPATH": str(ROOT),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
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
