"""Into the trash and out of it: what is left on the disk, and what happens when a name becomes another file in the last
moment."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.trash.folder import before, found, new_trash, place, remember, without_exchange
from trash import moving, steps
from trash.folders import Trash
from trash.moving import Place
from trash.refusing import Refusal, Stranded

CONTENT = b"the same bytes"
NAME = b"7"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    for name in ("keep", "go"):
        (tmp_path / name).write_bytes(CONTENT)
    return tmp_path


@pytest.fixture
def trash(library: Path) -> Iterator[Trash]:
    with new_trash(library) as opened:
        yield opened


@pytest.fixture(params=["exchange", "no exchange"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Filesystems that can't exchange names, nor rename without replacing, have a longer way that must end the same."""
    if request.param == "no exchange":
        without_exchange(monkeypatch)
    return str(request.param)


def move(library: Path, trash: Trash) -> None:
    with found(library / "go") as victim, found(library / "keep", "KEEPER") as keeper:
        look_again = partial(
            moving.look_after_move, trash, NAME, victim.info, os.fsencode(library), b"keep", keeper.info
        )
        moving.to_trash(place(library / "go"), trash, NAME, look_again)


def link(library: Path, trash: Trash) -> os.stat_result:
    with found(library / "go") as victim, found(library / "keep", "KEEPER") as keeper:
        moving.link_over(place(library / "go"), victim.info, place(library / "keep"), keeper.info, trash, NAME)
        return os.fstat(keeper.handle)


# --- Moving -----------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("way")
def test_a_file_moves_and_comes_back_as_it_was(library: Path, trash: Trash) -> None:
    os.utime(library / "go", ns=(1, 123_456_789))
    (library / "go").chmod(0o640)
    was = (library / "go").stat()
    move(library, trash)
    assert not (library / "go").exists()
    assert trash.names() == {NAME}
    moving.put_back(trash, NAME, place(library / "go"))
    now = (library / "go").stat()
    assert (now.st_ino, now.st_mode, now.st_mtime_ns, now.st_atime_ns) == (
        was.st_ino, was.st_mode, was.st_mtime_ns, was.st_atime_ns,
    )  # fmt: skip
    assert trash.names() == set()


