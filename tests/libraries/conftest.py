"""Fixtures for the tests of libraries."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from accounts.models import Role
from tests.pages import logged_in


@pytest.fixture
def disk(tmp_path: Path, settings: Settings) -> Path:
    """The one libraries' root of this test; the state folder lies beside it."""
    settings.STATE_ROOT = tmp_path / "own"
    settings.LIBRARIES_ROOTS = [tmp_path / "disk"]
    for folder in ("own/libraries", "own/thumbs", "disk"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path / "disk"


@pytest.fixture
def admin() -> Client:
    return logged_in(Role.ADMIN)
