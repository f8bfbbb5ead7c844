"""The supervisor with small programs in the place of the web server and the consumer."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dedupfs_site.supervising import SETTLED_SECONDS, Child, exit_word
from tests.conftest import ROOT
from tests.site.running import is_alive
from tests.waiting import until

SCRIPT = """
import sys
from pathlib import Path
from dedupfs_site.starting import CannotStart
from dedupfs_site.supervising import Child, Supervisor

def program(text):
    return [sys.executable, "-c", text]

supervisor = Supervisor(
    web=Child("web", program({web!r}), Path(".")),
    consumer=Child("consumer", program({consumer!r}), Path(".")),
    stop_seconds={stop_seconds},
    answers=lambda: {answers},
    ready=lambda: print("ready", flush=True),
    note=lambda *words: print(*words, flush=True) or True,
)
try:
    supervisor.run()
except CannotStart as error:
    sys.exit(str(error))
"""
WAIT = "import time; time.sleep(600)"
Supervise = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def supervise() -> Iterator[Supervise]:
    started: list[subprocess.Popen[str]] = []

    def start(
        web: str = WAIT, consumer: str = WAIT, *, answers: str = "True", stop_seconds: float = 30
    ) -> subprocess.Popen[str]:
        script = SCRIPT.format(web=web, consumer=consumer, answers=answers, stop_seconds=stop_seconds)
        command = [sys.executable, "-c", script]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True))
        return started[-1]

    yield start
    for supervisor in started:
        if supervisor.poll() is None:
            supervisor.terminate()
        supervisor.communicate(timeout=90)


def test_supervisor_gives_up_a_web_server_that_never_comes_up(tmp_path: Path, supervise: Supervise) -> None:
    pid, ready = str(tmp_path / "pid"), str(tmp_path / "ready")
    consumer = f"import os; open({pid!r}, 'w').write(str(os.getpid())); os.rename({pid!r}, {ready!r}); {WAIT}"
    web = f"import os, time\nwhile not os.path.exists({ready!r}): time.sleep(0.01)\nraise SystemExit(3)"
    supervisor = supervise(web, consumer, answers="False")
    output, errors = supervisor.communicate(timeout=90)
    assert supervisor.returncode == 1
    assert errors.splitlines()[-1] == "the web server can't be started; the lines above say why"
    assert output.splitlines() == ["web_restarted 3", "web_restarted 3"]
    assert not is_alive(int((tmp_path / "ready").read_text()))


def test_supervisor_ends_a_child_that_does_not_stop(tmp_path: Path, supervise: Supervise) -> None:
    pid = tmp_path / "pid"
    deaf = (
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f" open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    )
    supervisor = supervise(consumer=deaf, stop_seconds=0.5, answers=f"Path({str(pid)!r}).exists()")
    assert supervisor.stdout is not None
    assert supervisor.stdout.readline() == "ready\n"
    until(lambda: pid.read_text(), "the child's number")
    supervisor.terminate()
    _, errors = supervisor.communicate(timeout=90)
    assert supervisor.returncode == 0
    assert "The consumer did not stop in time and was ended." in errors
    assert not is_alive(int(pid.read_text()))


def test_supervisor_clears_what_a_dead_child_left_behind(tmp_path: Path, supervise: Supervise) -> None:
    helper = tmp_path / "helper"
    leaves = (
        "import subprocess, sys, os, pathlib\n"
        f"place = pathlib.Path({str(helper)!r})\n"
        "if place.exists():\n    import time; time.sleep(600)\n"
        f"left = subprocess.Popen([sys.executable, '-c', {WAIT!r}])\n"
        "place.write_text(str(left.pid))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    supervisor = supervise(consumer=leaves)
    assert supervisor.stdout is not None
    assert {supervisor.stdout.readline(), supervisor.stdout.readline()} == {
        "ready\n",
        "consumer_restarted SIGKILL\n",
    }
    until(lambda: not is_alive(int(helper.read_text())), "the end of what it left behind")
    supervisor.terminate()
    assert supervisor.wait(timeout=90) == 0


def test_restarts_wait_longer_each_time_until_a_child_has_settled() -> None:
    child = Child("web", [], ROOT)
    waits = []
    for _ in range(7):
        child.process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"], start_new_session=True)
        child.process.wait()
        child.started_at = time.monotonic()
        child.bury()
        waits.append(child.wait_seconds)
    assert waits == [1, 2, 4, 8, 16, 30, 30]
    child.process = subprocess.Popen(["true"], start_new_session=True)
    child.process.wait()
    child.started_at = time.monotonic() - SETTLED_SECONDS
    child.bury()
    assert (child.wait_seconds, child.last_exit) == (1, 0)


def test_exit_word_names_the_signal() -> None:
    assert (exit_word(-9), exit_word(-15), exit_word(3)) == ("SIGKILL", "SIGTERM", 3)
