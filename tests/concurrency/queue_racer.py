"""One of several processes that use the scan queue at the same moment; prints what each of its calls returned."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import django

django.setup()

from jobs.errors import LeaseLost  # noqa: E402
from jobs.executing import sweep_all  # noqa: E402
from jobs.models import Job  # noqa: E402
from libraries import queueing, scheduling  # noqa: E402
from libraries.errors import Refused  # noqa: E402
from libraries.models import LibraryRoot  # noqa: E402
from tests.concurrency.gate import wait_for  # noqa: E402

LIBRARIES = list(LibraryRoot.objects.order_by("pk").values_list("pk", flat=True))  # connected before the race starts


def submit(priority: int) -> None:
    for library in LIBRARIES:
        print(queueing.submit(library, priority, actor="racer").pk, flush=True)


def promote(_: int) -> None:
    print(queueing.promote(), flush=True)


def tick(_: int) -> None:
    print(scheduling.tick(), flush=True)


def ask(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(40):
        queueing.submit(dice.choice(LIBRARIES), dice.randrange(2), actor="asker", accept_missing=dice.random() < 0.3)


def cancel(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(40):
        request = queueing.current(dice.choice(LIBRARIES))
        if request is not None:
            try:
                queueing.cancel(request.pk, actor="canceller")
            except Refused:
                print("late", flush=True)


def work(seed: int) -> None:
    """Claim and end jobs in every way there is, and sweep as consumers do: until one was completed at the least. Who
    finds nothing to do asks for it, since all others may have ended or have cancelled everything."""
    dice = random.Random(seed)
    turns = is_completed = 0
    while turns < 40 or not is_completed:
        turns += 1
        lease = Job.objects.filter(kind="scan").claim("worker")
        if lease is None:
            sweep_all()
            queueing.submit(dice.choice(LIBRARIES), 0, actor="worker")
            continue
        try:
            if dice.random() < 0.3:
                lease.release("WORKER_STOPPED", "stopped")
            else:
                outcome = dice.choice(["completed", "failed"])
                lease.finish(outcome)
                is_completed += outcome == "completed"
        except LeaseLost:
            print("lost", flush=True)


if __name__ == "__main__":
    verb, argument, gate = globals()[sys.argv[1]], int(sys.argv[2]), Path(sys.argv[3])
    wait_for(gate)
    verb(argument)
