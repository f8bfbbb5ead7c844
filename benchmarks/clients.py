"""Fifty people at once for a minute, while one scan after the other writes into the same database."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.options import Options
from benchmarks.report import Section, table
from benchmarks.scanning_on import ONE_IN
from benchmarks.scratch import ROOT
from tests.concurrency.many_clients import Asked, Crowd, bad_lines, log_in_all, people_script
from tests.site.running import Up, environment, rows
from tests.waiting import until

_GROUP = re.compile(r"/duplicates/\w+:[0-9a-f]{64}/")
CLIENTS, SECONDS, FILES = 50, 60.0, 100_000
QUICK_SECONDS, QUICK_FILES = 10.0, 5_000
#: So many files in a folder.
TOGETHER = 100
#: The files lie in so many libraries, and a few in one more: while one is scanned the others wait, so that the next
#: scan begins at once.
LIBRARIES = 4
#: One file in so many is known before the clients come, so that there is something to see.
FEW = 20
#: A scan has to run for this part of the time. What is missing is the start of the next one.
LEAST_SHARE = 0.9
#: What is scanned and hashed when the clients are gone is waited for so long.
PATIENCE_SECONDS = 900.0


@dataclass(frozen=True)
class Scans:
    """What the scans came to, and for how long of the clients' time one ran."""

    completed: int
    others: int
    seconds: float
    of_seconds: float

    @property
    def is_good(self) -> bool:
        return self.completed > 0 and not self.others and self.seconds >= LEAST_SHARE * self.of_seconds

    def __str__(self) -> str:
        others = f", {self.others} that ended otherwise" if self.others else ""
        return f"{self.completed} completed{others}; one ran for {self.seconds:.1f} s of {self.of_seconds:.1f}"


def measure(options: Options) -> Iterable[Section]:
    seconds = QUICK_SECONDS if options.is_quick else SECONDS
    files = QUICK_FILES if options.is_quick else FILES
    with tempfile.TemporaryDirectory(prefix="clients-", dir=options.work) as folder:
        return [_race(Path(folder), seconds, files)]


def _race(folder: Path, seconds: float, files: int) -> Section:
    root, state = folder / "libraries", folder / "state"
    settings = environment(state, DEDUPFS_LIBRARIES_ROOT=str(root))
    _prepare(settings, root, files)
    up = Up(settings, folder / "log", ("--no-demo",))
    try:
        up.wait_ready()
        walkers = log_in_all(up, CLIENTS)
        with _scanning(settings, state), Crowd(walkers) as crowd:
            began = time.time()
            until(lambda: time.time() - began >= seconds, "the time to pass", seconds + 60)
            during, ended = crowd.asked, time.time()
        until(lambda: not _unfinished(state), "the end of all scans", PATIENCE_SECONDS)
        up.stop()
    finally:
        up.kill_all()
    return Section("Many clients", _told(during, crowd.faults, bad_lines(up.log), _scans(state, began, ended), files))


