"""The proof right before acting: both files are read, whatever the index says."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from blake3 import blake3

from tests.trash.folder import found, place, wanted
from trash import proving
from trash.proving import Prover, open_wanted
from trash.refusing import Refusal

SMALL, LARGE = 1000, 3 * (1 << 20) + 17


def digest(content: bytes) -> bytes:
    return blake3(content).digest()


def prove(keeper: Path, victim: Path, expected: bytes, prover: Prover | None = None) -> int:
    """How many bytes were read."""
    read: list[int] = []
    prover = prover or Prover("blake3", read.append)
    prover.report = read.append
    with found(keeper, "KEEPER") as one, found(victim) as other:
        prover.prove(one, other, expected)
    return sum(read)


@pytest.mark.parametrize("size", [0, 1, SMALL, proving.SMALL_BYTES, proving.SMALL_BYTES + 1, LARGE])
def test_equal_files_are_read_both(tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    for name in "ab":
        (tmp_path / name).write_bytes(content)
    assert prove(tmp_path / "a", tmp_path / "b", digest(content)) == 2 * size


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("where", [0, 0.5, 1])
def test_caution_8_one_byte_that_differs_is_seen(tmp_path: Path, size: int, where: float) -> None:
    content = bytearray(os.urandom(size))
    (tmp_path / "a").write_bytes(content)
    content[int((size - 1) * where)] ^= 1
    (tmp_path / "b").write_bytes(content)
    with pytest.raises(Refusal) as refusal:
        prove(tmp_path / "a", tmp_path / "b", digest((tmp_path / "a").read_bytes()))
    assert refusal.value.code == "CONTENT_DIFFERS"


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_the_digest_of_the_plan_must_hold_too(tmp_path: Path, size: int) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(b"y" * size)
    with pytest.raises(Refusal) as refusal:
        prove(tmp_path / "a", tmp_path / "b", digest(b"x" * size))
    assert refusal.value.code == "DIGEST_DIFFERS"


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_a_keeper_is_read_once_unless_it_changes(tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    for name in "abcd":
        (tmp_path / name).write_bytes(content)
    prover = Prover("blake3", lambda _: None)
    assert prove(tmp_path / "a", tmp_path / "b", digest(content), prover) == 2 * size
    assert prove(tmp_path / "a", tmp_path / "c", digest(content), prover) == size
    (tmp_path / "a").write_bytes(content)
    assert prove(tmp_path / "a", tmp_path / "c", digest(content), prover) == 2 * size
    (tmp_path / "a").write_bytes(bytes(size))
    with pytest.raises(Refusal):
        prove(tmp_path / "a", tmp_path / "d", digest(content), prover)


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_our_own_new_link_is_no_change_of_the_keeper(tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    for name in "abc":
        (tmp_path / name).write_bytes(content)
    prover = Prover("blake3", lambda _: None)
    with found(tmp_path / "a", "KEEPER") as keeper, found(tmp_path / "b") as victim:
        prover.prove(keeper, victim, digest(content))
        (tmp_path / "link").hardlink_to(tmp_path / "a")
        prover.renew(keeper)
    assert prove(tmp_path / "a", tmp_path / "c", digest(content), prover) == size


def test_two_names_of_one_file_are_no_pair(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    with pytest.raises(Refusal) as refusal:
        prove(tmp_path / "a", tmp_path / "b", digest(b"x"))
    assert refusal.value.code == "SAME_FILE"


@pytest.mark.parametrize("who", ["KEEPER", "VICTIM"])
def test_a_change_while_it_is_read_is_seen(tmp_path: Path, who: str) -> None:
    content = os.urandom(LARGE)
    for name in "ab":
        (tmp_path / name).write_bytes(content)
    changed = tmp_path / ("a" if who == "KEEPER" else "b")

    def touch(_: int) -> None:
        os.utime(changed)

    with (
        found(tmp_path / "a", "KEEPER") as keeper,
        found(tmp_path / "b") as victim,
        pytest.raises(Refusal) as refusal,
    ):
        Prover("blake3", touch).prove(keeper, victim, digest(content))
    assert refusal.value.code == f"{who}_CHANGED"


@pytest.mark.parametrize("what", ["gone", "link", "folder", "fifo", "edited", "swapped"])
def test_caution_12_what_is_not_as_planned_is_not_opened(tmp_path: Path, what: str) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"x")
    planned, where = wanted(file), place(file)
    if what == "edited":
        os.utime(file, ns=(1, 1))
    else:
        file.rename(tmp_path / "b")
    if what == "link":
        file.symlink_to("b")
    elif what == "folder":
        file.mkdir()
    elif what == "fifo":
        os.mkfifo(file)
    elif what == "swapped":
        file.write_bytes(b"x")
        os.utime(file, ns=(planned.mtime_ns, planned.mtime_ns))
    with pytest.raises(Refusal) as refusal:
        open_wanted(where.folder, where.name, planned, "VICTIM")
    expected = {"gone": "VICTIM_GONE", "edited": "VICTIM_CHANGED", "swapped": "VICTIM_CHANGED"}
    assert refusal.value.code == expected.get(what, "NOT_A_FILE")


@pytest.mark.parametrize("what", ["mode", "attributes", "owner"])
def test_a_link_would_not_keep_what_differs(tmp_path: Path, what: str) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(b"x")
    if what == "mode":
        (tmp_path / "a").chmod(0o600)
        (tmp_path / "b").chmod(0o644)
    elif what == "attributes":
        os.setxattr(tmp_path / "a", "user.tag", b"red")
    else:
        if os.geteuid():
            pytest.skip("only root can give a file away")
        os.chown(tmp_path / "a", 12345, 12345)
    with found(tmp_path / "a") as one, found(tmp_path / "b") as other:
        assert what in proving.metadata_differs(one, other)
        assert proving.metadata_differs(one, one) == ""


@pytest.mark.parametrize("step", ["listxattr", "getxattr"])
@pytest.mark.parametrize(("number", "is_equal"), [(errno.EACCES, False), (errno.EIO, False), (errno.ENOTSUP, True)])
def test_attributes_that_can_not_be_read_may_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, number: int, is_equal: bool
) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(b"x")

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with found(tmp_path / "a") as one, found(tmp_path / "b") as other:
        monkeypatch.setattr(os, "listxattr", lambda _handle: ["user.tag"])
        monkeypatch.setattr(os, step, fail)
        assert proving.metadata_differs(one, other) == ("" if is_equal else "the extended attributes")
