"""Carries acts out in processes that die where they are told to.

It loads everything once and forks for each line it reads: `POINT JOB KIND`, where KIND is `plain` for a kernel that
can neither exchange two names nor rename without replacing. For each it prints how the child ended (a negative number
is a signal) and how often the point was reached.
"""

from __future__ import annotations

import os
import signal
import sys

import django


def main() -> None:
    django.setup()
    from trash import carrying_out, settling_left

    assert carrying_out
    assert settling_left
    print("ready", flush=True)
    for line in sys.stdin:
        point, job, kind = line.split()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _carry_out(point, job, kind, writing)
        os.close(writing)
        with os.fdopen(reading) as told:
            count = told.read() or "-"
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), count, flush=True)


def _carry_out(point: str, job: str, kind: str, writing: int) -> None:
    """Never returns."""
    code = 3
    try:
        from database import crash_points
        from jobs.executing import carry_out_here
        from jobs.models import Job
        from trash import steps

        name, _, count = point.partition(":")
        crash_points._wanted[name] = [(int(count), signal.SIGKILL)]
        if kind == "plain":
            steps._function = lambda: None  # type: ignore[assignment]
        lease = Job.objects.filter(pk=job).claim("victim")
        if lease is None:
            code = 4
        else:
            carry_out_here("jobs", lease)
            os.write(writing, str(crash_points._reached[name]).encode())
            code = 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
