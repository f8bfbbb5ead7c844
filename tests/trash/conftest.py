"""What most tests of acting need: files that are a moment old may be acted on, and each test has a state folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_django import Settings

from tests.trash.acts import allow


@pytest.fixture
def young_files_too(settings: Settings, tmp_path: Path) -> None:
    settings.YOUNG_HOURS = 0
    settings.STATE_ROOT = tmp_path / "state"


@pytest.fixture
def everything_allowed(settings: Settings, young_files_too: None) -> None:
    settings.ACT_GRACE_SECONDS = 0
    settings.ALLOW_REAL_DELETE = True
    allow()
