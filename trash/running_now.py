"""An act that this process carries out itself, as an executor with a lease of its own: for the command line."""

from __future__ import annotations

import time

from jobs.deciding import QUEUE
from jobs.executing import carry_out_here, worker_name
from jobs.models import Job
from jobs.recovering import recover_all
from libraries.errors import Refused
from trash.models import Act

#: How often to look at an act that a consumer was quicker to take.
LOOK_SECONDS = 0.3


def carry_out_now(act: Act, *, actor: str) -> Act:
    """Carry out an act that waits for an executor; return it as it ended. Where a consumer was quicker, wait for it.

    Raises `Refused` where it has to wait for another act: it stays in the queue, and a consumer carries it out.
    """
    is_looked_after = False
    while True:
        lease = Job.objects.filter(pk=act.job_id).claim(worker_name())
        if lease is not None:
            carry_out_here(QUEUE, lease)
        act = Act.objects.select_related("job").get(pk=act.pk)
        if not act.is_living:
            return act
        if act.job is not None and act.job.status != Job.Status.RUNNING:
            if is_looked_after:
                raise Refused(_waits(act))
            # Whoever has the turn may have lost its life.
            recover_all(actor=actor)
            is_looked_after = True
            continue
        time.sleep(LOOK_SECONDS)


def _waits(act: Act) -> str:
    job = act.job
    others = Job.objects.filter(kind=Job.Kind.DELETE, dry_run=False, status=Job.Status.RUNNING)
    holder = others.exclude(pk=act.job_id).first()
    who = f"The job {holder.pk} acts on files now, held by {holder.worker_id}." if holder else ""
    why = who or (job.error_message if job else None) or "It has to wait."
    return f"{why} {act} waits in the queue, and a consumer carries it out as soon as that is possible."
