"""An old database that somebody put in place by hand is noticed by what lies beside it, whatever is left in the
trashes: then no approval in it counts."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, connections

from database import after_restore
from duplicates.models import Plan
from jobs.models import Job
from logbook.models import LogbookEvent
from tests.duplicates.plans import planned
from tests.trash.acts import authorised, carry_out, contents, due, library
from trash import authorising, settling, witness
from trash.models import Act

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("everything_allowed")]
TREE = {"a": b"one", "b/copy": b"one"}
only_sqlite = pytest.mark.skipif("connection.vendor != 'sqlite'", reason="a file is put in place")


def copied(there: Path) -> None:
    """The database as it is now, as a file."""
    with closing(sqlite3.connect(connection.settings_dict["NAME"])) as now, closing(sqlite3.connect(there)) as copy:
        now.backup(copy)


def put_in_place(copy: Path) -> None:
    connections.close_all()
    with closing(sqlite3.connect(copy)) as old, closing(sqlite3.connect(connection.settings_dict["NAME"])) as now:
        old.backup(now)


def undone() -> Act:
    return carry_out(authorising.ask_undo({"all": True}, actor="otto"))


def forget(after: int) -> None:
    """As in an older database: its logbook ends there."""
    LogbookEvent.objects.filter(pk__gt=after).delete()


# --- Noticed ----------------------------------------------------------------------------------------------
@only_sqlite
@pytest.mark.parametrize("since", ["undone", "stopped"])
def test_caution_19_an_old_file_put_in_place_by_hand_makes_its_approvals_void(tmp_path: Path, since: str) -> None:
    root = tmp_path / "photos"
    library(root, TREE)
    act = authorised()
    copied(tmp_path / "old.sqlite3")
    if since == "undone":
        assert carry_out(act).status == "completed"
        undone()
    else:
        authorising.stop(act.pk, actor="ada")
        witness.tend()
    assert contents(root) == TREE
    assert not (root / ".dedupfs-trash").exists(), "no manifest is left"
    put_in_place(tmp_path / "old.sqlite3")
    act = carry_out(Act.objects.get(pk=act.pk))
    assert (act.status, act.done_count) == ("void", 0)
    assert "new approval" in act.note
    assert Job.objects.get(pk=act.job_id).status == "cancelled"
    assert Plan.objects.get(acts=act).status == "ready"
    assert contents(root) == TREE
    # Nobody is locked out: what is approved now counts.
    again = authorising.authorise(act.plan_id or 0, 1, actor="ada")
    due(again)
    assert carry_out(again).status == "completed"


@pytest.mark.parametrize("verb", ["act", "empty"])
def test_caution_19_a_database_without_what_was_witnessed_makes_every_approval_void(tmp_path: Path, verb: str) -> None:
    root = tmp_path / "photos"
    library(root, TREE)
    before = LogbookEvent.objects.latest("pk").pk
    carry_out(authorised())
    if verb == "act":
        undone()
        act = authorised()
    else:
        act = authorising.authorise_emptying({"all": True}, 1, actor="ada")
        due(act)
    lying_there = contents(root)
    forget(before)
    assert carry_out(act).status == "void"
    assert contents(root) == lying_there


def test_a_consumer_notices_before_anything_is_due(tmp_path: Path) -> None:
    library(tmp_path / "photos", TREE)
    before = LogbookEvent.objects.latest("pk").pk
    carry_out(authorised())
    undone()
    act = authorised()
    forget(before)
    witness.tend()
    act.refresh_from_db()
    assert act.status == "void"


# --- Nobody is locked out ---------------------------------------------------------------------------------
def test_a_database_that_goes_on_is_never_called_older(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library(root, TREE)
    for _ in range(3):
        assert carry_out(authorised(plan=planned())).status == "completed"
        witness.tend()
        assert undone().status == "completed"
        settling.tend()
        witness.tend()
    assert not Act.objects.filter(status="void").exists()


@pytest.mark.parametrize("written", ["", "{", "[]", '{"event": "x"}', '{"event": 1}'])
def test_a_witness_that_can_not_be_read_says_nothing(tmp_path: Path, written: str) -> None:
    library(tmp_path / "photos", TREE)
    Path(settings.STATE_ROOT).mkdir(exist_ok=True)
    (Path(settings.STATE_ROOT) / witness.NAME).write_text(written)
    assert carry_out(authorised()).status == "completed"
    assert json.loads((Path(settings.STATE_ROOT) / witness.NAME).read_text())["to"] in ("running", "completed")


def test_what_is_witnessed_is_on_the_disk_before_a_file_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the database could be replaced by one that knows nothing of what was done."""
    library(tmp_path / "photos", TREE)
    act = authorised()
    seen: list[Any] = []

    def look(_point: str) -> None:
        seen.append(json.loads((Path(settings.STATE_ROOT) / witness.NAME).read_text()))

    monkeypatch.setattr("trash.acting_on_file.reach", look)
    carry_out(act)
    assert [(each["act"], each["to"]) for each in seen] == [(str(act.pk), "running")]


def test_a_restore_by_the_command_forgets_the_witness(tmp_path: Path) -> None:
    """It makes approvals void by itself: those that are given after it count."""
    library(tmp_path / "photos", TREE)
    before = LogbookEvent.objects.latest("pk").pk
    carry_out(authorised())
    undone()
    forget(before)
    after_restore.forget_files(Path(settings.STATE_ROOT))
    assert carry_out(authorised()).status == "completed"
