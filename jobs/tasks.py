"""What Huey runs: it rings, nothing more. Sweeping is the caretaker's (`jobs.living`)."""

from __future__ import annotations

from huey.contrib.djhuey import db_task

from jobs.executing import drain


@db_task()  # type: ignore[untyped-decorator]
def look(queue: str) -> None:
    """Somebody rang: carry out what waits in `queue`."""
    drain(queue)
