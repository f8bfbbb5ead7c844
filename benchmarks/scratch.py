"""Throw-away installations to measure on: one database each, gone afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.with_postgres import postgres

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def installation(vendor: str) -> Iterator[dict[str, str]]:
    """A migrated installation; yields the environment that leads to it."""
    with tempfile.TemporaryDirectory(prefix="dedupfs-bench-") as folder:
        base = {**os.environ, "DEDUPFS_STATE_ROOT": folder, "DJANGO_SETTINGS_MODULE": "dedupfs_site.settings"}
        if vendor == "sqlite":
            yield _migrated({**base, "DATABASE_URL": ""})
        else:
            with postgres() as url:
                yield _migrated({**base, "DATABASE_URL": url})


def _migrated(environment: dict[str, str]) -> dict[str, str]:
    subprocess.run([sys.executable, str(ROOT / "manage.py"), "migrate", "-v", "0"], env=environment, check=True)
    return environment


def run(module: str, environment: dict[str, str], *arguments: str) -> str:
    """Run one measuring module in a process of its own; return what it printed."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout
