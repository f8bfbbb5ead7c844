"""`manage.py check PATH`: is everything below it in the libraries, and where? Without PATH it is still Django's."""

from __future__ import annotations

import json
import os
import socket
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from duplicates import checking
from libraries.models import LibraryFile, LibraryRoot, LibraryState
from libraries.reading import UNIT_FILES
from libraries.running_now import hash_now
from tests.conftest import Manage
from tests.libraries.scans import scan, scanned
from tests.libraries.test_reading import HOSTILE
from tests.tree import tree

pytestmark = pytest.mark.django_db

LARGE = 200_000


def big(text: str, size: int = LARGE) -> bytes:
    return (text.encode() * size)[:size]


def check(capfd: pytest.CaptureFixture[str], path: Path | str, *options: str) -> tuple[int, list[str], str]:
    """The exit code, the lines and what was said beside them."""
    with pytest.raises(SystemExit) as end:
        call_command("check", str(path), *options)
    said = capfd.readouterr()
    assert isinstance(end.value.code, int)
    return end.value.code, said.out.splitlines(), said.err


def answers(capfd: pytest.CaptureFixture[str], path: Path) -> dict[str, dict[str, Any]]:
    _code, lines, _ = check(capfd, path, "--json")
    found = [json.loads(line) for line in lines]
    return {each["path"]: each for each in found}


def rows() -> list[dict[str, Any]]:
    return [dict(row) for row in LibraryFile.objects.order_by("id").values()]


def stamps(folder: Path) -> list[tuple[Any, ...]]:
    """All that can be seen of a tree from outside, but for when it was read."""
    found = []
    for top, folders, files in os.walk(folder):
        for name in [*folders, *files, "."]:
            info = os.lstat(os.path.join(top, name))
            found.append((top, name, info.st_mode, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino))
    return sorted(found)


# --- The answer -------------------------------------------------------------------------------------------
def test_all_is_here_and_the_exit_code_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    scanned(tree(tmp_path / "lib", {"2020/a": b"a", "b": b"b", "b2": b"b", "large": big("x")}))
    card = tree(tmp_path / "card", {"DCIM/1": b"a", "DCIM/2": b"b", "DCIM/3": big("x")})
    code, lines, _ = check(capfd, card)
    assert code == 0
    assert lines[-1] == "3 of 3 are here, 0 on two filesystems"
    assert any(line.startswith("here") and "DCIM/1" in line and "photos: 2020/a" in line for line in lines)
    assert any("DCIM/2  (2 copies;" in line for line in lines)


