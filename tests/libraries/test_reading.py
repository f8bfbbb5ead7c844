"""The reader: every kind of name and file, and none that it shouldn't open."""

from __future__ import annotations

import errno
import hashlib
import multiprocessing
import os
import socket
import unicodedata
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest
from blake3 import blake3

from libraries import reading
from libraries.beneath import opener
from libraries.excluding import Exclusions
from libraries.names import to_bytes
from libraries.reader_process import Server
from libraries.reading import (
    SAMPLE_BYTES,
    SMALL_BYTES,
    UNIT_FILES,
    Changed,
    OutsideLibrary,
    Reader,
    Trouble,
    Walked,
    WalkRules,
    open_file,
    open_folder,
    signed,
)
from libraries.unit_pages import ShelfByPython, ShelfInC, rows_of
from tests.cold_files import cold
from tests.native import NEEDS_COMPILER
from tests.tree import tree


@pytest.fixture(params=["in C", "in Python"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """Both ways of reading the small files of a folder: nothing may depend on whether there was a compiler."""
    if request.param == "in Python":
        monkeypatch.setattr(reading, "shelf", lambda _room: ShelfByPython())
    reader = Reader()
    assert isinstance(reader.shelf, ShelfInC if request.param == "in C" else ShelfByPython), NEEDS_COMPILER
    return reader


class Seen(NamedTuple):
    path: str
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int
    links: int
    digest: bytes | None


def walk(reader: Reader, root: Path, **rules: object) -> tuple[dict[bytes, Seen], list[Trouble]]:
    """Walk to the end, unit by unit."""
    chosen = WalkRules(os.fsencode(root), **{"exclusions": Exclusions(()), **rules})  # type: ignore[arg-type]
    left, files, troubles = [b""], {}, []
    while left:
        unit = reader.walk(chosen, left)
        left = unit.left
        files.update({to_bytes(row[0]): Seen._make(row) for row in rows_of(unit.pages)})
        troubles += unit.troubles
    return files, troubles


HOSTILE = [
    b"caf\xe9.jpg",
    b"new\nline",
    b"~tilde",
    b"$dollar $(id)",
    b"-rf",
    b"trailing ",
    b" leading",
    b"n" * 255,
    unicodedata.normalize("NFC", "é").encode(),
    unicodedata.normalize("NFD", "é").encode(),
    "\uf7e9".encode(),
    b"\xe9",
]


def test_every_name_is_seen_byte_for_byte(reader: Reader, tmp_path: Path) -> None:
    tree(tmp_path, {b"folder/" + name: name for name in HOSTILE})
    files, troubles = walk(reader, tmp_path, algorithm="blake3")
    assert set(files) == {b"folder/" + name for name in HOSTILE}
    assert troubles == []
    for path, seen in files.items():
        assert seen.digest == blake3(path.removeprefix(b"folder/")).digest()


def below(root: Path, depth: int) -> None:
    """A file so far down that no system call takes its path at once."""
    here = os.open(root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d" * 250, dir_fd=here)
        next_one = os.open("d" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = next_one
    with open(os.open("deep", os.O_CREAT | os.O_WRONLY, dir_fd=here), "wb") as file:
        file.write(b"deep")
    os.close(here)


def test_a_path_longer_than_the_system_takes_at_once_is_read(reader: Reader, tmp_path: Path) -> None:
    """With the folder of the test before it, the path has more than 4,096 bytes."""
    below(tmp_path, 16)
    (path,), troubles = walk(reader, tmp_path, algorithm="blake3")
    assert troubles == []
    seen = walk(reader, tmp_path, algorithm="blake3")[0][path]
    assert (len(path), seen.digest) == (16 * 251 + 4, blake3(b"deep").digest())
    assert reader.hash(os.fsencode(tmp_path), path, seen.size, seen.mtime_ns, "blake3") == seen.digest


def test_a_path_longer_than_the_column_is_named_not_fatal(reader: Reader, tmp_path: Path) -> None:
    tree(tmp_path, {"near": b"1"})
    below(tmp_path, 17)
    files, troubles = walk(reader, tmp_path)
    assert set(files) == {b"near"}
    assert [(trouble.is_folder, trouble.reason.split(":")[0]) for trouble in troubles] == [(False, "ENAMETOOLONG")]


def test_links_pipes_sockets_and_devices_are_never_opened(reader: Reader, tmp_path: Path) -> None:
    outside = tree(tmp_path / "outside", {"secret": b"x"})
    root = tree(tmp_path / "root", {"real": b"1"})
    (root / "file-link").symlink_to(root / "real")
    (root / "folder-link").symlink_to(outside)
    (root / "loop").symlink_to(root)
    (root / "dangling").symlink_to("nowhere")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "socket"))
        files, troubles = walk(reader, root, algorithm="blake3")
    assert (set(files), troubles) == ({b"real"}, [])


def test_a_root_that_is_a_link_is_not_followed(reader: Reader, tmp_path: Path) -> None:
    tree(tmp_path / "real", {"a": b"1"})
    (tmp_path / "link").symlink_to(tmp_path / "real")
    unit = reader.walk(WalkRules(os.fsencode(tmp_path), Exclusions()), [b"link"])
    assert (unit.pages, unit.file_count) == ([], 0)
    assert unit.troubles[0].is_folder


def test_a_folder_that_vanishes_is_named(reader: Reader, tmp_path: Path) -> None:
    unit = reader.walk(WalkRules(os.fsencode(tmp_path), Exclusions()), [b"gone"])
    assert unit.troubles == [Trouble("gone", True, "ENOENT: No such file or directory")]


def test_the_default_list_leaves_other_programs_folders_out(reader: Reader, tmp_path: Path) -> None:
    names = ["@eaDir/a", "#recycle/a", "x/$RECYCLE.BIN/a", ".git/a", "My.photoslibrary/a", "c.lrdata/a", "keep/a"]
    tree(tmp_path, dict.fromkeys(names, b"1"))
    files, _ = walk(reader, tmp_path, exclusions=Exclusions())
    assert set(files) == {b"keep/a"}


def test_the_trash_is_left_out_whatever_the_list_says(reader: Reader, tmp_path: Path) -> None:
    tree(tmp_path, {".dedupfs-trash/a": b"1", "x/.dedupfs-trash/b": b"1", "keep": b"1"})
    files, _ = walk(reader, tmp_path, exclusions=Exclusions([]))
    assert set(files) == {b"keep"}


def test_a_pattern_with_a_slash_is_a_path(reader: Reader, tmp_path: Path) -> None:
    tree(tmp_path, {"cache/a": b"1", "x/cache/a": b"1", "x/y.tmp": b"1", "x/y.txt": b"1"})
    files, _ = walk(reader, tmp_path, exclusions=Exclusions(["/cache", "x/*.tmp"]))
    assert set(files) == {b"x/cache/a", b"x/y.txt"}


def test_small_files_below_the_least_size_are_left_out(reader: Reader, tmp_path: Path) -> None:
    tree(tmp_path, {"empty": b"", "one": b"1", "two": b"12"})
    assert set(walk(reader, tmp_path, least_bytes=2)[0]) == {b"two"}
    assert set(walk(reader, tmp_path)[0]) == {b"empty", b"one", b"two"}


def test_small_files_are_hashed_on_the_way_and_large_ones_are_not(reader: Reader, tmp_path: Path) -> None:
    contents = {"empty": b"", "small": b"s" * SMALL_BYTES, "large": b"l" * (SMALL_BYTES + 1)}
    tree(tmp_path, contents)
    files, _ = walk(reader, tmp_path, algorithm="sha256")
    assert files[b"empty"].digest == hashlib.sha256(b"").digest()
    assert files[b"small"].digest == hashlib.sha256(contents["small"]).digest()
    assert files[b"large"].digest is None


def test_a_unit_ends_and_the_next_goes_on(reader: Reader, tmp_path: Path) -> None:
    per_folder = UNIT_FILES // 2 + 1
    tree(tmp_path, {f"{folder}/{number}": b"" for folder in "abc" for number in range(per_folder)})
    unit = reader.walk(WalkRules(os.fsencode(tmp_path), Exclusions()), [b""])
    assert unit.file_count == len(list(rows_of(unit.pages))) == 2 * per_folder
    assert len(unit.left) == 1
    assert len(walk(reader, tmp_path)[0]) == 3 * per_folder


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "UNIT_FILES", 20)
    monkeypatch.setattr(reading, "PORTION_NAMES", 10)


class Part(NamedTuple):
    """What was handed over, as it was at that moment."""

    left: list[bytes]
    paths: list[str]
    troubles: list[Trouble]
    counts: tuple[int, int, int, int]


def part_of(unit: Walked) -> Part:
    counts = (unit.folder_count, unit.file_count, unit.bytes_seen, unit.bytes_read)
    return Part(unit.left, [row[0] for row in rows_of(unit.pages)], unit.troubles, counts)


def walk_in_parts(reader: Reader, root: Path) -> list[Part]:
    parts: list[Part] = []
    rules = WalkRules(os.fsencode(root), Exclusions(), algorithm="blake3")
    last = reader.walk(rules, [b""], hand_over=lambda unit: parts.append(part_of(unit)))
    return [*parts, part_of(last)]


@pytest.mark.usefixtures("small_parts")
def test_a_large_folder_is_handed_over_in_parts_and_each_of_its_files_once(reader: Reader, tmp_path: Path) -> None:
    """What a reader holds does not grow with a folder."""
    tree(tmp_path, {f"{number}": b"12" for number in range(205)} | {f"f{number}/x": b"" for number in range(25)})
    parts = walk_in_parts(reader, tmp_path)
    assert len(parts) > 5
    assert max(len(part.paths) + len(part.left) for part in parts) < 20 + 2 * 10
    paths = [path for part in parts for path in part.paths]
    left = [folder.decode() for part in parts for folder in part.left]
    below = [f"{folder}/x" for folder in left]
    walked = sorted([f"f{number}/x" for number in range(25)] + [f"{number}" for number in range(205)])
    assert sorted(paths + below) == walked
    for part in parts:
        flat = [path for path in part.paths if "/" not in path]
        assert part.counts[1:] == (len(part.paths), 2 * len(flat), 2 * len(flat))
    assert sum(part.counts[0] for part in parts) == 1 + 25 - len(left)


@pytest.mark.usefixtures("small_parts")
def test_many_bytes_in_one_folder_are_handed_over_too(
    reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "UNIT_BYTES", 1_000)
    tree(tmp_path, {f"{number}": b"x" * 100 for number in range(45)})
    assert [part.counts[3] for part in walk_in_parts(reader, tmp_path)] == [1_000, 1_000, 1_000, 1_000, 500]


@pytest.mark.usefixtures("small_parts")
def test_a_folder_that_fails_half_way_is_trouble_whatever_was_handed_over(
    reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, {f"{number}": b"" for number in range(100)})
    monkeypatch.setattr(os, "scandir", partial(FailingHalfWay, os.scandir, 75))
    *parts, last = walk_in_parts(reader, tmp_path)
    assert sum(len(part.paths) for part in parts) > 20
    assert [part.troubles for part in parts] == [[]] * len(parts)
    assert last.troubles == [Trouble("", True, "EIO: Input/output error")]


@pytest.mark.usefixtures("small_parts")
def test_a_part_that_nobody_can_take_is_no_trouble_with_its_folder(tmp_path: Path) -> None:
    """The walk ends: whoever wanted to know is gone."""
    tree(tmp_path, {f"{number}": b"" for number in range(100)})
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours, pytest.raises(EOFError):
        Server(ours.fileno()).carry_out(0, "walk", os.fsencode(tmp_path), (), 0, None, 20, [b""])


class FailingHalfWay:
    """The listing of a folder on a disk that can't read all of it."""

    def __init__(self, scandir: Any, count: int, folder: int) -> None:
        self.entries, self.left = scandir(folder), count

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.entries.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.EIO, "Input/output error")
        return next(self.entries)


