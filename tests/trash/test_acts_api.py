"""Acting over HTTP: who may, what is refused, and lists that go on by key."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from accounts.models import ApiToken, Role
from duplicates import plan_changing
from logbook.models import LogbookEvent
from tests import factories
from tests.duplicates.plans import copies, item, library, planned
from tests.pages import logged_in, with_token
from tests.trash.doors import allow, authorised, begun, ended, two_copies
from trash import api, authorising
from trash.models import Act, TrashItem

pytestmark = pytest.mark.django_db
API = "/api/v1"


def script(role: Role = Role.ADMIN, *, may_authorise: bool = True) -> Client:
    owner = factories.user(f"owner-{role}", role)
    _, secret = ApiToken.issue(owner, "nightly", role, may_authorise=may_authorise)
    return Client(headers={"Authorization": f"Bearer {secret}"})


def post(client: Client, path: str, body: Any = None) -> Any:
    return client.post(f"{API}{path}", body if body is not None else {}, "application/json")


def test_the_words_of_the_description_are_those_of_the_tables() -> None:
    assert set(get_args(api.VerbWord)) == set(Act.Verb.values)
    assert set(get_args(api.ActStatus)) == set(Act.Status.values)
    assert set(get_args(api.ItemStatus)) == set(TrashItem.Status.values)


# --- Who may ----------------------------------------------------------------------------------------------
def test_a_token_with_the_right_authorises(settings: Settings) -> None:
    settings.ACT_GRACE_SECONDS = 60
    allow()
    plan = two_copies()
    answer = post(script(), f"/plans/{plan.pk}/authorise", {"files": 2})
    assert answer.status_code == 201
    body = answer.json()
    assert (body["verb"], body["status"], body["plan_id"], body["file_count"]) == ("act", "authorised", plan.pk, 2)
    assert body["authorised_by"] == "owner-admin via token nightly"
    assert LogbookEvent.objects.get(event_type="authorised", item__item_type="plans").actor == body["authorised_by"]


def test_a_session_of_an_admin_authorises() -> None:
    allow()
    plan = two_copies()
    assert post(logged_in(Role.ADMIN), f"/plans/{plan.pk}/authorise", {"files": 2}).status_code == 201


def test_whoever_lacks_the_right_is_refused_before_their_input_is_looked_at() -> None:
    allow()
    plan = two_copies()
    callers = [
        (script(may_authorise=False), "This token may not authorise"),
        (with_token(Role.OPERATOR), "needs the role admin"),
        (with_token(Role.VIEWER), "needs the role admin"),
    ]
    for caller, words in callers:
        for path in (f"/plans/{plan.pk}/authorise", "/trash/empty"):
            answer = post(caller, path, {"nonsense": 1})
            assert answer.status_code == 403
            assert words in answer.json()["detail"]
    for role in (Role.VIEWER, Role.OPERATOR):
        browser = Client()
        browser.force_login(factories.user(f"browser-{role}", role))
        assert post(browser, f"/plans/{plan.pk}/authorise", {"files": 2}).status_code == 403
    assert post(Client(), f"/plans/{plan.pk}/authorise", {"files": 2}).status_code == 401
    assert not Act.objects.exists()


def test_the_right_ends_with_the_owner_s_role() -> None:
    allow()
    plan = two_copies()
    caller = script()
    ApiToken.objects.get().user.__class__.objects.update(role=Role.OPERATOR)
    assert post(caller, f"/plans/{plan.pk}/authorise", {"files": 2}).status_code == 403


def test_a_cross_site_session_is_refused() -> None:
    allow()
    plan = two_copies()
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(factories.user("anna", Role.ADMIN))
    assert post(browser, f"/plans/{plan.pk}/authorise", {"files": 2}).status_code == 403
    assert not Act.objects.exists()


# --- What is refused --------------------------------------------------------------------------------------
@pytest.mark.parametrize(("body", "status"), [
    ({"files": 3}, 409), ({"files": 0}, 409), ({}, 422), ({"files": "2"}, 422), ({"files": True}, 422),
    ({"files": 2.5}, 422), ({"files": -1}, 422), ({"files": 2**70}, 422), ({"files": 2, "force": True}, 422),
])  # fmt: skip
def test_a_wrong_number_authorises_nothing(body: dict[str, Any], status: int) -> None:
    allow()
    plan = two_copies()
    answer = post(script(), f"/plans/{plan.pk}/authorise", body)
    assert (answer.status_code, set(answer.json())) == (status, {"detail"})
    assert not Act.objects.exists()


def test_a_plan_that_changed_since_it_was_read_is_refused() -> None:
    allow()
    plan = two_copies()
    caller = script()
    read = caller.get(f"{API}/plans/{plan.pk}").json()
    plan_changing.swap_keeper(plan.pk, item(plan, "old/a").pk, actor="otto")
    body = {"files": read["remove_count"], "updated_at": read["updated_at"]}
    answer = post(caller, f"/plans/{plan.pk}/authorise", body)
    assert answer.status_code == 409
    assert "was changed since" in answer.json()["detail"]
    body["updated_at"] = caller.get(f"{API}/plans/{plan.pk}").json()["updated_at"]
    assert post(caller, f"/plans/{plan.pk}/authorise", body).status_code == 201


def test_switched_off_and_unknown_plans_are_told_apart() -> None:
    plan = two_copies()
    caller = script()
    answer = post(caller, f"/plans/{plan.pk}/authorise", {"files": 2})
    assert (answer.status_code, "settings page" in answer.json()["detail"]) == (409, True)
    for key in (plan.pk + 1, 2**63, 10**30):
        assert post(caller, f"/plans/{key}/authorise", {"files": 2}).status_code == 404


# --- Watching and deciding --------------------------------------------------------------------------------
def test_an_act_is_stopped_paused_and_resumed() -> None:
    act = authorised()
    caller = script()
    assert post(caller, f"/acts/{act.pk}/pause").json()["is_paused"] is True
    assert post(caller, f"/acts/{act.pk}/pause").status_code == 409
    assert post(caller, f"/acts/{act.pk}/resume").json()["is_paused"] is False
    assert post(caller, f"/acts/{act.pk}/stop").json()["status"] == "cancelled"
    assert post(caller, f"/acts/{act.pk}/stop").status_code == 409
    for verb in ("stop", "pause", "resume"):
        assert post(caller, f"/acts/{act.pk + 1}/{verb}").status_code == 404
        assert post(caller, f"/acts/{10**30}/{verb}").status_code == 404


def test_stopping_needs_an_admin_and_going_on_the_right_as_well() -> None:
    act = authorised()
    operator, plain = script(Role.OPERATOR, may_authorise=False), script(may_authorise=False)
    for verb in ("stop", "pause", "resume"):
        assert post(operator, f"/acts/{act.pk}/{verb}").status_code == 403
    assert post(plain, f"/acts/{act.pk}/pause").status_code == 200
    assert post(plain, f"/acts/{act.pk}/resume").status_code == 403
    assert post(plain, f"/acts/{act.pk}/stop").status_code == 200


def test_acts_are_listed_by_key_and_narrowed() -> None:
    for _ in range(3):
        act = authorised(planned_again())
        post_stop(act)
    viewer = with_token(Role.VIEWER)
    seen, cursor = [], ""
    while True:
        body = viewer.get(f"{API}/acts?limit=2{cursor}").json()
        seen += [row["id"] for row in body["items"]]
        if body["next_cursor"] is None:
            break
        cursor = f"&cursor={body['next_cursor']}"
    assert seen == list(Act.objects.order_by("-pk").values_list("pk", flat=True))
    assert viewer.get(f"{API}/acts/{seen[0]}").json()["id"] == seen[0]
    assert len(viewer.get(f"{API}/acts?plan_id={act.plan_id}").json()["items"]) == 1
    assert viewer.get(f"{API}/acts?status=running").json()["items"] == []
    assert len(viewer.get(f"{API}/acts?verb=act").json()["items"]) == 3
    for wrong in ("cursor=x", "limit=0", "status=asleep"):
        assert viewer.get(f"{API}/acts?{wrong}").status_code == 422
    assert viewer.get(f"{API}/acts/{10**30}").status_code == 404


def planned_again() -> Any:
    if not Act.objects.exists():
        return two_copies()
    return planned()


def post_stop(act: Act) -> None:
    authorising.stop(act.pk, actor="anna")


def test_items_say_what_became_of_each_file() -> None:
    copies(library(), 1, "a", *(f"old/{number}" for number in range(5)), size=2_000)
    act = ended(authorised(planned()), skipped={"old/1": "TOO_YOUNG"})
    viewer = with_token(Role.VIEWER)
    seen: list[dict[str, Any]] = []
    cursor = ""
    while True:
        body = viewer.get(f"{API}/acts/{act.pk}/items?limit=2{cursor}").json()
        seen += body["items"]
        if body["next_cursor"] is None:
            break
        cursor = f"&cursor={body['next_cursor']}"
    assert [row["relative_path"] for row in seen] == [f"old/{number}" for number in range(5)]
    (skipped,) = viewer.get(f"{API}/acts/{act.pk}/items?status=skipped").json()["items"]
    assert (skipped["relative_path"], skipped["reason_code"]) == ("old/1", "TOO_YOUNG")
    lying = viewer.get(f"{API}/trash/items?limit=3").json()
    more = viewer.get(f"{API}/trash/items?limit=3&cursor={lying['next_cursor']}").json()
    found = [row["id"] for row in lying["items"] + more["items"]]
    assert found == list(TrashItem.objects.filter(status="trashed").order_by("-pk").values_list("pk", flat=True))
    assert viewer.get(f"{API}/acts/{act.pk + 1}/items").status_code == 404
    assert viewer.get(f"{API}/trash/items?cursor=-1").status_code == 422


# --- The trash --------------------------------------------------------------------------------------------
def test_an_operator_s_token_asks_for_undo() -> None:
    act = ended(authorised())
    viewer, operator = with_token(Role.VIEWER), with_token(Role.OPERATOR)
    assert post(viewer, "/trash/undo", {"plan": act.plan_id}).status_code == 403
    answer = post(operator, "/trash/undo", {"plan": act.plan_id})
    assert answer.status_code == 201
    assert answer.json()["selection"] == {"plan": act.plan_id}
    item_id = TrashItem.objects.filter(act=act).values_list("pk", flat=True)[0]
    answer = post(operator, "/trash/undo", {"items": [item_id]})
    assert (answer.status_code, answer.json()["file_count"]) == (201, 1)
    folder = [TrashItem.objects.filter(act=act)[0].library_id, "old/deep"]
    assert post(operator, "/trash/undo", {"folder": folder}).json()["file_count"] == 1
    assert post(operator, "/trash/undo", {"older_than_days": 0}).json()["file_count"] == 2
    assert post(operator, "/trash/undo", {"all": True}).json()["file_count"] == 2


@pytest.mark.parametrize("body", [
    {}, {"plan": 1, "all": True}, {"all": False}, {"plan": 0}, {"plan": "1"}, {"items": []}, {"items": ["1"]},
    {"items": [2**63]}, {"folder": [1]}, {"folder": "x"}, {"older_than_days": -1}, {"older_than_days": 10**9},
    {"everything": True},
])  # fmt: skip
def test_a_selection_that_says_nothing_or_too_much_is_refused(body: dict[str, Any]) -> None:
    operator = with_token(Role.OPERATOR)
    assert post(operator, "/trash/undo", body).status_code == 422
    assert not Act.objects.exists()


def test_emptying_by_token(settings: Settings) -> None:
    settings.ALLOW_REAL_DELETE = True
    act = ended(authorised())
    caller = script()
    wanted = {"plan": act.plan_id, "files": 2}
    assert post(caller, "/trash/empty", wanted).status_code == 409
    allow(removing=True)
    assert post(caller, "/trash/empty", {**wanted, "files": 3}).status_code == 409
    answer = post(caller, "/trash/empty", wanted)
    assert (answer.status_code, answer.json()["verb"]) == (201, "empty")


def test_undo_while_the_plan_runs_is_refused() -> None:
    act = begun(authorised(), done=1)
    answer = post(with_token(Role.OPERATOR), "/trash/undo", {"plan": act.plan_id})
    assert (answer.status_code, "Cancel that first" in answer.json()["detail"]) == (409, True)
