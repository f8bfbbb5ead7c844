"""The thumbnail root: whatever stands in a row or is swapped on disk, nothing outside of it is touched."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from tests.libraries.dead_disk import mounted
from tests.thumbnails.photos import pictures_in, state_of
from tests.tree import tree
from thumbnails import store
from thumbnails.keys import relpath_of

KEY = "ab" * 32
PLACE = relpath_of(KEY, "webp")


def read(relpath: str, size: int | None = None) -> bytes:
    with os.fdopen(store.open_picture(relpath, size), "rb") as file:
        return file.read()


def test_a_picture_is_saved_replaced_and_removed(thumb_root: Path) -> None:
    store.save(PLACE, b"first")
    store.save(PLACE, b"second")
    assert read(PLACE) == b"second"
    assert pictures_in(thumb_root) == [PLACE]
    assert (thumb_root / PLACE).stat().st_mode & 0o077 == 0
    assert store.remove(PLACE)
    assert not store.remove(PLACE)
    assert list(thumb_root.iterdir()) == [], "empty folders go with their last picture"


def test_a_picture_that_is_gone_or_not_whole_is_not_there(thumb_root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        store.open_picture(PLACE)
    store.save(PLACE, b"whole")
    assert read(PLACE, 5) == b"whole"
    (thumb_root / PLACE).write_bytes(b"")
    with pytest.raises(FileNotFoundError):
        store.open_picture(PLACE, 5)


OUTSIDE = [
    "", "/etc/passwd", "../x", f"../../{KEY}.webp", f"ab/../{KEY}.webp", f"ab/cd/{KEY}.webp", f"ab/ab/{KEY}.gif",
    f"ab/ab/{KEY}.webp/x", f"AB/AB/{KEY.upper()}.webp", f"ab/ab/{KEY}.webp\0", f"ab/ab/{KEY}.webp\n", f"{KEY}.webp",
]  # fmt: skip


@pytest.mark.parametrize("relpath", OUTSIDE)
def test_no_other_path_is_ever_used(thumb_root: Path, relpath: str) -> None:
    for verb in (lambda: store.save(relpath, b""), lambda: store.open_picture(relpath), lambda: store.remove(relpath)):
        with pytest.raises(store.OutsideRoot):
            verb()
    assert not thumb_root.exists()


@pytest.mark.parametrize("level", ["", "ab", "ab/ab"])
def test_a_folder_that_is_a_link_leads_nowhere(thumb_root: Path, tmp_path: Path, level: str) -> None:
    library = tree(tmp_path / "library", {PLACE: b"photo", f"ab/{KEY}.webp": b"photo", f"{KEY}.webp": b"photo"})
    folder = thumb_root / level
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.symlink_to(library / level)
    before = state_of(library)
    verbs: list[Callable[[], object]] = [
        lambda: store.save(PLACE, b"x"), lambda: store.open_picture(PLACE), lambda: store.remove(PLACE)
    ]  # fmt: skip
    for verb in verbs:
        with pytest.raises(store.OutsideRoot):
            verb()
    if level:
        assert [kept for shard in [*store.shards(), "ab"] for kept in store.listed(shard)] == []
    assert state_of(library) == before


def test_swapping_a_folder_while_a_picture_is_written_gains_nothing(
    thumb_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tree(tmp_path / "library", {f"{KEY}.webp": b"photo"})
    before = state_of(library)

    def swap(_point: str) -> None:
        (thumb_root / "ab").rename(tmp_path / "aside")
        (thumb_root / "ab").mkdir()
        (thumb_root / "ab" / "ab").symlink_to(library)

    monkeypatch.setattr(store, "reach", swap)
    store.save(PLACE, b"x")
    assert state_of(library) == before
    with pytest.raises(store.OutsideRoot):
        store.remove(PLACE)
    assert state_of(library) == before


def test_a_picture_that_is_a_link_is_not_followed(thumb_root: Path, tmp_path: Path) -> None:
    photo = tree(tmp_path, {"photo": b"photo"}) / "photo"
    (thumb_root / "ab" / "ab").mkdir(parents=True)
    (thumb_root / PLACE).symlink_to(photo)
    with pytest.raises(OSError, match="symbolic"):
        store.open_picture(PLACE)
    store.save(PLACE, b"x")
    assert (photo.read_bytes(), read(PLACE)) == (b"photo", b"x")


def test_writers_and_removers_in_one_folder_never_fail(thumb_root: Path) -> None:
    """A shard goes with its last picture, and may go while another writer has just made it."""
    places = [relpath_of(f"abab{number:060x}", "webp") for number in range(2)]
    errors: list[Exception] = []

    def work(place: str) -> None:
        try:
            for _ in range(400):
                store.save(place, b"x")
                assert store.remove(place)
        except Exception as error:
            errors.append(error)

    threads = [Thread(target=work, args=(place,)) for place in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert pictures_in(thumb_root) == []


def test_a_full_disk_is_an_error_and_leaves_nothing_behind(thumb_root: Path) -> None:
    thumb_root.mkdir(parents=True)
    with mounted("-t", "tmpfs", "-o", "size=64k", "none", str(thumb_root)):
        with pytest.raises(OSError, match="No space"):
            store.save(PLACE, b"x" * 200_000)
        assert pictures_in(thumb_root) == []


def test_only_files_of_ours_are_listed_and_empty_folders_go(thumb_root: Path) -> None:
    temporary = f".{KEY}.webp.{'0' * 16}.tmp"
    tree(thumb_root, {PLACE: b"", f"ab/ab/{temporary}": b"", "ab/ab/notes.txt": b"", "ab/zz/x": b"", "notes": b""})
    (thumb_root / "cd" / "ef").mkdir(parents=True)
    found = {kept.relpath: kept.key for shard in store.shards() for kept in store.listed(shard)}
    assert found == {PLACE: KEY, f"ab/ab/{temporary}": None}
    assert not (thumb_root / "cd").exists()
    assert len(pictures_in(thumb_root)) == 5, "what is not ours is left alone"


def test_one_process_at_a_time_looks_through_the_root(thumb_root: Path) -> None:
    with store.alone() as first, store.alone() as second:
        assert (first, second) == (True, False)
    with store.alone() as third:
        assert third
