"""An installation of its own for one test: a state folder, a SQLite database, and `manage.py` on them."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from database.crash_points import VARIABLE
from tests.conftest import ROOT


@dataclass(frozen=True)
class Installation:
    state: Path

    @property
    def database(self) -> Path:
        return self.state / "dedupfs.sqlite3"

    @property
    def environment(self) -> dict[str, str]:
        without = {"DATABASE_URL", "DEDUPFS_SECRET_KEY", "DEDUPFS_STATE_ROOT", VARIABLE, "HUEY_URL"}
        inherited = {name: value for name, value in os.environ.items() if name not in without}
        return {
            **inherited,
            "DEDUPFS_STATE_ROOT": str(self.state),
            "DJANGO_SETTINGS_MODULE": "dedupfs_site.settings",
        }

    def manage(self, *arguments: str, env: dict[str, str] | None = None, **more: Any) -> Any:
        """Run a command as a person would; the answer has `returncode`, `stdout` and `stderr`."""
        return subprocess.run(
            [sys.executable, str(ROOT / "manage.py"), *arguments],
            env={**self.environment, **(env or {})},
            capture_output=True,
            text=True,
            timeout=120,
            cwd=self.state,
            **more,
        )

    @contextmanager
    def open(self, path: Path | None = None) -> Iterator[sqlite3.Connection]:
        """A plain connection in autocommit, as a stranger would have it."""
        connection = sqlite3.connect(path or self.database, isolation_level=None, timeout=20)
        try:
            yield connection
        finally:
            connection.close()

    def rows(self, sql: str, path: Path | None = None) -> list[tuple[Any, ...]]:
        with self.open(path) as connection:
            return connection.execute(sql).fetchall()

    def names(self) -> set[str]:
        """The files of the state folder."""
        return {each.name for each in self.state.iterdir()}


def killed_at_each_point(run: Callable[[dict[str, str]], int], point: str, look: Callable[[int], None]) -> int:
    """Run something again and again, killed at its first crash point, its second, …, until it gets through.

    `run` gets the environment and returns the exit code; `look` sees what each kill left. Returns how many there were.
    """
    for number in range(1, 100):
        code = run({VARIABLE: f"{point}:{number}"})
        if code == 0:
            return number - 1
        assert code == -signal.SIGKILL
        look(number)
    raise AssertionError(f"{point} never got through")


def sound(path: Path) -> bool:
    """Whether SQLite finds the file whole."""
    connection = sqlite3.connect(path, timeout=20)
    try:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        connection.close()
