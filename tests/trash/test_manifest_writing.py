"""The lines that an act writes beside its files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from libraries.names import to_text
from trash.manifest_writing import lines_of
from trash.planned import Intent, Kept, Planned


@pytest.mark.parametrize(
    ("folder", "below", "shown"),
    [
        (b"", b'with "quotes" and \\.jpg', 'with "quotes" and \\.jpg'),
        (b"disk", b"x/b.jpg", "x/b.jpg"),
        (b"caf\xe9", b"\xff\nb.jpg", "\\xff\\nb.jpg"),
        ("größer".encode(), "ä/\u202eb.jpg".encode(), "ä/\\u202eb.jpg"),
    ],
)
def test_paths_start_at_the_folder_that_holds_the_trash(
    tmp_path: Path, folder: bytes, below: bytes, shown: str
) -> None:
    path = folder + b"/" + below if folder else below
    keeper = Kept(1, 10, 1, to_text(b"caf\xe9/a.jpg"), 3, 5, 7)
    item = Planned(2, 20, 1, to_text(path), 3, 5, 8, "blake3", bytes(32), "hardlink", keeper, False)
    intent = Intent(item, path, to_text(folder), tmp_path.stat())
    (line,) = lines_of([intent], os.fsencode(tmp_path), to_text(folder))
    found = json.loads(line)
    assert (found["item"], bytes.fromhex(found["path_hex"]), found["path"]) == (2, below, shown)
    assert (found["action"], found["digest"]) == ("hardlink", f"blake3:{'00' * 32}")
    assert (found["keeper"], found["attributes"]) == ("caf\\xe9/a.jpg", {})
