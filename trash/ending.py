"""The end of an act: empty trashes go, the proof is written, and its row, its plan and the logbook say how it ended."""

from __future__ import annotations

import os
from typing import Any

from django.db.models.functions import Now

from database.routing import EXECUTOR
from duplicates.facts import Place, read_places
from duplicates.models import Plan
from jobs.errors import LeaseLost
from jobs.executing import worker_name
from jobs.working import Work
from libraries.names import to_bytes
from logbook.models import write_event
from trash.act_trashes import trash_places
from trash.item_storing import recording
from trash.models import Act, TrashItem
from trash.proof import ProofDraft, write_proof
from trash.taking_out import tidy


def end(
    act: Act, status: str, note: str = "", *, work: Work[Any] | None = None, draft: ProofDraft | None = None
) -> None:
    """Whoever calls holds the lock, and has settled every file of the act. With `work` it is fenced by the lease,
    without by the act's own status: it ends once. `draft` is its proof, as far as that is written."""
    if act.verb == Act.Verb.ACT:
        # Those in which nothing of it lies: everything was skipped, or removed for good.
        for root, folder in trash_places(act):
            tidy(root, folder, act.key)
    columns: dict[str, Any] = {"status": status, "note": note, "finished_at": Now(), "updated_at": Now()}
    if act.verb == Act.Verb.ACT:
        columns["space"] = _space_after(act, read_places(EXECUTOR))
    proof = _proof(act, draft)
    with recording(work):
        rows = Act.objects.using(EXECUTOR).filter(pk=act.pk, status__in=Act.LIVING)
        if not rows.update(**columns, **proof):
            raise LeaseLost(f"{act} has ended already")
        if act.verb == Act.Verb.ACT:
            _end_plan(act)
        actor = work.lease.worker_id if work is not None else worker_name()
        write_event("acts", str(act.pk), "ended", actor=actor, using=EXECUTOR, title=str(act), **proof)
    act.refresh_from_db(using=EXECUTOR)


def _space_after(act: Act, places: dict[int, Place]) -> dict[str, list[int]]:
    """What the filesystems say now, where they can be found."""
    space = {name: list(figures) for name, figures in _current_space(act).items()}
    for place in places.values():
        for folder, name in place.filesystems.items():
            if name in space:
                try:
                    figures = os.statvfs(to_bytes(place.root_path) + b"/" + to_bytes(folder))
                except OSError:
                    continue
                space[name][1] = figures.f_bavail * figures.f_frsize
    return space


def _current_space(act: Act) -> dict[str, list[int]]:
    found = Act.objects.using(EXECUTOR).filter(pk=act.pk).values_list("space", flat=True).first()
    return dict(found or {})


def _proof(act: Act, draft: ProofDraft | None) -> dict[str, str]:
    """None where nothing is on record: it was stopped before it began."""
    mine = {"act": act} if act.verb == Act.Verb.ACT else {"left_by": act}
    if not TrashItem.objects.using(EXECUTOR).filter(**mine).exists():
        return {}
    name, digest = write_proof(act) if draft is None else draft.finish()
    return {"proof_name": name, "proof_sha256": digest}


def _end_plan(act: Act) -> None:
    """A plan by which nothing was done may be authorised again; any other one is done, also where files were left."""
    untouched = (TrashItem.Status.SKIPPED, TrashItem.Status.INTENDED)
    touched = TrashItem.objects.using(EXECUTOR).filter(act=act).exclude(status__in=untouched)
    status = Plan.Status.DONE if touched.exists() else Plan.Status.READY
    plans = Plan.objects.using(EXECUTOR).filter(acts=act, status=Plan.Status.AUTHORISED)
    plans.update(status=status, updated_at=Now())
