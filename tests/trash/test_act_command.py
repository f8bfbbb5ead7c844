"""`manage.py act`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from database.clock import SecondsFromNow
from jobs.models import Job
from tests.conftest import Manage
from tests.duplicates.plans import planned
from tests.trash.acts import allow, authorised, contents, library
from trash import authorising

pytestmark = pytest.mark.django_db
ENVIRONMENT = {"DEDUPFS_YOUNG_HOURS": "0", "DEDUPFS_ACT_GRACE_SECONDS": "0"}


@pytest.fixture(autouse=True)
def _allowed(settings: Any) -> None:
    settings.YOUNG_HOURS = 0
    settings.ACT_GRACE_SECONDS = 0
    allow(removing=False)


def test_it_carries_out_an_authorised_plan_and_tells(tmp_path: Path, run_manage: Manage) -> None:
    library(tmp_path / "photos")
    act = authorised()
    Job.objects.filter(pk=act.job_id).update(retry_after=SecondsFromNow(2))  # the grace is waited out
    done = run_manage("act", str(act.plan_id), "--json", env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["status"], told["done"], told["skipped"], told["plan_status"]) == ("completed", 2, 0, "done")
    assert len(told["proof_sha256"]) == 64
    assert {name for name in contents(tmp_path / "photos") if not name.startswith(".")} == {"a", "c"}
    again = run_manage("act", str(act.plan_id), env=ENVIRONMENT)
    assert again.returncode == 0, again.stderr
    assert "Nothing to do" in again.stdout


def test_it_can_authorise_nothing_and_says_why_it_can_t_begin(tmp_path: Path, run_manage: Manage) -> None:
    library(tmp_path / "photos")
    plan = planned()
    refused = run_manage("act", str(plan.pk), env=ENVIRONMENT)
    assert refused.returncode == 3
    assert "not authorised" in refused.stderr
    assert run_manage("act", "999999", env=ENVIRONMENT).returncode == 1
    act = authorised(plan=plan)
    lease = Job.objects.filter(pk=act.job_id).claim("somebody")
    assert lease is not None
    busy = run_manage("act", str(plan.pk), env=ENVIRONMENT)
    assert busy.returncode == 4
    assert "somebody" in busy.stderr
    lease.release()
    authorising.pause(act.pk, actor="ada")
    assert run_manage("act", str(plan.pk), env=ENVIRONMENT).returncode == 6
    authorising.resume(act.pk, actor="ada")
    (tmp_path / "photos/b/a-copy").write_bytes(b"changed")
    partly = run_manage("act", str(plan.pk), env=ENVIRONMENT)
    assert partly.returncode == 5, partly.stderr
    assert "1 files were skipped" in partly.stderr
    assert len([name for name in contents(tmp_path / "photos") if name.startswith(".")]) == 1


def test_what_was_stopped_is_not_begun(tmp_path: Path, run_manage: Manage) -> None:
    library(tmp_path / "photos")
    act = authorised()
    authorising.stop(act.pk, actor="ada")
    stopped = run_manage("act", str(act.plan_id), env=ENVIRONMENT)
    assert stopped.returncode == 3
    assert len(contents(tmp_path / "photos")) == 4
