"""`manage.py undo`, as a person runs it: by the records, and by a manifest with no database at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from libraries.models import LibraryFile
from logbook.models import LogbookEvent
from tests.conftest import Manage
from tests.duplicates.plans import planned
from tests.trash.disks import loop_disk
from tests.trash.on_disk import item_at, library_on, trash_of, trashed
from trash.models import Act, TrashItem

pytestmark = pytest.mark.django_db
FILES = {"a.jpg": b"one", "old/b.jpg": b"one", "old/c.jpg": b"one", "older/d.jpg": b"one"}


@pytest.fixture(autouse=True)
def _young_files_too(settings: Settings) -> None:
    settings.YOUNG_HOURS = 0


def test_undo_of_a_plan_of_an_item_and_of_a_folder(tmp_path: Path, run_manage: Manage) -> None:
    root = tmp_path / "photos"
    library_on(root, FILES)
    plan = planned()
    trashed(plan)
    done = run_manage("undo", "--item", str(item_at("old/b.jpg").pk), "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["status"], told["undone"], told["stayed"], told["removed_for_good"]) == ("completed", 1, 0, 0)
    assert (root / "old/b.jpg").exists()
    assert not (root / "old/c.jpg").exists()
    done = run_manage("undo", "--folder", "photos", "old")
    assert done.returncode == 0, done.stderr
    assert "1 files are back" in done.stdout
    (root / "older").rmdir()
    (root / "older").write_bytes(b"in the way")
    done = run_manage("undo", str(plan.pk))
    assert done.returncode == 1
    assert "! older/d.jpg: Where its folder was" in done.stdout
    assert "1 of the files stay in the trash." in done.stderr
    act = Act.objects.latest("pk")
    assert (act.verb, act.status, act.skipped_count) == ("undo", "completed", 1)
    assert act.authorised_by.endswith("(command line)")
    assert act.job is not None
    assert act.job.status == "completed"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Say what is to come back"),
        (["1", "--all"], "Say what is to come back"),
        (["999"], "There is no such plan."),
        (["--item", "999"], "there is nothing to undo"),
        (["--folder", "nowhere", "x"], "There is no library called nowhere"),
        (["--from-manifest", "/tmp", "--all"], "give nothing beside it"),
        (["--from-manifest", "/tmp"], "is no trash"),
    ],
)
def test_what_can_not_be_asked_for_is_told_in_words(arguments: list[str], words: str) -> None:
    with pytest.raises(CommandError) as caught:
        call_command("undo", *arguments)
    assert words in str(caught.value)
    assert not Act.objects.exists()


def test_undo_everything_says_how_many_were_removed_for_good(tmp_path: Path, run_manage: Manage) -> None:
    library_on(tmp_path / "photos", FILES)
    trashed(planned())
    rows = TrashItem.objects.filter(pk=item_at("old/c.jpg").pk)
    rows.update(status="emptying")
    rows.update(status="emptied")
    done = run_manage("undo", "--all")
    assert done.returncode == 0, done.stderr
    assert "2 files are back where they were" in done.stdout
    assert "1 files were removed for good and can't come back." in done.stdout


# --- By the manifest ----------------------------------------------------------------------------------------
def test_caution_19_undo_from_a_manifest_with_no_database(tmp_path: Path, run_manage: Manage) -> None:
    root = tmp_path / "photos"
    library_on(root, FILES)
    trashed(planned())
    nowhere = {
        "DATABASE_URL": f"sqlite:///{tmp_path}/none/lost.sqlite3",
        "DEDUPFS_STATE_ROOT": str(tmp_path / "none"),
    }
    done = run_manage("undo", "--from-manifest", str(trash_of(root)), env=nowhere)
    assert done.returncode == 0, done.stderr
    assert "+ old/b.jpg" in done.stdout
    assert "3 files are back where they were, 0 stay in the trash." in done.stdout
    assert "The database was not asked" in done.stdout
    assert not (tmp_path / "none/lost.sqlite3").exists()
    assert all((root / path).read_bytes() == content for path, content in FILES.items())
    assert not trash_of(root).exists()
    # The database that was away meanwhile finds them back where they were.
    assert run_manage("undo", "--all").returncode == 0
    assert {item.status for item in TrashItem.objects.all()} == {"undone"}


def test_caution_19_undo_from_a_manifest_where_the_disk_is_mounted_elsewhere(
    tmp_path: Path, run_manage: Manage
) -> None:
    with loop_disk(tmp_path / "disk") as disk:
        library_on(disk.point, FILES)
        trashed(planned())
        disk.unmount()
        other = disk.mount(tmp_path / "elsewhere")
        try:
            done = run_manage("undo", "--from-manifest", str(trash_of(other.point)), "--json")
            assert done.returncode == 0, done.stderr
            told = json.loads(done.stdout)
            assert (told["undone"], told["stayed"], told["known_to_the_database"]) == (3, 0, 3)
            assert {each["path"] for each in told["items"]} == {"old/b.jpg", "old/c.jpg", "older/d.jpg"}
            assert (other.point / "old/b.jpg").read_bytes() == b"one"
        finally:
            other.unmount()
    assert {item.status for item in TrashItem.objects.all()} == {"undone"}
    assert LibraryFile.objects.get(relative_path="old/b.jpg").is_missing  # its library's own path shows nothing


def test_undo_from_a_manifest_is_written_where_the_database_knows_the_files(tmp_path: Path, run_manage: Manage) -> None:
    root = tmp_path / "photos"
    library_on(root, FILES)
    source = trashed(planned())
    (root / "old/c.jpg").write_bytes(b"mine")
    done = run_manage("undo", "--from-manifest", str(trash_of(root) / source.key), "--json")
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert (told["undone"], told["stayed"], told["known_to_the_database"]) == (2, 1, 2)
    (stayed,) = [each for each in told["items"] if each["status"] == "stays"]
    assert (stayed["path"], stayed["reason_code"]) == ("old/c.jpg", "PLACE_TAKEN")
    statuses = {item.plan_file.relative_path: item.status for item in TrashItem.objects.select_related("plan_file")}
    assert statuses == {"old/b.jpg": "undone", "old/c.jpg": "trashed", "older/d.jpg": "undone"}
    source.refresh_from_db()
    assert (source.trashed_count, source.trashed_bytes) == (1, 3)
    row = LibraryFile.objects.get(relative_path="old/b.jpg")
    assert (row.is_missing, row.inode) == (False, (root / "old/b.jpg").stat().st_ino)
    assert LogbookEvent.objects.filter(event_type="undone_by_manifest").exists()
