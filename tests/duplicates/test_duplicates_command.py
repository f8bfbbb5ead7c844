"""`manage.py duplicates`: every group, in each of its forms, byte for byte."""

from __future__ import annotations

import csv
import json
import os
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from libraries.models import LibraryFile
from tests.libraries.scans import scanned
from tests.libraries.test_reading import HOSTILE
from tests.tree import tree

pytestmark = pytest.mark.django_db


def printed(capfdbinary: pytest.CaptureFixture[bytes], *options: str) -> bytes:
    call_command("duplicates", *options)
    return capfdbinary.readouterr().out


def groups_in(output: bytes) -> set[frozenset[bytes]]:
    return {frozenset(group.split(b"\n")) for group in output.rstrip(b"\n").split(b"\n\n") if group}


def test_fdupes_prints_paths_as_bytes(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    names = [name for name in HOSTILE if b"\n" not in name]
    tree(tmp_path, dict.fromkeys(names, b"same") | {b"x": b"pair", b"y": b"pair", b"alone": b"1"})
    scanned(tmp_path)
    root = os.fsencode(tmp_path) + b"/"
    assert groups_in(printed(capfdbinary, "--fdupes")) == {
        frozenset(root + name for name in names),
        frozenset({root + b"x", root + b"y"}),
    }


def test_json_and_csv_tell_the_same(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    tree(tmp_path, {b"caf\xe9": b"12", b"b": b"12", b"c": b"3"})
    scanned(tmp_path)
    (group,) = [json.loads(line) for line in printed(capfdbinary, "--json").splitlines()]
    paths = {bytes.fromhex(file["path_hex"]) for file in group["files"]}
    assert paths == {os.fsencode(tmp_path) + b"/" + name for name in (b"caf\xe9", b"b")}
    assert {file["path"] for file in group["files"]} == {"caf\\xe9", "b"}
    rows = list(csv.DictReader(StringIO(printed(capfdbinary, "--csv").decode())))
    assert {(row["group_key"], row["size_bytes"], row["path"]) for row in rows} == {
        (group["group_key"], "2", "caf\\xe9"),
        (group["group_key"], "2", "b"),
    }


def test_csv_runs_nothing_and_tells_every_name_apart(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    names = [b"=cmd|'/c calc'!A1", b"caf\xe9", b"caf\\xe9"]
    scanned(tree(tmp_path, dict.fromkeys(names, b"same")), name="+photos")
    rows = list(csv.DictReader(StringIO(printed(capfdbinary, "--csv").decode())))
    assert list(rows[0]) == ["group_key", "size_bytes", "file_id", "library", "path", "path_hex"]
    assert {row["library"] for row in rows} == {"'+photos"}
    assert [row["path"] for row in rows].count("'=cmd|'/c calc'!A1") == 1
    root = os.fsencode(tmp_path) + b"/"
    assert {bytes.fromhex(row["path_hex"]) for row in rows} == {root + name for name in names}


def test_further_copies_are_counted_by_inodes(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    tree(tmp_path, {"a": b"12345", "b": b"12345", "c": b"777"})
    for old, new in (("a", "a2"), ("a", "a3"), ("c", "c2")):
        os.link(tmp_path / old, tmp_path / new)
    scanned(tmp_path)
    words = printed(capfdbinary)
    assert b"4 files of 5 bytes" in words
    assert b"2 groups, 5 bytes in further copies" in words
    LibraryFile.objects.update(inode=None)
    assert b"2 groups, 18 bytes in further copies" in printed(capfdbinary), "an unknown inode is one of its own"


def test_empty_files_are_no_duplicates_unless_asked_for(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    scanned(tree(tmp_path, {"a": b"", "b": b""}))
    assert printed(capfdbinary, "--fdupes") == b""
    assert len(groups_in(printed(capfdbinary, "--fdupes", "--empty"))) == 1


def test_missing_and_changed_files_are_in_no_group(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    scanned(tree(tmp_path, dict.fromkeys("abc", b"same")))
    LibraryFile.objects.filter(relative_path="a").update(is_missing=True)
    assert {len(group) for group in groups_in(printed(capfdbinary, "--fdupes"))} == {2}
    LibraryFile.objects.filter(relative_path="b").update(needs_hash=True)
    assert printed(capfdbinary, "--fdupes") == b""


def test_groups_past_a_page_are_all_there(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duplicates.finding.PAGE", 3)
    scanned(tree(tmp_path, {f"{n}-{copy}": b"%d" % n for n in range(10) for copy in "ab"}))
    assert len(groups_in(printed(capfdbinary, "--fdupes"))) == 10
    assert b"10 groups, 10 bytes in further copies" in printed(capfdbinary)
