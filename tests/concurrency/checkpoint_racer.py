"""One of several processes that ask for a checkpoint at the same moment; prints the key of the row each call gave."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import django

django.setup()

from django.db import IntegrityError, connection  # noqa: E402

from jobs.executing import drain  # noqa: E402
from jobs.models import WalMaintenanceJob  # noqa: E402
from jobs.wal_deciding import QUEUE, Refused, request_checkpoint  # noqa: E402
from tests.concurrency.gate import wait_for  # noqa: E402


def ask() -> None:
    """All at once. PostgreSQL has no log to look after, so there the database's own constraint is asked."""
    if connection.vendor == "sqlite":
        print(request_checkpoint("passive", by="racer").pk, flush=True)
        return
    try:
        print(WalMaintenanceJob.objects.create().pk, flush=True)
    except IntegrityError:
        print("refused", flush=True)


def ask_and_carry_out(number: int) -> None:
    """Half of them ask in every way there is, the others carry out as consumers do."""
    for turn in range(15):
        if number % 2:
            drain(QUEUE)
        else:
            with suppress(Refused):
                request_checkpoint(("passive", "restart")[turn % 2], by="racer", is_forced=True)
        print(WalMaintenanceJob.objects.filter(status__in=("pending", "running")).count(), flush=True)


if __name__ == "__main__":
    WalMaintenanceJob.objects.exists()  # connected before the race starts
    wait_for(Path(sys.argv[2]))
    ask()
    if connection.vendor == "sqlite":
        wait_for(Path(sys.argv[3]))
        ask_and_carry_out(int(sys.argv[1]))
