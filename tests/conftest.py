"""Fixtures for every test. Each test with the database uses real transactions: executors have a connection of their
own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.cache import cache
from django.db import connections, transaction
from django.test import Client
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from accounts.models import Role
from database import after_restore
from duplicates import folder_pairs, listing
from frame import slow_figures
from tests.pages import logged_in
from trash import space

Consumers = Callable[..., subprocess.Popen[str]]
Manage = Callable[..., subprocess.CompletedProcess[str]]
WATCHED = (
    "scan_requests", "folder_searches", "thumbnails", "thumbnail_cleanup_jobs", "jobs", "wal_maintenance_jobs",
    "scan_sessions",
)  # fmt: skip
#: A plan goes before its files: while it is there and was authorised, nothing of it may be deleted.
BELOW_WATCHED = (
    "scan_errors", "hash_runs", "trash_items", "removed_folders", "acts", "plans", "plan_files", "plan_folders",
    "folder_pairs",
)  # fmt: skip
#: After how long a page shows what it has found so far, and a consumer looks at its other queues.
PATIENCE = (
    "dedupfs_site.first_steps_showing.PATIENCE_SECONDS", "dedupfs_site.overview_showing.TOTALS_SECONDS",
    "dedupfs_site.safe_space.PATIENCE_SECONDS", "duplicates.folder_planning.NAMING_SECONDS",
    "duplicates.group_views.PATIENCE_SECONDS", "duplicates.ignoring_all.SECONDS",
    "duplicates.listing.LONGEST_SEARCH_SECONDS", "duplicates.living_groups.SECONDS",
    "duplicates.rule_showing.PREVIEW_SECONDS", "jobs.executing.TURN_SECONDS", "thumbnails.formats.ASKING_SECONDS",
    "trash.listing.PATIENCE_SECONDS", "trash.listing.SELECTION_SECONDS",
)  # fmt: skip
#: The same, where it is the default of their last argument.
PATIENT = (folder_pairs.files, listing.totals, space.last_copies, space.read_space)
ROOT = Path(__file__).resolve().parent.parent

hypothesis_settings.register_profile(
    "test",
    deadline=None,
    print_blob=True,
    # How quickly examples are made says how busy the machine is, not what is wrong with a test.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
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
def run_manage(child_environment: dict[str, str]) -> Manage:
    """Run `manage.py` as a person would, in a process of its own."""

    def run(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        environment = {**child_environment, **more.pop("env", {})}
        command = [sys.executable, str(ROOT / "manage.py"), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, **more)

    return run


@pytest.fixture(autouse=True)
def _empty_watched_tables_first(request: pytest.FixtureRequest) -> Iterator[None]:
    """Django empties SQLite's tables in no fixed order, and deleting a watched row writes into the logbook: once the
    logbook's turn has passed, that event would be left over. So the watched rows go first."""
    if request.node.get_closest_marker("django_db") is None and "transactional_db" not in request.fixturenames:
        yield
        return
    request.getfixturevalue("transactional_db")
    # Each test has an empty database, and what was witnessed of another one's is not in it.
    after_restore.forget_files(Path(settings.STATE_ROOT))
    yield
    if connections["default"].vendor == "sqlite":
        with transaction.atomic(), connections["default"].cursor() as cursor:
            cursor.execute("UPDATE library_files SET last_seen_scan_id = NULL")
            for table in (*BELOW_WATCHED, *WATCHED):
                cursor.execute(f"DELETE FROM {table}")


@pytest.fixture
def consumer_environment(child_environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """Quick sweeps, leases that no busy machine loses, and a Huey file of this test's own. Who waits until a lease has
    run out asks for a shorter one."""
    return {
        **child_environment,
        "DEDUPFS_STATE_ROOT": str(tmp_path / "state"),
        "DEDUPFS_LEASE_SECONDS": "60",
        "DEDUPFS_SWEEP_SECONDS": "1",
        "DEDUPFS_HEARTBEAT_SECONDS": "1",
    }


@pytest.fixture
def start_consumer(consumer_environment: dict[str, str], tmp_path: Path) -> Iterator[Consumers]:
    """Start `run_huey`; whatever still runs at the end of the test is killed."""
    started: list[subprocess.Popen[str]] = []
    (tmp_path / "state").mkdir(mode=0o700)

    def start(**more: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(ROOT / "manage.py"), "run_huey"]
        with (tmp_path / f"consumer-{len(started)}.log").open("w") as log:
            process = subprocess.Popen(
                command, env={**consumer_environment, **more}, stdout=log, stderr=subprocess.STDOUT, text=True
            )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture(autouse=True, scope="session")
def _flush_keeps_quiet() -> Iterator[None]:
    """Emptying the tables is no migration: nothing needs to be put back, and it happens a thousand times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("django.core.management.commands.flush.emit_post_migrate_signal", lambda *_, **__: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def _nobody_is_in_a_hurry() -> Iterator[None]:
    """On a slow machine the time would be up in the middle; whoever tests what is shown then says so."""
    with pytest.MonkeyPatch.context() as patch:
        for name in PATIENCE:
            patch.setattr(name, 3600.0)
        for verb in PATIENT:
            patch.setattr(verb, "__defaults__", (*(verb.__defaults__ or ())[:-1], 3600.0))
        yield


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine figures that took long would be kept for a while, within a test and from another one."""
    monkeypatch.setattr(slow_figures, "QUICK_SECONDS", 3600.0)
    cache.clear()


@pytest.fixture
def viewer() -> Client:
    """A browser, as most tests of pages need it; tests of the API have scripts of these names instead."""
    return logged_in(Role.VIEWER)


@pytest.fixture
def operator() -> Client:
    return logged_in(Role.OPERATOR)
