"""Whether the libraries are there: looked at by consumers, in time, whatever the disks do."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
from django.test import Client

from accounts.models import Role
from jobs.models import Job, WorkerHeartbeat
from libraries import adding, asking, watching
from libraries.models import LibraryRoot, LibraryState, ScanSession
from logbook.models import LogbookEvent
from tests import factories
from tests.conftest import Consumers
from tests.libraries.dead_disk import dead_disk, mounted
from tests.tree import tree
from tests.waiting import until

pytestmark = pytest.mark.django_db


@pytest.fixture
def library(disk: Path) -> LibraryRoot:
    tree(disk / "photos", {"a.jpg": b"1"})
    library = adding.add("Photos", str(disk / "photos"), actor="anna")
    factories.library_file("a.jpg", library)
    return library


def seen(library: LibraryRoot) -> tuple[str, str, bool | None]:
    state = LibraryState.objects.get(library=library)
    return state.mount, state.mount_note, state.is_writable


def test_a_library_that_is_there_is_present(library: LibraryRoot) -> None:
    before = LibraryState.objects.get().checked_at
    assert watching.look_at_all() == 1
    assert seen(library) == ("present", "", True)
    assert LibraryState.objects.filter(checked_at__gte=before).exists()
    assert not LogbookEvent.objects.filter(event_type="mount").exists()


def test_absent_empty_and_back_are_told_apart(library: LibraryRoot, disk: Path) -> None:
    os.rename(disk / "photos", disk / "away")
    watching.look_at_all()
    assert seen(library) == ("absent", "It can't be read: No such file or directory.", None)
    (disk / "photos" / "lost+found").mkdir(parents=True)
    watching.look_at_all()
    assert seen(library)[0] == "empty"
    (disk / "photos" / "lost+found").rmdir()
    os.rename(disk / "away", disk / "photos")
    watching.look_at_all()
    assert seen(library)[0] == "present"
    told = LogbookEvent.objects.filter(event_type="mount").order_by("id").values_list("payload_json", flat=True)
    assert [(each["mount_from"], each["mount_to"]) for each in told] == [
        ("present", "absent"),
        ("absent", "empty"),
        ("empty", "present"),
    ]


def test_an_empty_folder_that_never_held_files_is_present(disk: Path) -> None:
    (disk / "new").mkdir()
    library = adding.add("New", str(disk / "new"), actor="anna")
    watching.look_at_all()
    assert seen(library)[0] == "present"


def test_another_disk_is_different_also_inside(disk: Path) -> None:
    tree(disk / "photos", {"a.jpg": b"1", "inner/b.jpg": b"2"})
    with mounted("-t", "tmpfs", "the disk", str(disk / "photos" / "inner")):
        library = adding.add("Photos", str(disk / "photos"), actor="anna")
        assert LibraryState.objects.get().filesystems["inner"] == "tmpfs:the disk"
        watching.look_at_all()
        assert seen(library)[0] == "present"
    watching.look_at_all()
    mount, note, _ = seen(library)
    assert mount == "different"
    assert "tmpfs:the disk" in note
    assert LibraryState.objects.get().filesystems["inner"] == "tmpfs:the disk", "it is not forgotten"
    with mounted("-t", "tmpfs", "another disk", str(disk / "photos")):
        watching.look_at_all()
        assert seen(library)[0] == "different"


def test_a_mount_that_is_new_inside_takes_nothing_away(library: LibraryRoot, disk: Path) -> None:
    (disk / "photos" / "more").mkdir()
    with mounted("-t", "tmpfs", "more", str(disk / "photos" / "more")):
        watching.look_at_all()
        assert seen(library)[0] == "present"


def test_a_library_that_can_not_be_written_is_for_findings_only(library: LibraryRoot, disk: Path) -> None:
    with mounted("--bind", str(disk / "photos"), str(disk / "photos")):
        os.system(f"mount -o remount,bind,ro '{disk / 'photos'}'")
        watching.look_at_all()
        assert seen(library) == ("present", "", False)
    watching.look_at_all()
    assert seen(library)[2] is True


def test_a_library_that_somebody_else_made_is_remembered_at_first_sight(disk: Path) -> None:
    tree(disk / "photos", {"a.jpg": b"1"})
    library = factories.library("adopted", str(disk / "photos"))
    watching.look_at_all()
    assert seen(library)[0] == "present"
    assert list(LibraryState.objects.get().filesystems) == [""]
    empty = factories.library("adopted, away", str(disk / "gone"))
    watching.look_at_all()
    assert seen(empty)[0] == "absent"
    assert LibraryState.objects.get(library=empty).filesystems == {}


# --- Caution 24: a disk that does not answer --------------------------------------------------------------
def test_a_dead_disk_is_absent_and_holds_up_no_other(
    library: LibraryRoot, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "ANSWER_SECONDS", 5.0)  # in which the others answer on a busy machine, too
    dead = factories.library("Dead", str(disk / "share"))
    with dead_disk(disk / "share"):
        watching.look_at_all()
        assert seen(dead) == ("absent", watching.DOES_NOT_ANSWER, None)
        assert seen(library) == ("present", "", True)


def test_the_api_never_touches_a_dead_disk(disk: Path) -> None:
    """It would hang here for good: nothing has a time limit on this way, as nothing goes there."""
    dead = factories.library("Dead", str(disk / "share"))
    browser = Client()
    browser.force_login(factories.user(role=Role.ADMIN))
    with dead_disk(disk / "share"):
        for path in ("", f"/{dead.pk}", f"/{dead.pk}/errors"):
            assert browser.get(f"/api/v1/libraries{path}").status_code == 200
        assert browser.post(f"/api/v1/libraries/{dead.pk}/pause").status_code == 200


def test_a_process_that_can_not_be_ended_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unkillable:
        """Stands for a process in uninterruptible sleep, which no test can make."""

        def poll(self) -> None:
            return None

    monkeypatch.setattr(asking, "_left", [(Unkillable(), frozenset({b"/dead"}))])
    answers = asking.ask({"dead": asking.Question(b"/dead"), "well": asking.Question(b"/")})
    assert answers["dead"] is None
    assert answers["well"] is not None


def test_a_consumer_looks_every_so_many_seconds_and_goes_on_beside_a_dead_disk(
    disk: Path, start_consumer: Consumers
) -> None:
    """DEDUPFS_LOOK_SECONDS, turned; and signs of life don't wait for a look that hangs."""
    tree(disk / "photos", {"a.jpg": b"1"})
    well = factories.library("Well", str(disk / "photos"))
    with dead_disk(disk / "share"):
        consumer = start_consumer(DEDUPFS_LOOK_SECONDS="1")
        checked = until(lambda: LibraryState.objects.filter(library=well).first(), "the first look").checked_at
        until(lambda: LibraryState.objects.filter(library=well, checked_at__gt=checked).exists(), "the next look")
        factories.library("Dead", str(disk / "share"))
        until(lambda: _hangs(consumer.pid), "a look that hangs")
        alive = WorkerHeartbeat.objects.get(pid=consumer.pid)
        until(
            lambda: WorkerHeartbeat.objects.filter(pk=alive.pk, last_seen_at__gt=alive.last_seen_at).exists(),
            "a sign of life meanwhile",
        )
        assert seen(well)[0] == "present"