def middle_changed(content: bytes) -> bytes:
    quarter = len(content) // 4
    return content[:quarter] + bytes([content[quarter] ^ 1]) + content[quarter + 1 :]


def stamped(path: Path) -> tuple[bytes, bytes, int, int]:
    info = path.stat()
    return os.fsencode(path.parent), os.fsencode(path.name), info.st_size, info.st_mtime_ns


@pytest.mark.parametrize("algorithm", ["blake3", "sha256"])
def test_equal_ends_and_another_middle_have_another_digest(reader: Reader, tmp_path: Path, algorithm: str) -> None:
    content = os.urandom(1 << 20)
    tree(tmp_path, {"a": content, "b": middle_changed(content), "c": content})
    a, b, c = (reader.hash(*stamped(tmp_path / name), algorithm) for name in "abc")
    assert a == c != b
    samples = {reader.sample(*stamped(tmp_path / name)) for name in "abc"}
    assert len(samples) == 1, "the sample alone can't tell them apart"


@pytest.mark.parametrize("at", [0, (1 << 19), (1 << 20) - 1])
def test_a_sample_looks_at_the_beginning_the_middle_and_the_end(reader: Reader, tmp_path: Path, at: int) -> None:
    content = bytearray(os.urandom(1 << 20))
    tree(tmp_path, {"a": bytes(content)})
    content[at] ^= 1
    tree(tmp_path, {"b": bytes(content)})
    samples = [reader.sample(*stamped(tmp_path / name)) for name in "ab"]
    assert samples[0] != samples[1]


