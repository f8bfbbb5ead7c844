"""The docs name tests as proof; those tests exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT

NAMED = re.compile(r"`((?:tests/[\w/]+/)?test_\w+\.py)(?:::(\w+))?`")
PAGES = sorted((ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_a_page_names_is_there(page: Path) -> None:
    text = page.read_text()
    for path, function in NAMED.findall(text):
        found = [ROOT / path] if "/" in path else list((ROOT / "tests").rglob(path))
        assert found, path
        assert found[0].is_file(), path
        assert not function or f"def {function}(" in found[0].read_text(), f"{path}::{function}"


def test_the_cautions_page_names_tests() -> None:
    assert len(NAMED.findall((ROOT / "docs" / "cautions.md").read_text())) > 10
