"""Backup and restore with PostgreSQL's own programs; the SQLite side is in test_backup.py and test_restore.py."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connections

from database.objects import drift
from jobs.models import Job
from tests import factories
from tests.conftest import ROOT

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(
        connections["default"].vendor != "postgresql", reason="about PostgreSQL; runs in the pass that has one"
    ),
]
Manage = Callable[..., "subprocess.CompletedProcess[str]"]


def server() -> dict[str, Any]:
    chosen = connections["default"].settings_dict
    return {"host": chosen["HOST"], "port": chosen["PORT"], "user": chosen["USER"]}


@pytest.fixture
def empty_database() -> Iterator[str]:
    """The address of another database on the same server, with nothing in it."""
    name = f"restored_{os.getpid()}"
    with psycopg.connect(**server(), dbname="postgres", autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}".encode())
        yield "postgres://{user}@{host}:{port}/".format(**server()) + name
        # Not WITH (FORCE): that wants the right to end a vacuum of the server's, which a plain DROP ends by itself.
        admin.execute(f"DROP DATABASE {name}".encode())


def asked(address: str, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(address) as connection:
        return connection.execute(sql.encode()).fetchall()


def test_backup_and_restore_carry_every_row_and_object(run_manage: Manage, empty_database: str, tmp_path: Path) -> None:
    job = factories.finished_job("scan", status="failed")
    done = run_manage("backup", str(tmp_path / "dump"), "--json")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "dump").stat().st_mode & 0o777 == 0o600
    Job.objects.create(kind="scan")
    done = run_manage("restore", str(tmp_path / "dump"), "--json", env={"DATABASE_URL": empty_database})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kept_as"] is None
    assert asked(empty_database, "SELECT id, status FROM jobs") == [(job.pk, "failed")]
    events = asked(empty_database, "SELECT event_type, status_to FROM logbook_events ORDER BY id")
    assert events == [("status", "pending"), ("status", "running"), ("status", "failed"), ("restored", None)]
    checked = run_manage(
        "shell",
        "--no-imports",
        "-c",
        "from django.db import connections as c; from database.objects import drift; print(drift(c['default']));"
        "from jobs.models import Job; print(Job.objects.recover())",
        env={"DATABASE_URL": empty_database},
    )
    assert checked.stdout.split() == ["[]", "0"], checked.stderr


def test_restore_refuses_a_database_that_is_not_empty(run_manage: Manage, tmp_path: Path) -> None:
    assert run_manage("backup", str(tmp_path / "dump")).returncode == 0
    Job.objects.create(kind="scan")
    done = run_manage("restore", str(tmp_path / "dump"))
    assert done.returncode == 1
    assert "createdb" in done.stderr
    assert Job.objects.count() == 1
    assert drift(connections["default"]) == []


def test_restore_refuses_a_newer_dump_and_half_a_dump(run_manage: Manage, empty_database: str, tmp_path: Path) -> None:
    dump, half = tmp_path / "dump", tmp_path / "half"
    with connections["default"].cursor() as cursor:
        cursor.execute("INSERT INTO django_migrations (app, name, applied) VALUES ('jobs', '9999_later', NOW())")
        try:
            assert run_manage("backup", str(dump)).returncode == 0
        finally:
            cursor.execute("DELETE FROM django_migrations WHERE name = '9999_later'")
    half.write_bytes(dump.read_bytes()[: dump.stat().st_size // 2])
    for path, why in ((dump, "jobs.9999_later"), (half, "pg_restore"), (Path(__file__), "no dump")):
        done = run_manage("restore", str(path), env={"DATABASE_URL": empty_database})
        assert done.returncode == 1
        assert why in done.stderr
        assert "Traceback" not in done.stderr
    assert asked(empty_database, "SELECT COUNT(*) FROM pg_tables WHERE schemaname = 'public'") == [(0,)]


def test_machines_that_start_at_once_migrate_one_after_another(
    child_environment: dict[str, str], empty_database: str
) -> None:
    code = "from database.migrating import migrate_with_backup as m; m(print)"
    command = [sys.executable, str(ROOT / "manage.py"), "shell", "--no-imports", "-c", code]
    environment = {**child_environment, "DATABASE_URL": empty_database}
    starts = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    told = [start.communicate()[0] for start in starts]
    assert [start.returncode for start in starts] == [0, 0, 0]
    assert sorted("Applying jobs.0001_initial... OK" in text for text in told) == [False, False, True]


def test_backup_says_which_program_is_missing(run_manage: Manage, tmp_path: Path) -> None:
    done = run_manage("backup", str(tmp_path / "dump"), env={"PATH": str(tmp_path)})
    assert done.returncode == 1
    assert "pg_dump is not installed" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_backup_shows_no_password_on_a_command_line(
    run_manage: Manage, child_environment: dict[str, str], tmp_path: Path
) -> None:
    real = shutil.which("pg_dump")
    spy = tmp_path / "bin" / "pg_dump"
    spy.parent.mkdir()
    spy.write_text(f'#!/bin/sh\necho "$@" > "{tmp_path}/seen"\ntest "$PGPASSWORD" = s3cret && exec {real} "$@"\n')
    spy.chmod(0o755)
    address = child_environment["DATABASE_URL"].replace("@", ":s3cret@")
    path = f"{spy.parent}:{os.environ['PATH']}"
    done = run_manage("backup", str(tmp_path / "dump"), env={"DATABASE_URL": address, "PATH": path})
    assert done.returncode == 0, done.stderr
    assert "s3cret" not in (tmp_path / "seen").read_text() + done.stdout + done.stderr
