"""Plans that may be carried out, and acts in the state a test of pages needs; no disk is behind them."""

from __future__ import annotations

from typing import Any

from django.db.models.functions import Now

from duplicates.models import Plan, PlanFile
from jobs.models import Job
from tests.duplicates.plans import copies, library, planned
from trash import authorising, switching
from trash.models import Act, TrashItem
from trash.path_keys import path_key


def allow(*, removing: bool = False) -> None:
    switching.change(actor="anna", is_acting_allowed=True, is_removing_allowed=removing, empty_after_days=None)


def two_copies(action: str = "trash", content: int = 1, **wish: Any) -> Plan:
    """Of three equal files two go."""
    copies(library(f"photos{content}"), content, "a", "old/a", "old/deep/a", size=2_000)
    return planned(action, **wish)


def authorised(plan: Plan | None = None, actor: str = "anna") -> Act:
    allow()
    plan = plan or two_copies()
    return authorising.authorise(plan.pk, plan.remove_count, actor=actor)


def begun(act: Act, done: int = 0) -> Act:
    """As an executor leaves it after `done` files: they lie in the trash."""
    Job.objects.filter(pk=act.job_id).update(retry_after=None)
    lease = Job.objects.filter(pk=act.job_id).claim("worker")
    assert lease is not None
    rows = list(PlanFile.objects.filter(plan=act.plan, role="remove", is_out=False).order_by("pk")[:done])
    for row in rows:
        _item(act, row, "trashed")
    size = sum(row.size_bytes for row in rows)
    Act.objects.filter(pk=act.pk).update(
        status="running", done_count=done, bytes_done=size, trashed_count=done, trashed_bytes=size, busy_seconds=2.0
    )
    return authorising.find(act.pk)


def ended(act: Act, *, skipped: dict[str, str] | None = None, status: str = "completed", proof: str = "") -> Act:
    """All of it done but the skipped ones: path → reason code."""
    reasons = skipped or {}
    begun(act)
    for row in PlanFile.objects.filter(plan=act.plan, role="remove", is_out=False).order_by("pk"):
        _item(act, row, "skipped" if row.relative_path in reasons else "trashed", reasons.get(row.relative_path, ""))
    done = TrashItem.objects.filter(act=act, status="trashed").count()
    Act.objects.filter(pk=act.pk).update(
        status=status, done_count=done, skipped_count=len(reasons), bytes_done=act.total_bytes, trashed_count=done,
        trashed_bytes=2_000 * done, busy_seconds=2.0, finished_at=Now(), proof_name=proof,
        proof_sha256="5" * 64 if proof else "",
    )  # fmt: skip
    Job.objects.filter(pk=act.job_id).update(status="completed", finished_at=Now(), lease_expires_at=None)
    Plan.objects.filter(status="authorised", acts=act).update(status="done")
    return authorising.find(act.pk)


def _item(act: Act, row: PlanFile, status: str, code: str = "") -> TrashItem:
    return TrashItem.objects.create(
        act=act, plan_file=row, status=status, library=row.library, path_key=path_key(row.relative_path),
        reason_code=code, reason=f"because of {code}" if code else "", acted_at=Now(),
    )  # fmt: skip


def is_due(act: Act) -> bool:
    return Job.objects.filter(pk=act.job_id).due().exists()
