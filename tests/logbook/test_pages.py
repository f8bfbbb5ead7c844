from __future__ import annotations

import re

import pytest
from django.test import Client

from accounts.models import Role
from jobs import deciding
from logbook.models import LogbookEvent, write_event
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer(client: Client) -> Client:
    client.force_login(factories.user())
    return client


def text_of(client: Client, address: str, **headers: str) -> str:
    answer = client.get(address, headers=headers)
    assert answer.status_code == 200
    return answer.content.decode()


def test_logbook_asks_a_stranger_to_log_in(client: Client) -> None:
    assert client.get("/logbook/").status_code == 302
    fragment = client.get("/logbook/", headers={"HX-Request": "true"})
    assert fragment.status_code == 302 or "HX-Redirect" in fragment.headers
    assert b"<tr" not in fragment.content


def test_logbook_is_designed_when_empty(viewer: Client) -> None:
    LogbookEvent.objects.all().delete()
    assert "Nothing has happened yet" in text_of(viewer, "/logbook/")


def test_logbook_tells_of_changes_and_of_who_asked_and_why(viewer: Client) -> None:
    job = deciding.enqueue("thumbnail", actor="ada")
    deciding.cancel(job.pk, actor="otto", reason="wrong <library>")
    html = text_of(viewer, "/logbook/")
    assert f'href="/jobs/{job.pk}/"' in html
    assert "Requested by ada" in html
    assert "Cancel asked for by otto" in html
    assert "<q>wrong &lt;library&gt;</q>" in html
    assert html.index("Cancel asked for") < html.index("Requested by ada")


def test_logbook_filters_by_what_an_event_is_about(viewer: Client) -> None:
    job = factories.pending_job()
    write_event("supervisor", "consumer", "consumer_restarted", exit=-9)
    html = text_of(viewer, "/logbook/?item_type=supervisor")
    assert "killed by SIGKILL" in html
    assert job.pk not in html
    assert 'href="/logbook/?item_type=supervisor" aria-current="true"' in html


@pytest.mark.parametrize("query", ["item_type=nothing", "item_type=%00", "cursor=x", "cursor=%00", f"cursor={10**30}"])
def test_logbook_refuses_what_it_never_offered(viewer: Client, query: str) -> None:
    factories.pending_job()
    assert viewer.get(f"/logbook/?{query}").status_code == 404


def test_logbook_pages_to_the_end_without_repeat_or_gap_while_events_are_written(viewer: Client) -> None:
    for number in range(120):
        write_event("note", str(number), f"number_{number}")
    seen: list[str] = []
    address = "/logbook/?item_type=note"
    while address:
        html = text_of(viewer, address, **{"HX-Request": "true"})
        assert "<html" not in html
        seen += re.findall(r"Number (\d+)\b", html)
        write_event("note", "late", "late")
        found = re.search(r'href="([^"]*cursor=[^"]*)"', html)
        address = found[1].replace("&amp;", "&") if found else ""
    assert seen == [str(number) for number in reversed(range(120))]


def test_logbook_shows_events_of_any_shape(viewer: Client) -> None:
    event = write_event("note", "with/slash", "odd")
    LogbookEvent.objects.filter(pk=event.pk).update(payload_json=["<i>", 1])
    write_event("jobs", "a/b", "odd")
    html = text_of(viewer, "/logbook/")
    assert "&lt;i&gt;" in html
    assert "<i>" not in html


def test_logbook_serves_pages_and_fragments_apart(viewer: Client) -> None:
    assert "HX-Request" in viewer.get("/logbook/").headers["Vary"]


def test_logbook_can_only_be_read(viewer: Client) -> None:
    viewer.force_login(factories.user("ada", Role.ADMIN))
    assert viewer.post("/logbook/").status_code == 405
