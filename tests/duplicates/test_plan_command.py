from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from duplicates.models import Plan
from jobs.models import Job
from libraries.names import to_text
from tests.conftest import Manage
from tests.duplicates.plans import copies, library, paths, rule_set

pytestmark = pytest.mark.django_db


def told(*options: str) -> str:
    out = StringIO()
    call_command("plan", *options, stdout=out)
    return out.getvalue()


def test_it_makes_a_plan_here_and_tells_of_it() -> None:
    photos = library()
    copies(photos, 1, "a.jpg", to_text(b"old/caf\xe9.jpg"), size=2_000)
    rule_set()
    said = told("--rules", "tidy")
    plan = Plan.objects.get()
    assert plan.job is not None
    assert (plan.status, plan.job.status, plan.job.dry_run, plan.rule_set_name) == ("ready", "completed", True, "tidy")
    assert "(command line)" in plan.created_by
    assert "1 files of 1 groups would go (trash), 1 stay; 2.0 kB come back" in said
    assert "= photos: a.jpg" in said
    assert "- photos: old/caf\\xe9.jpg" in said
    assert "1 folder would become empty" in said


def test_json_says_the_same() -> None:
    copies(library(), 1, "a.jpg", "old/a.jpg", size=2_000)
    rule_set()
    plan = json.loads(told("--rules", "tidy", "--json", "--action", "hardlink"))
    assert (plan["plan"], plan["status"], plan["action"]) == (Plan.objects.get().pk, "ready", "hardlink")
    assert (plan["remove_count"], plan["freed_bytes"]) == (1, 2_000)
    assert [item["path"] for item in plan["first_items"]] == ["a.jpg", "old/a.jpg"]
    assert {"emptied", "reading"} <= {warning["code"] for warning in plan["warnings"]}


def test_options_narrow_the_groups() -> None:
    photos, other = library(), library("other")
    copies(photos, 1, "a", "in/a", size=2_000)
    copies(photos, 2, "b", "in/b", size=10)
    copies(other, 3, "c", "in/c", size=2_000)
    rule_set()
    told("--rules", "tidy", "--library", "photos", "--folder", "in", "--least-size", "1 kB")
    plan = Plan.objects.latest("pk")
    assert paths(plan, "remove") == ["in/a"]
    told("--rules", "tidy", "--filter", f"library={other.pk}")
    assert paths(Plan.objects.latest("pk"), "remove") == ["in/c"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--rules", "none"], "There is: empty, tidy"),
        (["--rules", "tidy", "--library", "none"], "no library called none"),
        (["--rules", "tidy", "--least-size", "much"], "least-size"),
        (["--rules", "tidy", "--folder", "x"], "library"),
        (["--rules", "tidy", "--filter", "least_bytes=x"], "x"),
        (["--rules", "tidy", "--filter", "", "--least-size", "1 kB"], "not both"),
        (["--rules", "empty"], "every file stays"),
    ],
)
def test_what_can_not_be_used_is_said(options: list[str], words: str) -> None:
    rule_set()
    rule_set("empty", [])
    with pytest.raises(CommandError, match=words):
        told(*options)
    assert not Plan.objects.exists()
    assert not Job.objects.exists()


def test_it_ends_with_an_exit_code_of_its_own(run_manage: Manage) -> None:
    copies(library(), 1, "a.jpg", "old/a.jpg")
    rule_set()
    ended = run_manage("plan", "--rules", "nothing")
    assert (ended.returncode, ended.stdout) == (1, "")
    ended = run_manage("plan", "--rules", "tidy")
    assert ended.returncode == 0, ended.stderr
    assert "1 files of 1 groups" in ended.stdout
