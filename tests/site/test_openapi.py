"""The API's description: who may read it, and that the API keeps what it says."""

from __future__ import annotations

import os
import re
from functools import cache
from typing import Any

import pytest
import schemathesis
from django.contrib.staticfiles import finders
from django.core.wsgi import get_wsgi_application
from django.test import Client
from schemathesis.config import SchemathesisConfig

from accounts.models import ApiToken, Role
from dedupfs_site.api import api
from tests import factories

pytestmark = pytest.mark.django_db

DOCS = "/api/v1/docs"
OPENAPI = "/api/v1/openapi.json"
#: Every endpoint of the protocol that this version has.
PROTOCOL = {
    "/api/v1/plans/{plan_id}/authorise": {"post"},
    "/api/v1/acts": {"get"},
    "/api/v1/acts/{act_id}": {"get"},
    "/api/v1/acts/{act_id}/items": {"get"},
    "/api/v1/acts/{act_id}/stop": {"post"},
    "/api/v1/acts/{act_id}/pause": {"post"},
    "/api/v1/acts/{act_id}/resume": {"post"},
    "/api/v1/trash/items": {"get"},
    "/api/v1/trash/undo": {"post"},
    "/api/v1/trash/empty": {"post"},
    "/api/v1/health": {"get"},
    "/api/v1/jobs": {"get", "post"},
    "/api/v1/jobs/recover-stale": {"post"},
    "/api/v1/jobs/scan-hash/claim": {"post"},
    "/api/v1/jobs/{job_id}": {"get"},
    "/api/v1/jobs/{job_id}/cancel": {"post"},
    "/api/v1/jobs/{job_id}/reset": {"post"},
    "/api/v1/jobs/{job_id}/heartbeat": {"post"},
    "/api/v1/jobs/{job_id}/finish": {"post"},
    "/api/v1/libraries": {"get", "post"},
    "/api/v1/libraries/{library_id}": {"get", "patch", "delete"},
    "/api/v1/libraries/{library_id}/errors": {"get"},
    "/api/v1/libraries/{library_id}/pause": {"post"},
    "/api/v1/libraries/{library_id}/resume": {"post"},
    "/api/v1/libraries/{library_id}/scan": {"post"},
    "/api/v1/duplicates/groups": {"get"},
    "/api/v1/duplicates/groups/{group_key}/files": {"get"},
    "/api/v1/duplicates/groups/{group_key}/ignore": {"delete", "post"},
    "/api/v1/plans": {"get", "post"},
    "/api/v1/plans/{plan_id}": {"get"},
    "/api/v1/plans/{plan_id}/files": {"get"},
    "/api/v1/maintenance/wal/checkpoint": {"post"},
    "/api/v1/maintenance/wal/checkpoint/latest": {"get"},
    "/api/v1/maintenance/wal/metrics": {"get"},
    "/api/v1/thumbs/request": {"post"},
    "/api/v1/thumbs/metrics": {"get"},
    "/api/v1/thumbs/cleanup/group": {"post"},
    "/api/v1/thumbs/{thumb_key}": {"get"},
    "/api/v1/thumbs/{thumb_key}/content": {"get"},
    "/api/v1/scan-requests": {"get"},
    "/api/v1/scan-requests/{request_id}": {"get"},
    "/api/v1/scan-requests/{request_id}/cancel": {"post"},
}


def bearer(role: Role) -> dict[str, str]:
    _, secret = ApiToken.issue(factories.user(role.value, role), "script", role)
    return {"Authorization": f"Bearer {secret}"}


def logged_in(role: Role = Role.VIEWER) -> Client:
    browser = Client()
    browser.force_login(factories.user("vera", role), "django.contrib.auth.backends.ModelBackend")
    return browser


def test_the_description_needs_a_login_or_a_token(client: Client) -> None:
    stranger = client.get(OPENAPI)
    assert (stranger.status_code, set(stranger.json())) == (401, {"detail"})
    page = client.get(DOCS)
    assert page.status_code == 302
    assert page["Location"].endswith(f"?next={DOCS}")
    for known in (Client(headers=bearer(Role.OPERATOR)), logged_in()):
        assert known.get(OPENAPI).status_code == 200
        assert known.get(DOCS).status_code == 200


def test_the_description_names_every_endpoint_of_the_protocol() -> None:
    described = logged_in().get(OPENAPI).json()["paths"]
    assert {path: set(methods) for path, methods in described.items()} == PROTOCOL


