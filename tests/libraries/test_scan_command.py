"""`manage.py scan`: in the queue, followed to its end, and carried out here."""

from __future__ import annotations

import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path
from threading import Event

import pytest
from django.core.management import CommandError, call_command
from django.db.models.functions import Now

from jobs import stopping
from jobs.models import Job
from libraries.following import describe
from libraries.models import LibraryRoot, ScanRequest
from tests import factories
from tests.conftest import ROOT, Consumers, Manage
from tests.libraries.scans import library_at, present, scanned
from tests.tree import tree
from tests.waiting import until

pytestmark = pytest.mark.django_db
BIG = b"b" * 100_000


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("scan", *arguments, stdout=out, stderr=StringIO())
    return out.getvalue()


def test_it_puts_every_library_into_the_queue(tmp_path: Path) -> None:
    library_at(tmp_path, "one")
    library_at(tmp_path / "two", "two")
    library_at(tmp_path / "three", "three", is_paused=True)
    shown = run()
    assert set(ScanRequest.objects.values_list("library__name", "priority")) == {("one", 1), ("two", 1)}
    assert "one: scan request" in shown


def test_a_name_that_is_none_is_refused_with_those_there_are(tmp_path: Path) -> None:
    library_at(tmp_path, "one")
    with pytest.raises(CommandError, match=r"no library called two\. There is: one"):
        run("one", "two")
    assert not ScanRequest.objects.exists()


def test_without_any_library_it_says_how_to_add_one() -> None:
    with pytest.raises(CommandError, match="add_library NAME PATH"):
        run()


def test_now_scans_and_hashes_in_this_process(tmp_path: Path) -> None:
    library = library_at(tree(tmp_path, {"a": b"1", "x": BIG, "y": BIG}))
    assert "photos: completed; 3 files seen, 3 new" in run("--now", "photos")
    assert present(library) == {b"a", b"x", b"y"}
    assert set(Job.objects.values_list("kind", "status")) == {("scan", "completed"), ("hash", "completed")}
    assert library.files.filter(needs_hash=False).count() == 3
    assert ScanRequest.objects.get().status == "completed"


def test_now_says_who_has_the_turn(tmp_path: Path) -> None:
    library_at(tree(tmp_path, {"a": b"1"}))
    job, _ = factories.running_job("hash")
    with pytest.raises(CommandError, match=f"The hash job {job.pk} has the turn .held by factory:"):
        run("--now")
    assert not ScanRequest.objects.exists(), "nothing is left behind"


def test_now_refuses_a_paused_library(tmp_path: Path) -> None:
    library_at(tree(tmp_path, {"a": b"1"}), is_paused=True)
    with pytest.raises(CommandError, match="The library photos is paused"):
        run("--now", "photos")
    assert not Job.objects.exists()


