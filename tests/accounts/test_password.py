"""Choosing a password: when it is asked for, what it ends, what it leaves."""

from __future__ import annotations

from collections.abc import Callable
from subprocess import CompletedProcess

import pytest
from django.test import Client
from django.urls import reverse

from accounts.models import Role, User
from logbook.models import LogbookEvent
from tests.factories import PASSWORD, user

pytestmark = pytest.mark.django_db

NEW = "a longer stable name"
PAGE = "/account/password/"


def change(client: Client, new: str = NEW, old: str = PASSWORD, again: str | None = None) -> int:
    data = {"old_password": old, "new_password1": new, "new_password2": new if again is None else again}
    return int(client.post(PAGE, data).status_code)


def test_password_change_keeps_this_session_and_ends_the_others(client: Client) -> None:
    person = user()
    client.force_login(person)
    elsewhere = Client()
    elsewhere.force_login(person)

    assert change(client) == 302

    assert client.get(PAGE).status_code == 200
    assert elsewhere.get(PAGE).status_code == 302
    person.refresh_from_db()
    assert person.check_password(NEW)
    event = LogbookEvent.objects.get(event_type="password_changed")
    assert event.actor == "vera"


@pytest.mark.parametrize(
    ("new", "old", "again"),
    [
        (NEW, "not the old one", None),
        (NEW, PASSWORD, "something else here"),
        ("short", PASSWORD, None),
        ("veronica.k1", PASSWORD, None),
        ("password1234", PASSWORD, None),
    ],
    ids=["old one wrong", "typed differently", "too short", "like the name", "too common"],
)
def test_password_change_refuses(client: Client, new: str, old: str, again: str | None) -> None:
    person = user("veronica.k")
    client.force_login(person)
    assert change(client, new, old, again) == 200
    person.refresh_from_db()
    assert person.check_password(PASSWORD)
    assert not LogbookEvent.objects.exists()


def test_a_first_password_must_be_changed_before_anything_else(client: Client) -> None:
    client.force_login(user(role=Role.ADMIN, must_change_password=True))
    for page in ("/", "/account/tokens/", "/account/people/", "/admin/", "/account/login/"):
        answer = client.get(page)
        assert (answer.status_code, answer["Location"]) == (302, PAGE), page
    assert client.get("/health").status_code == 200
    page_text = client.get(PAGE).content
    assert b"a password that was made for you" in page_text
    assert b"old_password" not in page_text


def test_a_first_password_refuses_forms_too(client: Client) -> None:
    client.force_login(user(role=Role.ADMIN, must_change_password=True))
    assert client.post("/account/people/", {"username": "otto", "role": "admin"})["Location"] == PAGE
    assert not User.objects.filter(username="otto").exists()


def test_a_first_password_sends_a_fragment_s_page_away(client: Client) -> None:
    client.force_login(user(must_change_password=True))
    answer = client.get("/account/tokens/", headers={"HX-Request": "true"})
    assert answer["HX-Redirect"] == PAGE
    assert answer.content == b""


def test_a_first_password_refuses_the_api_by_session_and_says_why(client: Client) -> None:
    client.force_login(user(role=Role.ADMIN, must_change_password=True))
    answer = client.get("/api/v1/jobs")
    assert answer.status_code == 403
    assert "password of your own" in answer.json()["detail"]


def test_a_first_password_may_log_out(client: Client) -> None:
    client.force_login(user(must_change_password=True))
    assert client.post("/account/logout/")["Location"] == "/account/login/"


def test_choosing_the_first_password_opens_everything(client: Client) -> None:
    person = user(must_change_password=True)
    client.force_login(person)
    assert client.post(PAGE, {"new_password1": NEW, "new_password2": NEW})["Location"] == reverse("home")
    person.refresh_from_db()
    assert not person.must_change_password
    assert person.check_password(NEW)
    assert client.get("/account/tokens/").status_code == 200


def test_the_first_password_can_not_be_chosen_again(client: Client) -> None:
    person = user(must_change_password=True)
    client.force_login(person)
    answer = client.post(PAGE, {"new_password1": PASSWORD, "new_password2": PASSWORD})
    assert b"Choose another password" in answer.content
    person.refresh_from_db()
    assert person.must_change_password


def test_changepassword_is_the_way_back_on_the_machine_itself(
    client: Client, run_manage: Callable[..., CompletedProcess[str]]
) -> None:
    person = user(must_change_password=True)
    typed = f"import getpass; getpass.getpass = lambda prompt: {NEW!r}; "
    done = run_manage(
        "shell",
        "-v",
        "0",
        "-c",
        f"{typed}from django.core.management import call_command; call_command('changepassword', 'vera')",
    )
    assert done.returncode == 0, done.stderr
    person.refresh_from_db()
    assert person.check_password(NEW)
    assert not person.must_change_password
    event = LogbookEvent.objects.get(event_type="password_changed")
    assert event.actor is not None
    assert event.actor.endswith("(command line)")


def test_createsuperuser_makes_an_admin(run_manage: Callable[..., CompletedProcess[str]]) -> None:
    environment = {"DJANGO_SUPERUSER_PASSWORD": NEW}
    done = run_manage("createsuperuser", "--noinput", "--username", "olga", env=environment)
    assert done.returncode == 0, done.stderr
    olga = User.objects.get(username="olga")
    assert olga.check_password(NEW)
    assert olga.role == Role.ADMIN
    assert not olga.must_change_password