def test_the_page_is_served_by_this_server_alone_and_holds_no_inline_script() -> None:
    page = logged_in().get(DOCS)
    html = page.content.decode()
    addresses = re.findall(r'(?:src|href)="([^"]+)"', html)
    assert len(addresses) >= 3
    assert all(address.startswith("/static/") for address in addresses)
    assert all(finders.find(address.removeprefix("/static/")) for address in addresses)
    scripts = re.findall(r"<script([^>]*)>", html)
    assert all("src=" in script or 'type="application/json"' in script for script in scripts)
    assert "style=" not in html
    assert "<style" not in html
    assert "unsafe" not in page["Content-Security-Policy"]


def test_a_refusal_names_the_field_that_it_is_about() -> None:
    operator = logged_in(Role.OPERATOR)
    asked = operator.get("/api/v1/duplicates/groups", {"limit": "0", "media": "song"})
    assert asked.status_code == 422
    assert [part.partition(":")[0] for part in asked.json()["detail"].split("; ")] == ["limit", "media"]
    sent = operator.post("/api/v1/plans", {"choices": {"17": "eat"}}, "application/json")
    assert (sent.status_code, sent.json()["detail"].partition(":")[0]) == (422, "choices.17")


# --- What it says, it keeps -------------------------------------------------------------------------------
IS_TORTURE = os.environ.get("DEDUPFS_TEST_PROFILE") == "torture"
#: No description can say which cursors were handed out, which digests a key may name and which rule sets there are;
#: for a plan 409 says what of it can't be used.
ASKS_FOR_WHAT_IS_THERE: dict[str, tuple[str, ...]] = {
    "GET /api/v1/jobs": (),
    "GET /api/v1/scan-requests": (),
    "GET /api/v1/acts": (),
    "GET /api/v1/acts/{act_id}/items": (),
    "GET /api/v1/trash/items": (),
    # Exactly one way to say which files; and an operator's token has no right to authorise.
    "POST /api/v1/trash/undo": ("409",),
    "POST /api/v1/trash/empty": ("403",),
    "GET /api/v1/libraries/{library_id}/errors": (),
    "GET /api/v1/duplicates/groups": (),
    "GET /api/v1/duplicates/groups/{group_key}/files": (),
    "POST /api/v1/duplicates/groups/{group_key}/ignore": (),
    "DELETE /api/v1/duplicates/groups/{group_key}/ignore": (),
    "GET /api/v1/plans": (),
    "POST /api/v1/plans": ("409",),
    "GET /api/v1/plans/{plan_id}/files": (),
    # Asked too soon; and PostgreSQL has no such log.
    "POST /api/v1/maintenance/wal/checkpoint": ("409", "429"),
    "GET /api/v1/maintenance/wal/checkpoint/latest": ("409",),
}
#: Nor that a NUL is nowhere welcome (`tests/jobs/test_api.py`).
CONFIG = {
    "generation": {
        "max-examples": 300 if IS_TORTURE else 10,
        "deterministic": not IS_TORTURE,
        "database": "none",
        "allow-x00": False,
    },
    "operations": [
        {
            "include-name": name,
            "checks": {"positive_data_acceptance": {"expected-statuses": ["2xx", "404", "422", *more]}},
        }
        for name, more in ASKS_FOR_WHAT_IS_THERE.items()
    ],
}
described_api = schemathesis.openapi.from_dict(
    api.get_openapi_schema(path_prefix="/api/v1/"), config=SchemathesisConfig.from_dict(CONFIG)
)


@cache
def django() -> Any:
    return get_wsgi_application()


def application(environ: dict[str, Any], start_response: Any) -> Any:
    """The product, made when it is first asked: collecting tests must not need it."""
    return django()(environ, start_response)


described_api.app = application


@pytest.fixture
def headers() -> dict[str, str]:
    """Of somebody who may act; and there are rows to meet."""
    factories.finished_job("scan")
    factories.running_job("thumbnail")
    factories.library()
    return bearer(Role.OPERATOR)


@described_api.parametrize()
def test_whatever_is_sent_the_answer_is_as_described(case: Any, headers: dict[str, str]) -> None:
    answer = case.call_and_validate(headers=headers)
    assert answer.status_code < 500
    if answer.status_code >= 400 and case.operation.path != "/api/v1/health":
        assert isinstance(answer.json()["detail"], str)
