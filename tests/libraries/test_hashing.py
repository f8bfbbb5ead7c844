"""The hash job: what it reads, what it stores, and when it lets others go first."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from django.db.models.functions import Now

from database.clock import SecondsFromNow
from jobs.executing import drain
from jobs.models import Job
from libraries import hash_deciding, hash_reading
from libraries.candidates import Bounds
from libraries.errors import Refused
from libraries.models import HashRun, HashState, LibraryFile, LibraryRoot, ScanRequest
from libraries.names import to_text
from libraries.queueing import promote
from libraries.reading import SAMPLE_BYTES
from libraries.running_now import hash_now
from logbook.models import LogbookEvent
from tests import factories
from tests.indexing import index_again, indexed
from tests.tree import tree

pytestmark = pytest.mark.django_db

LARGE = 200_000
SAMPLE = 3 * SAMPLE_BYTES


def content(letter: bytes, middle: bytes = b"-", size: int = LARGE) -> bytes:
    """Equal letters have equal samples; the byte at a quarter is in none."""
    body = bytearray(letter * size)
    body[size // 4] = middle[0]
    return bytes(body)


def row(path: str, library: LibraryRoot | None = None) -> LibraryFile:
    rows = LibraryFile.objects.filter(library=library) if library else LibraryFile.objects
    return rows.get(relative_path=path)


def hash_all() -> Job:
    job = hash_now(actor="test")
    assert job.status == "completed", job.error_message
    assert not LibraryFile.objects.filter(hash_claim_token__isnull=False).exists()
    return job


def hashed() -> set[str]:
    return set(LibraryFile.objects.filter(needs_hash=False).values_list("relative_path", flat=True))


def sampled() -> set[str]:
    return set(LibraryFile.objects.filter(sample_hash__isnull=False).values_list("relative_path", flat=True))


# --- What is read -----------------------------------------------------------------------------------------
def test_only_what_can_have_a_twin_is_read(tmp_path: Path) -> None:
    files = {
        "unique": content(b"u", size=LARGE + 1),
        "same size": content(b"s", size=LARGE + 2),
        "same size 2": content(b"t", size=LARGE + 2),
        "twin": content(b"a"),
        "deep/twin": content(b"a"),
        "other middle": content(b"a", b"+"),
    }
    indexed(tree(tmp_path, files))
    hash_all()
    assert hashed() == {"twin", "deep/twin", "other middle"}
    assert sampled() == hashed() | {"same size", "same size 2"}
    for path in hashed():
        file = row(path)
        assert bytes(file.content_hash or b"") == blake3(files[path]).digest()
        assert file.hash_algorithm == "blake3"
        assert (file.hashed_size_bytes, file.hashed_mtime_ns) == (file.size_bytes, file.mtime_ns)
        assert file.hashed_at is not None
    assert row("twin").content_hash != row("other middle").content_hash, "equal samples are no proof"
    run = HashRun.objects.get()
    assert (run.files_done, run.bytes_done) == (5, 5 * SAMPLE + 3 * LARGE)
    assert (run.files_total, run.bytes_total) == (run.files_done, run.bytes_done)


def test_a_twin_may_be_in_another_library(tmp_path: Path) -> None:
    one = indexed(tree(tmp_path / "one", {"x": content(b"a")}), "one")
    other = indexed(tree(tmp_path / "other", {"y": content(b"a")}), "other")
    hash_all()
    assert row("x", one).content_hash == row("y", other).content_hash is not None


def test_small_files_that_the_walk_could_not_read_are_hashed_and_empty_ones_left(tmp_path: Path) -> None:
    indexed(tree(tmp_path, {"small": b"1", "at the limit": b"x" * 65536, "empty": b""}))
    hash_all()
    assert hashed() == {"small", "at the limit"}
    assert sampled() == set()


def test_a_library_may_want_everything_hashed(tmp_path: Path) -> None:
    indexed(tree(tmp_path, {"unique": content(b"u")}), hash_everything=True)
    hash_all()
    assert hashed() == {"unique"}


def test_every_name_is_hashed(tmp_path: Path) -> None:
    names = [b"caf\xe9", b"new\nline", b"~", b"$HOME", b"-rf", b"trailing ", "\uf7e9".encode()]
    indexed(tree(tmp_path, {b"folder/" + name: name for name in names}))
    hash_all()
    found = {file.relative_path: bytes(file.content_hash or b"") for file in LibraryFile.objects.all()}
    assert found == {to_text(b"folder/" + name): blake3(name).digest() for name in names}


@pytest.mark.parametrize("fields", [{"is_paused": True}, {"removing_at": SecondsFromNow(0)}])
def test_paused_libraries_and_those_on_their_way_out_are_not_read(tmp_path: Path, fields: dict[str, Any]) -> None:
    indexed(tree(tmp_path, {"small": b"1", "a": content(b"a"), "b": content(b"a")}), **fields)
    hash_all()
    assert hashed() | sampled() == set()


def test_missing_files_are_not_read_and_make_no_twin(tmp_path: Path) -> None:
    indexed(tree(tmp_path, {"here": content(b"a"), "gone": content(b"a")}))
    LibraryFile.objects.filter(relative_path="gone").update(is_missing=True)
    hash_all()
    assert hashed() | sampled() == set()


def test_a_hashed_file_is_sampled_when_a_new_one_of_its_size_wants_to_know(tmp_path: Path) -> None:
    library = indexed(tree(tmp_path, {"old": content(b"a")}), hash_everything=True)
    hash_all()
    assert (hashed(), sampled()) == ({"old"}, set())
    LibraryRoot.objects.update(hash_everything=False)
    hash_all()
    assert sampled() == set()
    tree(tmp_path, {"new": content(b"a")})
    index_again(library, "new")
    hashed_at = row("old").hashed_at
    hash_all()
    assert row("old").content_hash == row("new").content_hash
    assert row("old").hashed_at == hashed_at, "it is not read again"


def test_hard_links_are_read_once(tmp_path: Path) -> None:
    tree(tmp_path, {"a": content(b"a")})
    os.link(tmp_path / "a", tmp_path / "b")
    os.link(tmp_path / "a", tmp_path / "c")
    indexed(tmp_path)
    hash_all()
    assert hashed() == sampled() == {"a", "b", "c"}
    assert HashRun.objects.get().bytes_done == SAMPLE + LARGE


def test_a_size_that_many_files_have_is_taken_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where twins are found in different batches."""
    monkeypatch.setattr(hash_reading, "FIRST_BATCH", Bounds(files=3, size=1))
    letters = b"abcdefgh"
    files = {f"{copy}{letter}": content(bytes([letter])) for letter in letters for copy in "12"}
    indexed(tree(tmp_path, {**files, "alone": content(b"z")}))
    hash_all()
    assert hashed() == set(files)
    run = HashRun.objects.get()
    assert (run.files_total, run.bytes_total) == (run.files_done, run.bytes_done)


