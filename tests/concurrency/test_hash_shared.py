"""Several consumers share one hash job: each file is read once, and whoever dies or sleeps loses only its own batch."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from jobs.executing import carry_out_here
from jobs.lease import Lease
from jobs.models import Job
from libraries.models import HashRun, LibraryFile
from tests import factories
from tests.conftest import ROOT, Consumers
from tests.indexing import index_again, indexed
from tests.tree import tree
from tests.waiting import DEADLINE_SECONDS, until

pytestmark = pytest.mark.django_db

Hand = Callable[..., "subprocess.Popen[str]"]
COUNT = 1500


@pytest.fixture
def lease() -> Lease[Job]:
    return factories.running_job("hash")[1]


@pytest.fixture
def start_hand(child_environment: dict[str, str], tmp_path: Path, lease: Lease[Job]) -> Any:
    started: list[subprocess.Popen[str]] = []

    def start(*how: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.concurrency.hash_hand", lease.row.pk, str(tmp_path / "go"), *how]
        hand = subprocess.Popen(
            command, env=child_environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(hand)
        assert hand.stdout is not None
        assert hand.stdout.readline() == "ready\n"
        return hand

    yield start
    for hand in started:
        hand.kill()
        hand.communicate()


def status(job: Job) -> str:
    return Job.objects.values_list("status", flat=True).get(pk=job.pk)


def holders() -> int:
    tokens = LibraryFile.objects.filter(hash_claim_token__isnull=False).values("hash_claim_token")
    return tokens.distinct().count()


def _is_something_hashed() -> bool:
    return LibraryFile.objects.filter(content_hash__isnull=False).exists()


def assert_all_hashed(files: dict[str, bytes]) -> None:
    rows = LibraryFile.objects.values_list("relative_path", "content_hash", "hash_claim_token")
    found = {path: (bytes(digest or b""), token) for path, digest, token in rows}
    assert found == {path: (blake3(content).digest(), None) for path, content in files.items()}


def test_owner_and_helpers_read_each_file_once(start_hand: Hand, lease: Lease[Job], tmp_path: Path) -> None:
    files = {f"{number % 20}/{number}": str(number).encode() for number in range(COUNT)}
    indexed(tree(tmp_path / "library", files))
    hands = [start_hand(), start_hand()]
    (tmp_path / "go").touch()
    until(lambda: holders() > 0 or _is_something_hashed(), "a helper at work, or done with it")
    carry_out_here("jobs", lease)
    helped = [int(hand.communicate(timeout=DEADLINE_SECONDS)[0]) for hand in hands]
    assert status(lease.row) == "completed"
    assert_all_hashed(files)
    assert 0 < sum(helped) <= COUNT
    assert HashRun.objects.get().files_done == COUNT, "none was read twice"


def test_a_helper_that_sleeps_past_its_time_writes_nothing_when_it_wakes(
    start_hand: Hand, lease: Lease[Job], tmp_path: Path, settings: Any
) -> None:
    files = {f"{number}": str(number).encode() for number in range(10)}
    indexed(tree(tmp_path / "library", files))
    frozen = start_hand("freeze")
    (tmp_path / "go").touch()
    assert frozen.stdout is not None
    assert frozen.stdout.readline() == "holding\n"
    assert LibraryFile.objects.filter(hash_claim_token__isnull=False).count() == len(files)
    settings.HASH_CLAIM_SECONDS = 2
    carry_out_here("jobs", lease)
    assert status(lease.row) == "completed"
    assert_all_hashed(files)
    written = list(LibraryFile.objects.order_by("pk").values_list("hashed_at", "updated_at"))
    frozen.send_signal(signal.SIGCONT)
    _, errors = frozen.communicate(timeout=DEADLINE_SECONDS)
    assert "the lease under which this consumer helped is gone" in errors
    assert list(LibraryFile.objects.order_by("pk").values_list("hashed_at", "updated_at")) == written


def test_consumers_join_by_themselves_and_one_that_dies_loses_nothing(
    start_consumer: Consumers, tmp_path: Path
) -> None:
    """The budget makes the job last until both are seen at work, however long the second one takes to start."""
    files = {f"{number}": bytes([number]) * 65_000 for number in range(40)}
    library = indexed(tree(tmp_path / "library", files), read_bytes_per_second=40_000)
    job = factories.pending_job("hash")
    owner = start_consumer(DEDUPFS_HASH_CLAIM_SECONDS="2", DEDUPFS_LEASE_SECONDS="30")
    until(lambda: status(job) == "running", "the owner")
    # The first batch takes everything; a second hand finds something when it is given back.
    more = {f"more {number}": bytes([number]) * 65_001 for number in range(40)}
    tree(tmp_path / "library", more)
    helper = start_consumer(DEDUPFS_HASH_CLAIM_SECONDS="2", DEDUPFS_LEASE_SECONDS="30")
    for path in more:
        index_again(library, path)
    until(lambda: holders() == 2, "two hands at work")
    helper.kill()
    helper.wait()
    type(library).objects.update(read_bytes_per_second=0)
    until(lambda: status(job) == "completed", "the job")
    assert_all_hashed({**files, **more})
    assert owner.poll() is None


def test_a_consumer_that_stops_gives_its_files_back(start_consumer: Consumers, tmp_path: Path) -> None:
    """Also while it waits for a budget, inside a file that would take hours."""
    indexed(tree(tmp_path / "library", {"a": b"x" * 3_000_000, "b": b"x" * 3_000_000}), read_bytes_per_second=1000)
    job = factories.pending_job("hash")
    consumer = start_consumer(DEDUPFS_LEASE_SECONDS="3600")
    until(lambda: holders() == 1, "the claim")
    consumer.send_signal(signal.SIGTERM)
    assert consumer.wait(timeout=DEADLINE_SECONDS) == 0
    job.refresh_from_db()
    assert (job.status, job.error_code, holders()) == ("retryable", "WORKER_STOPPED", 0)
