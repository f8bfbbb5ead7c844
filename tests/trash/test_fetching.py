"""Files of an act that are brought into memory before their turn."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from libraries.models import LibraryRoot
from tests.cold_files import cold, from_disk
from tests.trash.acts import acted, authorised, carry_out, library
from trash import fetching, preparing
from trash.checking_items import Ground
from trash.fetching import Fetching
from trash.item_storing import next_files
from trash.proving import open_path

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("everything_allowed")]
Patch = pytest.MonkeyPatch
CONTENT = os.urandom(64 << 10)


def test_both_files_of_a_pair_are_in_memory_afterwards(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library(root, {"a": CONTENT, "b/copy": CONTENT})
    files = list(next_files(authorised(), 0, 10))
    with ExitStack() as stack:
        handles = [stack.enter_context(cold(root / name)) for name in ("a", "b/copy")]
        fetched = Fetching()
        fetched.fetch(files, Ground(files, lambda *_: False))
        fetched.close()
        before = from_disk()
        assert [os.pread(handle, len(CONTENT), 0) for handle in handles] == [CONTENT, CONTENT]
        assert from_disk() == before


def test_files_that_come_from_a_disk_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    asked = Fetching()
    with cold(path) as handle:
        asked.is_wanted(1)
        os.pread(handle, len(CONTENT), 0)
        assert asked.is_wanted(1)
        os.pread(handle, len(CONTENT), 0)
        assert not asked.is_wanted(1), "it is in memory by now"
        assert not asked.is_wanted(0)


@pytest.mark.parametrize("limit", [0, 1 << 40])
def test_nothing_is_fetched_where_reading_is_limited(tmp_path: Path, monkeypatch: Patch, limit: int) -> None:
    library(tmp_path / "photos", {f"{name}{n}": b"%d" % n for n in range(4) for name in ("a", "b/copy")})
    LibraryRoot.objects.update(read_bytes_per_second=limit)
    monkeypatch.setattr(preparing, "LOOK_FILES", 2)
    monkeypatch.setattr(Fetching, "is_wanted", lambda *_: True)
    asked: list[bytes] = []
    monkeypatch.setattr(fetching, "_fetch", lambda paths: asked.extend(paths))
    assert acted().done_count == 4
    names = {os.path.basename(os.fsdecode(path)).rstrip("0123456789") for path in asked}
    assert (len(asked), names) == ((0, set()) if limit else (4, {"a", "copy"}))


def test_a_file_that_is_gone_is_no_fault_of_it(tmp_path: Path, monkeypatch: Patch) -> None:
    root = tmp_path / "photos"
    library(root, {"a": b"one", "b/copy": b"one", "c": b"two", "d/copy": b"two"})
    act = authorised()
    monkeypatch.setattr(preparing, "LOOK_FILES", 1)
    monkeypatch.setattr(Fetching, "is_wanted", lambda *_: True)
    (root / "d/copy").unlink()
    act = carry_out(act)
    assert (act.status, act.done_count, act.skipped_count) == ("completed", 1, 1)


def test_a_library_that_is_gone_is_no_fault_of_it_either(tmp_path: Path) -> None:
    library(tmp_path / "photos", {"a": b"one", "b/copy": b"one"})
    files = list(next_files(authorised(), 0, 10))
    LibraryRoot.objects.update(root_path=str(tmp_path / "nowhere"))
    fetched = Fetching()
    fetched.fetch(files, Ground(files, lambda *_: False))
    fetched.close()


def test_what_is_no_file_by_now_is_not_opened(tmp_path: Path, monkeypatch: Patch) -> None:
    root = tmp_path / "photos"
    library(root, {"a": b"one", "b/copy": b"one"})
    files = list(next_files(authorised(), 0, 10))
    (root / "b/copy").unlink()
    os.mkfifo(root / "b/copy")
    opened: list[bytes] = []

    def noted(path: bytes) -> int:
        opened.append(path)
        return open_path(path)

    monkeypatch.setattr(fetching, "open_path", noted)
    fetched = Fetching()
    fetched.fetch(files, Ground(files, lambda *_: False))
    fetched.close()
    assert opened == [os.fsencode(root / "a")]