def test_caution_12_a_name_that_became_another_file_is_moved_back(
    library: Path, trash: Trash, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swap() -> None:
        (library / "new").write_bytes(b"a new and better version")
        (library / "new").rename(library / "go")

    before(monkeypatch, "rename_new", swap)
    with pytest.raises(Refusal) as refusal:
        move(library, trash)
    assert refusal.value.code == "VICTIM_CHANGED"
    assert (library / "go").read_bytes() == b"a new and better version"
    assert trash.names() == set()


def test_a_folder_that_took_the_name_is_moved_back(
    library: Path, trash: Trash, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swap() -> None:
        (library / "go").rename(library / "elsewhere")
        (library / "go").mkdir()
        (library / "go" / "inside").write_bytes(b"kept")

    before(monkeypatch, "rename_new", swap)
    with pytest.raises(Refusal, match="another one"):
        move(library, trash)
    assert (library / "go" / "inside").read_bytes() == b"kept"


@pytest.mark.parametrize("is_own_disk", [False, True])
@pytest.mark.parametrize("how", ["deleted", "edited", "folder moved away"])
def test_caution_12_without_its_keeper_it_is_moved_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, is_own_disk: bool
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "keep").write_bytes(CONTENT)
    (tmp_path / "go").write_bytes(CONTENT)

    def lose() -> None:
        if how == "deleted":
            (tmp_path / "a" / "keep").unlink()
        elif how == "edited":
            (tmp_path / "a" / "keep").write_bytes(b"something else")
        else:
            (tmp_path / "a").rename(tmp_path / "b")

    before(monkeypatch, "rename_new", lose)
    with (
        new_trash(tmp_path) as trash,
        found(tmp_path / "go") as victim,
        found(tmp_path / "a" / "keep", "KEEPER") as keeper,
    ):
        known = (trash, NAME, victim.info, os.fsencode(tmp_path), b"a/keep", keeper.info)
        look_again = partial(moving.look_after_move, *known, is_own_disk=is_own_disk)
        with pytest.raises(Refusal) as refusal:
            moving.to_trash(place(tmp_path / "go"), trash, NAME, look_again)
    assert refusal.value.code in ("KEEPER_GONE", "KEEPER_CHANGED")
    assert (tmp_path / "go").read_bytes() == CONTENT


def test_a_keeper_of_which_only_the_memory_of_a_mount_knows_is_gone(
    library: Path, trash: Trash, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount that caches answers what a name was for some seconds; opening it asks the server."""
    before(monkeypatch, "rename_new", (library / "keep").unlink)
    with found(library / "keep", "KEEPER") as keeper, found(library / "go") as victim:
        remember(monkeypatch, library / "keep")
        known = (trash, NAME, victim.info, os.fsencode(library), b"keep", keeper.info)
        with pytest.raises(Refusal) as refusal:
            moving.to_trash(place(library / "go"), trash, NAME, partial(moving.look_after_move, *known))
    assert refusal.value.code == "KEEPER_GONE"
    assert (library / "go").read_bytes() == CONTENT


@pytest.mark.parametrize("is_own_disk", [False, True])
@pytest.mark.parametrize("what", ["link", "fifo", "far down"])
def test_a_keeper_is_looked_for_without_following_or_waiting(tmp_path: Path, what: str, is_own_disk: bool) -> None:
    folder = tmp_path
    if what == "far down":
        # Longer than what is handed to the kernel whole, shorter than what it takes.
        folder = tmp_path.joinpath(*["x" * 200] * 19)
        folder /= "y" * (4040 - len(os.fsencode(folder)))
        folder.mkdir(parents=True)
    (folder / "keep").write_bytes(CONTENT)
    path = os.fsencode((folder / "keep").relative_to(tmp_path))
    info = (folder / "keep").stat()
    moving.still_there(os.fsencode(tmp_path), path, info, is_own_disk=is_own_disk)
    (folder / "keep").rename(folder / "elsewhere")
    if what == "link":
        (folder / "keep").symlink_to("elsewhere")
    elif what == "fifo":
        os.mkfifo(folder / "keep")
    with pytest.raises(Refusal) as refusal:
        moving.still_there(os.fsencode(tmp_path), path, info, is_own_disk=is_own_disk)
    found_instead = {"link": "KEEPER_CHANGED" if is_own_disk else "NOT_A_FILE", "fifo": "KEEPER_CHANGED"}
    assert refusal.value.code == found_instead.get(what, "KEEPER_GONE")


def test_what_can_not_be_moved_back_is_kept_and_said(
    library: Path, trash: Trash, monkeypatch: pytest.MonkeyPatch
) -> None:
    before(monkeypatch, "rename_new", (library / "keep").unlink)
    before(monkeypatch, "rename_new", lambda: (library / "go").write_bytes(b"newcomer"), time=2)
    with pytest.raises(Stranded, match="lies in the trash"):
        move(library, trash)
    assert (library / "go").read_bytes() == b"newcomer"
    assert trash.names() == {NAME}


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_nothing_goes_where_there_is_no_way_back(
    library: Path, trash: Trash, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    without_exchange(monkeypatch)
    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(Refusal, match="could not be brought back") as refusal:
        move(library, trash)
    assert (type(refusal.value), refusal.value.code) == (Refusal, "NO_TRASH")
    assert (library / "go").read_bytes() == CONTENT
    assert trash.names() == set()


@pytest.mark.parametrize("step", ["link", "unlink", "rename_over"])
def test_caution_12_without_renaming_to_a_new_name_a_new_version_is_moved_back(
    library: Path, trash: Trash, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Whatever the moment in which an editor saves it; what it replaced meanwhile is the editor's business."""

    def swap() -> None:
        (library / "new").write_bytes(b"a new and better version")
        (library / "new").rename(library / "go")

    without_exchange(monkeypatch)
    before(monkeypatch, step, swap)
    with pytest.raises(Refusal) as refusal:
        move(library, trash)
    assert refusal.value.code == "VICTIM_CHANGED"
    assert (library / "go").read_bytes() == b"a new and better version"


def test_a_file_that_is_deleted_while_the_way_back_is_tried_is_kept(
    library: Path, trash: Trash, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = steps.link

    def deleted_after(*names: Any, **folders: Any) -> None:
        link(*names, **folders)
        (library / "go").unlink()

    without_exchange(monkeypatch)
    monkeypatch.setattr(steps, "link", deleted_after)
    with pytest.raises(Stranded, match="kept in the trash"):
        move(library, trash)
    assert trash.names() == {NAME}


def test_a_name_in_the_trash_that_is_taken_is_never_replaced(library: Path, trash: Trash) -> None:
    handle = os.open(NAME, os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=trash.files)
    os.write(handle, b"older")
    os.close(handle)
    with pytest.raises(Refusal):
        move(library, trash)
    assert (library / "go").read_bytes() == CONTENT
    assert trash.info(NAME).st_size == 5  # type: ignore[union-attr]


@pytest.mark.usefixtures("way")
def test_caution_16_putting_back_never_replaces(library: Path, trash: Trash) -> None:
    move(library, trash)
    (library / "go").write_bytes(b"newcomer")
    with pytest.raises(Refusal) as refusal:
        moving.put_back(trash, NAME, place(library / "go"))
    assert refusal.value.code == "PLACE_TAKEN"
    assert (library / "go").read_bytes() == b"newcomer"
    assert trash.names() == {NAME}


# --- Hard links -------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("way")
def test_a_link_takes_the_place_and_the_inode_is_kept(library: Path, trash: Trash) -> None:
    was = (library / "go").stat()
    now = link(library, trash)
    assert (library / "go").samefile(library / "keep")
    assert now.st_nlink == 2
    kept = trash.info(NAME)
    assert kept is not None
    assert (kept.st_ino, kept.st_nlink) == (was.st_ino, 1)
    assert sorted(each.name for each in library.iterdir()) == [".dedupfs-trash", "go", "keep"]
    assert moving.is_linked(moving.look(place(library / "go"), trash, NAME), was.st_ino)


@pytest.mark.usefixtures("way")
def test_undoing_a_link_gives_the_name_its_own_inode_back(library: Path, trash: Trash) -> None:
    was = (library / "go").stat().st_ino
    link(library, trash)
    with found(library / "go") as linked:
        moving.unlink_over(place(library / "go"), linked, trash, NAME)
    assert (library / "go").stat().st_ino == was
    assert (library / "keep").stat().st_nlink == 1
    assert trash.names() == set()


@pytest.mark.parametrize("step", ["exchange", "link"])
def test_caution_12_a_new_version_is_never_linked_over(
    library: Path, trash: Trash, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Whatever the moment in which an editor saves its new version over the victim."""

    def swap() -> None:
        (library / "new").write_bytes(b"a new and better version")
        (library / "new").rename(library / "go")

    before(monkeypatch, step, swap)
    with pytest.raises(Refusal) as refusal:
        link(library, trash)
    assert refusal.value.code == "VICTIM_CHANGED"
    assert (library / "go").read_bytes() == b"a new and better version"
    assert (library / "keep").stat().st_nlink == 1
    assert trash.names() == set()


def test_a_keeper_that_became_another_file_is_not_linked(
    library: Path, trash: Trash, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swap() -> None:
        (library / "new").write_bytes(b"other")
        (library / "new").rename(library / "keep")

    before(monkeypatch, "link", swap)
    with pytest.raises(Refusal) as refusal:
        link(library, trash)
    assert refusal.value.code == "KEEPER_CHANGED"
    assert (library / "go").read_bytes() == CONTENT
    assert trash.names() == set()


def test_a_link_that_became_another_file_is_not_undone(
    library: Path, trash: Trash, monkeypatch: pytest.MonkeyPatch
) -> None:
    link(library, trash)

    def swap() -> None:
        (library / "new").write_bytes(b"newcomer")
        (library / "new").rename(library / "go")

    before(monkeypatch, "exchange", swap)
    with found(library / "go") as linked, pytest.raises(Refusal) as refusal:
        moving.unlink_over(place(library / "go"), linked, trash, NAME)
    assert refusal.value.code == "PLACE_TAKEN"
    assert (library / "go").read_bytes() == b"newcomer"
    assert trash.names() == {NAME}


def test_half_a_link_is_cleared_and_never_the_last_name(library: Path, trash: Trash) -> None:
    keeper, victim = place(library / "keep"), place(library / "go")
    os.link(keeper.name, NAME, src_dir_fd=keeper.folder, dst_dir_fd=trash.files)
    os.link(keeper.name, moving.temporary_name(NAME), src_dir_fd=keeper.folder, dst_dir_fd=victim.folder)
    moving.clear_half_link(victim, trash, NAME)
    assert trash.names() == set()
    assert sorted(each.name for each in library.iterdir()) == [".dedupfs-trash", "go", "keep"]
    os.rename(keeper.name, NAME, src_dir_fd=keeper.folder, dst_dir_fd=trash.files)
    moving.clear_half_link(victim, trash, NAME)
    assert trash.names() == {NAME}, "it was its only name"


def test_more_names_than_the_filesystem_allows(library: Path, trash: Trash, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(31, os.strerror(31))

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(Refusal) as refusal:
        link(library, trash)
    assert refusal.value.code == "TOO_MANY_LINKS"


def test_names_of_every_kind(tmp_path: Path) -> None:
    """Caution 1: bytes that are no text, line ends, dashes, 255 bytes."""
    names = [b"caf\xe9", b"-rf", b"a\nb", b" end ", b"~", b"$HOME", b"x" * 255, "né".encode()]
    with new_trash(tmp_path) as trash:
        for number, name in enumerate(names):
            path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
            path.write_bytes(CONTENT)
            moving.to_trash(place(path), trash, b"%d" % number, lambda: None)
            assert not path.exists()
            moving.put_back(trash, b"%d" % number, Place(place(path).folder, name))
            assert path.read_bytes() == CONTENT
