"""Changing the algorithm: everything is read again behind the scenes, and all digests change at once."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from database.clock import SecondsFromNow
from libraries.models import HashRun, HashState, LibraryFile, LibraryRoot, Rehash
from libraries.running_now import hash_now
from logbook.models import LogbookEvent
from tests.conftest import Manage
from tests.indexing import index_again, indexed
from tests.tree import tree

pytestmark = pytest.mark.django_db

LARGE = {"large": b"x" * 100_000, "large 2": b"x" * 100_000}
FILES = {**LARGE, "small": b"1", "missing": b"2"}


@pytest.fixture
def library(tmp_path: Path) -> LibraryRoot:
    """Everything is hashed by BLAKE3."""
    made = indexed(tree(tmp_path, FILES))
    hash_all()
    assert algorithms() == {"blake3"}
    return made


def hash_all() -> None:
    job = hash_now(actor="test")
    assert job.status == "completed", job.error_message


def algorithms() -> set[str | None]:
    return set(LibraryFile.objects.values_list("hash_algorithm", flat=True))


def digests() -> dict[str, bytes | None]:
    rows = LibraryFile.objects.values_list("relative_path", "content_hash")
    return {path: None if digest is None else bytes(digest) for path, digest in rows}


def test_every_digest_is_exchanged(library: LibraryRoot, settings: Any) -> None:
    samples = {row.relative_path: row.sample_hash for row in LibraryFile.objects.all()}
    settings.HASH_ALGORITHM = "sha256"
    hash_all()
    assert algorithms() == {"sha256"}
    assert digests() == {path: sha256(content).digest() for path, content in FILES.items()}
    assert {row.relative_path: row.sample_hash for row in LibraryFile.objects.all()} == samples
    assert not Rehash.objects.exists()
    state = HashState.objects.get()
    assert (state.algorithm, state.switching_to) == ("sha256", None)
    events = LogbookEvent.objects.about("hash_states", "1").values_list("event_type", "payload_json__to")
    assert list(events) == [("switching", "sha256"), ("switched", "sha256")]
    settings.HASH_ALGORITHM = "blake3"
    hash_all()
    assert digests() == {path: blake3(content).digest() for path, content in FILES.items()}


def test_what_is_new_meanwhile_is_hashed_by_the_old_algorithm_and_then_by_the_new(
    library: LibraryRoot, settings: Any, tmp_path: Path
) -> None:
    tree(tmp_path, {"new": b"x" * 100_000, "new small": b"3"})
    index_again(library, "new")
    index_again(library, "new small")
    settings.HASH_ALGORITHM = "sha256"
    hash_all()
    assert algorithms() == {"sha256"}
    assert HashRun.objects.order_by("started_at").last().bytes_done > 2 * 100_000  # type: ignore[union-attr]


def test_what_can_not_be_read_loses_its_digest_after_some_tries(
    library: LibraryRoot, settings: Any, tmp_path: Path
) -> None:
    LibraryFile.objects.filter(relative_path="missing").update(is_missing=True)
    (tmp_path / "small").unlink()
    settings.HASH_ALGORITHM = "sha256"
    for _ in range(3):
        assert algorithms() == {"blake3"}, "groups are whole until all is read"
        hash_all()
        LibraryFile.objects.filter(hash_error_count__gt=0).update(hash_retry_after=SecondsFromNow(-1))
    assert HashState.objects.get().algorithm == "sha256"
    rows = LibraryFile.objects.filter(content_hash__isnull=True, hashed_at__isnull=True, hash_algorithm__isnull=True)
    assert set(rows.values_list("relative_path", "needs_hash")) == {("small", True), ("missing", True)}


def test_a_file_that_is_hashed_anew_during_a_switch_is_rehashed_too(
    library: LibraryRoot, settings: Any, tmp_path: Path
) -> None:
    """Even if its size and time are what they were: only its ctime told of the change."""
    LibraryFile.objects.filter(relative_path="missing").update(hash_error_count=1, hash_retry_after=SecondsFromNow(99))
    settings.HASH_ALGORITHM = "sha256"
    hash_all()
    assert Rehash.objects.count() == 3
    was = (tmp_path / "small").stat()
    tree(tmp_path, {"small": b"9"})
    os.utime(tmp_path / "small", ns=(was.st_atime_ns, was.st_mtime_ns))
    LibraryFile.objects.filter(relative_path="small").update(
        needs_hash=True, content_hash=None, hash_algorithm=None, ctime_ns=(tmp_path / "small").stat().st_ctime_ns
    )
    LibraryFile.objects.update(hash_retry_after=None)
    hash_all()
    assert digests()["small"] == sha256(b"9").digest()


def test_a_paused_library_holds_the_switch_up(library: LibraryRoot, settings: Any) -> None:
    LibraryRoot.objects.update(is_paused=True)
    settings.HASH_ALGORITHM = "sha256"
    hash_all()
    assert algorithms() == {"blake3"}
    assert HashState.objects.get().switching_to == "sha256"
    LibraryRoot.objects.update(is_paused=False)
    hash_all()
    assert algorithms() == {"sha256"}


def test_a_switch_that_is_taken_back_leaves_nothing(library: LibraryRoot, settings: Any) -> None:
    LibraryRoot.objects.update(is_paused=True)
    settings.HASH_ALGORITHM = "sha256"
    hash_all()
    Rehash.objects.create(
        file_id=LibraryFile.objects.earliest("pk").pk, content_hash=b"s" * 32, size_bytes=1, mtime_ns=1
    )
    settings.HASH_ALGORITHM = "blake3"
    hash_all()
    assert not Rehash.objects.exists()
    assert HashState.objects.get().switching_to is None
    assert algorithms() == {"blake3"}


def test_before_anything_is_hashed_the_chosen_algorithm_is_in_force_at_once(tmp_path: Path, run_manage: Manage) -> None:
    indexed(tree(tmp_path, FILES))
    assert run_manage("scan", "--now", env={"DEDUPFS_HASH_ALGORITHM": "sha256"}).returncode == 0
    assert algorithms() == {"sha256"}
    assert digests() == {path: sha256(content).digest() for path, content in FILES.items()}
