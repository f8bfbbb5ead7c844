"""Races of real processes for the rows of every leased table."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from jobs.models import Job, WalMaintenanceJob
from tests import factories
from thumbnails.models import Thumbnail, ThumbnailCleanupJob

pytestmark = pytest.mark.django_db

ROWS, RACERS = 1000, 8


def make_jobs() -> None:
    Job.objects.bulk_create(Job(kind="thumbnail") for _ in range(ROWS))


def make_thumbnails() -> None:
    source = factories.library_file()
    Thumbnail.objects.bulk_create(
        Thumbnail(thumb_key=f"{n}", file=source, media_type="image", format="webp", max_dimension=320,
                  source_size_bytes=1, source_mtime_ns=1)
        for n in range(ROWS)
    )  # fmt: skip


def make_cleanups() -> None:
    ThumbnailCleanupJob.objects.bulk_create(ThumbnailCleanupJob(group_key=f"{n}") for n in range(ROWS))


def make_checkpoints() -> None:
    """At most one row may be pending, so these wait for their retry."""
    WalMaintenanceJob.objects.bulk_create(WalMaintenanceJob(status="retryable") for _ in range(ROWS))


TABLES = [
    (Job, "completed", make_jobs),
    (Thumbnail, "ready", make_thumbnails),
    (ThumbnailCleanupJob, "completed", make_cleanups),
    (WalMaintenanceJob, "completed", make_checkpoints),
]


@pytest.mark.parametrize(("model", "outcome", "make"), TABLES, ids=[each[0].__name__ for each in TABLES])
def test_eight_processes_claim_every_row_exactly_once(
    model: Any, outcome: str, make: Any, child_environment: dict[str, str], tmp_path: Path
) -> None:
    make()
    gate = tmp_path / "go"
    environment = {
        **child_environment,
        "DEDUPFS_THUMBNAIL_IMAGES": "64",
        "DEDUPFS_SQLITE_BUSY_SECONDS": "120",
    }
    command = [sys.executable, "-m", "tests.concurrency.claimer", model._meta.label, outcome, str(gate)]
    racers = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(RACERS)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n", racer.stderr and racer.stderr.read()
    gate.touch()
    claimed: Counter[str] = Counter()
    for racer in racers:
        printed, errors = racer.communicate(timeout=240)
        assert racer.returncode == 0, errors
        claimed.update(printed.split())
    assert set(claimed) == {str(key) for key in model.objects.values_list("pk", flat=True)}
    assert set(claimed.values()) == {1}
    assert model.objects.filter(status=outcome).count() == ROWS
