"""SIGKILL at every step of a hash job: the next one goes on, and the rows end as if nothing had happened."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs.models import Job
from libraries.models import HashState, LibraryFile, Rehash
from libraries.queueing import promote
from libraries.running_now import hash_now
from tests import factories
from tests.conftest import ROOT
from tests.indexing import indexed
from tests.tree import tree

pytestmark = pytest.mark.django_db

FILES = {
    **{f"small {n}": b"x" * (n + 1) for n in range(4)},
    **{f"twin {n}": b"x" * 100_000 for n in range(3)},
    **{f"alone {n}": bytes([n]) * 100_001 for n in range(3)},
}
RESULT = (
    "relative_path", "needs_hash", "hash_algorithm", "content_hash", "sample_hash", "hashed_size_bytes",
    "hashed_mtime_ns", "hash_error_count", "hash_claim_token", "hash_claimed_at",
)  # fmt: skip
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run_hash(child_environment: dict[str, str]) -> Run:
    def run(**more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tests.libraries.hash_runner"]
        return subprocess.run(
            command, env={**child_environment, **more}, cwd=ROOT, capture_output=True, text=True, timeout=120
        )

    return run


def rows() -> list[tuple[Any, ...]]:
    found = LibraryFile.objects.order_by("relative_path").values_list(*RESULT)
    return [tuple(bytes(value) if isinstance(value, memoryview) else value for value in row) for row in found]


def goes_on() -> None:
    """The lease of the killed runner runs out, and the job is carried out again."""
    from jobs.executing import drain

    job = Job.objects.filter(status="running").get()
    factories.expire(job)
    Job.objects.recover()
    assert promote()
    drain("jobs")
    job.refresh_from_db()
    assert job.status == "completed", job.error_message


@pytest.mark.parametrize("point", ["hash_claimed", "hash_sampled", "hash_read", "hash_stored", "hash_before_finish"])
def test_a_killed_hash_job_ends_as_an_undisturbed_one(point: str, run_hash: Run, tmp_path: Path) -> None:
    library = indexed(tree(tmp_path, FILES))
    assert run_hash(DEDUPFS_CRASH_POINT=point).returncode == -signal.SIGKILL
    goes_on()
    disturbed = rows()
    library.delete()
    indexed(tmp_path)
    assert hash_now(actor="test").status == "completed"
    assert disturbed == rows()


@pytest.mark.parametrize("point", ["hash_rehashed", "hash_before_switch", "hash_switched"])
def test_a_killed_switch_of_the_algorithm_ends_as_an_undisturbed_one(
    point: str, run_hash: Run, tmp_path: Path, settings: Any
) -> None:
    indexed(tree(tmp_path, FILES))
    assert hash_now(actor="test").status == "completed"
    before = rows()
    killed = run_hash(DEDUPFS_CRASH_POINT=point, DEDUPFS_HASH_ALGORITHM="sha256")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = HashState.objects.get().algorithm == "sha256"
    assert done == (point == "hash_switched")
    if not done:
        content = [row[:4] for row in rows()]
        assert content == [row[:4] for row in before], "until the switch the old digests are in force"
        assert Rehash.objects.count() == 7
    settings.HASH_ALGORITHM = "sha256"
    goes_on()
    assert {row[2] for row in rows() if not row[1]} == {"sha256"}
    assert [row[:2] for row in rows()] == [row[:2] for row in before]
    assert not Rehash.objects.exists()
