from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.database.installations import Installation


@pytest.fixture(scope="session")
def migrated_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder with a migrated database, made once and only copied from."""
    state = tmp_path_factory.mktemp("migrated")
    done = Installation(state).manage("migrate", "--verbosity=0")
    assert done.returncode == 0, done.stderr
    return state


@pytest.fixture
def installation(migrated_state: Path, tmp_path: Path) -> Installation:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    for name in ("dedupfs.sqlite3", "secret_key"):
        shutil.copy2(migrated_state / name, state / name)
    return Installation(state)
