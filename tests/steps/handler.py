"""Takes the steps a job's payload asks for: each writes one row, fenced, and is never taken twice."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from database.crash_points import reach
from jobs.executing import Outcome
from jobs.models import Job
from jobs.working import Work
from libraries.models import LibraryFile
from libraries.scanning import scan


def scan_or_take_steps(work: Work[Job]) -> Outcome | None:
    """A job that asks for no steps is a real scan."""
    return take_steps(work) if "steps" in work.row.payload else scan(work)


def take_steps(work: Work[Job]) -> Outcome | None:
    """Payload: `library` and `steps`; `hold` names a step before which to wait for the file `gate`.

    While it waits it says that it makes progress, unless `silent`; it stops when told, unless `deaf`.
    """
    asked: dict[str, Any] = work.row.payload
    for step in range(asked["steps"]):
        if "fail" in asked and step == asked["fail"]:
            raise ValueError("this step fails")
        if asked.get("hold") == step:
            _wait(work, asked)
        _take(work, step)
        work.advance(step + 1, asked["steps"], doing=f"step {step}")
        reach("stepped")
        if not asked.get("deaf"):
            work.check()
    return None


def _wait(work: Work[Job], asked: dict[str, Any]) -> None:
    gate = Path(asked["gate"])
    work.advance(doing=f"waiting for {gate.name}")
    gate.with_suffix(".reached").touch()
    while not gate.exists():
        time.sleep(0.02)
        if not asked.get("silent"):
            work.advance()
        if not asked.get("deaf"):
            work.check()


def _take(work: Work[Job], step: int) -> None:
    rows = LibraryFile.objects.using("executor")
    path = f"{work.row.pk}/{step}"
    with work.fenced("scan"):
        if not rows.filter(library_id=work.row.payload["library"], relative_path=path).exists():
            rows.create(library_id=work.row.payload["library"], relative_path=path, size_bytes=step, mtime_ns=0)