def test_nothing_is_due_after_everything_is_read(tmp_path: Path) -> None:
    indexed(tree(tmp_path, {"a": content(b"a"), "b": content(b"b")}))
    HashState.objects.create(pk=1, is_due=True)
    hash_all()
    state = HashState.objects.get()
    assert (state.is_due, state.retry_at) == (False, None)
    written_at = row("a").updated_at
    hash_all()
    assert row("a").updated_at == written_at


# --- What can't be read -----------------------------------------------------------------------------------
def test_a_file_that_can_not_be_read_backs_off_and_fails_nothing(tmp_path: Path) -> None:
    library = indexed(tree(tmp_path, {"a": content(b"a"), "b": content(b"a"), "vanished": content(b"a")}))
    (tmp_path / "vanished").unlink()
    for tries, seconds in [(1, 30), (2, 60), (3, 120), (9, 3600)]:
        LibraryFile.objects.filter(hash_error_count__gt=0).update(
            hash_retry_after=SecondsFromNow(-1), hash_error_count=tries - 1
        )
        hash_all()
        bad = row("vanished")
        assert bad.hash_retry_after is not None
        assert bad.hash_last_error_at is not None
        assert round((bad.hash_retry_after - bad.hash_last_error_at).total_seconds()) == seconds
        assert (bad.hash_error_count, bad.needs_hash) == (tries, True)
        assert bad.hash_last_error == "ENOENT: No such file or directory"
    assert hashed() == {"a", "b"}
    assert HashState.objects.get().retry_at == row("vanished").hash_retry_after
    hash_all()
    assert row("vanished").hash_error_count == 9, "it is not tried before its time"
    tree(tmp_path, {"vanished": content(b"a")})
    index_again(library, "vanished")
    hash_all()
    assert (row("vanished").hash_error_count, row("vanished").hash_last_error) == (0, None)
    assert HashState.objects.get().retry_at is None


