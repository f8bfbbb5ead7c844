"""Reached at its own name, behind a TLS proxy, below a sub-path: real gunicorn processes, real requests."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from http.cookies import Morsel
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from django.urls import get_resolver

from accounts.models import Role
from dedupfs_site.addresses import OWN_PATHS, own_addresses
from tests.conftest import ROOT
from tests.factories import PASSWORD, user
from tests.site.browsing import Browser, Gunicorn, Proxy, linked_files, no_proxy

pytestmark = pytest.mark.django_db

Serve = Callable[..., Gunicorn]


def tls_proxy(*, strip: str = "", keeps_host: bool = True) -> Proxy:
    """A proxy as people configure it: ends TLS, says so, and takes a sub-path off or leaves it on."""

    def forward(path: str, headers: dict[str, str]) -> tuple[str, dict[str, str]]:
        more = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "198.51.100.7"}
        if not keeps_host:
            more |= {"Host": "127.0.0.1:8000", "X-Forwarded-Host": headers["Host"]}
        return path.removeprefix(strip) or "/", headers | more

    return forward


def plain_proxy(strip: str) -> Proxy:
    return lambda path, headers: (path.removeprefix(strip) or "/", headers)


def walk_through(browser: Browser, prefix: str = "") -> dict[str, Morsel[str]]:
    """Log in, land on a page, load its files, send a form, log out: all below `prefix`. Returns the cookies."""
    page = browser.log_in("vera", PASSWORD)
    cookies = dict(browser.jar)
    assert page.status == 200
    assert "vera" in page.body
    assert urlsplit(browser.at).path == f"{prefix}/"
    assert_all_below(prefix, page.body)
    files = linked_files(page)
    assert len(files) >= 4
    for file in files:
        assert file.startswith(f"{prefix}/static/"), file
        assert browser.open(file).status == 200, file

    browser.at = browser.home
    made = browser.open(f"{prefix}/account/tokens/")
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', made.body)
    assert token is not None
    form = {"name": "script", "role": "viewer", "csrfmiddlewaretoken": token[1]}
    made = browser.open(f"{prefix}/account/tokens/", form)
    assert made.status == 200
    assert "dfs_" in made.body
    out = browser.open(f"{prefix}/account/logout/", {"csrfmiddlewaretoken": token[1]})
    assert urlsplit(browser.at).path == f"{prefix}/account/login/"
    assert out.status == 200
    assert "dedupfs_session" not in browser.jar
    return cookies


def assert_all_below(prefix: str, body: str) -> None:
    addresses = re.findall(r'(?:href|src|action|hx-get|hx-post)="(/[^"]*)"', body)
    assert len(addresses) > 5
    assert [address for address in addresses if not address.startswith(f"{prefix}/")] == []


PUBLIC = "https://nas.example.org"
BELOW = f"{PUBLIC}/dedupfs"


@pytest.mark.parametrize(
    ("public", "proxy", "prefix"),
    [
        ("", no_proxy, ""),
        (PUBLIC, tls_proxy(), ""),
        (PUBLIC, tls_proxy(keeps_host=False), ""),
        (BELOW, tls_proxy(strip="/dedupfs"), "/dedupfs"),
        (BELOW, tls_proxy(), "/dedupfs"),
        (f"{PUBLIC}:8443/a/b/", tls_proxy(strip="/a/b"), "/a/b"),
        ("http://nas.example.org/dedupfs", plain_proxy("/dedupfs"), "/dedupfs"),
        ("http://nas.example.org/dedupfs", plain_proxy(""), "/dedupfs"),
    ],
    ids=[
        "loopback",
        "TLS proxy",
        "TLS proxy that changes the host",
        "sub-path taken off",
        "sub-path left on",
        "sub-path of two, other port",
        "sub-path without TLS, taken off",
        "sub-path without TLS, left on",
    ],
)
def test_everything_works_when_reached_by(serve: Serve, public: str, proxy: Proxy, prefix: str) -> None:
    user(role=Role.OPERATOR)
    server = serve(DEDUPFS_PUBLIC_URL=public)
    browser = Browser(server, f"{public.rstrip('/') or f'http://127.0.0.1:{server.port}'}/", proxy)
    cookies = walk_through(browser, prefix)
    assert set(cookies) == {"dedupfs_session", "dedupfs_csrf"}
    for cookie in cookies.values():
        assert cookie["path"] == f"{prefix}/"
        assert bool(cookie["secure"]) is public.startswith("https:")
        assert cookie["samesite"] == "Lax"
    assert cookies["dedupfs_session"]["httponly"]


def test_everything_works_by_the_machine_s_own_name_once_it_listens_beyond_loopback(serve: Serve) -> None:
    user(role=Role.OPERATOR)
    server = serve("0.0.0.0", DEDUPFS_BIND="0.0.0.0")
    outside = next(address for address in own_addresses() if not address.startswith(("127.", "[")))
    name = socket.gethostname().lower()
    walk_through(Browser(server, f"http://{name}:{server.port}/", to=outside))
    for host in (name.split(".")[0], f"{name.split('.')[0]}.local", outside, "localhost"):
        assert server.ask("/health", {"Host": f"{host}:{server.port}"}).status in (200, 503), host
    assert server.ask("/health", {"Host": "elsewhere.example"}).status == 400


def test_on_loopback_the_machine_s_name_is_refused_and_the_answer_names_the_setting(serve: Serve) -> None:
    server = serve()
    for path in ("/", "/account/login/", "/health", "/api/v1/jobs"):
        refused = server.ask(path, {"Host": "nas.lan:8000"})
        assert refused.status == 400, path
        assert "DEDUPFS_ALLOWED_HOSTS=nas.lan " in refused.body
        assert "default-src 'none'" in refused.headers["Content-Security-Policy"]
    assert server.ask("/api/v1/jobs", {"Host": "nas.lan"}).body.startswith('{"detail": ')
    odd = server.ask("/", {"Host": "<script>"})
    assert odd.status == 400
    assert "DEDUPFS_ALLOWED_HOSTS" not in odd.body
    assert odd.headers["Content-Type"].startswith("text/plain")


def test_allowed_hosts_setting_adds_names_and_keeps_loopback(serve: Serve) -> None:
    server = serve(DEDUPFS_ALLOWED_HOSTS="nas.lan, .home.example")
    for host in ("nas.lan", "a.home.example", "127.0.0.1", "localhost:8000", "[::1]:8000"):
        assert server.ask("/account/login/", {"Host": host}).status == 200, host
    assert server.ask("/account/login/", {"Host": "other.lan"}).status == 400


def send_login_from(server: Gunicorn, origin: str, **headers: str) -> Any:
    """A login sent by a page of `origin`, with a cookie and a token that fit each other."""
    page = server.ask("/account/login/", headers)
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.body)
    assert token is not None
    form = {"username": "vera", "password": PASSWORD, "csrfmiddlewaretoken": token[1]}
    cookie = f"dedupfs_csrf={page.cookies['dedupfs_csrf'].value}"
    return server.ask("/account/login/", {"Origin": origin, "Cookie": cookie, **headers}, urlencode(form))


@pytest.mark.parametrize(
    ("origin", "advice"),
    [
        ("https://nas.lan", "DEDUPFS_PUBLIC_URL=https://nas.lan "),
        ("http://nas.lan:9000", "http://nas.lan:9000. If DedupFS is reached by that address, add it to DEDUPFS_TRUST"),
        ("null", "DEDUPFS_TRUSTED_ORIGINS"),
    ],
)  # fmt: skip
def test_a_form_from_an_unknown_origin_is_refused_and_the_answer_names_the_setting(
    serve: Serve, origin: str, advice: str
) -> None:
    user()
    refused = send_login_from(serve(), origin)
    assert refused.status == 403
    assert advice in refused.body
    assert "dedupfs_session" not in refused.cookies
    assert "default-src 'none'" in refused.headers["Content-Security-Policy"]


def test_trusted_origins_setting_lets_a_form_in(serve: Serve) -> None:
    user()
    server = serve(DEDUPFS_TRUSTED_ORIGINS="http://nas.lan:9000,https://*.home.example")
    for origin in ("http://nas.lan:9000", "https://a.home.example"):
        assert send_login_from(server, origin).status == 302, origin
    assert send_login_from(server, "https://nas.lan").status == 403


def test_http_to_a_server_whose_public_address_is_https_is_told_so(serve: Serve) -> None:
    server = serve(DEDUPFS_PUBLIC_URL=PUBLIC)
    refused = server.ask("/account/login/", {}, "username=vera&password=x")
    assert refused.status == 403
    assert "DEDUPFS_PUBLIC_URL says https" in refused.body


def test_proxy_headers_count_only_where_they_are_trusted(serve: Serve) -> None:
    user()
    forged = {"X-Forwarded-Host": "elsewhere.example", "X-Forwarded-Proto": "https"}
    plain = serve()
    assert plain.ask("/account/login/", forged).status == 200
    assert send_login_from(plain, "https://127.0.0.1", Host="127.0.0.1", **forged).status == 403

    trusting = serve(DEDUPFS_TRUST_PROXY_HEADERS="1", DEDUPFS_ALLOWED_HOSTS="nas.lan")
    refused = trusting.ask("/account/login/", forged)
    assert refused.status == 400
    assert "DEDUPFS_ALLOWED_HOSTS=elsewhere.example" in refused.body
    behind = {"X-Forwarded-Host": "nas.lan", "X-Forwarded-Proto": "https"}
    assert send_login_from(trusting, "https://nas.lan", **behind).status == 302

    mistrusting = serve(DEDUPFS_PUBLIC_URL=PUBLIC, DEDUPFS_TRUST_PROXY_HEADERS="0")
    assert mistrusting.ask("/account/login/", forged).status == 200


def test_the_settings_of_the_login_have_their_effect(serve: Serve) -> None:
    user()
    server = serve(DEDUPFS_LOGIN_ATTEMPTS="2", DEDUPFS_LOGIN_COOLOFF_MINUTES="7", DEDUPFS_SESSION_DAYS="3")
    browser = Browser(server, f"http://127.0.0.1:{server.port}/")
    browser.log_in("vera", PASSWORD)
    assert browser.jar["dedupfs_session"]["max-age"] == str(3 * 24 * 60 * 60)

    stranger = Browser(server, f"http://127.0.0.1:{server.port}/")
    assert stranger.log_in("vera", "wrong").status == 200
    locked = stranger.log_in("vera", "wrong")
    assert locked.status == 429
    assert "7 minutes" in locked.body
    assert "2 wrong passwords" in locked.body
    assert locked.headers["Retry-After"] == str(7 * 60)


def test_every_kind_of_page_forbids_inline_code(serve: Serve) -> None:
    user(role=Role.ADMIN)
    server = serve()
    browser = Browser(server, f"http://127.0.0.1:{server.port}/")
    stranger = server.ask("/account/login/")
    browser.log_in("vera", PASSWORD)
    pages = ["/jobs/", "/account/tokens/", "/account/people/", "/admin/", "/admin/accounts/user/", "/api/v1/docs"]
    answers = [stranger, *(browser.open(page) for page in pages), browser.open("/no-such-page/")]
    for answer in answers:
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    ours = [answer.body for answer in answers[:4]]
    assert [body for body in ours if re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", body)] == []


# --- Settings that can't be used --------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DEDUPFS_BIND", "nas:8000"),
        ("DEDUPFS_BIND", ""),
        ("DEDUPFS_PUBLIC_URL", "nas.example.org"),
        ("DEDUPFS_PUBLIC_URL", "ftp://nas.example.org"),
        ("DEDUPFS_PUBLIC_URL", "https://nas.example.org:99999"),
        ("DEDUPFS_PUBLIC_URL", "https://nas.example.org/a b"),
        ("DEDUPFS_PUBLIC_URL", "https://nas.example.org/?a=b"),
        ("DEDUPFS_PUBLIC_URL", "https://nas.example.org/jobs/"),
        ("DEDUPFS_PUBLIC_URL", "https://nas.example.org/static/x"),
        ("DEDUPFS_ALLOWED_HOSTS", "nas:8000"),
        ("DEDUPFS_ALLOWED_HOSTS", "http://nas"),
        ("DEDUPFS_TRUSTED_ORIGINS", "nas.example.org"),
        ("DEDUPFS_TRUSTED_ORIGINS", "https://nas.example.org/dedupfs"),
        ("DEDUPFS_TRUST_PROXY_HEADERS", "maybe"),
        ("DEDUPFS_LOGIN_ATTEMPTS", "0"),
        ("DEDUPFS_LOGIN_COOLOFF_MINUTES", "soon"),
        ("DEDUPFS_SESSION_DAYS", "1000"),
    ],
)
def test_a_setting_that_can_not_be_used_is_one_line_that_names_it(name: str, value: str, tmp_path: Path) -> None:
    environment = {**os.environ, "DEDUPFS_STATE_ROOT": str(tmp_path), name: value}
    environment["DJANGO_SETTINGS_MODULE"] = "dedupfs_site.settings"
    command = [sys.executable, str(ROOT / "manage.py"), "check"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert done.stderr.startswith(f"dedupfs: {name}"), done.stderr
    assert done.stderr.count("\n") == 1


def test_the_list_of_our_own_paths_is_whole() -> None:
    found = {str(entry.pattern).partition("/")[0] for entry in get_resolver().url_patterns} - {""}
    assert found | {"static"} == OWN_PATHS, "dedupfs_site/addresses.py: OWN_PATHS"
