"""Files that are read side by side: each has the digest it would have by itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from blake3 import blake3

from libraries.buffers import BUFFER_BYTES
from libraries.lockstep import Answer, File, hash_alike, sample_and_hash
from libraries.reading import Reader
from tests.tree import tree

SIZE = 2 * BUFFER_BYTES + 17


@pytest.fixture
def reader() -> Reader:
    return Reader()


def files(root: Path, *names: str) -> list[File]:
    infos = [(root / name).stat() for name in names]
    return [
        (os.fsencode(root), name.encode(), info.st_size, info.st_mtime_ns)
        for name, info in zip(names, infos, strict=True)
    ]


def ignore(_: int) -> None:
    pass


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def right(*contents: bytes) -> list[Answer]:
    return [("done", blake3(content).digest()) for content in contents]


@pytest.mark.parametrize("at", [0, BUFFER_BYTES - 1, BUFFER_BYTES, SIZE - 1])
def test_one_that_differs_anywhere_has_a_digest_of_its_own(reader: Reader, tmp_path: Path, at: int) -> None:
    content = os.urandom(SIZE)
    other = flipped(content, at)
    tree(tmp_path, {"a": content, "b": content, "other": other, "c": content})
    found = hash_alike(reader, "blake3", files(tmp_path, "a", "b", "other", "c"), ignore)
    assert found == right(content, content, other, content)


def test_the_first_may_be_the_one_that_differs(reader: Reader, tmp_path: Path) -> None:
    content = os.urandom(SIZE)
    tree(tmp_path, {"a": flipped(content, 5), "b": content, "c": content})
    found = hash_alike(reader, "blake3", files(tmp_path, "a", "b", "c"), ignore)
    assert found == right(flipped(content, 5), content, content)


def test_one_that_is_gone_or_changed_is_told_and_the_others_are_hashed(reader: Reader, tmp_path: Path) -> None:
    content = os.urandom(SIZE)
    tree(tmp_path, dict.fromkeys("abcd", content))
    asked = files(tmp_path, *"abcd")
    (tmp_path / "a").unlink()
    os.utime(tmp_path / "c", ns=(1, 1))
    gone, b, changed, d = hash_alike(reader, "blake3", asked, ignore)
    assert (gone[0], changed[0], [b, d]) == ("failed", "changed", right(content, content))


def test_twins_may_lie_in_several_libraries_of_which_one_is_gone(reader: Reader, tmp_path: Path) -> None:
    content = os.urandom(SIZE)
    asked = []
    for name in ("one", "other", "gone"):
        tree(tmp_path / name, {"folder/a": content})
        asked += files(tmp_path / name, "folder/a")
    (tmp_path / "gone").rename(tmp_path / "elsewhere")
    held = os.listdir("/proc/self/fd")
    *found, gone = hash_alike(reader, "blake3", asked, ignore)
    assert (found, gone[0]) == (right(content, content), "failed")
    assert os.listdir("/proc/self/fd") == held


def test_one_that_changes_meanwhile_is_told(reader: Reader, tmp_path: Path) -> None:
    content = os.urandom(SIZE)
    tree(tmp_path, dict.fromkeys("ab", content))

    def meddle(_: int) -> None:
        with (tmp_path / "b").open("r+b") as file:
            file.write(content[:3])

    a, b = hash_alike(reader, "blake3", files(tmp_path, *"ab"), meddle)
    assert ([a], b[0]) == (right(content), "changed")


def test_one_that_grows_past_the_first_is_no_twin(reader: Reader, tmp_path: Path) -> None:
    content = os.urandom(BUFFER_BYTES)
    tree(tmp_path, {"a": content, "b": content + b"x"})
    a, b = files(tmp_path, *"ab")
    found = hash_alike(reader, "blake3", [a, b], ignore)
    assert found == right(content, content + b"x")


def test_of_one_size_only_those_with_a_twin_are_read_whole(reader: Reader, tmp_path: Path) -> None:
    content, alone = os.urandom(SIZE), os.urandom(SIZE)
    middle = flipped(content, SIZE // 4)
    tree(tmp_path, {"a": content, "alone": alone, "b": content, "middle": middle})
    asked = files(tmp_path, "a", "alone", "b", "middle")
    read: list[int] = []
    found = sample_and_hash(reader, "sha256", asked, read.append)
    samples = [reader.sample(*file) for file in asked]
    digests = [None if file is asked[1] else reader.hash(*file, "sha256") for file in asked]
    assert found == [("done", pair) for pair in zip(samples, digests, strict=True)]
    assert digests[3] != digests[0] == digests[2], "an equal sample is no proof"
    assert sum(read) < 4 * SIZE


def test_no_descriptor_is_left_open(reader: Reader, tmp_path: Path) -> None:
    content = os.urandom(SIZE)
    tree(tmp_path, {"a": content, "b": content, "other": flipped(content, 9), "gone": content})
    asked = files(tmp_path, "a", "b", "other", "gone")
    (tmp_path / "gone").unlink()
    reader.buffers.are_equal(0)  # loads libc
    before = len(list(Path("/proc/self/fd").iterdir()))
    hash_alike(reader, "blake3", asked, ignore)
    sample_and_hash(reader, "blake3", asked, ignore)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
