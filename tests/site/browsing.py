"""A real gunicorn, a proxy in front of it, and a browser that keeps cookies as browsers do."""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from http.cookies import Morsel, SimpleCookie
from pathlib import Path
from urllib.parse import urlencode, urljoin, urlsplit

from tests.conftest import ROOT
from tests.waiting import until

FORM_TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="(\w+)"')
FORM_ACTION = re.compile(r'<form class="form" method="post" action="([^"]+)"')
LINKED_FILES = re.compile(r'(?:src|href)="([^"]+\.(?:js|css|svg))"')


@dataclass(frozen=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: str

    @property
    def cookies(self) -> dict[str, Morsel[str]]:
        found: dict[str, Morsel[str]] = {}
        for line in self.headers.get_all("Set-Cookie", []):
            found |= SimpleCookie(line)
        return found


class Gunicorn:
    """The web server as `up` starts it, on a port that the system chooses."""

    def __init__(self, environment: dict[str, str], log: Path, bind: str = "127.0.0.1") -> None:
        self.log = log
        command = [sys.executable, "-m", "gunicorn", "dedupfs_site.wsgi", "--bind", f"{bind}:0"]
        command += ["--worker-class", "gthread", "--threads", "4", "--forwarded-allow-ips", "", "--no-control-socket"]
        with log.open("wb") as output:
            self.process = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)

    @property
    def output(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def wait_ready(self) -> Gunicorn:
        def listening() -> str:
            assert self.process.poll() is None, self.output
            found = re.search(r"Listening at: http://\S+:(\d+)", self.output)
            return found[1] if found else ""

        self.port = int(until(listening, "gunicorn to listen"))
        return self

    def ask(
        self,
        path: str,
        headers: dict[str, str] | None = None,
        body: str | None = None,
        *,
        to: str = "127.0.0.1",
        method: str | None = None,
    ) -> Answer:
        """One request as it is given; a body makes it a form that is sent."""
        sent = dict(headers or {})
        if body is not None:
            sent["Content-Type"] = "application/x-www-form-urlencoded"
        with closing(http.client.HTTPConnection(to, self.port, timeout=60)) as connection:
            connection.request(method or ("GET" if body is None else "POST"), path, body, sent)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read().decode())

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=60)


#: What a proxy makes of a path and the headers before it hands a request on.
Proxy = Callable[[str, dict[str, str]], tuple[str, dict[str, str]]]


def no_proxy(path: str, headers: dict[str, str]) -> tuple[str, dict[str, str]]:
    return path, headers


@dataclass
class Browser:
    """Goes to addresses as a person types them; `proxy` stands between it and the server."""

    server: Gunicorn
    home: str
    proxy: Proxy = no_proxy
    to: str = "127.0.0.1"
    jar: dict[str, Morsel[str]] = field(default_factory=dict)
    at: str = ""

    def open(self, address: str, form: dict[str, str] | None = None) -> Answer:
        """Follow `address`, taken as a link on the current page; redirects are followed too."""
        url = urljoin(self.at or self.home, address)
        answer = self._fetch(url, form)
        self.at = url
        if answer.status in (301, 302):
            return self.open(answer.headers["Location"])
        return answer

    def _fetch(self, url: str, form: dict[str, str] | None) -> Answer:
        parts = urlsplit(url)
        headers = {"Host": parts.netloc, "Cookie": self._cookies_for(url)}
        if form is not None:
            headers |= {"Origin": f"{parts.scheme}://{parts.netloc}", "Referer": self.at}
        path, headers = self.proxy(parts.path + (f"?{parts.query}" if parts.query else ""), headers)
        answer = self.server.ask(path, headers, None if form is None else urlencode(form), to=self.to)
        self.jar |= answer.cookies
        self.jar = {name: cookie for name, cookie in self.jar.items() if cookie["max-age"] != "0"}
        return answer

    def _cookies_for(self, url: str) -> str:
        """A browser sends a cookie only below its path, and a secure one only by https."""
        parts = urlsplit(url)
        fitting = [
            cookie
            for cookie in self.jar.values()
            if parts.path.startswith(cookie["path"]) and (parts.scheme == "https" or not cookie["secure"])
        ]
        return "; ".join(f"{cookie.key}={cookie.value}" for cookie in fitting)

    def log_in(self, username: str, password: str) -> Answer:
        """Open the start, be sent to the login, fill it in and send it."""
        page = self.open(self.home)
        token, action = FORM_TOKEN.search(page.body), FORM_ACTION.search(page.body)
        assert token is not None, page.body
        assert action is not None, page.body
        wanted = re.search(r'name="next" value="([^"]*)"', page.body)
        fields = {"username": username, "password": password, "csrfmiddlewaretoken": token[1]}
        return self.open(action[1], fields | ({"next": wanted[1]} if wanted else {}))


def linked_files(page: Answer) -> set[str]:
    return set(LINKED_FILES.findall(page.body))
