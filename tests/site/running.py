"""A real `manage.py up` in a process of its own, and what a person does with it."""

from __future__ import annotations

import http.client
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.waiting import DEADLINE_SECONDS, until
from tests.with_postgres import free_port

#: No Django is needed here: the benchmarks start it as well.
ROOT = Path(__file__).resolve().parents[2]
#: What consumers bring up to date by themselves; with which numbers they do is in the last one.
MOVING = {"worker_heartbeats", "wal_sizes", "daily_samples", "duplicate_summary", "sqlite_sequence"}


def environment(state: Path, **more: str) -> dict[str, str]:
    """The environment of a person who has set nothing but where the state goes and the port."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("DEDUPFS_") and name not in ("DATABASE_URL", "HUEY_URL", "DJANGO_SETTINGS_MODULE")
    }
    return {**clean, "DEDUPFS_STATE_ROOT": str(state), "PORT": str(free_port()), **more}


def up_command(*arguments: str) -> list[str]:
    return [sys.executable, str(ROOT / "manage.py"), "up", *arguments]


def refused(settings: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run an `up` that is expected to end by itself."""
    return subprocess.run(up_command(*arguments), env=settings, capture_output=True, text=True, timeout=120)


@dataclass
class Up:
    """A started `up`; its output goes into a file that can be read while it runs."""

    settings: dict[str, str]
    log: Path
    arguments: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] = field(init=False)
    seen: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                up_command(*self.arguments), env=self.settings, stdout=output, stderr=subprocess.STDOUT
            )

    @property
    def output(self) -> str:
        return self.log.read_text(encoding="utf-8")

    @property
    def port(self) -> int:
        return int(self.settings["PORT"])

    def wait_ready(self) -> Up:
        def is_ready() -> bool:
            assert self.process.poll() is None, self.output
            return "DedupFS is ready at" in self.output

        until(is_ready, "the line that tells the address")
        self.seen.update(descendants(self.process.pid))
        return self

    def child(self, part: str) -> int | None:
        """The process directly below the supervisor whose command line has `part`."""
        return next((pid for pid in children(self.process.pid) if part in command_line(pid)), None)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=DEADLINE_SECONDS)

    def kill_all(self) -> None:
        """For the end of a test, however it went: nobody that belongs to it is left."""
        self.seen.update(descendants(self.process.pid))
        self.process.kill()
        self.process.wait()
        for pid in self.seen:
            if is_alive(pid) and ("dedupfs_site.wsgi" in command_line(pid) or str(ROOT) in command_line(pid)):
                os.kill(pid, signal.SIGKILL)

    def get(self, path: str, cookies: dict[str, str] | None = None) -> Answer:
        return self._ask("GET", path, None, cookies or {})

    def post(self, path: str, fields: dict[str, str], cookies: dict[str, str]) -> Answer:
        return self._ask("POST", path, urlencode(fields), cookies)

    def _ask(self, method: str, path: str, body: str | None, cookies: dict[str, str]) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_SECONDS)
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
        if body is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        with closing(connection):
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            set_cookies = [line.split(";")[0].partition("=") for line in answer.headers.get_all("Set-Cookie", [])]
            kept = {**cookies, **{name: value for name, _, value in set_cookies}}
            return Answer(answer.status, answer.read().decode(), answer.headers.get("Location", ""), kept)

    def log_in(self, username: str, password: str) -> Answer:
        form = self.get("/account/login/")
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', form.body)
        assert token is not None, form.body
        fields = {"username": username, "password": password, "csrfmiddlewaretoken": token[1]}
        return self.post("/account/login/", fields, form.cookies)


@dataclass(frozen=True)
class Answer:
    status: int
    body: str
    location: str
    cookies: dict[str, str]


# --- Processes --------------------------------------------------------------------------------------------


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def descendants(pid: int) -> Iterator[int]:
    for child in children(pid):
        yield child
        yield from descendants(child)


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def is_alive(pid: int) -> bool:
    """A zombie is dead: it only waits for its parent to ask."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


# --- What is in the state folder --------------------------------------------------------------------------


def rows(state: Path, sql: str) -> list[Any]:
    """Ask the SQLite database of `state` without a line of Django."""
    with closing(sqlite3.connect(state / "dedupfs.sqlite3", timeout=20)) as connection:
        return connection.execute(sql).fetchall()


def content(state: Path) -> dict[str, list[Any]]:
    """Every row of every table, but for those that say who is alive, how large the log is, what there is today and how
    far groups are counted: the next consumer writes them anew, or the first did not come to it."""
    tables = {name for (name,) in rows(state, "SELECT name FROM sqlite_master WHERE type = 'table'")}
    return {table: rows(state, f"SELECT * FROM {table}") for table in tables - MOVING}
