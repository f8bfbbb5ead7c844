"""SIGKILL at every step of a scan and of hashing: the next run ends with the rows of an undisturbed one."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from database.clock import SecondsFromNow
from jobs.models import Job
from libraries.models import LibraryFile, LibraryRoot, ScanRequest, ScanSession
from libraries.running_now import hash_now
from libraries.walking import FIRST_FILES
from tests.conftest import Manage
from tests.libraries.scans import library_at, scan
from tests.tree import tree

pytestmark = pytest.mark.django_db
LARGE = 70_000
FOLDERS = 10
COLUMNS = (
    "relative_path", "size_bytes", "mtime_ns", "ctime_ns", "inode", "nlink", "is_missing", "needs_hash",
    "hash_algorithm", "content_hash", "hash_claim_token",
)  # fmt: skip
#: Those of hashing alone are in `tests/libraries/test_hash_crashes.py`.
FEW = ["scan_opened", "scan_stored:1", "scan_stored:4", "scan_walked", "scan_lost:1", "scan_settled", "finished:1"]
#: Every numbered point, again and again in trees of other shapes.
ALL = [
    *FEW, "handled:1", "handled:2", "finished:2", *(f"scan_stored:{n}" for n in (2, 3, 5, 6, 7, 8)),
    "hash_claimed", "hash_sampled", "hash_read", "hash_stored", "hash_before_finish",
]  # fmt: skip


def grow(root: Path, dice: random.Random) -> None:
    """Small and large files, with twins, in some folders: each of those is a unit of walking by itself, so that a scan
    has many batches also where it is the first one."""
    contents = [dice.randbytes(dice.choice([0, 10, 5000, LARGE, LARGE])) for _ in range(12)]
    for number in range(60):
        tree(root, {f"d{dice.randrange(FOLDERS)}/{number}": dice.choice(contents)})
    tree(root, dict.fromkeys(("d0/twin", "d1/twin"), dice.randbytes(LARGE)))
    for number in range(FOLDERS * FIRST_FILES):
        tree(root, {f"d{number % FOLDERS}/small {number}": b"%d" % (number // 2)})


def disturb(root: Path, dice: random.Random) -> None:
    """Some files go, some move, some change, some are new."""
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    files = [path for path in files if "small" not in path.name or dice.random() < 0.02]
    dice.shuffle(files)
    for path in files[:5]:
        path.unlink()
    for path in files[5:10]:
        path.rename(root / f"moved-{path.name}")
    for path in files[10:20]:
        path.write_bytes(dice.randbytes(dice.choice([20, LARGE])))
    tree(root, {f"new/{number}": dice.randbytes(30) for number in range(20)})


def crash(run_manage: Manage, library: LibraryRoot, point: str) -> bool:
    """Scan and hash in a process that dies at `point`, if it comes by there: whether it did."""
    ended = run_manage(
        "scan", "--now", library.name, env={"DEDUPFS_CRASH_POINT": point, "DEDUPFS_SCAN_BATCH_FILES": "10"}
    )
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
    Job.objects.filter(status="running").update(lease_expires_at=SecondsFromNow(-1))
    LibraryFile.objects.filter(hash_claim_token__isnull=False).update(hash_claimed_at=SecondsFromNow(-100_000))
    return ended.returncode != 0


def settle(library: LibraryRoot) -> list[LibraryFile]:
    """A scan and hashing that nobody disturbs; the rows that they leave."""
    assert scan(library, accept_missing=True).status == "completed"
    job = hash_now(actor="test")
    assert job.status == "completed", job.error_message
    return list(LibraryFile.objects.order_by("relative_path"))


def go_back_to(rows: list[LibraryFile]) -> None:
    """Let the index know these files, and nothing of what came later."""
    LibraryFile.objects.all().delete()
    LibraryFile.objects.bulk_create(rows)


def figures(rows: list[LibraryFile]) -> list[tuple[Any, ...]]:
    values = [tuple(getattr(row, name) for name in COLUMNS) for row in rows]
    return [tuple(bytes(value) if isinstance(value, memoryview) else value for value in row) for row in values]


def play(run_manage: Manage, root: Path, point: str, seed: int) -> None:
    """The same happens to one tree twice, once without a kill: what is read depends on what was there before."""
    print(f"crash point {point}, seed {seed}")
    dice = random.Random(seed)
    grow(root, dice)
    library = library_at(root)
    calm = settle(library)
    go_back_to([])
    was_killed = crash(run_manage, library, point)
    assert was_killed or not point.startswith("scan_stored"), "a first scan has so many batches"
    killed = settle(library)
    assert figures(killed) == figures(calm)
    disturb(root, dice)
    go_back_to(calm)
    calm = settle(library)
    go_back_to(killed)
    was_killed |= crash(run_manage, library, point)
    assert was_killed, "nothing comes by there"
    assert figures(settle(library)) == figures(calm)
    assert not ScanSession.objects.filter(status="running").exists()
    assert not ScanRequest.objects.filter(status__in=ScanRequest.ACTIVE).exists()


@pytest.mark.parametrize("point", FEW)
def test_a_killed_scan_or_hash_is_made_good_by_the_next(run_manage: Manage, tmp_path: Path, point: str) -> None:
    play(run_manage, tmp_path / "root", point, seed=1)


@pytest.mark.torture
@pytest.mark.parametrize("seed", random.sample(range(10**6), 4) if os.environ.get("DEDUPFS_TEST_PROFILE") else [2])
@pytest.mark.parametrize("point", ALL)
def test_any_point_in_any_tree(run_manage: Manage, tmp_path: Path, point: str, seed: int) -> None:
    play(run_manage, tmp_path / "root", point, seed)
