"""Fixtures for every test. Each test with the database uses real transactions: executors have a connection of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connections
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

ROOT = Path(__file__).resolve().parent.parent

hypothesis_settings.register_profile(
    "test", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
hypothesis_settings.register_profile("torture", hypothesis_settings.get_profile("test"), max_examples=2000)
hypothesis_settings.load_profile(os.environ.get("DEDUPFS_TEST_PROFILE", "test"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`db` without real transactions would hide rows from the executor's connection, so it is never used here."""
    for item in items:
        marker = item.get_closest_marker("django_db")
        if marker is not None and not marker.kwargs.get("transaction"):
            item.add_marker(pytest.mark.django_db(transaction=True, databases=["default", "executor"]), append=False)


@pytest.fixture
def child_environment(transactional_db: Any) -> dict[str, str]:
    """The environment with which another process works on this test's database."""
    chosen = connections["default"].settings_dict
    if connections["default"].vendor == "sqlite":
        url = f"sqlite:///{chosen['NAME']}"
    else:
        url = f"postgres://{chosen['USER']}@{chosen['HOST']}:{chosen['PORT']}/{chosen['NAME']}"
    return {
        **os.environ,
        "DATABASE_URL": url,
        "DEDUPFS_STATE_ROOT": str(settings.STATE_ROOT),
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "PYTHONPATH": str(ROOT),
    }


@pytest.fixture
def run_manage(child_environment: dict[str, str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `manage.py` as a person would, in a process of its own."""

    def run(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        environment = {**child_environment, **more.pop("env", {})}
        command = [sys.executable, str(ROOT / "manage.py"), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, **more)

    return run
