"""`manage.py empty_trash --older-than 30d`: only where an admin has allowed it once, and never less than that."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from logbook.models import LogbookEvent
from tests.conftest import Manage
from tests.duplicates.plans import planned
from tests.trash.on_disk import item_at, library_on, trash_of, trashed
from trash import switching
from trash.models import Act, TrashItem

pytestmark = pytest.mark.django_db
REAL = {"DEDUPFS_ALLOW_REAL_DELETE": "1"}


@pytest.fixture(autouse=True)
def _young_files_too(settings: Settings) -> None:
    settings.YOUNG_HOURS = 0


def allow(days: int | None, *, removing: bool = True, actor: str = "ada") -> None:
    switching.change(actor=actor, is_acting_allowed=True, is_removing_allowed=removing, empty_after_days=days)


def fill(tmp_path: Path) -> Path:
    root = tmp_path / "photos"
    library_on(root, {"a.jpg": b"one", "old/b.jpg": b"one", "old/c.jpg": b"one"})
    trashed(planned(), days_ago=40)
    young = TrashItem.objects.filter(pk=item_at("old/c.jpg").pk)
    young.update(acted_at=None)
    return root


def test_it_empties_what_is_old_enough_in_the_name_of_who_allowed_it(tmp_path: Path, run_manage: Manage) -> None:
    root = fill(tmp_path)
    allow(30)
    allow(30, removing=False, actor="otto")
    allow(30, actor="otto")  # who changed another switch later did not say how many days
    done = run_manage("empty_trash", "--older-than", "30d", "--json", env=REAL)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["status"], told["emptied"], told["stayed"]) == ("completed", 1, 0)
    assert told["space"]
    act = Act.objects.get(verb="empty")
    assert act.authorised_by.startswith("ada (standing order, run by ")
    assert item_at("old/b.jpg").status == "emptied"
    assert item_at("old/c.jpg").status == "trashed"
    assert len(list((trash_of(root) / item_at("old/c.jpg").act.key / "files").iterdir())) == 1
    assert LogbookEvent.objects.filter(event_type="emptying_authorised").exists()


def test_it_tells_that_there_is_nothing_old_enough(tmp_path: Path, settings: Settings) -> None:
    fill(tmp_path)
    allow(30)
    settings.ALLOW_REAL_DELETE = True
    said = StringIO()
    call_command("empty_trash", "--older-than", "6w", stdout=said)
    assert said.getvalue() == "Nothing has been in the trash for 42 days or more.\n"
    assert not Act.objects.filter(verb="empty").exists()


def test_it_tells_what_stays(tmp_path: Path, run_manage: Manage) -> None:
    root = fill(tmp_path)
    (root / "a.jpg").unlink()
    allow(7)
    done = run_manage("empty_trash", "--older-than", "7d", env=REAL)
    assert done.returncode == 0, done.stderr
    assert "0 files were removed for good, 1 stay." in done.stdout
    assert "! old/b.jpg: No other copy of it was found outside the trash" in done.stdout
    assert item_at("old/b.jpg").is_last_copy


@pytest.mark.parametrize(
    ("days", "removing", "age", "real", "words"),
    [
        (None, True, "30d", True, "Nobody has allowed emptying the trash by age."),
        (31, True, "30d", True, "Allowed is emptying what is older than 31 days"),
        (30, False, "30d", True, "Removing for good is switched off."),
        (30, True, "30d", False, "DEDUPFS_ALLOW_REAL_DELETE=1"),
        (30, True, "soon", True, "is no age. Write days or weeks: 30d, 8w."),
        (30, True, "-1d", True, "is no age"),
        (1, True, "0d", True, "Allowed is emptying what is older than 1 days"),
    ],
)
def test_without_leave_nothing_is_removed(
    tmp_path: Path, settings: Settings, days: int | None, removing: bool, age: str, real: bool, words: str
) -> None:
    fill(tmp_path)
    allow(days, removing=removing)
    settings.ALLOW_REAL_DELETE = real
    with pytest.raises(CommandError) as caught:
        call_command("empty_trash", f"--older-than={age}")
    assert words in str(caught.value)
    assert not Act.objects.filter(verb="empty").exists()
    assert {item.status for item in TrashItem.objects.all()} == {"trashed"}
