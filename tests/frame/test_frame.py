from __future__ import annotations

import re

import pytest
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.test import Client, RequestFactory
from django.urls import reverse
from django.views.defaults import permission_denied, server_error

from accounts.models import Role
from dedupfs_site.navigation import ROOMS
from tests import factories

in_database = pytest.mark.django_db


def page_for(role: Role, client: Client, address: str = "/jobs/") -> str:
    client.force_login(factories.user(role, role))
    return client.get(address).content.decode()


@in_database
@pytest.mark.parametrize("role", list(Role))
def test_sidebar_shows_the_rooms_that_a_role_may_enter(client: Client, role: Role) -> None:
    html = page_for(role, client)
    for room in ROOMS:
        assert (f'href="{reverse(room.view)}"' in html) == role.covers(room.needs), room.view


@in_database
@pytest.mark.parametrize("view", [room.view for room in ROOMS if not room.view.startswith("admin:")])
def test_sidebar_marks_the_room_one_is_in_and_no_other(client: Client, view: str) -> None:
    address = reverse(view)
    html = page_for(Role.ADMIN, client, address)
    current = set(re.findall(r'<a class="(?:room|bar-item)[a-z -]*" href="([^"]+)" aria-current="page"', html))
    assert current == {address}


@in_database
def test_a_page_inside_a_room_marks_that_room(client: Client) -> None:
    html = page_for(Role.VIEWER, client, f"/jobs/{factories.pending_job().pk}/")
    assert '<a class="room is-open" href="/jobs/" aria-current="page"' in html


def _sidebar(html: str) -> list[str]:
    (rooms,) = re.findall(r'<nav class="rooms".*?</nav>', html, flags=re.S)
    return re.findall(r'<a [^>]*href="([^"]+)"', rooms)


@in_database
def test_sidebar_opens_the_room_one_is_in_and_the_sheet_has_them_all(client: Client) -> None:
    html = page_for(Role.ADMIN, client, "/trash/")
    always = ["/", "/duplicates/", "/plans/", "/libraries/", "/jobs/", "/maintenance/", "/logbook/", "/settings/"]
    assert _sidebar(html) == [*always[:3], "/trash/", *always[3:]]
    assert _sidebar(client.get("/logbook/").content.decode()) == always
    assert all(f'href="{reverse(room.view)}"' in html for room in ROOMS)


@in_database
def test_an_inner_room_whose_outer_one_is_closed_to_somebody_is_in_the_sidebar(client: Client) -> None:
    assert _sidebar(page_for(Role.VIEWER, client, "/jobs/"))[-1] == reverse("accounts:tokens")


@in_database
def test_header_says_what_runs_now_and_links_to_it(client: Client) -> None:
    assert "Nothing runs" in page_for(Role.VIEWER, client)
    _job, lease = factories.running_job("hash")
    lease.renew(39, 50)
    html = client.get("/jobs/workers/").content.decode()
    assert re.search(r'id="running-now" href="/jobs/\?status=running".*?<span>Hash 78 %</span>', html, flags=re.S)
    factories.running_job("thumbnail")
    factories.running_job("thumbnail")
    assert "<span>3 jobs run</span>" in client.get("/logbook/").content.decode()


@in_database
def test_page_brings_what_htmx_needs_under_the_policy(client: Client) -> None:
    client.force_login(factories.user())
    answer = client.get("/jobs/")
    html = answer.content.decode()
    assert '"allowEval": false' in html
    assert '"includeIndicatorStyles": false' in html
    assert re.search(r"<body hx-headers='{\"x-csrftoken\": \"\w{64}\"}'>", html)
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert html.index("js/theme.js") < html.index("<body")
    assert '<a class="skip" href="#content">' in html


@in_database
def test_unknown_address_says_so_inside_the_frame(client: Client) -> None:
    client.force_login(factories.user())
    answer = client.get("/nowhere/")
    assert answer.status_code == 404
    html = answer.content.decode()
    assert "There is no such page" in html
    assert 'class="sidebar"' in html
    assert "Resolver404" not in html


@in_database
def test_unknown_address_shows_a_stranger_no_rooms(client: Client) -> None:
    html = client.get("/nowhere/").content.decode()
    assert "There is no such page" in html
    assert "/logbook/" not in html


@in_database
def test_refusal_says_which_role_is_needed(client: Client) -> None:
    client.force_login(factories.user())
    job = factories.pending_job()
    answer = client.post(f"/jobs/{job.pk}/cancel/")
    assert answer.status_code == 403
    assert "This needs the role operator" in answer.content.decode()


def test_refusal_escapes_its_reason() -> None:
    request = RequestFactory().get("/")
    html = permission_denied(request, PermissionDenied("<b>no</b>")).content.decode()
    assert "&lt;b&gt;no" in html


def test_error_page_needs_no_database() -> None:
    """Without the mark `django_db` any query would fail this test."""
    answer = server_error(RequestFactory().get("/"))
    assert answer.status_code == 500
    assert "Something went wrong" in answer.content.decode()
    assert settings.STATIC_URL in answer.content.decode()
