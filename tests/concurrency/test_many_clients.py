"""Many people look at pages while a scan writes: nobody is refused, nothing is locked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.concurrency.many_clients import Crowd, bad_lines, log_in_all, people_script
from tests.conftest import ROOT
from tests.site.running import Up, environment, rows
from tests.tree import tree
from tests.waiting import until

CLIENTS = 20
REQUESTS = 400
FILES, FOLDERS = 6_000, 60
FEW = 60


def test_a_scan_and_many_clients_never_lock_each_other_out(tmp_path: Path) -> None:
    root, state = tmp_path / "libraries", tmp_path / "state"
    # Every content twice: there are groups to page through from the beginning, and more with each batch.
    tree(root / "few", {f"{number % 7}/{number}.jpg": b"few %d" % (number // 2) for number in range(FEW)})
    tree(root / "many", {f"{number % FOLDERS}/{number}.jpg": b"many %d" % (number // 2) for number in range(FILES)})
    settings = environment(
        state, DEDUPFS_LIBRARIES_ROOT=str(root), DEDUPFS_SWEEP_SECONDS="1", DEDUPFS_SCAN_BATCH_FILES="200"
    )
    _manage(settings, "migrate", "-v", "0")
    _manage(settings, "shell", "-v", "0", "-c", people_script(CLIENTS))
    _manage(settings, "add_library", "few", str(root / "few"))
    _manage(settings, "scan", "--now", "few")
    _manage(settings, "add_library", "many", str(root / "many"))
    up = Up(settings, tmp_path / "log", ("--no-demo",))
    try:
        up.wait_ready()
        walkers = log_in_all(up, CLIENTS)
        with Crowd(walkers) as crowd:
            _manage(settings, "scan", "many")
            until(lambda: _is_over(state), "the scan, and the hashing after it", seconds=300)
            until(lambda: len(crowd.asked) >= REQUESTS, f"{REQUESTS} answers", seconds=300)
        assert up.stop() == 0, up.output
    finally:
        up.kill_all()
    assert crowd.faults == []
    assert min(len(walker.asked) for walker in walkers) > 0
    assert bad_lines(up.log) == []
    assert rows(state, "SELECT status, error FROM scan_requests ORDER BY created_at") == [("completed", None)] * 2
    assert rows(state, "SELECT COUNT(*) FROM library_files WHERE NOT is_missing") == [(FEW + FILES,)]
    assert rows(state, "SELECT status, COUNT(*) FROM jobs WHERE status <> 'completed' GROUP BY 1") == []


@pytest.mark.parametrize("line", ["OperationalError: database is locked", "2026 ERROR django.request: boom"])
def test_what_must_never_be_in_a_log_is_found_there(line: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(f"all is well\n{line}\n")
    assert bad_lines(log) == [line]


def _is_over(state: Path) -> bool:
    """Nothing waits and nothing runs, the library was scanned, and no hash job is yet to follow."""
    unfinished = "SELECT COUNT(*) FROM jobs WHERE status IN ('pending', 'running', 'retryable')"
    scanned = "SELECT COUNT(*) FROM scan_requests WHERE status = 'completed'"
    following = "SELECT COUNT(*) FROM hash_states WHERE is_due"
    return rows(state, f"SELECT ({unfinished}), ({scanned}), ({following})") == [(0, 2, 0)]


def _manage(settings: dict[str, str], *words: str) -> None:
    command = [sys.executable, str(ROOT / "manage.py"), *words]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
