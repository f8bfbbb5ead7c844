"""Removing a library: its rows go, in batches and through any kill; its files stay."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs.models import Job
from libraries import adding, asking, queueing, removing
from libraries.errors import NotThere, Refused
from libraries.models import LibraryFile, LibraryRoot, LibraryState, ScanError, ScanRequest, ScanSession
from logbook.models import LogbookEvent
from tests import factories
from tests.libraries.dead_disk import dead_disk, mounted
from tests.tree import tree
from thumbnails.models import Thumbnail

pytestmark = pytest.mark.django_db


@pytest.fixture
def library(disk: Path) -> LibraryRoot:
    tree(disk / "photos", {"a.jpg": b"1", "b/c.jpg": b"2"})
    return adding.add("Photos", str(disk / "photos"), actor="anna")


def fill(library: LibraryRoot) -> None:
    """Rows of every kind that hang on it, some with rows of their own."""
    session = ScanSession.objects.create(library=library)
    files = [
        LibraryFile.objects.create(
            library=library, relative_path=f"f{n}", size_bytes=1, mtime_ns=1, last_seen_scan=session
        )
        for n in range(7)
    ]
    factories.pending_thumbnail("k", of=files[0])
    for n in range(3):
        ScanError.objects.create(library=library, session=session, relative_path=f"e{n}", reason="EIO")
    ScanRequest.objects.create(library=library, status="completed")


def rows_of(library: LibraryRoot) -> int:
    return sum(
        model._default_manager.filter(library_id=library.pk).count()
        for model in (LibraryFile, ScanError, ScanRequest, ScanSession, LibraryState)
    )


def content(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino) for path in files}


def refused(library: LibraryRoot, **options: Any) -> str:
    with pytest.raises(Refused) as refusal:
        removing.remove(library.pk, actor="anna", **options)
    library.refresh_from_db()
    assert library.removing_at is None
    return str(refusal.value)


def test_the_rows_go_and_the_files_stay(library: LibraryRoot, disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(library)
    other = factories.library_file("kept", factories.library("other"))
    monkeypatch.setattr(removing, "BATCH_ROWS", 2)
    before = content(disk)
    removing.remove(library.pk, actor="anna")
    assert rows_of(library) > 0, "they go later"
    assert removing.carry_on() == 1
    assert rows_of(library) == 0
    assert list(LibraryRoot.objects.values_list("name", flat=True)) == ["other"]
    assert list(LibraryFile.objects.all()) == [other]
    assert not Thumbnail.objects.exists()
    assert content(disk) == before
    events = LogbookEvent.objects.about("library_roots", str(library.pk)).values_list("event_type", "actor")
    assert list(events) == [("added", "anna"), ("removed", "anna"), ("rows_removed", "removing")]


def test_name_and_folder_are_free_at_once(library: LibraryRoot, disk: Path) -> None:
    removing.remove(library.pk, actor="anna")
    again = adding.add("Photos", str(disk / "photos"), actor="anna")
    assert again.pk != library.pk
    with pytest.raises(NotThere):
        removing.remove(library.pk, actor="anna")
    assert removing.carry_on() == 1
    assert LibraryRoot.objects.get() == again


def test_its_scan_is_cancelled(library: LibraryRoot) -> None:
    request = queueing.submit(library.pk, 1, actor="anna")
    removing.remove(library.pk, actor="anna")
    request.refresh_from_db()
    assert request.status == "cancelled"
    assert set(Job.objects.values_list("status", flat=True)) <= {"cancelled"}
    late = ScanRequest.objects.create(library=library)  # by somebody who read the library before
    removing.carry_on()
    assert not ScanRequest.objects.filter(pk=late.pk).exists()


def test_it_is_killable_anywhere_and_goes_on(library: LibraryRoot, run_manage: Callable[..., Any]) -> None:
    fill(library)
    removing.remove(library.pk, actor="anna")
    carry_on = ("shell", "--no-imports", "-c", "from libraries import removing; removing.carry_on()")
    left = [rows_of(library)]
    for point in ("rows_removed", "rows_removed:2", "root_removed"):
        done = run_manage(*carry_on, env={"DEDUPFS_CRASH_POINT": point})
        assert done.returncode == -signal.SIGKILL, done.stderr
        left.append(rows_of(library))
    assert left == sorted(set(left), reverse=True)
    assert removing.carry_on() == 0
    assert not LibraryRoot.objects.exists()


# --- The trash --------------------------------------------------------------------------------------------
def test_it_is_refused_while_its_trash_holds_anything(library: LibraryRoot, disk: Path) -> None:
    tree(disk / "photos", {".dedupfs-trash/2024/a.jpg": b"1"})
    assert "The trash of “Photos” holds files" in refused(library)
    assert "holds files" in refused(library, even_if_unseen=True)
    (disk / "photos" / ".dedupfs-trash" / "2024" / "a.jpg").unlink()
    (disk / "photos" / ".dedupfs-trash" / "lock").touch()  # what its lock is on holds nothing
    removing.remove(library.pk, actor="anna")


def test_it_is_refused_while_the_trash_of_a_mount_inside_holds_anything(disk: Path) -> None:
    (disk / "photos" / "inner").mkdir(parents=True)
    with mounted("-t", "tmpfs", "inner", str(disk / "photos" / "inner")):
        library = adding.add("Photos", str(disk / "photos"), actor="anna")
        tree(disk / "photos" / "inner", {".dedupfs-trash/a.jpg": b"1"})
        assert "(in inner)" in refused(library)
    assert "another disk is mounted, or none, at inner" in refused(library), "the trash is away with its disk"
    removing.remove(library.pk, actor="anna", even_if_unseen=True)


def test_where_the_disk_is_away_an_admin_must_say_so(library: LibraryRoot, disk: Path) -> None:
    os.rename(disk / "photos", disk / "unmounted")
    words = refused(library)
    assert "No such file or directory" in words
    assert "even if its trash is unseen" in words
    removing.remove(library.pk, actor="anna", even_if_unseen=True)
    assert removing.carry_on() == 1


def test_a_dead_disk_is_not_waited_for(library: LibraryRoot, disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "ANSWER_SECONDS", 2.0)
    with dead_disk(disk / "photos"):
        assert "does not answer" in refused(library)
        removing.remove(library.pk, actor="anna", even_if_unseen=True)