# --- Scans ------------------------------------------------------------------------------------------------
def _prepare(settings: dict[str, str], root: Path, files: int) -> None:
    """A small library that has been scanned, and those that will be."""
    _manage(settings, "migrate", "-v", "0")
    _manage(settings, "shell", "-v", "0", "-c", people_script(CLIENTS))
    _make(root / "seen", files // FEW)
    _manage(settings, "add_library", "seen", str(root / "seen"))
    _manage(settings, "scan", "--now", "seen")
    for number in range(LIBRARIES):
        _make(root / str(number), files // LIBRARIES)
        _manage(settings, "add_library", f"library {number}", str(root / str(number)))


@contextmanager
def _scanning(settings: dict[str, str], state: Path) -> Iterator[None]:
    """One scan after the other, from here to the end of the block."""
    code = "from benchmarks.scanning_on import keep_scanning; keep_scanning()"
    process = subprocess.Popen(_command("shell", "-v", "0", "-c", code), cwd=ROOT, env=settings)
    try:
        until(lambda: rows(state, "SELECT 1 FROM jobs WHERE kind = 'scan' AND status = 'running'"), "the first scan")
        yield
    finally:
        process.kill()
        process.wait()


def _unfinished(state: Path) -> bool:
    jobs = rows(state, "SELECT 1 FROM jobs WHERE status IN ('pending', 'running', 'retryable') LIMIT 1")
    return bool(jobs or rows(state, "SELECT 1 FROM scan_requests WHERE completed_at IS NULL LIMIT 1"))


def _scans(state: Path, began: float, ended: float) -> Scans:
    """Only one of them runs at a time, so what each has of the clients' time adds up."""
    found = rows(
        state,
        "SELECT status, (julianday(started_at) - 2440587.5) * 86400, (julianday(finished_at) - 2440587.5) * 86400"
        " FROM jobs WHERE kind = 'scan' AND started_at IS NOT NULL AND finished_at IS NOT NULL",
    )
    within = [(status, min(last, ended) - max(first, began)) for status, first, last in found]
    within = [(status, seconds) for status, seconds in within if seconds > 0]
    completed = sum(status == "completed" for status, _ in within)
    return Scans(completed, len(within) - completed, sum(seconds for _, seconds in within), ended - began)


# --- What is told -----------------------------------------------------------------------------------------
def _told(asked: list[Asked], refused: list[Asked], bad: list[str], scans: Scans, files: int) -> str:
    times = sorted(each.seconds for each in asked)
    # The scans take groups apart while people look at the list: a page of such a group is rightly not found.
    faults = [each for each in refused if each.status != 404 or not _GROUP.fullmatch(each.address)]
    is_good = not faults and not bad and scans.is_good
    head = ["requests", "a second", "errors", "bad lines in the logs", "median ms", "99 % ms", "slowest ms", "scans"]
    row = [
        f"{len(times):,}", f"{len(times) / scans.of_seconds:.0f}", str(len(faults)), str(len(bad)),
        f"{statistics.median(times) * 1000:.0f}", f"{times[int(len(times) * 0.99)] * 1000:.0f}",
        f"{times[-1] * 1000:.0f}", str(scans),
    ]  # fmt: skip
    what = (
        f"{CLIENTS} logged-in clients for {scans.of_seconds:.0f} s without a pause between requests, each walking the "
        "overview, groups by cursor, a group, jobs, libraries, the trash, lists of the API and what runs now, against "
        f"`manage.py up` on SQLite. Meanwhile it scans {files + files // FEW:,} files in {LIBRARIES + 1} libraries, "
        f"again and again, one in {ONE_IN} changed each time. No error, no “database is locked”, and a scan that runs "
        f"for at least {LEAST_SHARE:.0%} of the time: **{'reached' if is_good else 'MISSED'}**. "
        f"Groups that a scan had taken apart before somebody opened them: {len(refused) - len(faults)}."
    )
    found = Counter((each.status, each.address.partition("?")[0], each.fault[:200]) for each in faults)
    told = [f"- {count} times {fault}" for fault, count in found.most_common(10)]
    told += [f"- `{line[:200]}`" for line in bad[:10]]
    return "\n".join([what, "", table(head, [row]), *([""] if told else []), *told])


def _make(folder: Path, files: int) -> None:
    """A third is redundant."""
    for number in range(files):
        path = folder / f"{number // TOGETHER:04}" / f"{number:07}.jpg"
        if number % TOGETHER == 0:
            path.parent.mkdir(parents=True)
        path.write_bytes(b"content %d " % (number // 2 if number % 3 else number + files) * 20)


def _manage(settings: dict[str, str], *words: str) -> None:
    subprocess.run(_command(*words), env=settings, check=True, stdout=subprocess.DEVNULL)


def _command(*words: str) -> list[str]:
    return [sys.executable, str(ROOT / "manage.py"), *words]
