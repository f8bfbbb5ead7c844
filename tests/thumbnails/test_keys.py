from __future__ import annotations

import re
from typing import Any

import pytest

from libraries.models import LibraryFile
from thumbnails.keys import GROUP_KEY, group_of_file, place_of, relpath_of, thumb_key
from thumbnails.models import Thumbnail


def a_file(**fields: Any) -> LibraryFile:
    return LibraryFile(**{"id": 7, "size_bytes": 10, "mtime_ns": 20, **fields})


HASHED: dict[str, Any] = {"hash_algorithm": "blake3", "content_hash": b"x" * 32}


def test_a_key_is_a_digest_and_says_where_the_picture_lies() -> None:
    key = thumb_key(a_file())
    assert re.fullmatch("[0-9a-f]{64}", key)
    assert relpath_of(key, "webp") == f"{key[:2]}/{key[2:4]}/{key}.webp"
    assert relpath_of(key, "jpeg").endswith(f"{key}.jpg")


@pytest.mark.parametrize(
    "other",
    [a_file(id=8), a_file(size_bytes=11), a_file(mtime_ns=21), a_file(**HASHED)],
    ids=["file", "size", "mtime", "digest"],
)
def test_another_content_has_another_key(other: LibraryFile) -> None:
    assert thumb_key(other) != thumb_key(a_file())


def test_another_form_has_another_key() -> None:
    file = a_file()
    keys = {thumb_key(file, dimension, form) for dimension in (320, 640) for form in ("webp", "jpeg")}
    assert len(keys) == 4


def test_a_file_that_was_only_touched_keeps_its_key_once_it_is_hashed() -> None:
    assert thumb_key(a_file(**HASHED)) == thumb_key(a_file(**HASHED, mtime_ns=99))
    digest_from_database = {**HASHED, "content_hash": memoryview(b"x" * 32)}
    assert thumb_key(a_file(**digest_from_database)) == thumb_key(a_file(**HASHED))
    assert thumb_key(a_file(**{**HASHED, "content_hash": b"y" * 32})) != thumb_key(a_file(**HASHED))


def test_a_row_lies_where_it_was_let_in() -> None:
    assert place_of(Thumbnail(thumb_key="ab" * 32, format="jpeg")) == relpath_of("ab" * 32, "jpeg")
    assert place_of(Thumbnail(thumb_key="ab" * 32, format="jpeg", output_relpath="somewhere")) == "somewhere"


def test_group_keys_are_told_from_other_words() -> None:
    good = [f"blake3:{'a' * 64}", f" SHA256:{'A' * 64} ", group_of_file(3)]
    bad = ["", "blake3:", f"md5:{'a' * 32}", f"blake3:{'g' * 64}", "file:", "file:x", "file:1\n2"]
    assert all(re.match(GROUP_KEY, key) for key in good)
    assert not any(re.match(GROUP_KEY, key) for key in bad)
