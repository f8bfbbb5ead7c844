"""A real web server for tests of how the site is reached and what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.site.browsing import Gunicorn

SETTINGS = "tests.site.served"


@pytest.fixture(scope="session")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Static files as `up` collects them: named by their content, compressed."""
    folder = tmp_path_factory.mktemp("static")
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": SETTINGS, "SERVED_STATIC_ROOT": str(folder)}
    command = [sys.executable, str(ROOT / "manage.py"), "collectstatic", "--noinput", "-v", "0"]
    subprocess.run(command, env=environment, cwd=ROOT, check=True)
    return folder


@pytest.fixture
def serve(child_environment: dict[str, str], collected: Path, tmp_path: Path) -> Iterator[Callable[..., Gunicorn]]:
    """Start a gunicorn on this test's database with these settings; it is stopped after the test."""
    started: list[Gunicorn] = []

    def start(bind: str = "127.0.0.1", **settings: str) -> Gunicorn:
        own = {"DJANGO_SETTINGS_MODULE": SETTINGS, "SERVED_STATIC_ROOT": str(collected)}
        log = tmp_path / f"gunicorn-{len(started)}.log"
        started.append(Gunicorn({**child_environment, **own, **settings}, log, bind))
        return started[-1].wait_ready()

    yield start
    for server in started:
        server.stop()
