"""Every address the project has: a stranger is sent to the login, a viewer can't act, other sites can't send forms.

The addresses come from the URL configuration, so one that is added later is asked for here without anybody's doing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.apps import apps
from django.db import connection
from django.test import Client

from accounts.models import ApiToken, Role, User
from duplicates.models import FolderPair, FolderSearch, Plan, PlanFile, PlanFolder, RuleSet, group_key
from jobs.models import Job
from libraries.models import LibraryFile
from logbook.models import LogbookEvent, LogbookItem
from tests.factories import PASSWORD, library, library_file, pending_job, user
from tests.site.addresses_found import Found, every_address
from tests.site.browsing import FORM_TOKEN, Browser, Gunicorn
from trash.models import Act

pytestmark = pytest.mark.django_db

READING = ("GET", "HEAD", "OPTIONS")
CHANGING = ("POST", "PUT", "PATCH", "DELETE")
#: Open to strangers; whatever is added here, the whole network can reach.
OPEN = {"favicon", "health", "api:health", "accounts:login"}
#: What a viewer may send: it concerns nobody but themselves, or asks for a picture to be made.
VIEWER_MAY = {
    "thumbs:ask",
    "api:request_thumbnail",
    "accounts:login",
    "accounts:logout",
    "accounts:password",
    "accounts:tokens",
    "accounts:revoke_token",
}
#: Tables that a request writes by itself, whatever it asks for.
ASIDE = {
    "django_session", "axes_accesslog", "axes_accessattempt",
    # Derived: whoever reads groups has them counted first.
    "duplicate_groups", "duplicate_changes", "duplicate_summary",
}  # fmt: skip


@pytest.fixture
def addresses() -> list[Found]:
    """All of them, asking for rows that exist where a parameter's name tells which."""
    job = pending_job()
    somebody = user("somebody", role=Role.ADMIN)
    photos = library()
    group = {"hash_algorithm": "blake3", "content_hash": b"g" * 32}
    for name in "ab":
        library_file(name, photos, needs_hash=False, **group)
    plan = Plan.objects.create(status="ready")
    file = LibraryFile.objects.order_by("id")[0]
    item = PlanFile.objects.create(
        plan=plan, role="keep", file=file, library=photos, relative_path="a", size_bytes=1, mtime_ns=1, **group
    )
    pair = FolderPair.objects.create(
        search=FolderSearch.objects.create(), left_library=photos, right_library=photos, right_folder="b",
        shared_files=1, shared_bytes=1, left_files=1, left_bytes=1, left_only_files=0,
        right_files=1, right_bytes=1, right_only_files=0,
    )  # fmt: skip
    known = {
        "job_id": job.pk, "pk": somebody.pk, "object_id": somebody.pk, "library_id": photos.pk,
        "group_key": group_key("blake3", b"g" * 32), "form": "csv", "plan_id": plan.pk, "item_id": item.pk,
        "folder_id": PlanFolder.objects.create(plan=plan, library=photos).pk, "pair_id": pair.pk,
        "rule_set_id": RuleSet.objects.create(name="rules").pk,
        "act_id": Act.objects.create(plan=plan, authorised_by="anna").pk,
    }  # fmt: skip
    return every_address({name: str(key) for name, key in known.items()})


def contents() -> dict[str, list[Any]]:
    """Every row of every table of ours and of Django's."""
    tables = {model._meta.db_table: model for model in apps.get_models() if model._meta.db_table not in ASIDE}
    return {table: list(model._default_manager.order_by("pk").values_list()) for table, model in tables.items()}


def is_login(answer: Any) -> bool:
    return bool(answer.status_code == 302 and urlsplit(answer["Location"]).path == "/account/login/")


