"""`manage.py library`: what the pages decide about a library, from a terminal."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client

from libraries import adding
from libraries.models import HashState, LibraryFile, LibraryRoot, LibraryState
from logbook.models import LogbookEvent
from tests import factories
from tests.conftest import Manage
from tests.tree import tree

pytestmark = pytest.mark.django_db


@pytest.fixture
def library(disk: Path) -> LibraryRoot:
    tree(disk / "photos", {"a.jpg": b"1"})
    return adding.add("Photos", str(disk / "photos"), actor="anna", scan_interval_minutes=60)


def printed(*arguments: str) -> str:
    out = io.StringIO()
    call_command("library", *arguments, stdout=out)
    return out.getvalue()


def refused(*arguments: str) -> str:
    with pytest.raises(CommandError) as refusal:
        printed(*arguments)
    return str(refusal.value)


def events(library: LibraryRoot) -> list[tuple[str, bool]]:
    """What happened to it, and whether the command line says that it did that."""
    found = LogbookEvent.objects.about("library_roots", str(library.pk)).exclude(event_type="added")
    return [(event.event_type, (event.actor or "").endswith("(command line)")) for event in found]


# --- Looking ----------------------------------------------------------------------------------------------
def test_list_without_libraries_says_how_to_add_one() -> None:
    assert printed("list") == "There is no library yet. Add one: manage.py add_library NAME PATH\n"
    assert json.loads(printed("list", "--json")) == {"items": []}


def test_list_shows_what_is_known_of_each() -> None:
    away = factories.library("Photos", "/away/photos", role="backup", is_paused=True)
    LibraryState.objects.create(library=away, mount="absent", file_count=1_234, total_bytes=5_600_000)
    factories.library("by another tool", "/away/caf\uf7e9")
    factories.library("going", "removed/3", removing_at="2024-01-01T00:00Z")
    header, photos, other = printed("list").splitlines()
    assert header.split() == ["NAME", "ROLE", "DISK", "FILES", "SIZE", "FOLDER"]
    assert photos.split("  ")[0] == "Photos (paused)"
    assert photos.split()[2:] == ["backup", "absent", "1,234", "5.6", "MB", "/away/photos"]
    assert other.split()[3:] == ["normal", "unknown", "0", "0", "B", "/away/caf\\xe9"]


def test_list_prints_json_as_the_api_does(library: LibraryRoot, admin: Client) -> None:
    assert json.loads(printed("list", "--json")) == admin.get("/api/v1/libraries").json()


# --- Deciding ---------------------------------------------------------------------------------------------
def test_rename_changes_the_name_alone(library: LibraryRoot) -> None:
    assert printed("rename", "Photos", " Pictures ") == "“Photos” is called “Pictures” now.\n"
    before = library.root_path
    library.refresh_from_db()
    assert (library.name, library.root_path, library.scan_interval_minutes) == ("Pictures", before, 60)
    assert events(library) == [("changed", True)]


@pytest.mark.parametrize(
    ("new", "words"), [("Music", "There is a library “Music” already"), (" ", "needs a name"), ("a\nb", "control")]
)
def test_rename_refuses_what_the_page_refuses(library: LibraryRoot, new: str, words: str) -> None:
    factories.library("Music")
    assert words in refused("rename", "Photos", new)
    library.refresh_from_db()
    assert (library.name, events(library)) == ("Photos", [])


def test_pause_and_resume_stop_the_schedule_and_let_it_go_on(library: LibraryRoot) -> None:
    assert "is paused" in printed("pause", "Photos")
    library.refresh_from_db()
    assert (library.is_paused, library.next_scan_at) == (True, None)
    printed("pause", "Photos")
    assert "is resumed" in printed("resume", "Photos")
    library.refresh_from_db()
    assert not library.is_paused
    assert library.next_scan_at is not None
    assert HashState.objects.get().is_due, "what waited meanwhile is hashed"
    assert events(library) == [("paused", True), ("resumed", True)], "to pause twice is to pause"


def test_remove_takes_the_rows_and_leaves_the_files(library: LibraryRoot, disk: Path) -> None:
    factories.library_file("a.jpg", library)
    folder = disk / "photos"
    assert printed("remove", "Photos") == f"“Photos” is being removed: its rows go, its files in {folder} stay.\n"
    assert printed("list").startswith("There is no library yet")
    assert (folder / "a.jpg").read_bytes() == b"1"
    assert events(library) == [("removed", True)]
    assert "There is no library 'Photos'" in refused("remove", "Photos")


def test_remove_is_refused_while_the_trash_holds_anything(library: LibraryRoot, disk: Path) -> None:
    factories.library_file("a.jpg", library)
    tree(disk / "photos", {".dedupfs-trash/2024/a.jpg": b"1"})
    for more in ([], ["--even-if-unseen"]):
        words = refused("remove", "Photos", *more)
        assert "holds files" in words
        assert "Empty it or undo first" in words
    assert LibraryRoot.objects.kept().get() == library
    assert LibraryFile.objects.count() == 1
    assert events(library) == []


def test_remove_of_a_library_whose_disk_is_away_names_the_flag_for_it(library: LibraryRoot, disk: Path) -> None:
    os.rename(disk / "photos", disk / "unmounted")
    assert refused("remove", "Photos").endswith("(--even-if-unseen)")
    assert LibraryRoot.objects.kept().exists()
    printed("remove", "Photos", "--even-if-unseen")
    assert not LibraryRoot.objects.kept().exists()
    assert (disk / "unmounted" / "a.jpg").read_bytes() == b"1"


# --- In a real terminal -----------------------------------------------------------------------------------
@pytest.mark.parametrize("verb", ["rename", "pause", "resume", "remove"])
def test_a_library_that_is_not_there_is_named(verb: str) -> None:
    more = ["new"] if verb == "rename" else []
    assert "There is no library 'Fotos'. `manage.py library list` shows" in refused(verb, "Fotos", *more)


def test_errors_are_one_line_for_a_shell(run_manage: Manage) -> None:
    done = run_manage("library", "pause", os.fsdecode(b"caf\xe9"))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "There is no library" in done.stderr
    assert run_manage("library").returncode == 2


def test_help_names_every_verb_and_what_it_does(run_manage: Manage) -> None:
    words = " ".join(run_manage("library", "--help").stdout.split())
    for each in ("list", "rename", "pause", "resume", "remove", "its rows go, its files stay"):
        assert each in words
    assert "--even-if-unseen" in run_manage("library", "remove", "--help").stdout
