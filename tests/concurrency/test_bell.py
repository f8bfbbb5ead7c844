"""The doorbell: quick when it rings, harmless when it is lost, on SQLite and on Redis."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.models import Job
from tests import factories
from tests.conftest import ROOT, Consumers
from tests.waiting import until

pytestmark = pytest.mark.django_db


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    """A real Redis on a socket of its own."""
    server = shutil.which("redis-server")
    assert server, "redis-server is missing; on Debian: apt-get install redis-server"
    socket = tmp_path / "redis.sock"
    command = [server, "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    until(socket.exists, "Redis to start")
    yield f"unix://{socket}"
    process.terminate()
    process.wait()


def enqueue_elsewhere(environment: dict[str, str], library: int) -> None:
    """As the web server would: in another process, through the verb that rings."""
    code = (
        f"from jobs.deciding import enqueue;enqueue('scan', actor='vera', payload={{'library': {library}, 'steps': 2}})"
    )
    command = [sys.executable, str(ROOT / "manage.py"), "shell", "-c", code]
    subprocess.run(command, env=environment, check=True, capture_output=True)


@pytest.mark.parametrize("storage", ["sqlite", "redis"])
def test_a_ring_wakes_a_consumer_without_a_sweep(
    storage: str,
    start_consumer: Consumers,
    consumer_environment: dict[str, str],
    redis_url: str,
    tmp_path: Path,
) -> None:
    bell = {"HUEY_URL": redis_url} if storage == "redis" else {}
    quiet = {**bell, "DEDUPFS_SWEEP_SECONDS": "3600"}
    start_consumer(**quiet)
    until(lambda: "Huey consumer started" in (tmp_path / "consumer-0.log").read_text(), "the consumer")
    enqueue_elsewhere({**consumer_environment, **quiet}, factories.library().pk)
    until(lambda: Job.objects.filter(status="completed").exists(), "the job to be done")


def test_losing_every_message_loses_nothing(
    start_consumer: Consumers, consumer_environment: dict[str, str], tmp_path: Path
) -> None:
    enqueue_elsewhere(consumer_environment, factories.library().pk)
    for file in (tmp_path / "state").glob("huey.sqlite3*"):
        file.unlink()
    start_consumer()
    until(lambda: Job.objects.filter(status="completed").exists(), "the job to be done")


def test_a_bell_that_is_out_of_order_does_not_stop_a_person(consumer_environment: dict[str, str]) -> None:
    silent = {**consumer_environment, "HUEY_URL": "redis://127.0.0.1:1/0"}
    enqueue_elsewhere(silent, factories.library().pk)
    assert Job.objects.get().status == "pending"