def test_the_walk_finds_the_whole_site(addresses: list[Found]) -> None:
    names = {found.name for found in addresses}
    assert len(addresses) > 60
    assert len({found.path for found in addresses}) > 60
    assert names >= OPEN | VIEWER_MAY
    assert {"home", "jobs:list", "admin:index", "admin:jobs_job_changelist", "api:openapi-json"} <= names
    job = Job.objects.get()
    assert {f"/jobs/{job.pk}/cancel/", f"/api/v1/jobs/{job.pk}/cancel"} <= {found.path for found in addresses}
    described = Client().get("/api/v1/openapi.json", headers=_bearer(Role.VIEWER)).json()["paths"]
    assert len([found for found in addresses if found.is_api]) >= len(described) > 5


def _bearer(role: Role) -> dict[str, str]:
    _, secret = ApiToken.issue(user(f"owner-{role}", role=role), "script", role)
    return {"Authorization": f"Bearer {secret}"}


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer dfs_made-up"}], ids=["nothing", "made-up token"])
def test_a_stranger_is_sent_to_the_login_or_gets_401(addresses: list[Found], headers: dict[str, str]) -> None:
    stranger = Client()
    before = contents()
    wrong = []
    for found in addresses:
        for method in (*READING, *CHANGING):
            if found.name in OPEN:
                continue
            answer = stranger.generic(method, found.path, headers=headers)
            if not (answer.status_code == 401 or (is_login(answer) and not _must_be_401(found))):
                wrong.append((method, found, answer.status_code))
    assert wrong == []
    assert contents() == before


def _must_be_401(found: Found) -> bool:
    """The API answers scripts; only its page for people goes to the login."""
    return found.is_api and found.name != "api:openapi-view"


def test_what_is_open_answers_and_does_nothing_else(addresses: list[Found]) -> None:
    before = contents()
    open_ones = [found for found in addresses if found.name in OPEN]
    assert len(open_ones) == len(OPEN)
    stranger = Client()
    for found in open_ones:
        assert stranger.get(found.path).status_code in (200, 503), found
        for method in CHANGING:
            allowed = (200,) if (found.name, method) == ("accounts:login", "POST") else (401, 403, 405)
            assert stranger.generic(method, found.path).status_code in allowed, found
    assert contents() == before


def test_a_stranger_s_fragment_makes_htmx_go_to_the_login(addresses: list[Found]) -> None:
    headers = {"HX-Request": "true", "HX-Current-URL": "http://testserver/jobs/?kind=scan"}
    stranger = Client()
    wrong = []
    for found in addresses:
        if found.is_api or found.name in OPEN | {"metrics"}:  # for programs, which have no login page
            continue
        answer = stranger.get(found.path, headers=headers)
        if answer.content or answer.headers.get("HX-Redirect") != "/account/login/?next=/jobs/%3Fkind%3Dscan":
            wrong.append((found, answer.status_code))
    assert wrong == []


@pytest.mark.parametrize("by", ["session", "token"])
def test_a_viewer_can_not_act(addresses: list[Found], by: str) -> None:
    client, headers = Client(), {}
    if by == "session":
        client.force_login(user())
    else:
        headers = _bearer(Role.VIEWER)
    ApiToken.objects.update(last_used_at=None)
    client.get("/api/v1/jobs", headers=headers)
    before = contents()
    wrong, refused = [], 0
    for found in addresses:
        for method in CHANGING:
            if found.name in VIEWER_MAY:
                continue
            answer = client.generic(method, found.path, b"{}", "application/json", headers=headers)
            is_stranger_here = by == "token" and not found.is_api and is_login(answer)
            refused += answer.status_code == 403
            if answer.status_code not in (403, 404, 405) and not is_stranger_here:
                wrong.append((method, found, answer.status_code))
    assert wrong == []
    assert refused > 20
    assert contents() == before


def test_a_viewer_s_look_changes_nothing(addresses: list[Found]) -> None:
    client = Client()
    client.force_login(user())
    before = contents()
    answers = [(found, client.get(found.path).status_code) for found in addresses]
    # 409: PostgreSQL has no write-ahead log to tell of.
    fine = {200, 302, 403, 404, 405} | ({409} if connection.vendor == "postgresql" else set())
    assert [(found, status) for found, status in answers if status not in fine] == []
    assert len([status for _, status in answers if status == 200]) >= 5
    assert contents() == before