def test_one_of_several_hard_links_may_be_unreadable(tmp_path: Path) -> None:
    tree(tmp_path, {"a": content(b"a")})
    os.link(tmp_path / "a", tmp_path / "b")
    os.link(tmp_path / "a", tmp_path / "c")
    indexed(tmp_path)
    info = os.stat(tmp_path / "a")
    (tmp_path / "a").unlink()
    LibraryFile.objects.update(ctime_ns=info.st_ctime_ns)
    hash_all()
    assert hashed() == {"b", "c"}
    assert row("a").hash_error_count == 1


def test_a_file_that_changed_since_its_scan_gets_no_digest(tmp_path: Path) -> None:
    indexed(tree(tmp_path, {"a": content(b"a"), "b": content(b"a"), "touched": content(b"a")}))
    os.utime(tmp_path / "touched", ns=(1, 1))
    hash_all()
    assert hashed() == {"a", "b"}
    assert row("touched").hash_last_error == "it changed since it was scanned"
    assert row("touched").hash_retry_after is not None


def test_a_file_swapped_for_a_link_is_not_followed(tmp_path: Path) -> None:
    tree(tmp_path / "outside", {"secret": b"12345"})
    indexed(tree(tmp_path / "inside", {"file": b"12345", "folder/file": b"12345"}))
    (tmp_path / "inside/file").unlink()
    (tmp_path / "inside/file").symlink_to(tmp_path / "outside/secret")
    (tmp_path / "inside/folder/file").unlink()
    (tmp_path / "inside/folder").rmdir()
    (tmp_path / "inside/folder").symlink_to(tmp_path / "outside")
    hash_all()
    assert hashed() == set()


