"""API tokens: made once, shown once, revocable, never more than their owner."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.models import ApiToken, Role, digest_of
from database.clock import SecondsFromNow
from logbook.models import LogbookEvent
from tests.factories import user

pytestmark = pytest.mark.django_db

PAGE = "/account/tokens/"
SECRET = re.compile(rb"dfs_[A-Za-z0-9_-]{43}")


def make(client: Client, name: str = "backup-script", role: str = "viewer") -> Any:
    return client.post(PAGE, {"name": name, "role": role})


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def jobs_by(secret: str, client: Client | None = None) -> Any:
    return (client or Client()).get("/api/v1/jobs", headers=bearer(secret))


def test_making_a_token_shows_its_secret_in_that_answer_alone(client: Client) -> None:
    client.force_login(user())
    answer = make(client)
    assert answer.status_code == 200
    assert "no-store" in answer["Cache-Control"]
    secrets = set(SECRET.findall(answer.content))
    assert len(secrets) == 1
    secret = secrets.pop().decode()
    assert jobs_by(secret).status_code == 200
    assert SECRET.search(client.get(PAGE).content) is None
    token = ApiToken.objects.get()
    assert token.digest == digest_of(secret)
    kept = [str(value) for value in ApiToken.objects.values_list().get()]
    assert not [value for value in kept if secret in value]
    assert secret not in str(dict(client.session))


def test_making_a_token_is_written_into_the_logbook_without_the_secret(client: Client) -> None:
    client.force_login(user())
    secret = SECRET.findall(make(client).content)[0].decode()
    event = LogbookEvent.objects.get(event_type="token_issued")
    assert event.actor == "vera"
    assert event.item.title == "backup-script of vera"
    assert event.payload_json == {"role": "viewer"}
    assert secret[8:] not in f"{event.payload_json} {event.item.title}"


@pytest.mark.parametrize(("own", "asked", "is_made"), [
    (Role.VIEWER, "viewer", True),
    (Role.VIEWER, "operator", False),
    (Role.OPERATOR, "operator", True),
    (Role.OPERATOR, "admin", False),
    (Role.ADMIN, "admin", True),
    (Role.ADMIN, "emperor", False),
])  # fmt: skip
def test_a_token_has_at_most_the_role_of_its_owner(client: Client, own: Role, asked: str, is_made: bool) -> None:
    client.force_login(user(role=own))
    make(client, role=asked)
    assert ApiToken.objects.filter(role=asked).exists() is is_made
    assert ApiToken.objects.count() == is_made


def test_a_form_sent_twice_makes_one_token(client: Client) -> None:
    client.force_login(user())
    make(client)
    again = make(client)
    assert b"You have a token of this name" in again.content
    assert ApiToken.objects.count() == 1


def test_a_name_is_free_again_once_its_token_is_revoked(client: Client) -> None:
    client.force_login(user())
    make(client)
    client.post(f"{PAGE}{ApiToken.objects.get().pk}/revoke/")
    make(client)
    assert ApiToken.objects.count() == 2
    assert ApiToken.objects.living().count() == 1


def test_revoking_refuses_the_token_at_once_and_is_recorded_once(client: Client) -> None:
    vera = user()
    token, secret = ApiToken.issue(vera, "script", Role.VIEWER)
    assert jobs_by(secret).status_code == 200
    client.force_login(vera)
    for _ in range(2):
        assert client.post(f"{PAGE}{token.pk}/revoke/")["Location"] == PAGE
    refused = jobs_by(secret)
    assert refused.status_code == 401
    assert "revoked" in refused.json()["detail"]
    assert LogbookEvent.objects.filter(event_type="token_revoked", actor="vera").count() == 1


def test_revoking_needs_a_post(client: Client) -> None:
    vera = user()
    token, secret = ApiToken.issue(vera, "script", Role.VIEWER)
    client.force_login(vera)
    assert client.get(f"{PAGE}{token.pk}/revoke/").status_code == 405
    assert jobs_by(secret).status_code == 200


def test_only_an_admin_sees_and_revokes_the_tokens_of_others(client: Client) -> None:
    token, secret = ApiToken.issue(user("otto"), "ottos-script", Role.VIEWER)
    client.force_login(user(role=Role.OPERATOR))
    assert b"ottos-script" not in client.get(PAGE).content
    assert client.post(f"{PAGE}{token.pk}/revoke/").status_code == 404
    assert jobs_by(secret).status_code == 200

    client.force_login(user("anna", role=Role.ADMIN))
    assert b"ottos-script" in client.get(PAGE).content
    client.post(f"{PAGE}{token.pk}/revoke/")
    assert jobs_by(secret).status_code == 401
    assert LogbookEvent.objects.get(event_type="token_revoked").actor == "anna"


# --- At the API -------------------------------------------------------------------------------------------
def test_api_refuses_strangers_and_made_up_tokens() -> None:
    assert Client().get("/api/v1/jobs").status_code == 401
    assert "detail" in Client().get("/api/v1/jobs").json()
    for made_up in ("dfs_made-up", "", "dfs_" + "x" * 5000, "a b", "\x00"):
        answer = jobs_by(made_up)
        assert answer.status_code == 401, made_up
        assert made_up == "" or made_up not in answer.json()["detail"]


def test_a_bad_token_is_refused_even_beside_a_good_session(client: Client) -> None:
    client.force_login(user(role=Role.ADMIN))
    assert jobs_by("dfs_made-up", client).status_code == 401


def test_tokens_of_a_deactivated_owner_open_nothing() -> None:
    vera = user(role=Role.ADMIN)
    user("anna", role=Role.ADMIN)
    _, secret = ApiToken.issue(vera, "script", Role.ADMIN)
    vera.deactivate(actor="anna")
    assert jobs_by(secret).status_code == 401
    vera.activate(actor="anna")
    assert jobs_by(secret).status_code == 200


@pytest.mark.parametrize("owner_role", [Role.OPERATOR, Role.VIEWER])
def test_a_token_may_never_more_than_its_owner(owner_role: Role) -> None:
    vera = user(role=Role.ADMIN)
    user("anna", role=Role.ADMIN)
    _, secret = ApiToken.issue(vera, "script", Role.OPERATOR)
    vera.change_role(owner_role, actor="anna")
    answer = Client().post("/api/v1/jobs", {"kind": "scan"}, "application/json", headers=bearer(secret))
    assert answer.status_code == (201 if owner_role == Role.OPERATOR else 403)


def test_a_viewer_s_token_reads_and_is_told_which_role_acting_needs() -> None:
    _, secret = ApiToken.issue(user(role=Role.ADMIN), "script", Role.VIEWER)
    assert jobs_by(secret).status_code == 200
    for body in ({"kind": "scan"}, {"nonsense": 1}):
        refused = Client().post("/api/v1/jobs", body, "application/json", headers=bearer(secret))
        assert refused.status_code == 403
        assert "operator" in refused.json()["detail"]
    assert not LogbookEvent.objects.filter(item__item_type="jobs").exists()


def test_the_logbook_names_owner_and_token() -> None:
    _, secret = ApiToken.issue(user(role=Role.OPERATOR), "backup-script", Role.OPERATOR)
    Client().post("/api/v1/jobs", {"kind": "scan"}, "application/json", headers=bearer(secret))
    assert LogbookEvent.objects.get(event_type="requested").actor == "vera via token backup-script"


def test_the_longest_names_fit_the_logbook() -> None:
    _, secret = ApiToken.issue(user("v" * 150, role=Role.OPERATOR), "n" * 100, Role.OPERATOR)
    answer = Client().post("/api/v1/jobs", {"kind": "scan"}, "application/json", headers=bearer(secret))
    assert answer.status_code == 201


def test_the_last_use_is_noted_at_most_once_a_minute() -> None:
    token, secret = ApiToken.issue(user(), "script", Role.VIEWER)
    assert token.last_used_at is None
    jobs_by(secret)
    token.refresh_from_db()
    first = token.last_used_at
    assert first is not None
    with CaptureQueriesContext(connection) as asked:
        jobs_by(secret)
    assert asked.captured_queries
    assert not [query for query in asked.captured_queries if query["sql"].startswith("UPDATE")]

    ApiToken.objects.update(last_used_at=SecondsFromNow(-61))
    jobs_by(secret)
    token.refresh_from_db()
    assert token.last_used_at > first


def test_the_api_takes_a_session_with_its_csrf_token_only() -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(user(role=Role.OPERATOR))
    refused = client.post("/api/v1/jobs", {"kind": "scan"}, "application/json")
    assert refused.status_code == 403
    assert "DEDUPFS_TRUSTED_ORIGINS" in refused.json()["detail"]
    client.get(PAGE)
    token = client.cookies["dedupfs_csrf"].value
    sent = client.post("/api/v1/jobs", {"kind": "scan"}, "application/json", headers={"X-CSRFToken": token})
    assert sent.status_code == 201


def test_a_token_needs_no_csrf_token() -> None:
    _, secret = ApiToken.issue(user(role=Role.OPERATOR), "script", Role.OPERATOR)
    client = Client(enforce_csrf_checks=True)
    sent = client.post("/api/v1/jobs", {"kind": "scan"}, "application/json", headers=bearer(secret))
    assert sent.status_code == 201


def test_the_description_of_the_api_needs_a_login_or_a_token(client: Client) -> None:
    _, secret = ApiToken.issue(user(), "script", Role.VIEWER)
    assert client.get("/api/v1/openapi.json").status_code == 401
    assert client.get("/api/v1/docs")["Location"] == "/account/login/?next=/api/v1/docs"
    for page in ("/api/v1/openapi.json", "/api/v1/docs"):
        assert client.get(page, headers=bearer(secret)).status_code == 200
    schemes = client.get("/api/v1/openapi.json", headers=bearer(secret)).json()["components"]["securitySchemes"]
    assert {scheme["type"] for scheme in schemes.values()} == {"http", "apiKey"}
