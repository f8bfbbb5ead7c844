"""Admins who authorise overlapping plans at once: one of them wins, and at least one copy of every content stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from duplicates.models import Plan, PlanFile
from tests.concurrency.racing import release, start
from tests.duplicates.plans import copies, library, planned
from tests.trash.doors import allow
from trash.models import Act

pytestmark = pytest.mark.django_db


def race(environment: dict[str, str], gate: Path, plans: list[Plan]) -> list[str]:
    racers = [start("authorising_racer", environment, f"admin{n}", gate, plan.pk) for n, plan in enumerate(plans)]
    return [" ".join(lines) for lines in release(racers, gate)]


@pytest.mark.parametrize(
    "round_number", [0, *(pytest.param(number, marks=pytest.mark.torture) for number in range(1, 20))]
)
def test_of_two_plans_that_would_take_both_copies_one_is_authorised(
    child_environment: dict[str, str], tmp_path: Path, round_number: int
) -> None:
    allow()
    one, two = (str(file.pk) for file in copies(library(), 1, "a", "b"))
    plans = [
        planned(rules=[], choices={one: "keep", two: "remove"}),
        planned(rules=[], choices={two: "keep", one: "remove"}),
    ]
    answers = race(child_environment, tmp_path / "gate", plans)
    (winner,) = [n for n, answer in enumerate(answers) if answer.startswith("authorised")]
    loser = 1 - winner
    assert f"Plan {plans[winner].pk}, authorised by admin{winner}" in answers[loser]
    assert Act.objects.get().plan_id == plans[winner].pk
    assert [Plan.objects.get(pk=plan.pk).status for plan in (plans[winner], plans[loser])] == ["authorised", "ready"]


def test_of_three_plans_over_three_copies_no_two_that_meet_live(
    child_environment: dict[str, str], tmp_path: Path
) -> None:
    allow()
    a, b, c = (str(file.pk) for file in copies(library(), 1, "a", "b", "c"))
    plans = [
        planned(rules=[], choices={a: "keep", b: "remove"}),
        planned(rules=[], choices={b: "keep", c: "remove"}),
        planned(rules=[], choices={c: "keep", a: "remove"}),
    ]
    answers = race(child_environment, tmp_path / "gate", plans)
    assert sum(answer.startswith("authorised") for answer in answers) == 1, answers
    living = Act.objects.filter(status="authorised").values_list("plan_id", flat=True)
    going = PlanFile.objects.filter(plan__in=living, role="remove", is_out=False).values_list("file_id", flat=True)
    assert len(set(going)) < 3


def test_one_plan_is_authorised_once_however_many_ask(child_environment: dict[str, str], tmp_path: Path) -> None:
    allow()
    copies(library(), 1, "a", "old/a")
    plan = planned()
    answers = race(child_environment, tmp_path / "gate", [plan] * 3)
    assert sum(answer.startswith("authorised") for answer in answers) == 1, answers
    assert sum("authorised already, by admin" in answer for answer in answers) == 2, answers
    assert Act.objects.count() == 1
