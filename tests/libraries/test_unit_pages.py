"""Rows on the pages of a database, by SQLite and by C: SQLite finds nothing wrong with them, and each row as it was."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from pathlib import Path

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from libraries import unit_pages
from libraries.names import PATH_CHARACTERS, to_text
from libraries.small_files import TOGETHER
from libraries.unit_pages import PAGE_BYTES, SeenRow, Shelf, ShelfByPython, ShelfInC, database_of, rows_of, shelf
from tests.native import NEEDS_COMPILER
from tests.tree import tree

NUMBERS = (1, 2, 3, 4, 5, 6)


def in_c() -> ShelfInC:
    made = shelf(mmap(-1, 1 << 20, flags=MAP_PRIVATE | MAP_ANONYMOUS))
    assert isinstance(made, ShelfInC), NEEDS_COMPILER
    return made


@pytest.fixture(params=[in_c, ShelfByPython])
def one(request: pytest.FixtureRequest) -> Shelf:
    made: Shelf = request.param()
    return made


def sound_rows(units: list[bytes]) -> list[SeenRow]:
    for pages in units:
        with sqlite3.connect(":memory:") as connection:
            connection.deserialize(database_of(pages))
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.close()
    return list(rows_of(units))


def put_all(one: Shelf, rows: Sequence[SeenRow]) -> list[bytes]:
    for row in rows:
        one.put(row)
    return one.take()


@pytest.mark.parametrize("count", [0, 1, 2, 200, 300, 5_000])
def test_any_number_of_rows_comes_back(one: Shelf, count: int) -> None:
    """From none to more than one page that leads to others would need."""
    rows = [(f"a/{number}", *NUMBERS, bytes([number % 256]) * 32) for number in range(count)]
    assert sound_rows(put_all(one, rows)) == rows
    assert one.take() == []


@pytest.mark.parametrize("length", [1, 63, 64, 127, 128, 8_180, 8_185, PATH_CHARACTERS])
def test_paths_of_any_length_come_back(one: Shelf, length: int) -> None:
    """Also of characters of four bytes, and where a length takes one byte more than the one before."""
    texts = ["p" * min(length, PATH_CHARACTERS), "\N{GRINNING FACE}" * min(length, PATH_CHARACTERS)]
    rows = [(text, *NUMBERS, digest) for text in texts for digest in (None, b"d" * 32)] * 3
    assert sound_rows(put_all(one, rows)) == rows


_numbers = st.integers(min_value=-(2**63), max_value=2**63 - 1)
_rows = st.tuples(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=300),
    st.integers(min_value=0, max_value=2**63 - 1), _numbers, _numbers, _numbers, _numbers, _numbers,
    st.none() | st.binary(min_size=32, max_size=32),
)  # fmt: skip


@given(st.lists(_rows, max_size=60))
def test_rows_of_any_kind_come_back(rows: list[SeenRow]) -> None:
    for made in (in_c(), ShelfByPython()):
        assert sound_rows(put_all(made, rows)) == rows


def test_a_unit_that_is_too_large_for_one_database_makes_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_pages, "FULL_PAGES", 3)
    rows = [(f"{number}", *NUMBERS, b"d" * 32) for number in range(3_000)]
    units = put_all(in_c(), rows)
    assert len(units) > 2
    assert max(map(len, units)) <= 5 * PAGE_BYTES
    assert sound_rows(units) == rows


def test_the_longest_rows_of_a_call_have_room_behind_a_database_that_is_nearly_full(
    monkeypatch: pytest.MonkeyPatch, folder: int, tmp_path: Path
) -> None:
    monkeypatch.setattr(unit_pages, "FULL_PAGES", 1)
    monkeypatch.setattr(unit_pages, "MOST_PAGES", 1 + TOGETHER + 1)
    names = [f"{number:04}" + "\N{GRINNING FACE}" * 60 for number in range(2 * TOGETHER)]
    tree(tmp_path, dict.fromkeys(names, b"1"))
    prefix = "\N{GRINNING FACE}" * (PATH_CHARACTERS - 65) + "/"
    one = in_c()
    one.put(("first", *NUMBERS, None))
    assert one.look(folder, prefix, names, 0, 4096, blake3) == []
    assert [row[0] for row in sound_rows(one.take())] == ["first", *(prefix + name for name in names)]


def test_what_was_begun_is_forgotten_by_the_next_unit(one: Shelf) -> None:
    one.put(("left over", *NUMBERS, None))
    one.clear()
    assert (one.file_count, one.bytes_seen, one.take()) == (0, 0, [])


def test_names_are_stored_as_the_columns_have_them(one: Shelf, folder: int, tmp_path: Path) -> None:
    names = [b"plain", b"caf\xc3\xa9", b"caf\xe9", "\uf7e9".encode(), b"new\nline"]
    tree(tmp_path, dict.fromkeys(names, b"1"))
    assert one.look(folder, os.fsdecode(b"fo\xe9/"), [os.fsdecode(name) for name in names], 0, 9, blake3) == []
    assert [row[0] for row in sound_rows(one.take())] == [to_text(b"fo\xe9/" + name) for name in names]


def test_a_path_that_fits_no_column_is_odd_by_its_characters_there(one: Shelf, folder: int, tmp_path: Path) -> None:
    """A character that has to be escaped takes three there."""
    names = ["fits", "longer", "\uf7e9\uf7e9"]
    tree(tmp_path, dict.fromkeys(names, b"1"))
    prefix = "p" * (PATH_CHARACTERS - 5) + "/"
    assert one.look(folder, prefix, names, 0, 9, blake3) == ["longer", "\uf7e9\uf7e9"]
    assert [row[0] for row in sound_rows(one.take())] == [f"{prefix}fits"]
