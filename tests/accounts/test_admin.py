"""People and tokens in Django's admin: to look at, and to shut out."""

from __future__ import annotations

import pytest
from django.test import Client

from accounts.models import ApiToken, Role, User
from logbook.models import LogbookEvent
from tests.factories import user

pytestmark = pytest.mark.django_db

USERS = "/admin/accounts/user/"
TOKENS = "/admin/accounts/apitoken/"


def act(client: Client, address: str, action: str, *chosen: int) -> int:
    return int(client.post(address, {"action": action, "_selected_action": chosen}).status_code)


@pytest.fixture
def anna(client: Client) -> User:
    person = user("anna", role=Role.ADMIN)
    client.force_login(person)
    return person


def test_admin_shows_people_and_tokens_without_what_is_secret(client: Client, anna: User) -> None:
    token, secret = ApiToken.issue(anna, "script", Role.VIEWER)
    for page in (USERS, f"{USERS}{anna.pk}/change/", TOKENS, f"{TOKENS}{token.pk}/change/"):
        answer = client.get(page)
        assert answer.status_code == 200, page
        text = answer.content.decode()
        for hidden in (anna.password, token.digest, secret, 'type="text" name="username"'):
            assert hidden not in text, page


@pytest.mark.parametrize("address", [f"{USERS}?password__startswith=argon2", f"{TOKENS}?digest__startswith=a"])
def test_admin_takes_no_filter_that_would_spell_out_a_hash(client: Client, anna: User, address: str) -> None:
    ApiToken.issue(anna, "script", Role.VIEWER)
    assert client.get(address).status_code == 400


def test_admin_adds_changes_and_deletes_nobody(client: Client, anna: User) -> None:
    vera = user()
    assert client.post(f"{USERS}add/", {"username": "otto", "role": "admin"}).status_code == 403
    assert client.post(f"{USERS}{vera.pk}/change/", {"role": "admin"}).status_code == 403
    assert client.post(f"{USERS}{vera.pk}/delete/", {"post": "yes"}).status_code == 403
    vera.refresh_from_db()
    assert vera.role == Role.VIEWER
    assert User.objects.count() == 2


def test_admin_action_deactivates_and_activates_with_events(client: Client, anna: User) -> None:
    vera = user()
    act(client, USERS, "deactivate", vera.pk, anna.pk)
    assert list(User.objects.filter(is_active=True)) == [anna]
    act(client, USERS, "activate", vera.pk)
    assert User.objects.filter(is_active=True).count() == 2
    written = LogbookEvent.objects.order_by("id").values_list("event_type", "actor")
    assert list(written) == [("deactivated", "anna"), ("activated", "anna")]


def test_admin_action_revokes_tokens(client: Client, anna: User) -> None:
    token, _ = ApiToken.issue(user(), "script", Role.VIEWER)
    act(client, TOKENS, "revoke", token.pk)
    assert not ApiToken.objects.living().exists()
    assert LogbookEvent.objects.get(event_type="token_revoked").actor == "anna"


def test_an_operator_looks_and_has_no_actions(client: Client) -> None:
    vera = user()
    token, _ = ApiToken.issue(vera, "script", Role.VIEWER)
    client.force_login(user("olaf", role=Role.OPERATOR))
    assert client.get(USERS).status_code == 200
    act(client, USERS, "deactivate", vera.pk)
    act(client, TOKENS, "revoke", token.pk)
    assert ApiToken.objects.living().count() == 1


def test_a_viewer_is_refused_and_told_the_role(client: Client) -> None:
    client.force_login(user())
    answer = client.get("/admin/")
    assert answer.status_code == 403
    assert b"This needs the role operator" in answer.content


def test_admin_has_no_login_and_no_password_page_of_its_own(client: Client) -> None:
    assert client.get("/admin/")["Location"] == "/account/login/?next=/admin/"
    assert client.get("/admin/login/")["Location"].startswith("/account/login/")
    vera = user(role=Role.OPERATOR)
    assert client.post("/admin/login/", {"username": "vera", "password": "x"})["Location"].startswith("/account/login/")
    client.force_login(vera)
    assert client.get("/admin/login/")["Location"] == "/account/login/"
    assert client.post("/admin/password_change/", {})["Location"] == "/account/password/"


def test_admin_has_no_groups_since_nothing_would_read_them(client: Client, anna: User) -> None:
    assert client.get("/admin/").status_code == 200
    assert client.get("/admin/auth/group/").status_code == 404
