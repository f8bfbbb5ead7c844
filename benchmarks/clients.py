"""Fifty people at once for a minute, while a scan of many files writes into the same database."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from benchmarks.options import Options
from benchmarks.report import Section, table
from benchmarks.scratch import ROOT
from tests.concurrency.many_clients import Asked, Crowd, bad_lines, log_in_all, people_script
from tests.site.running import Up, environment, rows
from tests.waiting import until

CLIENTS, SECONDS, FILES = 50, 60.0, 100_000
QUICK_SECONDS, QUICK_FILES = 10.0, 5_000
#: So many files in a folder.
TOGETHER = 100
#: A scan of a large tree may take longer than the minute; it is waited for so long.
PATIENCE_SECONDS = 900.0


def measure(options: Options) -> Iterable[Section]:
    seconds = QUICK_SECONDS if options.is_quick else SECONDS
    files = QUICK_FILES if options.is_quick else FILES
    with tempfile.TemporaryDirectory(prefix="clients-", dir=options.work) as folder:
        return [_race(Path(folder), seconds, files)]


def _race(folder: Path, seconds: float, files: int) -> Section:
    root, state = folder / "libraries", folder / "state"
    _make(root / "first", files // 20)
    _make(root / "second", files)
    settings = environment(state, DEDUPFS_LIBRARIES_ROOT=str(root))
    _manage(settings, "migrate", "-v", "0")
    _manage(settings, "shell", "-v", "0", "-c", people_script(CLIENTS))
    _manage(settings, "add_library", "first", str(root / "first"))
    _manage(settings, "scan", "--now", "first")
    _manage(settings, "add_library", "second", str(root / "second"))
    up = Up(settings, folder / "log", ("--no-demo",))
    try:
        up.wait_ready()
        walkers = log_in_all(up, CLIENTS)
        with Crowd(walkers) as crowd:
            _manage(settings, "scan", "second")
            began = time.monotonic()
            until(lambda: time.monotonic() - began >= seconds, "the time to pass", seconds + 60)
            during = crowd.asked
            is_running = not _is_over(state)
        took = _wait(state, began)
        up.stop()
    finally:
        up.kill_all()
    scan = f"{_scan(state)}, {took:.0f} s{' (longer than the clients stayed)' if is_running else ''}"
    return Section("Many clients", _told(during, crowd.faults, bad_lines(up.log), scan, seconds))


def _told(asked: list[Asked], faults: list[Asked], bad: list[str], scan: str, seconds: float) -> str:
    times = sorted(each.seconds for each in asked)
    is_good = not faults and not bad and scan.startswith("completed")
    head = ["requests", "a second", "errors", "bad lines in the logs", "median ms", "99 % ms", "slowest ms", "scan"]
    row = [
        f"{len(times):,}", f"{len(times) / seconds:.0f}", str(len(faults)), str(len(bad)),
        f"{statistics.median(times) * 1000:.0f}", f"{times[int(len(times) * 0.99)] * 1000:.0f}",
        f"{times[-1] * 1000:.0f}", scan,
    ]  # fmt: skip
    what = (
        f"{CLIENTS} logged-in clients for {seconds:.0f} s without a pause between requests, each walking the overview, "
        f"groups by cursor, a group, jobs, libraries, the trash, lists of the API and what runs now, against "
        f"`manage.py up` on SQLite while it scans. No error and no “database is locked”: "
        f"**{'reached' if is_good else 'MISSED'}**."
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


def _wait(state: Path, began: float) -> float:
    until(lambda: _is_over(state), "the end of the scan", PATIENCE_SECONDS)
    return time.monotonic() - began


def _is_over(state: Path) -> bool:
    unfinished = "SELECT COUNT(*) FROM jobs WHERE status IN ('pending', 'running', 'retryable')"
    ended = "SELECT COUNT(*) FROM scan_requests WHERE completed_at IS NOT NULL"
    return rows(state, unfinished) == [(0,)] and rows(state, ended) == [(2,)]


def _scan(state: Path) -> str:
    status, error, count = rows(
        state,
        "SELECT r.status, r.error, (SELECT COUNT(*) FROM library_files f WHERE f.library_id = r.library_id)"
        " FROM scan_requests r ORDER BY r.created_at DESC LIMIT 1",
    )[0]
    return f"{status}, {count:,} files" if status == "completed" else f"{status}: {error}"


def _manage(settings: dict[str, str], *words: str) -> None:
    command = [sys.executable, str(ROOT / "manage.py"), *words]
    subprocess.run(command, env=settings, check=True, stdout=subprocess.DEVNULL)
