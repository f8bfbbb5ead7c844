"""Fixtures for the tests of libraries."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_django import Settings


@pytest.fixture
def disk(tmp_path: Path, settings: Settings) -> Path:
    """The one libraries' root of this test; the state folder lies beside it."""
    settings.STATE_ROOT = tmp_path / "own"
    settings.LIBRARIES_ROOTS = [tmp_path / "disk"]
    for folder in ("own/libraries", "own/thumbs", "disk"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path / "disk"
