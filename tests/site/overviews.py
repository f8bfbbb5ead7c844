"""An installation in the states that the overview shows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from database.clock import SecondsFromNow
from dedupfs_site.models import DailySample
from duplicates.models import Plan, RuleSet
from jobs.models import WalMaintenanceJob, WorkerHeartbeat
from libraries.models import LibraryFile, LibraryRoot, LibraryState, ScanRequest
from libraries.names import to_text
from tests import factories
from tests.duplicates.plans import SHORTEST, copies, planned
from tests.trash.trashed import carried_out
from trash.models import Act

HOSTILE = to_text(b"caf\xe9 <script>alert(1)</script>\n")


def library(name: str = "photos", *, files: int = 10, size: int = 1_000_000, **state: Any) -> LibraryRoot:
    made = factories.library(name)
    LibraryState.objects.create(library=made, file_count=files, total_bytes=size, **{"mount": "present", **state})
    return made


def a_consumer() -> None:
    WorkerHeartbeat.objects.create(worker_id="nas:7", hostname="nas")


def ended_scan(of: LibraryRoot, status: str, seconds_ago: int = 60, **fields: Any) -> ScanRequest:
    return ScanRequest.objects.create(library=of, status=status, created_at=SecondsFromNow(-seconds_ago), **fields)


def running_act(plan: Plan, **fields: Any) -> Act:
    job, _lease = factories.running_job("delete", dry_run=False)
    Plan.objects.filter(pk=plan.pk).update(status="authorised")
    return Act.objects.create(
        plan=plan, job=job, authorised_by="ada", status="running", file_count=10, total_bytes=1000, **fields
    )


def everything(count: int = 12) -> None:
    """Much of all that the page can show; one job runs, as often."""
    a_consumer()
    mounts = ["present", "absent", "empty", "different"]
    made = [
        library(f"lib {number}", mount=mounts[number % 4], gone_count=number % 3, error_count=number % 2, size=number)
        for number in range(count)
    ]
    for number, each in enumerate(made):
        ended_scan(each, "failed", error=HOSTILE)
        copies(each, number, "a", f"old/{number}", size=2_000)
        factories.library_file("bad", each, hash_error_count=2)
    LibraryRoot.objects.filter(pk=made[0].pk).update(scan_interval_minutes=5, next_scan_at=SecondsFromNow(-9000))
    ScanRequest.objects.create(library=made[4])
    carried_out(planned(group_keys=[f"blake3:{1:064x}"]))
    for _ in range(count):
        Plan.objects.create(status="ready", remove_count=3, freed_bytes=9)
        Act.objects.create(
            plan=Plan.objects.create(status="ready"), authorised_by="a", status="failed", finished_at=SecondsFromNow(0)
        )
        factories.finished_job("thumbnail", "failed")
    running_act(Plan.objects.create(status="ready"), done_count=2, bytes_done=300, busy_seconds=10)
    file = LibraryFile.objects.order_by("id")[0]
    factories.pending_thumbnail("l", of=file, status="failed", error_count=3)
    WalMaintenanceJob.objects.create(status="failed", error_message="busy")
    for back in range(40):
        DailySample.objects.create(day=timezone.localdate() - timedelta(days=back), reclaimable_bytes=back * 10**9)
    RuleSet.objects.create(name="Shortest", rules=SHORTEST)
