"""The login page, and what it does after too many wrong passwords."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from subprocess import CompletedProcess
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.hashers import identify_hasher
from django.db.models import F
from django.test import Client
from django.urls import reverse

from accounts.models import User
from logbook.models import LogbookEvent
from tests.factories import PASSWORD, user

pytestmark = pytest.mark.django_db

LOGIN = "/account/login/"


def log_in(client: Client, name: str = "vera", password: str = PASSWORD, **more: Any) -> Any:
    return client.post(LOGIN, {"username": name, "password": password, **more.pop("data", {})}, **more)


def is_logged_in(client: Client) -> bool:
    return bool(client.get(reverse("accounts:tokens")).status_code == 200)


def events(name: str = "vera") -> list[str]:
    found = LogbookEvent.objects.about("accounts_user", str(User.objects.get(username=name).pk))
    return list(found.values_list("event_type", flat=True))


def test_login_lets_somebody_in_and_goes_to_the_page_they_wanted(client: Client) -> None:
    user()
    asked = client.get("/account/tokens/?x=1")
    assert asked.status_code == 302
    assert asked["Location"] == f"{LOGIN}?next=/account/tokens/%3Fx%3D1"
    page = client.get(asked["Location"])
    assert b'name="next" value="/account/tokens/?x=1"' in page.content

    answer = log_in(client, data={"next": "/account/tokens/?x=1"})

    assert answer.status_code == 302
    assert answer["Location"] == "/account/tokens/?x=1"
    assert is_logged_in(client)
    assert events() == ["logged_in"]


@pytest.mark.parametrize("elsewhere", ["https://evil.example/", "//evil.example", "javascript:alert(1)", "\\\\evil"])
def test_login_never_leads_to_another_site(client: Client, elsewhere: str) -> None:
    user()
    assert log_in(client, data={"next": elsewhere})["Location"] == reverse("home")


def test_login_refuses_a_wrong_password_and_says_so(client: Client) -> None:
    user()
    answer = log_in(client, password="wrong")
    assert answer.status_code == 200
    assert b"Please enter a correct username and password" in answer.content
    assert not is_logged_in(client)
    assert events() == []


def test_login_refuses_a_deactivated_person(client: Client) -> None:
    user(is_active=False)
    log_in(client)
    assert not is_logged_in(client)


def test_login_page_sends_on_whoever_is_logged_in(client: Client) -> None:
    client.force_login(user())
    assert client.get(LOGIN)["Location"] == reverse("home")


def test_passwords_are_kept_as_argon2(client: Client) -> None:
    assert identify_hasher(user().password).algorithm == "argon2"


def test_logout_needs_a_post_and_ends_the_session(client: Client) -> None:
    client.force_login(user())
    assert client.get(reverse("accounts:logout")).status_code == 405
    assert is_logged_in(client)
    assert client.post(reverse("accounts:logout"))["Location"] == LOGIN
    assert not is_logged_in(client)


def wrong_passwords(client: Client, count: int, **more: Any) -> list[int]:
    return [log_in(client, password=f"wrong {turn}", **more).status_code for turn in range(count)]


def test_five_wrong_passwords_lock_the_login_even_for_the_right_one(client: Client) -> None:
    user()
    assert wrong_passwords(client, 5) == [200, 200, 200, 200, 429]
    locked = log_in(client)
    assert locked.status_code == 429
    assert b"5 minutes" in locked.content
    assert b"manage.py unlock" in locked.content
    assert locked["Retry-After"] == "300"
    assert not is_logged_in(client)


def test_a_locked_login_is_written_into_the_logbook_once_with_the_address(client: Client) -> None:
    user()
    wrong_passwords(client, 8)
    assert events() == ["locked_out"]
    assert LogbookEvent.objects.get(event_type="locked_out").payload_json == {"address": "127.0.0.1"}


def test_wrong_names_are_locked_too_and_leave_the_logbook_alone(client: Client) -> None:
    answers = [log_in(client, name="nobody", password=str(turn)).status_code for turn in range(5)]
    assert answers[-1] == 429
    assert not LogbookEvent.objects.exists()


def test_a_lock_holds_for_that_person_and_address_only(client: Client) -> None:
    user()
    user("otto")
    wrong_passwords(client, 5)
    assert log_in(Client(REMOTE_ADDR="192.0.2.7")).status_code == 302
    assert log_in(Client(), "otto").status_code == 302


def test_another_browser_name_does_not_open_a_lock(client: Client) -> None:
    user()
    for turn in range(5):
        log_in(Client(HTTP_USER_AGENT=f"browser {turn}"), password="wrong")
    assert log_in(Client(HTTP_USER_AGENT="browser 9")).status_code == 429


def let_minutes_pass(minutes: float) -> None:
    AccessAttempt.objects.update(attempt_time=F("attempt_time") - timedelta(minutes=minutes))


def test_a_lock_opens_by_itself_after_the_time_the_page_says(client: Client) -> None:
    user()
    wrong_passwords(client, 5)
    let_minutes_pass(4.9)
    assert log_in(client).status_code == 429
    let_minutes_pass(0.2)
    assert log_in(client).status_code == 302


def test_knocking_on_a_locked_door_does_not_keep_it_locked(client: Client) -> None:
    user()
    wrong_passwords(client, 5)
    let_minutes_pass(4.9)
    wrong_passwords(client, 3)
    let_minutes_pass(0.2)
    assert log_in(client).status_code == 302


def test_a_login_that_succeeds_forgets_the_wrong_ones_before(client: Client) -> None:
    user()
    wrong_passwords(client, 4)
    assert log_in(client).status_code == 302
    client.logout()
    assert wrong_passwords(client, 4) == [200] * 4


def test_login_attempts_setting_counts(client: Client, settings: Any) -> None:
    settings.AXES_FAILURE_LIMIT = 2
    user()
    assert wrong_passwords(client, 2) == [200, 429]


def test_a_made_up_forwarded_address_does_not_open_a_lock(client: Client) -> None:
    user()
    for turn in range(5):
        log_in(client, password="wrong", headers={"X-Forwarded-For": f"192.0.2.{turn}"})
    assert log_in(client, headers={"X-Forwarded-For": "192.0.2.9"}).status_code == 429


def test_behind_a_trusted_proxy_the_last_forwarded_address_counts(client: Client, settings: Any) -> None:
    settings.TRUST_PROXY_HEADERS = True
    user()
    for turn in range(5):
        log_in(client, password="wrong", headers={"X-Forwarded-For": f"192.0.2.{turn}, 198.51.100.1"})
    assert log_in(client, headers={"X-Forwarded-For": "192.0.2.9, 198.51.100.1"}).status_code == 429
    assert log_in(client, headers={"X-Forwarded-For": "198.51.100.2"}).status_code == 302


def test_unlock_opens_one_login_at_once(client: Client, run_manage: Callable[..., CompletedProcess[str]]) -> None:
    user()
    user("otto")
    wrong_passwords(client, 5)
    for turn in range(5):
        log_in(client, "otto", password=str(turn))

    done = run_manage("unlock", "vera")

    assert done.returncode == 0, done.stderr
    assert "vera can log in again" in done.stdout
    assert log_in(client).status_code == 302
    assert log_in(Client(), "otto").status_code == 429
    assert events()[:2] == ["locked_out", "unlocked"]


def test_unlock_all_opens_every_login(client: Client, run_manage: Callable[..., CompletedProcess[str]]) -> None:
    user()
    wrong_passwords(client, 5)
    for turn in range(5):
        log_in(client, "nobody", password=str(turn))
    done = run_manage("unlock", "--all")
    assert done.returncode == 0, done.stderr
    assert "vera can log in again" in done.stdout
    assert "nobody can log in again" in done.stdout
    assert log_in(client).status_code == 302
    assert "nothing is locked" in run_manage("unlock", "--all").stdout


def test_unlock_says_when_there_was_nothing_to_do(run_manage: Callable[..., CompletedProcess[str]]) -> None:
    user()
    assert "vera was not locked" in run_manage("unlock", "vera").stdout
    unknown = run_manage("unlock", "nobody")
    assert unknown.returncode == 1
    assert "nobody called nobody" in unknown.stderr
    assert run_manage("unlock").returncode == 2
