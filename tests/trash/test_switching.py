"""What admins allow: off at first, changed on one page, each change in the logbook."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from accounts.models import Role
from libraries.errors import Refused
from logbook.models import LogbookEvent
from tests import factories
from tests.pages import logged_in, text_of, words_of
from tests.trash.doors import authorised
from trash import switching
from trash.models import Switches

pytestmark = pytest.mark.django_db
PAGE = "/settings/"
OFF: dict[str, Any] = {"is_acting_allowed": False, "is_removing_allowed": False, "empty_after_days": None}


def events() -> list[LogbookEvent]:
    return list(LogbookEvent.objects.filter(item__item_type="switches").order_by("pk"))


def test_everything_is_off_at_first_and_looking_writes_nothing() -> None:
    found = switching.switches()
    assert (found.is_acting_allowed, found.is_removing_allowed, found.empty_after_days) == (False, False, None)
    assert "settings page" in switching.why_not_act("trash")
    assert not Switches.objects.exists()


def test_a_change_is_written_into_the_logbook_and_no_change_is_not() -> None:
    switching.change(actor="anna", **{**OFF, "is_acting_allowed": True, "empty_after_days": 30})
    switching.change(actor="otto", **{**OFF, "is_acting_allowed": True, "empty_after_days": 30})
    (event,) = events()
    assert (event.actor, event.event_type) == ("anna", "switched")
    assert event.payload_json == {
        "is_acting_allowed": {"from": False, "to": True},
        "empty_after_days": {"from": None, "to": 30},
    }
    assert switching.switches().updated_by == "anna"
    assert switching.why_not_act("trash") == switching.why_not_act("hardlink") == ""


@pytest.mark.parametrize("days", [0, -1, 36_501])
def test_days_that_make_no_sense_are_refused(days: int) -> None:
    with pytest.raises(Refused, match="between 1 and"):
        switching.change(actor="anna", **{**OFF, "empty_after_days": days})
    assert not Switches.objects.exists()


def test_removing_for_good_needs_the_switch_and_the_environment(settings: Settings) -> None:
    settings.ALLOW_REAL_DELETE = True
    assert "settings page" in switching.why_not_act("delete")
    switching.change(actor="anna", **{**OFF, "is_removing_allowed": True})
    assert switching.why_not_act("delete") == switching.why_not_remove() == ""
    settings.ALLOW_REAL_DELETE = False
    assert "DEDUPFS_ALLOW_REAL_DELETE=1" in switching.why_not_remove()
    assert "DEDUPFS_ALLOW_REAL_DELETE=1" in switching.why_not_act("delete")


# --- The page ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_the_page_is_for_admins_alone(role: Role) -> None:
    client = logged_in(role)
    assert client.get(PAGE).status_code == 403
    assert client.post(PAGE, {"is_acting_allowed": "on"}).status_code == 403
    assert not Switches.objects.exists()


def test_an_admin_switches_and_reads_what_holds() -> None:
    admin = logged_in(Role.ADMIN)
    assert words_of(text_of(admin, PAGE)).count(" Off ") == 2
    answer = admin.post(PAGE, {"is_acting_allowed": "on", "empty_after_days": "30"}, follow=True)
    html = answer.content.decode()
    assert "Saved." in html
    assert 'value="30"' in html
    assert "Changed last by admin" in words_of(html)
    assert switching.switches().is_acting_allowed
    assert [event.actor for event in events()] == ["admin"]
    admin.post(PAGE, {})
    found = switching.switches()
    assert (found.is_acting_allowed, found.empty_after_days) == (False, None)


def test_the_page_says_plainly_where_the_environment_is_missing(settings: Settings) -> None:
    admin = logged_in(Role.ADMIN)
    switching.change(actor="anna", **{**OFF, "is_removing_allowed": True})
    settings.ALLOW_REAL_DELETE = False
    words = words_of(text_of(admin, PAGE))
    assert "DEDUPFS_ALLOW_REAL_DELETE is not set" in words
    assert "Nothing is removed for good, whatever is chosen below" in words
    assert "Allowed" not in words
    settings.ALLOW_REAL_DELETE = True
    words = words_of(text_of(admin, PAGE))
    assert "is not set" not in words
    assert "Allowed" in words


@pytest.mark.parametrize("days", ["0", "soon", "99999999999999999999"])
def test_bad_days_are_named_and_nothing_is_saved(days: str) -> None:
    admin = logged_in(Role.ADMIN)
    answer = admin.post(PAGE, {"is_acting_allowed": "on", "empty_after_days": days})
    assert answer.status_code == 200
    assert "errorlist" in answer.content.decode()
    assert not Switches.objects.exists()


def test_the_page_names_what_is_authorised_already() -> None:
    act = authorised()
    html = text_of(logged_in(Role.ADMIN), PAGE)
    assert "Something is authorised already" in html
    assert f'href="/plans/{act.plan_id}/"' in html


def test_another_site_can_not_switch() -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(factories.user("anna", Role.ADMIN))
    assert client.post(PAGE, {"is_acting_allowed": "on"}).status_code == 403
    assert not Switches.objects.exists()