def _hangs(pid: int) -> bool:
    """Whether the consumer's look waits in the dead filesystem."""
    with suppress(OSError):  # one of its looks may end while it is looked at
        children = Path(f"/proc/{pid}/task").glob("*/children")
        pids = [child for each in children for child in each.read_text().split()]
        stacks = [path for child in pids for path in Path(f"/proc/{child}/task").glob("*/wchan")]
        return any("fuse" in path.read_text() or "request_wait" in path.read_text() for path in stacks)
    return False


# --- Sessions that nobody will end ------------------------------------------------------------------------
def session(job: Job | None) -> ScanSession:
    return ScanSession.objects.create(library=factories.library(f"l{ScanSession.objects.count()}"), job=job)


def test_sessions_whose_job_no_longer_runs_are_closed() -> None:
    done = factories.finished_job("scan", status="retryable")
    left = session(done)
    running, _ = factories.running_job("scan")
    held, foreign = session(running), session(None)
    assert watching.close_orphaned_sessions() == 1
    left.refresh_from_db()
    assert (left.status, left.error_message) == ("failed", watching.SESSION_LEFT)
    assert left.finished_at is not None
    for each in (held, foreign):
        each.refresh_from_db()
        assert each.status == "running"
    Job.objects.filter(pk=running.pk).update(status="cancelled")
    assert watching.close_orphaned_sessions() == 2


def test_a_consumer_closes_what_a_killed_one_left(start_consumer: Consumers) -> None:
    left = session(None)
    start_consumer()
    until(lambda: ScanSession.objects.filter(pk=left.pk, status="failed").exists(), "the session to be closed")


def test_what_a_consumer_does_is_on_record(start_consumer: Consumers, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    payload = {"library": factories.library().pk, "steps": 1, "hold": 0, "gate": str(gate)}
    factories.pending_job("thumbnail", payload=payload)
    consumer = start_consumer()
    worker = WorkerHeartbeat.objects.filter(pid=consumer.pid)
    until(lambda: worker.filter(doing="thumbnail: waiting for gate").exists(), "what it does")
    gate.touch()
    until(lambda: worker.filter(doing="").exists(), "nothing more to do")
