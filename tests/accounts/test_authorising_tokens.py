"""The right of a token to authorise acting on files: given by an admin, to a token with the role admin, and shown."""

from __future__ import annotations

import pytest
from django.test import Client

from accounts.guarding import Caller
from accounts.models import ApiToken, Role
from logbook.models import LogbookEvent
from tests.factories import user

pytestmark = pytest.mark.django_db
PAGE = "/account/tokens/"


def browser(role: Role) -> Client:
    client = Client()
    client.force_login(user(role=role))
    return client


def test_an_admin_gives_the_right_to_a_token_of_an_admin() -> None:
    admin = browser(Role.ADMIN)
    assert 'name="may_authorise"' in admin.get(PAGE).content.decode()
    html = admin.post(PAGE, {"name": "nightly", "role": "admin", "may_authorise": "on"}).content.decode()
    assert ApiToken.objects.get().may_authorise
    assert "may authorise" in html.split("<tbody>")[1]
    event = LogbookEvent.objects.get(event_type="token_issued")
    assert event.payload_json == {"role": "admin", "may_authorise": True}


def test_without_the_mark_a_token_has_no_such_right() -> None:
    admin = browser(Role.ADMIN)
    html = admin.post(PAGE, {"name": "nightly", "role": "admin"}).content.decode()
    assert not ApiToken.objects.get().may_authorise
    assert "may authorise</span>" not in html


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_a_token_of_another_role_can_not_have_it(role: str) -> None:
    answer = browser(Role.ADMIN).post(PAGE, {"name": "nightly", "role": role, "may_authorise": "on"})
    assert "Only a token with the role admin" in answer.content.decode()
    assert not ApiToken.objects.exists()


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_nobody_else_can_give_it(role: Role) -> None:
    client = browser(role)
    assert "may_authorise" not in client.get(PAGE).content.decode()
    client.post(PAGE, {"name": "nightly", "role": role.value, "may_authorise": "on"})
    assert [token.may_authorise for token in ApiToken.objects.all()] == [False]


def test_who_may_authorise() -> None:
    admin, operator = user("anna", Role.ADMIN), user("otto", Role.OPERATOR)
    right, _ = ApiToken.issue(admin, "right", Role.ADMIN, may_authorise=True)
    plain, _ = ApiToken.issue(admin, "plain", Role.ADMIN)
    low, _ = ApiToken.issue(admin, "low", Role.OPERATOR, may_authorise=True)  # as nobody's form makes it
    assert Caller(admin).may_authorise
    assert Caller(admin, right).may_authorise
    assert not Caller(operator).may_authorise
    assert not Caller(admin, plain).may_authorise
    assert not Caller(admin, low).may_authorise
    admin.role = Role.OPERATOR
    right.user = admin
    assert not Caller(admin, right).may_authorise
