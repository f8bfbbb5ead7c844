"""Every knob has a test that turns it and sees the effect; these are the ones no other test turns."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from django.db import connection

from database.clock import SecondsFromNow
from dedupfs_site.environment import DECLARED
from jobs.models import Job, WorkerHeartbeat
from libraries.models import ScanRequest
from tests import factories
from tests.conftest import ROOT, Consumers, Manage
from tests.waiting import DEADLINE_SECONDS, until

pytestmark = pytest.mark.django_db


def evaluate(run_manage: Manage, expression: str, **env: str) -> str:
    """What an expression is worth in a process that was started with these settings."""
    done = run_manage("shell", "--no-imports", "-c", f"print({expression})", env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_each_declared_variable_is_turned_by_some_test() -> None:
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    fixtures = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    unturned = [name for name in DECLARED if not re.search(rf"\b{name}\b", tests + fixtures)]
    assert unturned == []


def test_libraries_root_is_a_list_of_folders(run_manage: Manage) -> None:
    roots = "__import__('django.conf').conf.settings.LIBRARIES_ROOTS"
    expression = f"[str(root) for root in {roots}]"
    assert evaluate(run_manage, expression, DEDUPFS_LIBRARIES_ROOT="/srv/a:/srv/b") == "['/srv/a', '/srv/b']"


def test_web_threads_reach_the_web_server(run_manage: Manage) -> None:
    expression = "' '.join(__import__('dedupfs_site.serving').serving.web_command())"
    assert "--threads 3 " in evaluate(run_manage, expression, DEDUPFS_WEB_THREADS="3")


def test_times_are_shown_in_the_chosen_zone(run_manage: Manage) -> None:
    expression = "__import__('django.utils.timezone').utils.timezone.localtime().utcoffset()"
    assert evaluate(run_manage, expression, DEDUPFS_TIME_ZONE="Asia/Kolkata") == "5:30:00"


def test_the_limit_of_videos_is_the_claim_s(run_manage: Manage) -> None:
    source = factories.library_file()
    for number in range(3):
        factories.pending_thumbnail(f"v{number}", of=source, media_type="video")
    claims = "[__import__('thumbnails.models').models.Thumbnail.objects.claim('w') is not None for _ in range(3)]"
    assert evaluate(run_manage, claims, DEDUPFS_THUMBNAIL_VIDEOS="2") == "[True, True, False]"


def test_ended_scans_are_shown_and_kept_as_long_as_chosen(run_manage: Manage) -> None:
    library = factories.library()
    for hours in (1, 3, 50):
        moment = SecondsFromNow(-hours * 3600)
        ScanRequest.objects.create(library=library, status="completed", completed_at=moment)
    queue = "__import__('libraries.queueing').queueing"
    expression = f"[len({queue}.history()), {queue}.prune()]"
    chosen = {"DEDUPFS_SCAN_HISTORY_HOURS": "2", "DEDUPFS_SCAN_REQUEST_DAYS": "2"}
    assert evaluate(run_manage, expression, **chosen) == "[1, 1]"


def test_the_executor_s_role_has_the_chosen_name(run_manage: Manage) -> None:
    if connection.vendor == "sqlite":
        role = "__import__('django.conf').conf.settings.EXECUTOR_ROLE"
        assert evaluate(run_manage, role, DEDUPFS_EXECUTOR_ROLE="other") == "other"
        return
    role = f"other_{connection.settings_dict['NAME']}"
    try:
        assert run_manage("migrate", "-v", "0", env={"DEDUPFS_EXECUTOR_ROLE": role}).returncode == 0
        with connection.cursor() as cursor:
            cursor.execute("SELECT has_column_privilege(%s, 'jobs', 'status', 'UPDATE')", [role])
            assert cursor.fetchone() == (True,)
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"DROP OWNED BY {role}")
            cursor.execute(f"DROP ROLE {role}")
        assert run_manage("migrate", "-v", "0").returncode == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_as_many_pieces_of_work_run_at_once_as_there_are_workers(
    workers: int,
    start_consumer: Consumers,
    tmp_path: Path,
) -> None:
    library = factories.library()
    gates = [tmp_path / f"gate{number}" for number in range(2)]
    for gate in gates:
        payload = {"library": library.pk, "steps": 1, "hold": 0, "gate": str(gate)}
        factories.pending_job("thumbnail", payload=payload)
    # The sweep rings each second, so a free worker would hear of the second job.
    start_consumer(DEDUPFS_CONSUMER_WORKERS=str(workers))
    until(gates[0].with_suffix(".reached").exists, "the first job")
    if workers == 2:
        until(gates[1].with_suffix(".reached").exists, "the second job beside it")
    else:
        assert not gates[1].with_suffix(".reached").exists()
        gates[0].touch()
        until(gates[1].with_suffix(".reached").exists, "the second job after it")
    for gate in gates:
        gate.touch()
    until(lambda: Job.objects.filter(status="completed").count() == 2, "both jobs")


def test_a_consumer_leaves_after_its_stop_seconds_even_if_a_handler_hangs(
    start_consumer: Consumers,
    tmp_path: Path,
) -> None:
    gate = tmp_path / "never"
    payload = {"library": factories.library().pk, "steps": 1, "hold": 0, "gate": str(gate), "deaf": True}
    job = factories.pending_job("thumbnail", payload=payload)
    consumer = start_consumer(DEDUPFS_STOP_SECONDS="1")
    until(gate.with_suffix(".reached").exists, "the handler")
    consumer.send_signal(signal.SIGTERM)
    consumer.wait(timeout=DEADLINE_SECONDS)
    job.refresh_from_db()
    assert job.status == "running", "it could not give the row back; the lease will run out"


def test_a_consumer_shows_its_heartbeat(start_consumer: Consumers) -> None:
    consumer = start_consumer(DEDUPFS_HEARTBEAT_SECONDS="1")
    first = until(lambda: WorkerHeartbeat.objects.filter(pid=consumer.pid).first(), "the first sign of life")
    assert first is not None
    until(
        lambda: WorkerHeartbeat.objects.filter(pk=first.pk, last_seen_at__gt=first.last_seen_at).exists(),
        "the next sign of life",
    )
