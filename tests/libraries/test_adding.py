"""Adding a library: in the code that every door calls, and by the command."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connections
from pytest_django import Settings

from libraries import adding, asking
from libraries.errors import Refused
from libraries.excluding import DEFAULT_PATTERNS
from libraries.models import LibraryRoot, LibraryState
from libraries.names import to_text
from logbook.models import LogbookEvent
from tests.libraries.dead_disk import dead_disk, mounted

pytestmark = pytest.mark.django_db


def add(path: Path | str | bytes, name: str = "new", **choices: Any) -> LibraryRoot:
    return adding.add(name, path if isinstance(path, bytes) else str(path), actor="anna", **choices)


def refused(path: Path | str | bytes, name: str = "new", **choices: Any) -> str:
    """The reason; and nothing was added."""
    before = LibraryRoot.objects.count()
    with pytest.raises(Refused) as refusal:
        add(path, name, **choices)
    assert LibraryRoot.objects.count() == before
    return str(refusal.value)


def make(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def test_a_folder_becomes_a_library_with_what_its_disk_says(disk: Path) -> None:
    (make(disk / "photos") / "a.jpg").write_bytes(b"1")
    library = add(f"{disk}/photos//", "  My photos ", role="backup", min_size_bytes=10, exclude_patterns=["*.tmp"])
    assert (library.name, library.root_path) == ("My photos", str(disk / "photos"))
    assert (library.role, library.min_size_bytes, library.exclude_patterns) == ("backup", 10, "*.tmp")
    state = LibraryState.objects.get(library=library)
    assert (state.mount, state.is_writable, state.file_count) == ("present", True, 0)
    assert list(state.filesystems) == [""]
    assert state.checked_at is not None
    event = LogbookEvent.objects.about("library_roots", str(library.pk)).get()
    assert (event.event_type, event.actor, event.payload_json["root_path"]) == ("added", "anna", library.root_path)


def test_what_is_not_chosen_is_as_the_database_has_it(disk: Path) -> None:
    library = add(make(disk / "a"))
    assert library.exclude_patterns.splitlines() == list(DEFAULT_PATTERNS)
    assert (library.role, library.hash_everything, library.next_scan_at) == ("normal", False, None)


def test_a_name_that_is_no_text_is_stored_without_loss(disk: Path) -> None:
    path = os.fsencode(disk) + b"/caf\xe9"
    os.mkdir(path)
    assert add(path).root_path == to_text(path)
    assert "is already" in refused(to_text(path), "by what we show")
    assert "is already" in refused(os.fsdecode(path), "by what a shell gives")


# --- Caution 3: nested, equal, aliased --------------------------------------------------------------------
def test_equal_and_nested_folders_are_refused_with_the_other_s_name(disk: Path) -> None:
    make(disk / "photos" / "2024")
    add(disk / "photos", "Photos")
    assert f"is already the library “Photos” ({disk / 'photos'})" in refused(f"{disk}/photos/")
    assert "lies inside the library “Photos”" in refused(disk / "photos" / "2024")
    assert "contains the library “Photos”" in refused(disk)
    add(make(disk / "photos2"), "a name that only begins the same")


def test_a_link_is_followed_before_anything_is_compared(disk: Path) -> None:
    make(disk / "photos" / "2024")
    add(disk / "photos", "Photos")
    (disk / "link").symlink_to(disk / "photos")
    (disk / "deep").symlink_to(disk / "photos" / "2024")
    assert "is already the library “Photos”" in refused(disk / "link")
    assert "lies inside the library “Photos”" in refused(disk / "deep")
    assert "lies inside the library “Photos”" in refused(disk / "link" / "2024")


def test_the_same_folder_by_a_bind_mount_is_refused_in_both_directions(disk: Path) -> None:
    for folder in ("photos/2024", "mirror", "part", "other/inner"):
        make(disk / folder)
    with mounted("--bind", str(disk / "photos"), str(disk / "mirror")):
        library = add(disk / "photos", "Photos")
        assert "shares files, by a mount or a link, with the library “Photos”" in refused(disk / "mirror")
        assert "shares files" in refused(disk / "mirror" / "2024")
        library.delete()
        with mounted("--bind", str(disk / "photos" / "2024"), str(disk / "part")):
            add(disk / "part", "Part")
            assert "shares files, by a mount or a link, with the library “Part”" in refused(disk / "mirror")
        LibraryRoot.objects.all().delete()
        with mounted("--bind", str(disk / "photos"), str(disk / "other" / "inner")):
            add(disk / "photos" / "2024", "Year")
            assert "shares files" in refused(disk / "other"), "a mount inside the folder"


def test_two_who_add_at_once_do_not_both_win(disk: Path) -> None:
    make(disk / "photos" / "2024")
    barrier, said = Barrier(2), []

    def race(path: Path, name: str) -> None:
        barrier.wait()
        try:
            said.append(add(path, name).name)
        except Refused as refusal:
            said.append(str(refusal))
        finally:
            connections.close_all()

    threads = [Thread(target=race, args=each) for each in ((disk / "photos", "a"), (disk / "photos" / "2024", "b"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert LibraryRoot.objects.count() == 1
    assert len(said) == 2
    assert any("the library" in words for words in said)


# --- Caution 27: where it may lie -------------------------------------------------------------------------
def test_only_what_lies_below_a_root_is_taken(disk: Path, settings: Settings, tmp_path: Path) -> None:
    outside = make(tmp_path / "elsewhere")
    (disk / "way out").symlink_to(outside)
    for path in (outside, disk / "way out", "/etc", "/"):
        assert "DEDUPFS_LIBRARIES_ROOT" in refused(path)
    settings.LIBRARIES_ROOTS = [disk, outside]
    assert add(outside, "now").root_path == str(outside)


def test_a_root_that_is_a_link_is_followed_too(settings: Settings, tmp_path: Path, disk: Path) -> None:
    make(disk / "a")
    (tmp_path / "root").symlink_to(disk)
    settings.LIBRARIES_ROOTS = [tmp_path / "root"]
    assert add(tmp_path / "root" / "a").root_path == str(disk / "a")


def test_the_state_folder_is_never_part_of_a_library(disk: Path, settings: Settings, tmp_path: Path) -> None:
    settings.LIBRARIES_ROOTS = [tmp_path]
    for path in (tmp_path / "own", tmp_path / "own" / "thumbs", tmp_path):
        assert "DedupFS's own folder" in refused(path)
    with mounted("--bind", str(tmp_path / "own" / "thumbs"), str(make(disk / "a" / "sly"))):
        assert "DedupFS's own folder" in refused(disk / "a")
    demo = make(tmp_path / "own" / "libraries" / "demo")
    settings.LIBRARIES_ROOTS = [disk]
    assert add(demo, "Demo").root_path == str(demo)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("", "needs a folder"),
        ("   ", "needs a folder"),
        ("photos", "not a whole path"),
        ("{disk}/a\0b", "NUL"),
        ("{disk}/../etc", "without “..”"),
        ("{disk}/..", "without “..”"),
        ("{disk}/" + "x" * 300, "File name too long"),
        ("{disk}/" + "y/" * 3000, "File name too long"),
        ("{disk}/none", "No such file or directory"),
        ("{disk}/file", "Not a directory"),
        ("{disk}/%2e%2e/etc", "No such file or directory"),
        ("{disk}/pipe", "Not a directory"),
    ],
)
def test_a_path_that_can_not_be_used_is_refused_with_the_reason(disk: Path, path: str, words: str) -> None:
    (disk / "file").write_bytes(b"1")
    os.mkfifo(disk / "pipe")
    assert words in refused(path.replace("{disk}", str(disk)))


def test_a_path_too_long_for_its_column_is_refused(disk: Path) -> None:
    deep = disk / Path(*["d" * 200] * 11)
    deep.mkdir(parents=True)
    assert "2048 characters" in refused(deep)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "needs a name"),
        (" \t ", "needs a name"),
        ("n" * 256, "255 characters"),
        ("a\nb", "control characters"),
        ("a\x1bb", "control characters"),
        ("a\0b", "can't be stored"),
        ("a\udce9", "can't be stored"),
        ("taken", "already"),
    ],
)
def test_a_name_that_can_not_be_used_is_refused_with_the_reason(disk: Path, name: str, words: str) -> None:
    add(make(disk / "first"), "taken")
    assert words in refused(make(disk / "a"), name)


# --- A disk that does not answer --------------------------------------------------------------------------
def test_a_dead_disk_is_refused_in_time_and_holds_up_no_other(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "ANSWER_SECONDS", 5.0)  # in which the others answer on a busy machine, too
    add(make(disk / "first"), "First")
    with dead_disk(disk / "share"):
        assert "does not answer" in refused(disk / "share")
        LibraryRoot.objects.create(name="Dead", root_path=str(disk / "share"))
        assert add(make(disk / "second"), "Second").pk
        assert "contains the library" in refused(disk), "by its path alone"


def test_a_process_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no filesystem can be mounted: whatever keeps the process from answering, it is stopped here."""
    stops = [sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"]
    monkeypatch.setattr(asking, "COMMAND", stops)
    assert asking.look_at(b"/", seconds=1.0) is None
    assert asking._left == [], "and it is gone"


# --- The command ------------------------------------------------------------------------------------------
def command(*arguments: str) -> None:
    call_command("add_library", *arguments)


def test_the_command_adds_and_says_so(
    disk: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make(disk / "photos")
    monkeypatch.chdir(disk)
    command("Photos", "photos", "--exclude", "*.tmp", "--exclude", "cache", "--min-size", "1024", "--hash-everything")
    library = LibraryRoot.objects.get()
    assert f"“Photos” is added: {disk / 'photos'}" in capsys.readouterr().out
    assert library.exclude_patterns.splitlines() == [*DEFAULT_PATTERNS, "*.tmp", "cache"]
    assert (library.min_size_bytes, library.hash_everything) == (1024, True)
    event = LogbookEvent.objects.about("library_roots", str(library.pk)).get()
    assert "command line" in (event.actor or "")


def test_the_command_plans_scans(disk: Path) -> None:
    command("A", str(make(disk / "a")), "--every", "90", "--role", "protected")
    command("B", str(make(disk / "b")), "--cron", "30 2 * * 0", "--no-default-excludes")
    every, cron = LibraryRoot.objects.order_by("name")
    assert (every.scan_interval_minutes, every.scan_cron, every.role) == (90, "", "protected")
    assert (cron.scan_interval_minutes, cron.scan_cron, cron.exclude_patterns) == (0, "30 2 * * 0", "")
    assert every.next_scan_at is not None
    assert cron.next_scan_at is not None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("A", "/etc"), "DEDUPFS_LIBRARIES_ROOT"),
        (("A", "{disk}/a", "--min-size", "-1"), "whole number"),
        (("A", "{disk}/a", "--role", "king"), "invalid choice"),
        (("A", "{disk}/a", "--cron", "every day"), "five"),
        (("A",), "PATH"),
    ],
)
def test_the_command_explains_what_is_wrong(disk: Path, arguments: tuple[str, ...], words: str) -> None:
    make(disk / "a")
    with pytest.raises(CommandError, match=words):
        command(*(each.replace("{disk}", str(disk)) for each in arguments))
    assert not LibraryRoot.objects.exists()


def test_the_command_s_errors_are_one_line_for_a_shell(run_manage: Callable[..., Any]) -> None:
    done = run_manage("add_library", "A", os.fsdecode(b"/caf\xe9"))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "caf\\xe9" in done.stderr
    assert run_manage("add_library", "A").returncode == 2
