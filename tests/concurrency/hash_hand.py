"""One of several processes that help with a hash job; prints how many files it had. `freeze` stops it before it stores
what it read, as if its machine had been put to sleep."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import django

django.setup()

from jobs.models import Job  # noqa: E402
from libraries import hash_reading  # noqa: E402
from libraries.hash_helping import help_with  # noqa: E402


def freeze(point: str) -> None:
    if point == "hash_read":
        print("holding", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)


def main(job_id: str, gate: Path, *how: str) -> None:
    if "freeze" in how:
        vars(hash_reading)["reach"] = freeze
    worker_id = Job.objects.values_list("worker_id", flat=True).get(pk=job_id)
    assert worker_id is not None
    print("ready", flush=True)
    while not gate.exists():
        time.sleep(0.001)
    print(help_with(job_id, worker_id), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
