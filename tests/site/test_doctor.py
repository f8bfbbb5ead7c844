from __future__ import annotations

import io
import json
import os
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder
from pytest_django import Settings

from database import examining
from database.clock import SecondsFromNow
from database.examining import Grade, warning
from database.objects import drift
from dedupfs_site.examining import machine, store
from jobs.models import Job, WorkerHeartbeat
from libraries.models import LibraryRoot, LibraryState, ScanSession
from tests import factories
from tests.database.installations import Installation

pytestmark = pytest.mark.django_db
Manage = Callable[..., "subprocess.CompletedProcess[str]"]
SQLITE = connections["default"].vendor == "sqlite"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A private state folder on a disk with room."""
    tmp_path.chmod(0o700)
    settings.STATE_ROOT = tmp_path
    monkeypatch.setattr(machine, "FREE_ERROR_BYTES", 0)
    monkeypatch.setattr(machine, "FREE_WARNING_BYTES", 0)
    return tmp_path


@pytest.fixture
def consumer() -> WorkerHeartbeat:
    return WorkerHeartbeat.objects.create(worker_id="nas:1")


def doctor(*arguments: str) -> tuple[int, dict[str, Any]]:
    """Run it here; return its exit code and what it says in JSON."""
    answer = io.StringIO()
    try:
        call_command("doctor", "--json", *arguments, stdout=answer)
    except SystemExit as leaving:
        return int(str(leaving.code)), json.loads(answer.getvalue())
    return 0, json.loads(answer.getvalue())


def findings(check: str) -> list[tuple[str, str]]:
    """The grades and messages of one check; the exit code is never better than they are."""
    code, answer = doctor()
    found = [(each["grade"], each["message"]) for each in answer["findings"] if each["check"] == check]
    assert all(Grade[grade.upper()] <= code for grade, _ in found)
    assert all(each["remedy"] for each in answer["findings"] if each["grade"] != "ok")
    return found


def finding(check: str) -> tuple[str, str]:
    (found,) = findings(check)
    return found


def test_doctor_finds_a_running_system_well(consumer: WorkerHeartbeat) -> None:
    code, answer = doctor()
    assert code == 0, answer
    assert answer["status"] == "ok"
    assert {each["grade"] for each in answer["findings"]} == {"ok"}


def test_doctor_tells_people_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        call_command("doctor")
    assert left.value.code == 1
    told = capsys.readouterr().out
    assert "Warning\n  consumers: no consumer is alive" in told
    assert "→ start `manage.py up`" in told


def test_doctor_finds_a_database_newer_than_the_code(consumer: WorkerHeartbeat) -> None:
    recorder = MigrationRecorder(connections["default"])
    recorder.record_applied("jobs", "9999_later")
    try:
        grade, message = finding("migrations")
    finally:
        recorder.record_unapplied("jobs", "9999_later")
    assert grade == "error"
    assert "jobs.9999_later" in message


def test_doctor_finds_pending_migrations(consumer: WorkerHeartbeat) -> None:
    call_command("migrate", "sessions", "zero", verbosity=0)
    try:
        grade, message = finding("migrations")
        assert doctor("--fix")[1]["fixed"] == []
    finally:
        call_command("migrate", verbosity=0)
    assert grade == "error"
    assert "sessions.0001_initial" in message


@pytest.fixture
def _lost_index() -> Iterator[None]:
    with connections["default"].cursor() as cursor:
        cursor.execute("DROP INDEX ix_jobs_single_active_scan_hash")
    yield
    call_command("migrate", verbosity=0)


@pytest.mark.usefixtures("_lost_index", "consumer")
def test_doctor_finds_a_lost_index_and_puts_it_back_when_asked() -> None:
    assert finding("objects") == ("error", "ix_jobs_single_active_scan_hash is missing")
    code, answer = doctor("--fix")
    assert (code, answer["fixed"]) == (0, ["ix_jobs_single_active_scan_hash"])
    assert drift(connections["default"]) == []


def test_doctor_finds_rows_whose_worker_is_lost(consumer: WorkerHeartbeat) -> None:
    job, _ = factories.running_job()
    assert finding("leases")[0] == "ok"
    Job.objects.filter(pk=job.pk).update(lease_expires_at=SecondsFromNow(-7200))
    assert finding("leases") == ("warning", "jobs: 1 running rows lost their worker, the oldest 2 hours ago")
    Job.objects.filter(pk=job.pk).update(lease_expires_at=None)
    assert finding("leases") == ("warning", "jobs: 1 running rows lost their worker, without a lease at all")


def test_doctor_names_who_holds_the_slot_for_too_long(consumer: WorkerHeartbeat) -> None:
    assert finding("slot") == ("ok", "free")
    job = factories.pending_job("hash")
    assert finding("slot") == ("ok", f"held by hash {job.pk}, pending")
    old = SecondsFromNow(-8 * 24 * 3600)
    Job.objects.update(created_at=old, updated_at=old)
    assert finding("slot")[0] == "warning"
    lease = Job.objects.claim("w", seconds=1000)
    assert lease is not None
    assert finding("slot") == ("ok", f"held by hash {job.pk}, running")
    Job.objects.update(started_at=old)
    assert finding("slot")[0] == "warning"
    lease.release()
    Job.objects.update(updated_at=old)
    grade, message = finding("slot")
    assert grade == "warning"
    assert "waits to be tried again" in message
    assert str(job.pk) in message


def test_doctor_minds_a_missing_consumer_more_when_work_waits() -> None:
    assert finding("consumers")[0] == "warning"
    factories.pending_job()
    assert finding("consumers")[0] == "error"
    WorkerHeartbeat.objects.create(worker_id="nas:1")
    assert finding("consumers") == ("ok", "1 alive")
    WorkerHeartbeat.objects.update(last_seen_at=SecondsFromNow(-600))
    assert finding("consumers")[0] == "error"


def test_doctor_finds_a_bell_that_cannot_be_rung(run_manage: Manage, consumer: WorkerHeartbeat) -> None:
    done = run_manage("doctor", "--json", env={"HUEY_URL": "redis://:s3cret@127.0.0.1:1/0"})
    assert done.returncode == 2, done.stderr
    (bell,) = [each for each in json.loads(done.stdout)["findings"] if each["check"] == "bell"]
    assert bell["grade"] == "error"
    assert "s3cret" not in done.stdout + done.stderr


@pytest.mark.parametrize(("knob", "grade"), [("FREE_WARNING_BYTES", "warning"), ("FREE_ERROR_BYTES", "error")])
def test_doctor_finds_a_disk_that_fills_up(monkeypatch: pytest.MonkeyPatch, knob: str, grade: str) -> None:
    assert finding("disk")[0] == "ok"
    monkeypatch.setattr(machine, knob, 2**62)
    assert finding("disk")[0] == grade


def test_doctor_finds_a_state_folder_that_is_open_to_all(state: Path) -> None:
    assert finding("rights")[0] == "ok"
    state.chmod(0o755)
    assert finding("rights") == ("warning", f"{state} is open to every user of this machine")


def test_doctor_finds_a_secret_key_that_others_can_read(state: Path) -> None:
    (state / "secret_key").write_text("x")
    (state / "secret_key").chmod(0o640)
    assert finding("rights") == ("error", f"{state}/secret_key can be read by others")


def test_doctor_finds_sqlite_on_a_network_filesystem(monkeypatch: pytest.MonkeyPatch) -> None:
    assert finding("filesystem")[0] == "ok"
    monkeypatch.setattr(machine, "read_mounts", lambda: "36 35 98:0 / / rw,noatime - nfs4 nas:/export rw\n")
    found = findings("filesystem")
    assert [grade for grade, _ in found] == ["error"] * (2 if SQLITE else 1)
    assert all("nfs4" in message for _, message in found)


def test_doctor_finds_an_unknown_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "settings", SimpleNamespace(TIME_ZONE="Mars/Base", HUEY_URL="x"))
    assert finding("time zone") == ("error", "DEDUPFS_TIME_ZONE=Mars/Base is not known here")


def test_doctor_finds_an_overgrown_log(monkeypatch: pytest.MonkeyPatch) -> None:
    if not SQLITE:
        assert findings("log") == []
        return
    factories.pending_job()
    assert finding("log")[0] == "ok"
    monkeypatch.setattr(store, "WAL_WARNING_BYTES", 1)
    assert finding("log")[0] == "warning"


def test_doctor_asks_for_backups(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert finding("backups") == ("ok", "the database is too young to need a backup")
    monkeypatch.setattr(store, "BACKUP_WARNING_DAYS", 0)
    assert finding("backups") == ("warning", f"there is no backup in {state}/backups")
    monkeypatch.setattr(store, "BACKUP_WARNING_DAYS", 7)
    backup = state / "backups" / "dedupfs-x.sqlite3"
    backup.parent.mkdir()
    backup.touch()
    assert finding("backups")[0] == "ok"
    long_ago = time.time() - 30 * 24 * 3600
    os.utime(backup, (long_ago, long_ago))
    assert finding("backups") == ("warning", f"the newest backup in {backup.parent} is 30 days old")


def test_doctor_goes_on_after_a_check_that_fails(monkeypatch: pytest.MonkeyPatch, consumer: WorkerHeartbeat) -> None:
    def broken() -> Any:
        yield warning("seen", "look")
        raise RuntimeError("lost my way")

    monkeypatch.setitem(examining._checks, "broken", examining.Registered("broken", broken, True))
    code, answer = doctor()
    assert code == 2
    assert [each["message"] for each in answer["findings"] if each["check"] == "broken"] == [
        "this check could not be made: RuntimeError: lost my way"
    ]
    assert finding("bell")[0] == "ok"


@pytest.mark.parametrize("address", ["", "postgres://nobody@127.0.0.1:1/nothing"])
def test_doctor_without_a_database_still_looks_at_the_machine(tmp_path: Path, address: str) -> None:
    installation = Installation(tmp_path)
    done = installation.manage("doctor", "--json", env={"DATABASE_URL": address} if address else {})
    assert done.returncode == 2, done.stderr
    found = {each["check"]: each["grade"] for each in json.loads(done.stdout)["findings"]}
    assert found["database"] == "error"
    assert {"disk", "rights", "bell"} <= set(found)
    assert "leases" not in found
    assert not installation.database.exists()


@pytest.mark.skipif(not SQLITE, reason="about SQLite files; runs in the pass on SQLite")
def test_doctor_finds_a_damaged_database(run_manage: Manage, tmp_path: Path) -> None:
    copy = tmp_path / "copy.sqlite3"
    assert run_manage("backup", str(copy)).returncode == 0
    with closing(sqlite3.connect(copy)) as database:
        ((page, size),) = database.execute(
            "SELECT rootpage, page_size FROM sqlite_master, pragma_page_size() WHERE name = 'library_files'"
        )
    # A page that is surely in use: much of the file is free when an earlier test has filled it.
    with copy.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(os.urandom(size))
    done = run_manage("doctor", "--json", env={"DATABASE_URL": f"sqlite:///{copy}"})
    assert done.returncode == 2
    assert "damaged" in done.stdout or "malformed" in done.stdout


# --- Libraries --------------------------------------------------------------------------------------------
def test_doctor_tells_of_libraries_whose_disk_is_away(consumer: WorkerHeartbeat, settings: Settings) -> None:
    settings.LIBRARIES_ROOTS = [Path("/libraries")]
    library = factories.library("photos")
    assert finding("libraries") == ("ok", "1 are there")
    LibraryState.objects.create(library=library, mount="different", mount_note="another disk", gone_count=7)
    assert findings("libraries") == [
        ("warning", "“photos” is different: another disk"),
        ("warning", "7 files of “photos” were gone at the last scan, too many to be believed"),
    ]


def test_doctor_tells_of_libraries_outside_the_roots_and_of_rows_that_stay(consumer: WorkerHeartbeat) -> None:
    factories.library("adopted", "/elsewhere/photos")
    LibraryRoot.objects.create(name="going", root_path="removed/1", removing_at=SecondsFromNow(-7200))
    session = ScanSession.objects.create(job=factories.finished_job("scan"), updated_at=SecondsFromNow(-7200))
    told = [message for _, message in findings("libraries")]
    assert told == [
        "“adopted” (/elsewhere/photos) is below no configured root",
        "1 removed libraries still have rows",
        "1 scans say that they run, but their jobs do not",
    ]
    assert session.pk