def test_what_is_not_here_is_listed_and_the_exit_code_is_1(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    scanned(tree(tmp_path / "lib", {"a": b"a", "large": big("x")}))
    card = tree(tmp_path / "card", {"1": b"a", "new": b"new", "new large": big("n", LARGE + 1), "other": big("y")})
    code, lines, _ = check(capfd, card, "--missing")
    assert code == 1
    assert sorted(lines[:-1]) == [f"missing    {name}" for name in ("new", "new large", "other")]
    assert lines[-1] == "1 of 4 are here, 0 on two filesystems"


def test_json_is_one_object_for_each_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    library = scanned(tree(tmp_path / "lib", {b"caf\xe9/\xff": b"a"}))
    LibraryState.objects.filter(library=library).update(filesystems={"": "uuid:1"})
    card = tree(tmp_path / "card", {b"\xfe\n": b"a"})
    code, (line,), err = check(capfd, card, "--json")
    said = json.loads(line)
    assert (code, said["path"], said["state"], said["copies"], said["filesystems"]) == (0, "\\xfe\\n", "here", 1, 1)
    assert bytes.fromhex(said["path_hex"]) == os.fsencode(card) + b"/\xfe\n"
    (where,) = said["where"]
    assert (where["library"], where["path"], where["filesystem"]) == ("photos", "caf\\xe9/\\xff", "uuid:1")
    assert bytes.fromhex(where["path_hex"]) == os.fsencode(tmp_path / "lib") + b"/caf\xe9/\xff"
    assert "1 of 1 are here" in err


def test_copies_on_two_filesystems_are_told_apart(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    one = scanned(tree(tmp_path / "one", {"a": b"a", "b": b"b", "inner/a": b"a"}), name="one")
    two = scanned(tree(tmp_path / "two", {"a": b"a"}), name="two")
    LibraryState.objects.filter(library=one).update(filesystems={"": "uuid:1", "inner": "uuid:2"})
    LibraryState.objects.filter(library=two).update(filesystems={"": "uuid:1"})
    card = tree(tmp_path / "card", {"a": b"a", "b": b"b"})
    said = answers(capfd, card)
    assert (said["a"]["copies"], said["a"]["filesystems"]) == (3, 2)
    assert (said["b"]["copies"], said["b"]["filesystems"]) == (1, 1)
    assert check(capfd, card)[1][-1] == "2 of 2 are here, 1 on two filesystems"


def test_hard_links_are_one_copy(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lib = tree(tmp_path / "lib", {"a": b"a"})
    os.link(lib / "a", lib / "again")
    scanned(lib)
    assert answers(capfd, tree(tmp_path / "card", {"x": b"a"}))["x"]["copies"] == 1


def test_missing_files_and_libraries_on_their_way_out_do_not_count(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lib = tree(tmp_path / "lib", {"a": b"a", "keep": b"keep"})
    library = scanned(lib)
    (lib / "a").unlink()
    scan(library, accept_missing=True)
    card = tree(tmp_path / "card", {"a": b"a", "keep": b"keep"})
    assert {path: each["state"] for path, each in answers(capfd, card).items()} == {"a": "missing", "keep": "here"}
    LibraryRoot.objects.update(removing_at="2026-01-01T00:00:00Z")
    assert {each["state"] for each in answers(capfd, card).values()} == {"missing"}


def test_trash_is_no_copy_and_is_not_checked(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    scanned(tree(tmp_path / "lib", {".dedupfs-trash/a": b"a", "b": b"b"}))
    card = tree(tmp_path / "card", {"a": b"a", ".dedupfs-trash/x": b"x", ".git/y": b"y", "b": b"b"})
    assert {path: each["state"] for path, each in answers(capfd, card).items()} == {"a": "missing", "b": "here"}


def test_each_file_of_a_folder_that_is_read_in_parts_has_one_answer(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    scanned(tree(tmp_path / "lib", {"a": b"", "b": b"b"}))
    names = [f"{number}" for number in range(2 * UNIT_FILES + 50)]
    card = tree(tmp_path / "card", dict.fromkeys(names, b"") | {"b": b"b", "new": b"new"})
    _code, lines, _ = check(capfd, card, "--json")
    found = [json.loads(line) for line in lines]
    assert sorted(each["path"] for each in found) == sorted([*names, "b", "new"])
    assert [each["path"] for each in found if each["state"] == "missing"] == ["new"]


# --- Content ----------------------------------------------------------------------------------------------
def test_same_size_beginning_middle_and_end_is_not_enough(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    content = bytearray(big("z"))
    scanned(tree(tmp_path / "lib", {"a": bytes(content), "b": bytes(content)}))
    hash_now(actor="test")
    content[60_000] ^= 1
    card = tree(tmp_path / "card", {"other": bytes(content), "same": big("z")})
    assert {path: each["state"] for path, each in answers(capfd, card).items()} == {"other": "missing", "same": "here"}


@pytest.mark.parametrize("is_hashed", [True, False])
def test_files_of_the_index_without_a_digest_are_read(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], is_hashed: bool
) -> None:
    """A large file without a twin was never read; whether or not a hash job has looked at it."""
    scanned(tree(tmp_path / "lib", {"one": big("1"), "two": big("2"), "unique": big("3", LARGE + 7)}))
    if is_hashed:
        hash_now(actor="test")
    before = rows()
    assert any(row["needs_hash"] for row in before)
    card = tree(tmp_path / "card", {"1": big("1"), "3": big("3", LARGE + 7), "4": big("4"), "again": big("1")})
    said = answers(capfd, card)
    assert {path: (each["state"], each["copies"]) for path, each in said.items()} == {
        "1": ("here", 1),
        "again": ("here", 1),
        "3": ("here", 1),
        "4": ("missing", 0),
    }
    assert rows() == before


def test_a_file_of_the_index_that_can_not_be_read_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lib = tree(tmp_path / "lib", {"unique": big("3")})
    scanned(lib)
    card = tree(tmp_path / "card", {"x": big("3")})
    (lib / "unique").unlink()
    said = answers(capfd, card)["x"]
    assert said["state"] == "missing"
    assert "photos: unique has the same size, is not hashed yet and can't be read" in said["note"]


def test_a_file_that_changed_since_it_was_scanned_is_no_copy(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lib = tree(tmp_path / "lib", {"unique": big("3")})
    scanned(lib)
    (lib / "unique").write_bytes(big("4"))
    os.utime(lib / "unique", ns=(1, 1))
    assert answers(capfd, tree(tmp_path / "card", {"x": big("4")}))["x"]["state"] == "missing"


def test_only_what_may_be_known_is_read(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large file of a size that the index has not is not read, one with another sample not to its end."""
    asked: list[tuple[str, str]] = []
    submit = checking.Check._submit

    def note(self: checking.Check, verb: str, file: Any, twin: Any = None) -> None:
        asked.append((verb, file.path if twin is None else f"index: {twin.path}"))
        submit(self, verb, file, twin)

    monkeypatch.setattr(checking.Check, "_submit", note)
    scanned(tree(tmp_path / "lib", {"a": big("a"), "b": big("a")}))
    hash_now(actor="test")
    check(capfd, tree(tmp_path / "card", {"unknown": big("u", LARGE + 1), "other": big("o"), "same": big("a")}))
    assert sorted(asked) == [("hash", "same"), ("sample", "other"), ("sample", "same")]


def test_sha256_is_compared_with_sha256(tmp_path: Path, capfd: pytest.CaptureFixture[str], settings: Any) -> None:
    settings.HASH_ALGORITHM = "sha256"
    scanned(tree(tmp_path / "lib", {"a": b"a", "large": big("x"), "twin": big("x")}))
    hash_now(actor="test")
    assert set(LibraryFile.objects.values_list("hash_algorithm", flat=True)) == {"sha256"}
    card = tree(tmp_path / "card", {"a": b"a", "x": big("x")})
    assert check(capfd, card)[0] == 0


# --- Names and trees --------------------------------------------------------------------------------------
def test_hostile_names_are_checked_byte_for_byte(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    contents = {name: b"%d" % number for number, name in enumerate(HOSTILE)}
    scanned(tree(tmp_path / "lib", {b"%d" % number: content for number, content in enumerate(contents.values())}))
    card = tree(tmp_path / "card", contents)
    code, lines, _ = check(capfd, card, "--json")
    root = os.fsencode(card) + b"/"
    assert code == 0
    assert {bytes.fromhex(json.loads(line)["path_hex"]) for line in lines} == {root + name for name in contents}


def test_links_and_special_files_are_not_followed_nor_opened(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    scanned(tree(tmp_path / "lib", {"a": b"a"}))
    outside = tree(tmp_path / "outside", {"secret": b"secret"})
    card = tree(tmp_path / "card", {"a": b"a"})
    (card / "to file").symlink_to(outside / "secret")
    (card / "to folder").symlink_to(outside)
    (card / "loop").symlink_to(card)
    (card / "dangling").symlink_to("nowhere")
    os.mkfifo(card / "fifo")
    with socket.socket(socket.AF_UNIX) as end:
        with chdir(card):
            end.bind("socket")  # its whole path may be too long for a socket's address
        code, lines, _ = check(capfd, card)
    assert (code, lines[-1]) == (0, "1 of 1 are here, 0 on two filesystems")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_can_not_be_read_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    scanned(tree(tmp_path / "lib", {"a": b"a"}))
    card = tree(tmp_path / "card", {"a": b"a", "locked/x": b"x", "b": b"b"})
    (card / "locked").chmod(0)
    (card / "b").chmod(0)
    try:
        code, lines, _ = check(capfd, card)
    finally:
        (card / "locked").chmod(0o700)
    assert code == 1
    assert any(line.startswith("unreadable locked/ and all below it") for line in lines)
    assert lines[-1].endswith("2 could not be read")


def test_a_file_that_vanished_or_changes_meanwhile_is_unreadable(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scanned(tree(tmp_path / "lib", {"a": big("a"), "b": big("b")}))
    card = tree(tmp_path / "card", {"a": big("a"), "b": big("b")})
    submit = checking.Check._submit

    def meddle(self: checking.Check, verb: str, file: Any, twin: Any = None) -> None:
        if (card / "a").exists():
            (card / "a").unlink()
            (card / "b").write_bytes(big("c"))
            os.utime(card / "b", ns=(1, 1))
        submit(self, verb, file, twin)

    monkeypatch.setattr(checking.Check, "_submit", meddle)
    code, lines, _ = check(capfd, card, "--json")
    said = {each["path"]: each for each in map(json.loads, lines)}
    assert code == 1
    assert {each["state"] for each in said.values()} == {"unreadable"}
    assert "ENOENT" in said["a"]["note"]
    assert "changed" in said["b"]["note"]


def test_nothing_is_written_anywhere(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    scanned(tree(tmp_path / "lib", {"a": b"a", "large": big("x")}))
    card = tree(tmp_path / "card", {"d/a": b"a", "x": big("x"), "n": big("n")})
    before, files = rows(), stamps(tmp_path)
    with connections["default"].execute_wrapper(_refuse_writing):
        check(capfd, card)
    assert (rows(), stamps(tmp_path)) == (before, files)


def _refuse_writing(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
    assert sql.lstrip().upper().startswith(("SELECT", "PRAGMA")), sql
    return execute(sql, params, many, context)


# --- Inside of a library ----------------------------------------------------------------------------------
def test_inside_of_a_library_only_copies_elsewhere_count(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lib = tree(tmp_path / "lib", {"card/a": b"a", "card/b": b"b", "card/b again": b"b", "safe/a": b"a"})
    scanned(lib)
    code, lines, err = check(capfd, lib / "card", "--json")
    assert code == 1
    assert "It shares files with photos: only copies elsewhere count." in err
    said = {each["path"]: each for each in map(json.loads, lines)}
    assert {path: each["state"] for path, each in said.items()} == {"a": "here", "b": "missing", "b again": "missing"}
    assert [where["path"] for where in said["a"]["where"]] == ["safe/a"]


def test_a_folder_around_a_library_or_reached_by_a_link_is_no_copy_of_itself(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lib = tree(tmp_path / "top" / "lib", {"a": b"a"})
    scanned(lib)
    (tmp_path / "link").symlink_to(lib)
    for path in (tmp_path / "top", lib, tmp_path / "link"):
        code, lines, err = check(capfd, path)
        assert (code, lines[-1]) == (1, "0 of 1 are here, 0 on two filesystems")
        assert "shares files" in err


def test_a_file_that_was_moved_into_the_folder_is_no_copy(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The index still has it where it was."""
    lib = tree(tmp_path / "lib", {"a": b"a", "card/b": b"b"})
    scanned(lib)
    (lib / "a").rename(lib / "card" / "a")
    assert {each["state"] for each in answers(capfd, lib / "card").values()} == {"missing"}


# --- The command ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", ["nowhere", "file", "empty", "", "two"])
def test_what_can_not_be_checked_is_an_error(tmp_path: Path, case: str) -> None:
    tree(tmp_path, {"file": b"x"})
    (tmp_path / "empty").mkdir()
    paths = [""] if case == "" else [str(tmp_path / case)]
    with pytest.raises(CommandError) as refusal:
        call_command("check", *(paths * 2 if case == "two" else paths))
    assert refusal.value.returncode == 2


def test_without_a_path_it_is_djangos_own(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("check")
    assert "System check identified" in "".join(capsys.readouterr())
    call_command("check", "auth")
    call_command("check", "--list-tags")
    assert "models" in capsys.readouterr().out
    call_command("check", databases=["default"])
    with pytest.raises(CommandError):
        call_command("check", "--tag", "no such tag")


def test_options_of_ours_never_run_the_system_checks_instead() -> None:
    """`check $CARD --missing` with an empty variable must not say that all is well."""
    for words in (["--missing"], ["--json"], ["--missing", "--deploy"]):
        with pytest.raises(CommandError) as refusal:
            call_command("check", *words)
        assert refusal.value.returncode == 2


def test_a_folder_with_the_name_of_an_app_is_never_taken_for_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree(tmp_path, {"auth/x": b"x"}))
    with pytest.raises(CommandError, match=r"Write \./auth for the folder"):
        call_command("check", "auth")
    assert check(capfd, "./auth")[0] == 1


def test_exit_codes_of_the_real_command(tmp_path: Path, run_manage: Manage) -> None:
    scanned(tree(tmp_path / "lib", {"a": b"a"}))
    tree(tmp_path / "card", {"a": b"a", "b": b"b"})
    done = run_manage("check", "card", cwd=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "1 of 2 are here, 0 on two filesystems"), done.stderr
    assert run_manage("check", str(tmp_path / "nowhere")).returncode == 2