def test_now_goes_on_where_a_library_is_refused_and_tells_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is paused, one is removed while another is scanned."""
    library_at(tmp_path / "nowhere", "gone")
    library_at(tree(tmp_path / "paused", {"a": b"1"}), "paused", is_paused=True)
    first = library_at(tree(tmp_path / "first", {"x": BIG, "y": BIG}), "first")
    removed = library_at(tree(tmp_path / "removed", {"a": b"1"}), "removed")
    last = library_at(tree(tmp_path / "last", {"a": b"1"}), "last")

    def remove(point: str) -> None:
        if point == "scan_settled":
            LibraryRoot.objects.filter(pk=removed.pk).update(is_paused=True, removing_at=Now())

    monkeypatch.setattr("libraries.scanning.reach", remove)
    with pytest.raises(CommandError) as refused:
        run("--now", "gone", "paused", "first", "removed", "last")
    said = str(refused.value).splitlines()
    assert [line.split(":")[0] for line in said] == ["gone", "paused", "removed"]
    assert "The library paused is paused" in said[1]
    assert "There is no library" in said[2]
    assert (present(first), present(last)) == ({b"x", b"y"}, {b"a"})
    assert first.files.filter(needs_hash=False).count() == 2, "and it hashed"
    assert set(ScanRequest.objects.values_list("library__name", flat=True)) == {"gone", "first", "last"}


def test_what_is_refused_keeps_nothing_else_out_of_the_queue(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        library_at(tmp_path / name, name, is_paused=name == "two")
    out = StringIO()
    with pytest.raises(CommandError, match=r"^two: The library two is paused"):
        call_command("scan", "one", "two", "three", stdout=out)
    assert set(ScanRequest.objects.values_list("library__name", flat=True)) == {"one", "three"}
    assert [line.split(":")[0] for line in out.getvalue().splitlines()] == ["one", "three"]


def test_now_takes_over_what_waits_for_this_library(tmp_path: Path) -> None:
    library = library_at(tree(tmp_path, {"a": b"1"}))
    run("photos")
    (waiting,) = ScanRequest.objects.values_list("pk", flat=True)
    run("--now", "photos")
    assert list(ScanRequest.objects.values_list("pk", "status")) == [(waiting, "completed")]
    assert present(library) == {b"a"}


def test_now_fails_with_the_reason_and_goes_on_with_the_next(tmp_path: Path) -> None:
    library_at(tmp_path / "nowhere", "gone")
    library_at(tree(tmp_path / "here", {"a": b"1"}), "here")
    with pytest.raises(CommandError, match=r"gone: The folder of gone can't be read .ENOENT"):
        run("--now")
    assert present(LibraryRoot.objects.get(name="here")) == {b"a"}


def test_now_accepts_what_is_missing_also_where_a_scan_waits_already(tmp_path: Path) -> None:
    library = scanned(tree(tmp_path, {f"{number}": b"%d" % number for number in range(10)}))
    for number in range(8):
        (tmp_path / f"{number}").unlink()
    run("photos")
    assert ScanRequest.objects.filter(status="pending", job__isnull=False).exists(), "it waits with a job"
    run("--now", "--accept-missing", "photos")
    assert present(library) == {b"8", b"9"}


def test_accept_missing_is_passed_on(tmp_path: Path) -> None:
    library_at(tmp_path)
    run("--accept-missing")
    assert ScanRequest.objects.get().accept_missing


def test_wait_follows_a_real_consumer(tmp_path: Path, start_consumer: Consumers) -> None:
    library = library_at(tree(tmp_path / "root", {"a": b"1"}))
    start_consumer()
    assert "photos: completed; 1 files seen, 1 new" in run("--wait")
    assert present(library) == {b"a"}
    until(lambda: Job.objects.filter(kind="hash", status="completed").exists(), "the hash job that follows by itself")


def test_wait_fails_where_the_scan_failed(tmp_path: Path, start_consumer: Consumers) -> None:
    library_at(tmp_path / "nowhere")
    start_consumer()
    with pytest.raises(CommandError, match="photos: The folder of photos can't be read"):
        run("--wait")


def test_ctrl_c_lets_the_batch_end_and_gives_only_what_began_back(
    tmp_path: Path, child_environment: dict[str, str]
) -> None:
    for name in ("first", "second", "third"):
        tree(tmp_path / name, {f"{number}": b"x" * 60_000 for number in range(20)})
        library_at(tmp_path / name, name, read_bytes_per_second=20_000)
    command = [sys.executable, str(ROOT / "manage.py"), "scan", "--now"]
    with subprocess.Popen(command, env=child_environment, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: Job.objects.filter(status="running").exists(), "the scan to begin")
        until(lambda: Job.objects.filter(worker_heartbeat_at__isnull=False).exists(), "its lease")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 1, said
    assert Job.objects.get().status == "retryable"
    assert list(ScanRequest.objects.values_list("library__name", "status")) == [("first", "pending")]
    assert "Not begun: second, third" in said
    assert "the next scan goes on from there" in said


def test_ctrl_c_between_two_libraries_is_an_error_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was given back, but somebody waits for the second one and for hashing."""
    for name in ("first", "second"):
        library_at(tree(tmp_path / name, {"x": BIG}), name)

    def stop(point: str) -> None:
        if point == "scan_settled":
            stopping.request()

    monkeypatch.setattr(stopping, "_requested", Event())
    monkeypatch.setattr("libraries.scanning.reach", stop)
    with pytest.raises(CommandError, match=r"^Not begun: second\nStopped"):
        run("--now")
    assert list(Job.objects.values_list("kind", "status")) == [("scan", "completed")]
    assert list(ScanRequest.objects.values_list("library__name", "status")) == [("first", "completed")]


def test_the_line_tells_how_far_it_is() -> None:
    request = ScanRequest(status="running", scanned_paths=50, total_paths=200)
    assert describe(request).endswith("25%  50 files")
    assert describe(ScanRequest(status="running", scanned_paths=3, total_paths=0)).endswith("0%  3 files")
    assert describe(ScanRequest(status="pending")) == "waiting for its turn"


def test_the_first_command_of_all_makes_the_database(run_manage: Manage, tmp_path: Path) -> None:
    tree(tmp_path / "photos", {"a": b"same", "b": b"same", "c": b"other"})
    env = {"DEDUPFS_STATE_ROOT": str(tmp_path / "state"), "DEDUPFS_LIBRARIES_ROOT": str(tmp_path), "DATABASE_URL": ""}
    env["DJANGO_SETTINGS_MODULE"] = "dedupfs_site.settings"
    for arguments in (["add_library", "Photos", str(tmp_path / "photos")], ["scan", "--now"]):
        done = run_manage(*arguments, env=env)
        assert done.returncode == 0, done.stderr
    found = run_manage("duplicates", "--fdupes", env=env).stdout
    assert sorted(found.split()) == [f"{tmp_path}/photos/a", f"{tmp_path}/photos/b"]
