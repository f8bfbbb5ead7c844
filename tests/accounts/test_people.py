"""Who may come in, decided by admins; and never nobody."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.db import IntegrityError, connections
from django.test import Client

from accounts.models import LastAdmin, Role, User
from logbook.models import LogbookEvent
from tests.factories import user

pytestmark = pytest.mark.django_db

PAGE = "/account/people/"
FIRST_PASSWORD = re.compile(r'<pre class="raw" id="secret" tabindex="0">([a-z0-9-]+)</pre>')


@pytest.fixture
def anna() -> User:
    return user("anna", role=Role.ADMIN)


@pytest.fixture
def as_anna(client: Client, anna: User) -> Client:
    client.force_login(anna)
    return client


def said(answer: Any) -> str:
    return " ".join(str(message) for message in get_messages(answer.wsgi_request))


def last_event() -> tuple[str, str | None, dict[str, Any]]:
    event = LogbookEvent.objects.latest("id")
    return event.event_type, event.actor, event.payload_json


def test_adding_a_person_shows_a_first_password_once_with_which_they_can_log_in(as_anna: Client) -> None:
    answer = as_anna.post(PAGE, {"username": "otto", "role": "operator"})
    assert "no-store" in answer["Cache-Control"]
    found = FIRST_PASSWORD.findall(answer.content.decode())
    assert len(found) == 1
    assert last_event() == ("person_added", "anna", {"role": "operator"})
    assert found[0] not in as_anna.get(PAGE).content.decode()

    theirs = Client()
    theirs.post("/account/login/", {"username": "otto", "password": found[0]})
    assert theirs.get("/")["Location"] == "/account/password/"
    otto = User.objects.get(username="otto")
    assert (otto.role, otto.must_change_password) == (Role.OPERATOR, True)


@pytest.mark.parametrize("name", ["anna", "", "with space", "a" * 151, "nul\x00byte"])
def test_adding_refuses_names_that_are_taken_or_no_names(as_anna: Client, name: str) -> None:
    answer = as_anna.post(PAGE, {"username": name, "role": "viewer"})
    assert answer.status_code == 200
    assert b"errorlist" in answer.content
    assert User.objects.count() == 1


def test_an_admin_changes_a_role(as_anna: Client) -> None:
    vera = user()
    as_anna.post(f"{PAGE}{vera.pk}/role/", {"role": "operator"})
    vera.refresh_from_db()
    assert vera.role == Role.OPERATOR
    assert last_event() == ("role_changed", "anna", {"role_from": "viewer", "role_to": "operator"})


def test_a_role_that_does_not_exist_is_refused(as_anna: Client) -> None:
    vera = user()
    answer = as_anna.post(f"{PAGE}{vera.pk}/role/", {"role": "emperor"})
    assert "no such role" in said(answer)
    vera.refresh_from_db()
    assert vera.role == Role.VIEWER


def test_deactivating_ends_the_session_at_once_and_activating_lets_in_again(as_anna: Client) -> None:
    vera = user()
    theirs = Client()
    theirs.force_login(vera)
    assert theirs.get("/account/tokens/").status_code == 200
    as_anna.post(f"{PAGE}{vera.pk}/deactivate/")
    assert theirs.get("/account/tokens/").status_code == 302
    assert last_event() == ("deactivated", "anna", {})
    as_anna.post(f"{PAGE}{vera.pk}/activate/")
    assert theirs.get("/account/tokens/").status_code == 200
    assert last_event() == ("activated", "anna", {})


def test_a_new_first_password_ends_the_old_one_and_its_sessions(as_anna: Client) -> None:
    vera = user()
    theirs = Client()
    theirs.force_login(vera)
    answer = as_anna.post(f"{PAGE}{vera.pk}/reset-password/")
    assert "no-store" in answer["Cache-Control"]
    password = FIRST_PASSWORD.findall(answer.content.decode())[0]
    assert theirs.get("/account/tokens/").status_code == 302
    vera.refresh_from_db()
    assert vera.check_password(password)
    assert vera.must_change_password
    assert last_event() == ("password_reset", "anna", {})


@pytest.mark.parametrize(("verb", "data"), [("role", {"role": "operator"}), ("deactivate", {})])
def test_the_last_active_admin_stays(as_anna: Client, anna: User, verb: str, data: dict[str, str]) -> None:
    user("gone", role=Role.ADMIN, is_active=False)
    answer = as_anna.post(f"{PAGE}{anna.pk}/{verb}/", data)
    assert "anna is the only active admin" in said(answer)
    anna.refresh_from_db()
    assert anna.may(Role.ADMIN)
    assert not LogbookEvent.objects.exists()


@pytest.mark.parametrize("verb", ["role", "deactivate"])
def test_an_admin_may_go_while_another_stays(as_anna: Client, anna: User, verb: str) -> None:
    user("second", role=Role.ADMIN)
    as_anna.post(f"{PAGE}{anna.pk}/{verb}/", {"role": "viewer"})
    anna.refresh_from_db()
    assert not anna.may(Role.ADMIN)


def test_two_admins_who_dismiss_each_other_at_once_leave_one(anna: User) -> None:
    for _ in range(5):
        pair = [user("a", role=Role.ADMIN), user("b", role=Role.ADMIN)]
        User.objects.filter(pk=anna.pk).update(is_active=False)
        barrier = threading.Barrier(2)
        refused: list[User] = []

        def dismiss(person: User, barrier: threading.Barrier, refused: list[User]) -> None:
            barrier.wait()
            try:
                person.deactivate(actor="the other")
            except LastAdmin:
                refused.append(person)
            finally:
                connections.close_all()

        threads = [threading.Thread(target=dismiss, args=(person, barrier, refused)) for person in pair]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(refused) == 1
        assert User.objects.filter(role=Role.ADMIN, is_active=True).count() == 1
        User.objects.filter(pk__in=[person.pk for person in pair]).delete()


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_people_are_for_admins_only(client: Client, role: Role) -> None:
    vera = user(role=role)
    client.force_login(vera)
    refused = client.get(PAGE)
    assert refused.status_code == 403
    assert b"This needs the role admin" in refused.content
    for address, data in (
        (PAGE, {"username": "otto", "role": "admin"}),
        (f"{PAGE}{vera.pk}/role/", {"role": "admin"}),
        (f"{PAGE}{vera.pk}/reset-password/", {}),
    ):
        assert client.post(address, data).status_code == 403
    vera.refresh_from_db()
    assert vera.role == role
    assert User.objects.count() == 1


def test_the_database_refuses_a_role_that_does_not_exist() -> None:
    with pytest.raises(IntegrityError):
        user(role="emperor")  # type: ignore[arg-type]
