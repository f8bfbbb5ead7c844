"""Times are in the zone that the browser says it is in; whatever else the cookie holds changes nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from accounts.models import Role
from frame.templatetags.human import exact_time
from frame.zones import COOKIE
from jobs.models import Job
from tests import factories
from tests.pages import logged_in, text_of

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def address() -> str:
    job = factories.finished_job("thumbnail", "failed")
    Job.objects.filter(pk=job.pk).update(created_at=NOON)
    return f"/jobs/{job.pk}/"


def page(address: str, zone: str | None) -> str:
    client: Client = logged_in(Role.VIEWER)
    if zone is not None:
        client.cookies[COOKIE] = zone
    return text_of(client, address)


@pytest.mark.parametrize(
    ("zone", "shown"),
    [("Europe/Berlin", "14:00:00 CEST"), ("Asia/Kolkata", "17:30:00 IST"), ("UTC", "12:00:00 UTC")],
)
def test_times_are_in_the_browser_s_zone(address: str, zone: str, shown: str) -> None:
    assert f"2026-07-01 {shown}" in page(address, zone)


@pytest.mark.parametrize(
    "zone",
    [
        None,
        "",
        "Mars/Olympus",
        "../../../etc/passwd",
        "Europe",
        "/etc/localtime",
        "Europe/Berlin\x00",
        "a" * 3000,
        "%s<b>",
    ],
)
def test_what_is_no_zone_leaves_the_configured_one(address: str, zone: str | None, settings: Any) -> None:
    settings.TIME_ZONE = "Europe/Lisbon"
    html = page(address, zone)
    assert "2026-07-01 13:00:00 WEST" in html
    assert not zone or zone not in html


def test_the_next_request_of_the_same_thread_is_in_its_own_zone(address: str) -> None:
    page(address, "Europe/Berlin")
    assert exact_time(NOON) == "2026-07-01 12:00:00 UTC"