# --- Others first -----------------------------------------------------------------------------------------
@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of two files, and a look around after each answer."""
    for name in ("FIRST_BATCH", "EARLY_BATCH", "LEAST_BATCH", "MOST_BATCH"):
        monkeypatch.setattr(hash_reading, name, Bounds(files=2, size=1))
    monkeypatch.setattr(hash_reading, "ASK_SECONDS", 0)


FILES = {f"{number}": b"x" * (number + 1) for number in range(20)}


@pytest.mark.usefixtures("small_steps")
def test_it_gives_way_to_a_waiting_scan_after_its_batch_and_goes_on_afterwards(tmp_path: Path) -> None:
    library = indexed(tree(tmp_path, FILES))
    request = ScanRequest.objects.create(library=library, priority=ScanRequest.Priority.HIGH)
    job = hash_now(actor="test")
    assert (job.status, job.error_code, job.worker_id) == ("retryable", "GAVE_WAY", None)
    assert 0 < len(hashed()) < len(FILES)
    assert not LibraryFile.objects.filter(hash_claim_token__isnull=False).exists()
    request.delete()
    assert promote()
    drain("jobs")
    job.refresh_from_db()
    assert (job.status, job.attempts) == ("completed", 0)
    assert hashed() == set(FILES)
    assert HashRun.objects.get().files_done == len(FILES)


@pytest.mark.usefixtures("small_steps")
def test_it_does_not_give_way_to_a_scheduled_scan(tmp_path: Path) -> None:
    library = indexed(tree(tmp_path, FILES))
    ScanRequest.objects.create(library=library, priority=ScanRequest.Priority.NORMAL)
    hash_all()


@pytest.mark.usefixtures("small_steps")
def test_it_gives_way_to_a_scan_job_that_came_by_no_request(tmp_path: Path) -> None:
    indexed(tree(tmp_path, FILES))
    factories.pending_job("scan", status="retryable")
    assert hash_now(actor="test").error_code == "GAVE_WAY"


@pytest.mark.usefixtures("small_steps")
def test_pause_and_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    indexed(tree(tmp_path, FILES))
    finish = hash_reading.Hasher._finish

    def pause_then_finish(hasher: hash_reading.Hasher, unit: Any, value: Any) -> Any:
        hash_deciding.pause(actor="vera")
        return finish(hasher, unit, value)

    with monkeypatch.context() as during:
        during.setattr(hash_reading.Hasher, "_finish", pause_then_finish)
        job = hash_now(actor="test")
    assert (job.status, job.error_code) == ("retryable", "PAUSED")
    assert 0 < len(hashed()) < len(FILES)
    assert not promote(), "nobody starts it while it is paused"
    hash_deciding.resume(actor="vera")
    drain("jobs")
    job.refresh_from_db()
    assert job.status == "completed"
    events = LogbookEvent.objects.about("hash_states", "1").exclude(actor=None)
    assert list(events.values_list("event_type", "actor")) == [("paused", "vera"), ("resumed", "vera")]


def test_a_library_that_is_removed_between_claim_and_look_fails_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexed(tree(tmp_path / "kept", FILES), "kept")
    removed = indexed(tree(tmp_path / "removed", FILES), "removed")
    look = hash_reading.Hasher._look_at_libraries

    def remove_then_look(hasher: hash_reading.Hasher) -> None:
        LibraryRoot.objects.filter(pk=removed.pk).update(is_paused=True, removing_at=Now())
        look(hasher)

    monkeypatch.setattr(hash_reading.Hasher, "_look_at_libraries", remove_then_look)
    hash_all()
    assert set(LibraryFile.objects.filter(needs_hash=False).values_list("library__name", flat=True)) == {"kept"}
    assert hashed() == set(FILES)


def test_a_paused_job_reads_nothing(tmp_path: Path) -> None:
    indexed(tree(tmp_path, FILES))
    hash_deciding.pause(actor="vera")
    assert hash_now(actor="test").error_code == "PAUSED"
    assert hashed() == set()


# --- In this process --------------------------------------------------------------------------------------
@pytest.mark.parametrize("status", ["retryable", "pending"])
def test_hashing_here_takes_up_the_job_that_was_given_back(tmp_path: Path, status: str) -> None:
    """Whether a consumer would have put it back meanwhile or not."""
    indexed(tree(tmp_path, FILES))
    given_back = factories.pending_job("hash", status=status, error_code="WORKER_STOPPED", error_message="stopped")
    job = hash_all()
    assert (job.pk, job.error_code) == (given_back.pk, None)
    assert Job.objects.count() == 1
    assert hashed() == set(FILES)


def test_hashing_here_does_not_take_the_job_of_one_that_lives(tmp_path: Path) -> None:
    indexed(tree(tmp_path, FILES))
    running, _ = factories.running_job("hash")
    factories.pending_job("hash", status="retryable")
    with pytest.raises(Refused, match=f"The hash job {running.pk} has the turn"):
        hash_now(actor="test")
    assert set(Job.objects.values_list("status", flat=True)) == {"running", "retryable"}
