"""How far a hash job is: it goes forward, whatever turns up on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jobs.enforcing import transaction_on
from libraries import hash_reading
from libraries.candidates import Amount
from libraries.hash_progress import Progress
from libraries.models import HashRun
from libraries.running_now import hash_now
from libraries.showing import ALMOST, hash_pace
from tests import factories
from tests.indexing import index_again, indexed
from tests.tree import tree

pytestmark = pytest.mark.django_db

LARGE = 100_000
OLD = {f"old {number}": b"x" * LARGE for number in range(6)}
NEW = {f"new {number}": b"y" * LARGE for number in range(6)}


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int | None]]:
    """Phase and share as a page would show them after each word of the job."""
    told: list[tuple[str, int | None]] = []
    for verb in ("begin", "write"):
        plain = getattr(Progress, verb)

        def listening(progress: Progress, *words: Any, plain: Any = plain) -> Any:
            answer = plain(progress, *words)
            run = HashRun.objects.get(pk=progress.job_id)
            told.append((str(run.phase), hash_pace(run).share))
            return answer

        monkeypatch.setattr(Progress, verb, listening)
    monkeypatch.setattr(hash_reading, "ASK_SECONDS", 0.0)
    return told


def test_reading_anew_for_another_algorithm_takes_nothing_back(
    tmp_path: Path, settings: Any, shown: list[tuple[str, int | None]]
) -> None:
    library = indexed(tree(tmp_path, OLD))
    assert hash_now(actor="test").status == "completed"
    tree(tmp_path, NEW)
    for name in NEW:
        index_again(library, name)
    shown.clear()
    settings.HASH_ALGORITHM = "sha256"
    assert hash_now(actor="test").status == "completed"
    shares = [share for _, share in shown if share is not None]
    assert shares == sorted(shares)
    hashed = [share for phase, share in shown if phase != "rehashing" and share is not None]
    assert hashed[-1] <= 400, "a third is done when all that is new is hashed: it and the old are read anew"
    assert shown[-1] == ("rehashing", ALMOST)


def test_more_to_read_takes_nothing_back_that_was_shown() -> None:
    """A hash job makes room for a scan, which may find as much again."""
    job, _ = factories.running_job("hash")
    HashRun.objects.create(job=job, files_done=6, files_total=10, bytes_done=600, bytes_total=1000, busy_seconds=6)
    progress = Progress(job.pk, is_owner=True)
    shares = []
    for left in (5_400, 5_000):
        with transaction_on("hash"):
            progress.begin(Amount(54, left))
        shares.append(hash_pace(HashRun.objects.get()).share)
    run = HashRun.objects.get()
    assert (shares, run.bytes_total) == ([600, 600], 5_600), "the measure itself is the true one"
    progress.share.size = 4_000
    with transaction_on("hash"):
        progress.write()
    assert hash_pace(HashRun.objects.get()).share == 4_600 * 1000 // 5_600


def test_nobody_knows_how_far_it_is_before_the_owner_has_measured() -> None:
    job, _ = factories.running_job("hash")
    owner, helper = Progress(job.pk, is_owner=True), Progress(job.pk, is_owner=False)
    with transaction_on("hash"):
        owner.open()
        helper.share.files, helper.share.size = 3, 300
        assert helper.write() == (3, 0)
    assert hash_pace(HashRun.objects.get()).share is None
    with transaction_on("hash"):
        owner.begin(Amount(7, 700))
    assert hash_pace(HashRun.objects.get()).share == 300