@pytest.mark.parametrize("knows_the_token", [False, True])
def test_another_site_can_not_send_a_form(addresses: list[Found], knows_the_token: bool) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(user(role=Role.ADMIN))
    headers = {"Origin": "https://evil.example", "Referer": "https://evil.example/"}
    if knows_the_token:
        client.get("/account/tokens/")
        headers["X-CSRFToken"] = client.cookies["dedupfs_csrf"].value
    before = contents()
    wrong = []
    for found in addresses:
        for method in CHANGING:
            answer = client.generic(method, found.path, b"{}", "application/json", headers=headers)
            if answer.status_code != 403:
                wrong.append((method, found, answer.status_code))
    assert wrong == []
    assert contents() == before


def test_our_own_page_can_send_a_form() -> None:
    """So that the test above fails for the right reason."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(user())
    client.get("/account/tokens/")
    headers = {"Origin": "http://testserver", "X-CSRFToken": client.cookies["dedupfs_csrf"].value}
    client.post("/account/tokens/", {"name": "script", "role": "viewer"}, headers=headers)
    assert ApiToken.objects.count() == 1


# --- Secrets ----------------------------------------------------------------------------------------------
SECRET_KEY = "the-key-of-this-test-" + "k" * 50
TYPED_WRONG = "this was typed wrong"
CHOSEN = "a password that I chose"


def test_secrets_are_in_no_log_no_event_no_table_and_no_page_but_once(serve: Callable[..., Gunicorn]) -> None:
    anna = user("anna", role=Role.ADMIN)
    anna.must_change_password = True
    anna.save()
    server = serve(DEDUPFS_LOG_LEVEL="DEBUG", DEDUPFS_SECRET_KEY=SECRET_KEY)
    browser = Browser(server, f"http://127.0.0.1:{server.port}/")
    pages = [browser.log_in("anna", TYPED_WRONG).body, browser.log_in("anna", PASSWORD).body]
    pages += [_send(browser, "/account/password/", new_password1=CHOSEN, new_password2=CHOSEN)]

    made = _send(browser, "/account/tokens/", name="script", role="admin")
    secret = made[made.index("dfs_", made.index('id="secret"')) :].partition("<")[0]
    added = _send(browser, "/account/people/", username="otto", role="operator")
    first_password = added[added.index('id="secret"') :].partition(">")[2].partition("<")[0]

    for path in (
        "/account/tokens/",
        "/account/people/",
        "/jobs/",
        "/admin/",
        "/no-such-page/",
        "/admin/accounts/user/",
    ):
        pages.append(browser.open(path).body)
    for headers in ({"Authorization": f"Bearer {secret}"}, {"Authorization": f"Token {secret}"}):
        pages += [server.ask(path, headers).body for path in ("/api/v1/jobs", "/api/v1/nothing", "/health")]
    pages.append(server.ask("/api/v1/jobs", {"Authorization": f"Bearer {secret}"}, "kind=nonsense").body)

    hidden = {PASSWORD, CHOSEN, TYPED_WRONG, secret, first_password, SECRET_KEY}
    assert len(hidden) == 6
    assert all(len(word) > 15 for word in hidden)
    assert "GET" in server.output or "AXES" in server.output
    places = {"log": server.output, "database": _whole_database(), "pages": "\n".join(pages)}
    for place, text in places.items():
        assert [word for word in hidden if word in text] == [], place
    assert LogbookEvent.objects.filter(event_type="token_issued").exists()
    assert LogbookItem.objects.filter(title="otto").exists()
    assert User.objects.get(username="otto").check_password(first_password)


def _send(browser: Browser, path: str, **fields: str) -> str:
    token = FORM_TOKEN.search(browser.open(path).body)
    assert token is not None
    return browser.open(path, {**fields, "csrfmiddlewaretoken": token[1]}).body


def _whole_database() -> str:
    """Every value of every row of every table, whoever it belongs to."""
    lines = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            lines += [repr(row) for row in cursor.fetchall()]
    return "\n".join(lines)
