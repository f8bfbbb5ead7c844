"""The web server alone, as `manage.py up` starts it, for an installation that only answers; and how to ask it."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from benchmarks.scratch import ROOT
from tests.waiting import until
from tests.with_postgres import free_port


@dataclass(frozen=True)
class Answer:
    status: int
    seconds: float
    body: bytes


@dataclass(frozen=True)
class Web:
    port: int
    cookie: str = ""

    def get(self, address: str, **headers: str) -> Answer:
        """As a browser asks: it takes packed answers."""
        sent = {"Cookie": self.cookie, "Accept-Encoding": "gzip", **headers}
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)) as connection:
            start = time.perf_counter()
            connection.request("GET", address, headers=sent)
            answer = connection.getresponse()
            body = answer.read()
            return Answer(answer.status, time.perf_counter() - start, body)

    def answers(self) -> bool:
        try:
            self.get("/health")
        except OSError:
            return False
        return True


@contextmanager
def served(environment: dict[str, str], cookie: str) -> Iterator[Web]:
    web = Web(free_port(), cookie)
    command = [sys.executable, "-m", "benchmarks.web"]
    with subprocess.Popen(command, env={**environment, "PORT": str(web.port)}, cwd=ROOT) as server:
        try:
            until(web.answers, "the web server")
            yield web
        finally:
            server.terminate()


if __name__ == "__main__":
    import django

    django.setup()
    from dedupfs_site.serving import web_command

    command = web_command()
    os.execv(command[0], command)
