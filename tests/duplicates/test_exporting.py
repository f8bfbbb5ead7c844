"""The export: what is filtered, every file of it, byte for byte, and nothing that a spreadsheet would run."""

from __future__ import annotations

import csv
import json
from io import StringIO
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from duplicates import exporting, listing, members
from duplicates.filtering import Filter
from libraries.models import LibraryFile, LibraryRoot
from libraries.names import to_text
from tests import factories
from tests.duplicates.contents import copies, key_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def photos() -> LibraryRoot:
    return factories.library("photos")


def written(form: str, filter: Filter | None = None, **more: Any) -> str:
    return b"".join(exporting.FORMATS[form].write(filter or Filter(), **more)).decode()


def as_csv(**more: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(written("csv", **more))))


def as_json(**more: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written("json", **more).splitlines()]


def test_both_forms_tell_every_file_of_what_is_filtered(photos: LibraryRoot) -> None:
    files = copies("x", "a", "b", in_library=photos, size=30, mtime_ns=7)
    copies("y", "c", "d", "e", in_library=photos, size=20)
    copies("small", "f", "g", in_library=photos, size=1)
    rows = as_json(filter=Filter(least_bytes=2))
    assert [row["path"] for row in rows] == ["c", "d", "e", "a", "b"], "what gives most space comes first"
    assert rows[3] == {
        "group_key": key_of("x"),
        "size_bytes": 30,
        "file_count": 2,
        "reclaimable_bytes": 30,
        "file_id": files[0].pk,
        "library": "photos",
        "path": "a",
        "path_hex": b"/libraries/photos/a".hex(),
        "mtime_ns": 7,
    }
    told = as_csv(filter=Filter(least_bytes=2))
    assert told == [{name: str(value) for name, value in row.items()} for row in rows]
    assert [row["path"] for row in as_json(filter=Filter(least_bytes=2), order="size")] == ["a", "b", "c", "d", "e"]


def test_nothing_found_is_a_header_or_nothing() -> None:
    assert written("csv") == ",".join(f'"{name}"' for name in exporting.COLUMNS) + "\r\n"
    assert written("json") == ""


HOSTILE = [
    b"=cmd|' /C calc'!A0", b"+1", b"-1+2", b"@SUM(A1)", b"\t=1", b"\r=1", b"\n=1", "\uff1d1".encode(),
    "\uff0d1".encode(), b'a";=1;"', b"a,=1", b"caf\xe9", b"'quoted", b"line\nbreak", b"\\xe9", b"folder/=1",
]  # fmt: skip


def test_no_cell_is_a_formula_and_every_path_is_exact(photos: LibraryRoot) -> None:
    LibraryRoot.objects.filter(pk=photos.pk).update(name="=HYPERLINK(1)")
    copies("x", *map(to_text, HOSTILE), in_library=photos)
    rows = as_csv()
    assert {bytes.fromhex(row["path_hex"]) for row in rows} == {b"/libraries/photos/" + name for name in HOSTILE}
    for row in rows:
        for cell in (row["path"], row["library"]):
            assert cell[0] not in "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20", cell
    shown = {row["path"] for row in rows}
    assert {"'=cmd|' /C calc'!A0", "'-1+2", "caf\\xe9", "'quoted", "line\\nbreak"} <= shown
    for line in written("csv").splitlines()[1:]:
        assert len(line.split('","')) >= 2, "every text is quoted: no name begins a cell of its own"
    told = {row["path"] for row in as_json()}
    assert {"=cmd|' /C calc'!A0", "-1+2"} <= told, "JSON is run by nobody"


def test_large_groups_and_many_groups_come_in_portions(photos: LibraryRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "PORTION", 3)
    monkeypatch.setattr(members, "MOST_DIGESTS", 2)
    monkeypatch.setattr(listing, "PAGE", 4)
    monkeypatch.setattr(exporting, "_LINES", 2)
    copies("large", *(f"l{number}" for number in range(11)), in_library=photos)
    for number in range(9):
        copies(f"c{number}", f"{number}/a", f"{number}/b", in_library=photos)
    rows = as_json()
    assert len(rows) == 29
    assert {row["file_id"] for row in rows} == set(LibraryFile.objects.values_list("pk", flat=True))
    keys = [row["group_key"] for row in rows]
    assert len([key for key, before in zip(keys, [None, *keys], strict=False) if key != before]) == 10, "one by one"
    assert as_csv() == [{name: str(value) for name, value in row.items()} for row in rows]


def test_nothing_is_held_open_while_it_is_sent(photos: LibraryRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE", 2)
    monkeypatch.setattr(exporting, "_LINES", 1)
    for number in range(6):
        copies(f"c{number}", f"{number}/a", f"{number}/b", in_library=photos, size=10 + number)
    sent = exporting.FORMATS["json"].write(Filter(), order="size")
    with CaptureQueriesContext(connection) as queries:
        next(sent)
    reading = [query["sql"] for query in queries if "library_files f" in query["sql"] and "VALUES" in query["sql"]]
    assert len(reading) == 1, "one page is read, not all"
    assert transaction.get_autocommit()
    LibraryFile.objects.filter(relative_path="0/a").delete()  # nobody who reads holds the writer up
    copies("new", "n1", "n2", in_library=photos, size=5)
    rest = [json.loads(line) for line in sent]
    assert {row["path"] for row in rest} >= {"n1", "n2", "5/b"}
    assert "0/b" not in {row["path"] for row in rest}, "what changed before its page was read is told as it is"
