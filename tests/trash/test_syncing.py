"""Folders are made durable one by one, or, where there are many, with their whole filesystem."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.trash.disks import loop_disk
from trash import filesystem_kinds, steps, syncing


@contextmanager
def opened(folder: Path, count: int) -> Iterator[list[int]]:
    with ExitStack() as stack:
        handles = []
        for number in range(count):
            (folder / str(number)).mkdir()
            handles.append(os.open(folder / str(number), os.O_RDONLY | os.O_DIRECTORY))
            stack.callback(os.close, handles[-1])
        yield handles


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What is really synced from now on, in its order."""
    found: list[tuple[str, int]] = []
    for name in ("sync", "sync_filesystem"):
        verb = getattr(steps, name)

        def tell(handle: int, name: str = name, verb: object = verb) -> None:
            verb(handle)  # type: ignore[operator]
            found.append((name, handle))

        monkeypatch.setattr(steps, name, tell)
    return found


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])
def test_many_folders_are_synced_with_their_filesystem(tmp_path: Path, kind: str, told: list[tuple[str, int]]) -> None:
    with loop_disk(tmp_path / "disk", kind=kind) as disk, opened(disk.point, syncing.MANY) as handles:
        syncing.sync_folders(handles)
        assert told == [("sync_filesystem", handles[0])]


def test_few_folders_are_synced_each(tmp_path: Path, told: list[tuple[str, int]]) -> None:
    with opened(tmp_path, syncing.MANY - 1) as handles:
        syncing.sync_folders(handles)
        assert told == [("sync", handle) for handle in handles]


def test_a_filesystem_of_which_nothing_is_known_has_each_folder_synced(
    tmp_path: Path, told: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filesystem_kinds, "OWN", frozenset({1}))
    with opened(tmp_path, syncing.MANY) as handles:
        syncing.sync_folders(handles)
        assert told == [("sync", handle) for handle in handles]


def test_an_error_of_the_whole_is_left_to_the_folders_to_tell(
    tmp_path: Path, told: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_handle: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(steps, "sync_filesystem", fail)
    with loop_disk(tmp_path / "disk") as disk, opened(disk.point, syncing.MANY) as handles:
        syncing.sync_folders(handles)
        assert told == [("sync", handle) for handle in handles]


def test_folders_of_two_filesystems_are_counted_apart(tmp_path: Path, told: list[tuple[str, int]]) -> None:
    (tmp_path / "here").mkdir()
    with (
        loop_disk(tmp_path / "disk") as disk,
        opened(disk.point, syncing.MANY) as there,
        opened(tmp_path / "here", 2) as here,
    ):
        syncing.sync_folders([*here, *there])
        assert sorted(told) == sorted([("sync_filesystem", there[0]), *(("sync", handle) for handle in here)])


def test_what_can_not_be_synced_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        steps.sync_filesystem(1 << 20)
