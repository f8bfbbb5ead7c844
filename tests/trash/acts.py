"""Libraries on the disk, plans over them, and acts that were authorised, for the tests of acting."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from django.db.models import Q

from database.clock import SecondsFromNow
from duplicates.models import Plan
from jobs import deciding
from jobs.executing import drain
from jobs.models import Job
from libraries.models import LibraryFile, LibraryRoot
from libraries.running_now import hash_now
from tests.duplicates.plans import planned
from tests.libraries.scans import scanned
from tests.tree import tree
from trash import authorising, switching
from trash.models import Act, TrashItem

OLD_NS = 1_600_000_000 * 10**9
#: The shorter path stays.
PAIRS = {"a": b"one", "b/a-copy": b"one", "c": b"two", "d/c-copy": b"two"}


def library(root: Path, files: Any = None, **fields: Any) -> LibraryRoot:
    """A library that was scanned and hashed; its files were written years ago."""
    tree(root, PAIRS if files is None else files)
    age(root)
    made = scanned(root, **fields)
    if LibraryFile.objects.filter(Q(content_hash__isnull=True), is_missing=False).exists():
        job = hash_now(actor="test")
        assert job.status == "completed", job.error_message
    return made


def two_names(root: Path) -> LibraryRoot:
    """A library of which two names of one file would go."""
    tree(root, {"a": b"one", "b/copy": b"one"})
    os.link(root / "b/copy", root / "b/copy2")
    return library(root, {})


def age(root: Path, ns: int = OLD_NS) -> None:
    """mtimes as of old; a ctime can't be set, so tests of what is young say so."""
    for folder, _, names in os.walk(os.fsencode(root)):
        for name in names:
            os.utime(os.path.join(folder, name), ns=(ns, ns), follow_symlinks=False)


def allow(*, removing: bool = True) -> None:
    switching.change(actor="ada", is_acting_allowed=True, is_removing_allowed=removing, empty_after_days=None)


def authorised(action: str = "trash", plan: Plan | None = None, **options: Any) -> Act:
    """A plan by rules that was authorised; its time to stop is over."""
    plan = plan or planned(action)
    if options:
        Plan.objects.filter(pk=plan.pk).update(**options)
        plan.refresh_from_db()
    act = authorising.authorise(plan.pk, plan.remove_count, actor="ada")
    due(act)
    return act


def due(act: Act) -> None:
    Job.objects.filter(pk=act.job_id).update(retry_after=SecondsFromNow(-1))


def carry_out(act: Act) -> Act:
    """In this process, as a consumer would."""
    deciding.requeue_retryable()
    drain("jobs")
    act.refresh_from_db()
    return act


def acted(action: str = "trash", **options: Any) -> Act:
    act = carry_out(authorised(action, **options))
    assert act.status == "completed", (act.status, act.note, act.job and act.job.error_message)
    return act


def items(act: Act) -> dict[str, TrashItem]:
    rows = TrashItem.objects.filter(act=act).select_related("plan_file")
    return {row.plan_file.relative_path: row for row in rows}


def reasons(act: Act) -> dict[str, str]:
    """Of the files that were skipped."""
    return {path: row.reason_code for path, row in items(act).items() if row.status == "skipped"}


def trash_of(root: Path, act: Act) -> Path:
    return root / ".dedupfs-trash" / act.key


def contents(root: Path) -> dict[str, bytes]:
    """Every file below, trash and all, but for the manifests and the locks."""
    ours = ("manifest.jsonl", "lock")
    files = (path for path in root.rglob("*") if path.is_file() and path.name not in ours)
    return {str(path.relative_to(root)): path.read_bytes() for path in files}
