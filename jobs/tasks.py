"""What Huey runs."""

from __future__ import annotations

from huey import crontab
from huey.contrib.djhuey import db_periodic_task, db_task


@db_task()
def look(queue: str) -> None:
    """Somebody rang: carry out what waits in `queue`."""
    from jobs.executing import drain

    drain(queue)


@db_periodic_task(crontab(minute="*"))
def sweep() -> None:
    """Take back what was lost, put back what may be tried again, and look where nobody rang."""
    from jobs.executing import sweep_all

    sweep_all()
