"""SIGKILL at every step of planning: the next run ends with the rows of an undisturbed one."""

from __future__ import annotations

import random
import signal
from typing import Any

import pytest
from django.db import connections

from database.clock import SecondsFromNow
from duplicates.models import Plan, PlanFile, PlanFolder
from duplicates.plan_making import BATCH_FILES
from jobs import deciding
from jobs.executing import drain
from jobs.models import Job
from libraries.models import LibraryFile
from tests.conftest import Manage
from tests.duplicates.plans import check, library, planned, rule_set, unsaved

pytestmark = pytest.mark.django_db
FEW = ["plan_stored:2", "plan_looked", "plan_ready"]
ALL = [*FEW, "plan_cleared", "plan_stored:1", "handled", "finished"]
COLUMNS = ("role", "relative_path", "folder", "size_bytes", "inode", "keeper__relative_path", "action", "reason")
TOTALS = (
    "group_count", "keep_count", "remove_count", "remove_bytes", "freed_bytes", "untouched_count", "left_out",
    "warnings",
)  # fmt: skip


def grow(seed: int) -> None:
    """So many files that they take some batches."""
    dice, photos = random.Random(seed), library()
    rows = []
    for content in range(800):
        names = [
            f"d{dice.randrange(9)}/{'x' * dice.randrange(4)}{content}-{n}.jpg" for n in range(dice.randrange(2, 5))
        ]
        rows += unsaved(photos, content, *names, size=dice.randrange(1, 5))
    for content in range(40):
        rows += unsaved(photos, 1_000 + content, f"d0/{content}-0.xmp", size=7)
    LibraryFile.objects.bulk_create(rows, batch_size=500)


def made(plan: Plan) -> list[Any]:
    plan.refresh_from_db()
    files = list(PlanFile.objects.filter(plan=plan).order_by("pk").values_list(*COLUMNS))
    folders = PlanFolder.objects.filter(plan=plan).order_by("library_id", "folder")
    counts = list(folders.values_list("folder", "file_count", "remove_count", "remove_bytes"))
    return [files, counts, [getattr(plan, name) for name in TOTALS]]


def play(run_manage: Manage, point: str, seed: int) -> None:
    grow(seed)
    rule_set()
    expected = made(planned())
    assert len(expected[0]) > 2 * BATCH_FILES * 0.9
    ended = run_manage("plan", "--rules", "tidy", env={"DEDUPFS_CRASH_POINT": point})
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    killed = Plan.objects.latest("pk")
    Job.objects.filter(status="running").update(lease_expires_at=SecondsFromNow(-1))
    Job.objects.recover()
    deciding.requeue_retryable()
    drain("jobs")
    assert killed.job is not None
    job = Job.objects.get(pk=killed.job_id)
    assert job.status == "completed", job.error_message
    assert made(killed) == expected
    check(killed)
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM plan_files")
        assert cursor.fetchone()[0] == 2 * len(expected[0])


@pytest.mark.parametrize("point", FEW)
def test_a_killed_planning_is_made_good_by_the_next_run(run_manage: Manage, point: str) -> None:
    play(run_manage, point, seed=1)


@pytest.mark.torture
@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("point", ALL)
def test_any_point_over_any_groups(run_manage: Manage, point: str, seed: int) -> None:
    play(run_manage, point, seed)
