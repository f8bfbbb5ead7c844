from __future__ import annotations

import pytest
from django.db import connection

from libraries.models import LibraryFile, LibraryRoot
from libraries.names import to_text
from libraries.path_order import CHARACTERS, between, bounds_of, by_path
from tests import factories

pytestmark = pytest.mark.django_db

#: Longer than what PostgreSQL's index holds of a path, and of characters that take four bytes each.
LONG = "/".join(["\U0001f4f7" * 60] * 10)
#: As a database of some language would not sort them: by case, blanks, signs, accents, and in bytes that are no text.
HOSTILE = [
    "a", "B", "b", "a b", "a-b", "a.b", "a/b", "a0", "a0/b", "ab", "ä", "z", "é/x", "e\u0301/x", "a/\x01", "A/b", "a/B",
    to_text(b"\xff/x"), to_text(b"caf\xe9/x"), "\U0001f4f7", "\ufffd", "%", "_", "a%/b", "a_/b", "old/x", "old",
    "old.x", LONG, f"{LONG}/x", f"{LONG}/y", f"{LONG}0", f"{LONG}0/x", LONG[:CHARACTERS], LONG[: CHARACTERS - 1],
]  # fmt: skip


@pytest.fixture
def photos() -> LibraryRoot:
    photos, other = factories.library("photos"), factories.library("other")
    for library in (photos, other):
        LibraryFile.objects.bulk_create(
            LibraryFile(library=library, relative_path=path, size_bytes=1, mtime_ns=1) for path in HOSTILE
        )
    return photos


def asked(library: LibraryRoot, start: str, end: str | None) -> list[str]:
    which, values = between(library.pk, start, end, connection.vendor)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT relative_path FROM library_files WHERE {which} ORDER BY {by_path(connection.vendor)}", values
        )
        return [path for (path,) in cursor.fetchall()]


def test_paths_come_in_the_order_in_which_python_has_them(photos: LibraryRoot) -> None:
    assert asked(photos, "", None) == sorted(HOSTILE)


@pytest.mark.parametrize("end", [None, "b", "old0", f"{LONG}/y", LONG[:CHARACTERS]])
def test_a_part_begins_and_ends_at_any_path(photos: LibraryRoot, end: str | None) -> None:
    for start in HOSTILE:
        expected = [path for path in sorted(HOSTILE) if path >= start and (end is None or path < end)]
        assert asked(photos, start, end) == expected, start


@pytest.mark.parametrize("folder", ["a", "A", "old", "a%", "a_", LONG, to_text(b"caf\xe9"), "é", "nothing", ""])
def test_what_is_below_a_folder(photos: LibraryRoot, folder: str) -> None:
    expected = [path for path in sorted(HOSTILE) if not folder or path.startswith(f"{folder}/")]
    assert asked(photos, *bounds_of(folder)) == expected
