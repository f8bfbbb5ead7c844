"""A thumbnail root of each test's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_django import Settings


@pytest.fixture
def thumb_root(tmp_path: Path, settings: Settings) -> Path:
    """Where consumers of `start_consumer` look, too."""
    settings.THUMBNAIL_ROOT = tmp_path / "state" / "thumbs"
    return Path(settings.THUMBNAIL_ROOT)
