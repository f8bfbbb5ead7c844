"""What somebody does to a file, or to the folder it lies in, in the last moment before it is acted on or after."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from libraries.models import LibraryRoot
from tests.trash.acts import authorised, carry_out, contents, items, library, reasons
from tests.waiting import until
from trash import steps
from trash.open_folders import SEEN_SECONDS

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("everything_allowed")]
Patch = pytest.MonkeyPatch
ACTIONS = pytest.mark.parametrize("action", ["trash", "hardlink", "delete"])


def around(patch: Patch, name: str, *, before: Callable[[], Any] = int, after: Callable[[], Any] = int) -> None:
    """Do something before or after the first call of a step."""
    step, called = getattr(steps, name), []

    def noted(*args: Any, **kwargs: Any) -> Any:
        called.append(args)
        if len(called) == 1:
            before()
        result = step(*args, **kwargs)
        if len(called) == 1:
            after()
        return result

    patch.setattr(steps, name, noted)


def edit_unnoticed(path: Path) -> None:
    """In place, with the size and the mtime that it had."""
    was = path.stat()
    path.write_bytes(path.read_bytes()[::-1])
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))


@ACTIONS
@pytest.mark.parametrize("where", ["outside", "protected", "behind a link"])
def test_a_folder_that_is_moved_away_in_the_middle_of_a_batch_keeps_its_files(
    tmp_path: Path, monkeypatch: Patch, action: str, where: str
) -> None:
    """Folders are open for a whole batch, so a file could still be reached there."""
    root, away = tmp_path / "photos", tmp_path / "elsewhere"
    library(root, {"a0": b"one", "a1": b"two!", "go/0/copy": b"one", "go/1/copy": b"two!", "safe/x": b"zzz"})
    LibraryRoot.objects.update(protected_folders="safe")
    act = authorised(action)
    if where == "protected":
        away = root / "safe" / "elsewhere"

    def move() -> None:
        began = time.monotonic()
        (root / "go").rename(away)
        if where == "behind a link":
            (root / "go").symlink_to(away)
        until(lambda: time.monotonic() - began > SEEN_SECONDS, "what was seen to grow old")

    # The larger file goes first; the folder of the other one is open by then.
    around(monkeypatch, "rename_new" if action != "hardlink" else "exchange", after=move)
    act = carry_out(act)
    assert {path: row.status for path, row in items(act).items()}["go/0/copy"] == "skipped"
    assert reasons(act)["go/0/copy"] == "VICTIM_GONE"
    assert (away / "0" / "copy").read_bytes() == b"one"
    assert (away / "0" / "copy").stat().st_nlink == 1


def test_what_is_edited_while_it_is_moved_is_not_deleted_for_good(tmp_path: Path, monkeypatch: Patch) -> None:
    """The move itself changes the ctime, so that an edit with the size and mtime as they were shows in nothing else
    than the bytes."""
    root = tmp_path / "photos"
    library(root, {"a": b"one", "b/copy": b"one"})
    act = authorised("delete")
    around(monkeypatch, "rename_new", before=lambda: edit_unnoticed(root / "b/copy"))
    act = carry_out(act)
    assert contents(root) == {"a": b"one", "b/copy": b"eno"}
    assert reasons(act) == {"b/copy": "VICTIM_CHANGED"}


def test_what_is_edited_while_it_is_read_once_more_is_not_deleted_for_good(tmp_path: Path, monkeypatch: Patch) -> None:
    root = tmp_path / "photos"
    library(root, {"a": b"one", "b/copy": b"one"})
    act = authorised("delete")
    held = os.open(root / "b/copy", os.O_WRONLY)

    def write_on() -> None:
        # By who has it open still: it lies in the trash by now.
        read = os.preadv

        def noted(*args: Any) -> int:
            length = read(*args)
            if not length:
                os.pwrite(held, b"ONE", 0)
            return length

        monkeypatch.setattr(os, "preadv", noted)

    around(monkeypatch, "rename_new", after=write_on)
    act = carry_out(act)
    os.close(held)
    assert contents(root) == {"a": b"one", "b/copy": b"ONE"}
    assert reasons(act) == {"b/copy": "VICTIM_CHANGED"}


def test_a_name_that_goes_right_after_it_became_a_link_is_one_that_was_done(tmp_path: Path, monkeypatch: Patch) -> None:
    root = tmp_path / "photos"
    library(root, {"a": b"one", "b/copy": b"one", "c": b"two!", "d/copy": b"two!"})
    act = authorised("hardlink")
    around(monkeypatch, "exchange", after=(root / "d/copy").unlink)
    act = carry_out(act)
    assert act.status == "completed"
    assert {row.status for row in items(act).values()} == {"trashed"}
    assert (root / "b/copy").samefile(root / "a")