@pytest.mark.parametrize("size", [1, SAMPLE_BYTES - 1, SAMPLE_BYTES * 2])
def test_a_sample_of_a_file_smaller_than_three_samples_works(reader: Reader, tmp_path: Path, size: int) -> None:
    tree(tmp_path, {"a": b"x" * size})
    assert len(reader.sample(*stamped(tmp_path / "a"))) == 32


def test_a_digest_is_refused_when_the_file_is_another_version(reader: Reader, tmp_path: Path) -> None:
    tree(tmp_path, {"a": b"x" * 100})
    root, path, size, mtime_ns = stamped(tmp_path / "a")
    with pytest.raises(Changed, match="since it was scanned"):
        reader.hash(root, path, size + 1, mtime_ns, "blake3")
    with pytest.raises(Changed, match="since it was scanned"):
        reader.sample(root, path, size, mtime_ns - 1)


def test_a_digest_is_refused_when_the_file_changes_meanwhile(reader: Reader, tmp_path: Path) -> None:
    """Written through another handle with the same size, and its mtime put back: the ctime tells."""
    tree(tmp_path, {"a": os.urandom(3 << 20)})
    root, path, size, mtime_ns = stamped(tmp_path / "a")

    def meddle(_: int) -> None:
        with open(tmp_path / "a", "r+b") as file:
            file.write(b"other")
        os.utime(tmp_path / "a", ns=(mtime_ns, mtime_ns))

    with pytest.raises(Changed, match="while it was read"):
        reader.hash(root, path, size, mtime_ns, "blake3", meddle)


