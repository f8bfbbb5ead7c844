"""What a plan may be asked for beside its action: that empty folders go, and that links are made despite metadata."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from accounts.models import Role
from duplicates import planning
from duplicates.models import Plan
from libraries.errors import Refused
from tests.conftest import Manage
from tests.duplicates.plans import SHORTEST, copies, library, planned, rule_set
from tests.pages import text_of, with_token, words_of

pytestmark = pytest.mark.django_db
BOTH: dict[str, Any] = {"removes_empty_folders": True, "links_despite_metadata": True}


def options(plan: Plan) -> tuple[bool, bool]:
    return plan.removes_empty_folders, plan.links_despite_metadata


def test_a_plan_keeps_its_options_and_planning_again_takes_them_along() -> None:
    copies(library(), 1, "a", "old/a")
    assert options(planned()) == (False, False)
    plan = planned("hardlink", **BOTH)
    assert options(plan) == (True, True)
    assert options(planning.plan_again(plan, actor="otto")) == (True, True)


@pytest.mark.parametrize("action", ["trash", "delete"])
def test_metadata_matters_for_links_alone(action: str) -> None:
    with pytest.raises(Refused, match="hard links"):
        planning.make_plan(actor="otto", action=action, rules=SHORTEST, links_despite_metadata=True)
    assert not Plan.objects.exists()


def test_the_form_has_both_and_the_page_says_them(operator: Client) -> None:
    rules = rule_set()
    html = text_of(operator, "/plans/new/")
    assert 'name="removes_empty_folders"' in html
    assert 'name="links_despite_metadata"' in html
    sent = {
        "rule_set": str(rules.pk),
        "action": "hardlink",
        "links_despite_metadata": "1",
        "removes_empty_folders": "1",
    }
    operator.post("/plans/create/", sent)
    plan = Plan.objects.get()
    assert options(plan) == (True, True)
    words = words_of(text_of(operator, f"/plans/{plan.pk}/"))
    assert "also where owner, mode or attributes differ" in words
    assert "Empty folders go as well" in words
    # The box below the hard links says nothing about a trash.
    operator.post("/plans/create/", {**sent, "action": "trash"})
    assert options(Plan.objects.latest("pk")) == (True, False)


def test_a_refused_form_keeps_what_was_marked(operator: Client) -> None:
    html = operator.post("/plans/create/", {"action": "hardlink", "removes_empty_folders": "1"}).content.decode()
    assert "No plan was made" in html
    assert 'name="removes_empty_folders" value="1" checked' in html
    assert 'name="links_despite_metadata" value="1" checked' not in html


def test_the_api_takes_and_tells_both() -> None:
    client = with_token(Role.OPERATOR)

    def post(body: dict[str, Any]) -> Any:
        return client.post("/api/v1/plans", {"rules": SHORTEST, **body}, "application/json")

    made = post({"action": "hardlink", **BOTH})
    assert made.status_code == 201
    assert (made.json()["removes_empty_folders"], made.json()["links_despite_metadata"]) == (True, True)
    refused = post({"action": "trash", **BOTH})
    assert (refused.status_code, "hard links" in refused.json()["detail"]) == (409, True)
    assert Plan.objects.count() == 1


def test_the_command_takes_both(run_manage: Manage) -> None:
    copies(library(), 1, "a", "old/a")
    rule_set()
    done = run_manage(
        "plan", "--rules", "tidy", "--action", "hardlink", "--remove-empty-folders", "--link-despite-metadata", "--json"
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["removes_empty_folders"], said["links_despite_metadata"]) == (True, True)
    assert options(Plan.objects.get()) == (True, True)
