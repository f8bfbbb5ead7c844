"""Many people at once on a real server: each in a thread, logged in, walking from page to page without a pause.

Also the benchmark `clients` walks with them.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import quote

from tests.site.running import Up

PASSWORD = "correct horse battery"
#: What nobody who uses or runs it should ever meet.
BAD_WORDS = ("database is locked", "Traceback (most recent call last)", " ERROR ", " CRITICAL ")


@dataclass(frozen=True)
class Asked:
    address: str
    #: 0 where no answer came.
    status: int
    seconds: float
    fault: str = ""

    @property
    def is_good(self) -> bool:
        return self.status == 200


@dataclass
class Walker:
    """One person: where they have been, and what they were told."""

    port: int
    cookies: dict[str, str]
    #: With which of the pages they begin, so that not all of them ask for the same one.
    first: int
    asked: list[Asked] = field(default_factory=list)
    _connection: http.client.HTTPConnection | None = None
    _cursor: str = ""
    _key: str = ""

    def walk(self, is_over: Callable[[], bool]) -> None:
        steps: Sequence[Callable[[], Any]] = (
            lambda: self.get("/"),
            self._groups,
            lambda: self.get(f"/duplicates/{self._cursor}"),
            lambda: self.get(f"/duplicates/{self._key}/") if self._key else None,
            lambda: self.get("/now/", **{"HX-Request": "true"}),
            lambda: self.get("/jobs/"),
            lambda: self.get("/api/v1/jobs"),
            lambda: self.get("/libraries/"),
            lambda: self.get("/api/v1/libraries"),
            lambda: self.get("/trash/"),
            lambda: self.get("/api/v1/acts"),
            lambda: self.get("/", **{"HX-Request": "true"}),
        )
        number = self.first
        while not is_over():
            steps[number % len(steps)]()
            number += 1
        if self._connection is not None:
            self._connection.close()

    def _groups(self) -> None:
        """The next page of the list, or its first one again; one of its groups is looked at later."""
        body = self.get(f"/api/v1/duplicates/groups{self._cursor or '?'}&limit=20")
        if body:
            page = json.loads(body)
            self._key = page["items"][self.first % len(page["items"])]["group_key"] if page["items"] else ""
            self._cursor = f"?cursor={quote(page['next_cursor'])}" if page["next_cursor"] else ""

    def get(self, address: str, **headers: str) -> bytes:
        """The body of a good answer; every answer is noted, and that none came."""
        began = time.perf_counter()
        sent = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items()), **headers}
        try:
            status, body = self._ask(address, sent)
        except (OSError, http.client.HTTPException) as error:
            self._connection = None
            self.asked.append(Asked(address, 0, time.perf_counter() - began, repr(error)))
            return b""
        fault = "" if status == 200 else body[:500].decode(errors="replace")
        self.asked.append(Asked(address, status, time.perf_counter() - began, fault))
        return body if status == 200 else b""

    def _ask(self, address: str, headers: dict[str, str]) -> tuple[int, bytes]:
        """On the connection there is. A server may hang up on one that is idle: then a browser asks on a new one."""
        if self._connection is not None:
            try:
                return self._answer(self._connection, address, headers)
            except (ConnectionError, http.client.RemoteDisconnected):
                self._connection.close()
        self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        return self._answer(self._connection, address, headers)

    def _answer(
        self, connection: http.client.HTTPConnection, address: str, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        connection.request("GET", address, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


def log_in_all(up: Up, count: int) -> list[Walker]:
    """As many people, each with a session of their own."""
    walkers = []
    for number in range(count):
        answer = up.log_in(person(number), PASSWORD)
        assert answer.status == 302, answer.body
        walkers.append(Walker(up.port, answer.cookies, number))
    return walkers


def people_script(count: int) -> str:
    """What `manage.py shell` makes the people with."""
    return (
        "from accounts.models import Role, User\n"
        f"for number in range({count}):\n"
        f"    User.objects.create_user('walker-%d' % number, {PASSWORD!r}, role=Role.OPERATOR)\n"
    )


def person(number: int) -> str:
    return f"walker-{number}"


@dataclass
class Crowd:
    """All of them at once, until somebody says that it is enough."""

    walkers: list[Walker]
    _enough: Event = field(default_factory=Event)
    _threads: list[Thread] = field(default_factory=list)

    def __enter__(self) -> Crowd:
        self._threads = [Thread(target=each.walk, args=[self._enough.is_set]) for each in self.walkers]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        for thread in self._threads:
            thread.join()

    @property
    def asked(self) -> list[Asked]:
        return [each for walker in self.walkers for each in list(walker.asked)]

    @property
    def faults(self) -> list[Asked]:
        return [each for each in self.asked if not each.is_good]


def bad_lines(log: Path) -> list[str]:
    """What the web server and the consumer wrote that should never be there."""
    text = log.read_text(encoding="utf-8", errors="replace")
    return [line for line in text.splitlines() if any(word in line for word in BAD_WORDS)]