@pytest.mark.parametrize("path", [b"../secret", b"a/../../secret", b"a/..", b"./a", b"a//x", b"/secret", b""])
def test_a_path_that_does_not_go_down_is_not_opened(tmp_path: Path, path: bytes) -> None:
    root = tree(tmp_path, {"secret": b"1", "library/a/x": b"1"}) / "library"
    with pytest.raises(OutsideLibrary):
        open_file(bytes(root), path)
    if path:
        with pytest.raises(OutsideLibrary):
            open_folder(bytes(root), path)


@pytest.fixture(params=["at once", "step by step"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of opening a file below a folder: by one call, and by the steps of an older kernel."""
    assert opener() is not None, "this machine's kernel has openat2"
    if request.param == "step by step":
        monkeypatch.setattr(reading, "opener", lambda: None)


@pytest.mark.usefixtures("way")
def test_hashing_never_follows_a_link(reader: Reader, tmp_path: Path) -> None:
    tree(tmp_path, {"folder/a": b"1"})
    _, _, size, mtime_ns = stamped(tmp_path / "folder" / "a")
    (tmp_path / "b").symlink_to("folder/a")
    (tmp_path / "linked").symlink_to("folder")
    for path in (b"b", b"linked/a"):
        with pytest.raises(OSError, match=r"symbolic link|Not a directory") as refused:
            reader.hash(os.fsencode(tmp_path), path, size, mtime_ns, "blake3")
        assert refused.value.errno in (errno.ELOOP, errno.ENOTDIR)
    assert reader.hash(os.fsencode(tmp_path), b"folder/a", size, mtime_ns, "blake3") == blake3(b"1").digest()


@pytest.mark.usefixtures("way")
def test_a_file_is_opened_however_deep_and_one_that_is_not_there_says_so(tmp_path: Path) -> None:
    """A path of more than 4,096 bytes can't be given to the kernel in one piece."""
    handle = os.open(tmp_path, os.O_RDONLY)
    path = b""
    for _ in range(20):
        os.mkdir(b"d" * 240, dir_fd=handle)
        below = os.open(b"d" * 240, os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle, path = below, path + b"d" * 240 + b"/"
    os.close(os.open(b"file", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
    os.close(handle)
    os.close(open_file(os.fsencode(tmp_path), path + b"file"))
    for missing in (path + b"nothing", b"nothing", b"no/thing"):
        with pytest.raises(FileNotFoundError):
            open_file(os.fsencode(tmp_path), missing)


def test_handles_are_not_given_to_other_programs(tmp_path: Path) -> None:
    tree(tmp_path, {"a": b"1"})
    handle = open_file(os.fsencode(tmp_path), b"a")
    assert not os.get_inheritable(handle)
    os.close(handle)


def _digests(root: str, names: list[str]) -> list[bytes]:
    reader = Reader()
    return [reader.hash(*stamped(Path(root) / name), "blake3") for name in names * 20]


def test_two_readers_side_by_side_do_not_mix_their_files_up(tmp_path: Path) -> None:
    contents = {f"{number}": os.urandom(200_000) for number in range(8)}
    tree(tmp_path, contents)
    halves: Iterator[list[str]] = iter([[*contents][:4], [*contents][4:]])
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.starmap(_digests, [(str(tmp_path), half) for half in halves])
    expected = [blake3(content).digest() for content in contents.values()]
    assert found == [expected[:4] * 20, expected[4:] * 20]


@pytest.mark.parametrize(("number", "stored"), [(5, 5), (2**63 - 1, 2**63 - 1), (2**63, -(2**63)), (2**64 - 1, -1)])
def test_large_inode_numbers_fit_a_signed_column(number: int, stored: int) -> None:
    assert signed(number) == stored


@pytest.mark.parametrize("length", [3 << 20, (5 << 20) + 4321])
def test_a_large_file_that_is_not_in_memory_is_hashed_from_the_disk(
    reader: Reader, tmp_path: Path, length: int
) -> None:
    """In larger pieces than one from memory: the disk is asked for more at a time."""
    content = os.urandom(length)
    path = tmp_path / "large"
    path.write_bytes(content)
    pieces: list[int] = []
    with cold(path):
        found = reader.hash(os.fsencode(tmp_path), b"large", length, path.stat().st_mtime_ns, "blake3", pieces.append)
    assert found == blake3(content).digest()
    assert (sum(pieces), max(pieces)) == (length, 2 << 20)
