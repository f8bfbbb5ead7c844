"""Builds that are not of this source are not used."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from libraries import blake3_many, native, small_files, unit_pages
from tests.conftest import ROOT
from trash import small_pairs


@pytest.mark.parametrize(
    ("source", "version"),
    [
        ("libraries/blake3_many.c", blake3_many.VERSION),
        ("libraries/small_files.c", small_files.VERSION),
        ("libraries/unit_pages.c", unit_pages.VERSION),
        ("trash/small_pairs.c", small_pairs.VERSION),
    ],
)
def test_a_build_of_another_version_is_not_used(
    source: str, version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = shutil.which("cc")
    assert compiler is not None
    name, text = Path(source).stem, (ROOT / source).read_text()
    old = text.replace(f"dedupfs_{name}_version = {version}", f"dedupfs_{name}_version = {version - 1}")
    assert old != text
    folders = {"this": text, "old": old, "without a version": "int nothing;", "garbage": None, "not there": None}
    for folder, content in folders.items():
        built = tmp_path / folder / f"{name}.so"
        built.parent.mkdir()
        if content is not None:
            subprocess.run(
                [compiler, "-shared", "-fPIC", "-xc", "-o", built, "-"], input=content, text=True, check=True
            )
    (tmp_path / "garbage" / f"{name}.so").write_bytes(b"not a library")
    found = {}
    for folder in folders:
        native.library.cache_clear()
        monkeypatch.setattr(native, "FOLDER", str(tmp_path / folder))
        found[folder] = native.library(name, version) is not None
    native.library.cache_clear()
    assert found == {folder: folder == "this" for folder in folders}


def test_what_is_found_of_a_file_is_the_same_in_each_source() -> None:
    """One writes it and the others read it, each compiled by itself. Whoever changes it changes all three versions."""
    sources = ("libraries/small_files.c", "libraries/unit_pages.c", "libraries/blake3_many.c")
    found = [
        re.findall(r"^struct seen \{(.*?)^\};", (ROOT / each).read_text(), re.DOTALL | re.MULTILINE) for each in sources
    ]
    ((fields,),) = {tuple(" ".join(each.split()) for each in structs) for structs in found}
    assert fields.startswith("int64_t ")
    assert 8 * len(fields.split(",")) == small_files.SEEN.size
