"""Fixtures for the tests of libraries."""

from __future__ import annotations

import os
from collections.abc import Iterator
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


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    """The test's own folder, open."""
    handle = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield handle
    os.close(handle)
