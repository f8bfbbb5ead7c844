"""I/O budgets: a virtual clock for each bucket, over all processes."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from jobs import budgets
from jobs.budgets import Meter, charge
from jobs.models import IoRateLimit
from libraries.models import HashRun, LibraryFile
from libraries.reading import SAMPLE_BYTES
from libraries.running_now import hash_now
from tests.conftest import ROOT
from tests.indexing import indexed
from tests.tree import tree
from tests.waiting import DEADLINE_SECONDS

pytestmark = pytest.mark.django_db


def clock(bucket: str = "b") -> int:
    return IoRateLimit.objects.values_list("next_available_at_ms", flat=True).get(pk=bucket)


def test_what_is_charged_has_to_be_waited_for() -> None:
    before = time.time() * 1000
    assert 990 < charge("b", 100_000, 100) <= 1000
    assert clock() >= before + 990_000
    reached = clock()
    assert 1900 < charge("b", 50_000, 50) <= 2000
    assert clock() == reached + 1_000_000


def test_a_bucket_that_was_not_used_has_saved_nothing() -> None:
    IoRateLimit.objects.create(bucket_key="b", next_available_at_ms=5)
    assert charge("b", 100, 100) > 0.9


def test_no_limit_needs_no_row() -> None:
    assert charge("b", 1000, 0) == 0
    assert not IoRateLimit.objects.exists()


def test_a_clock_that_was_set_back_holds_nobody_up_for_ever() -> None:
    far = int(time.time() * 1000) + 10**9
    IoRateLimit.objects.create(bucket_key="b", next_available_at_ms=far)
    assert charge("b", 1, 1) <= budgets.MOST_SECONDS + 1


def test_several_processes_share_a_budget(child_environment: dict[str, str]) -> None:
    charge("b", 1, 1)
    before = clock()
    script = "import django; django.setup()\nfrom jobs.budgets import charge\nfor _ in range(50): charge('b', 10, 1000)"
    racers = [subprocess.Popen([sys.executable, "-c", script], env=child_environment, cwd=ROOT) for _ in range(3)]
    assert [racer.wait(timeout=DEADLINE_SECONDS) for racer in racers] == [0, 0, 0]
    assert clock() >= before + 3 * 50 * 10


def test_a_meter_charges_in_steps_and_forgets_nothing() -> None:
    meter = Meter("b", 8 << 20)
    assert meter.stride == 1 << 20
    assert meter.read(1000) == 0
    assert not IoRateLimit.objects.exists()
    assert meter.read(meter.stride) > 0
    # An eighth of a second is soon over, and a bucket whose time is reached goes on from now.
    IoRateLimit.objects.update(next_available_at_ms=(time.time() + 600) * 1000)
    before = clock()
    meter.read(8 << 10)
    meter.settle()
    assert clock() - before == 1000 * (8 << 10) // (8 << 20)


def test_hashing_is_charged_once_with_what_it_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file much larger than a stride, samples, and small files."""
    charged: list[tuple[str, int]] = []

    def note(bucket: str, amount: int, limit: int) -> float:
        charged.append((bucket, amount))
        return charge(bucket, amount, limit)

    monkeypatch.setattr(budgets, "charge", note)
    twins = dict.fromkeys(("a", "b"), b"x" * 5000000)
    library = indexed(tree(tmp_path, {**twins, "small": b"1"}), read_bytes_per_second=8 << 20)
    assert hash_now(actor="test").status == "completed"
    assert LibraryFile.objects.filter(needs_hash=True).count() == 0
    assert {bucket for bucket, _ in charged} == {f"library:{library.pk}"}
    paid = sum(amount for _, amount in charged)
    assert paid == HashRun.objects.get().bytes_done == 2 * (5_000_000 + 3 * SAMPLE_BYTES) + 1
    assert max(amount for _, amount in charged) < 2 * (1 << 20)


def test_a_library_without_a_budget_has_no_bucket(tmp_path: Path) -> None:
    indexed(tree(tmp_path, {"small": b"1"}))
    assert hash_now(actor="test").status == "completed"
    assert not IoRateLimit.objects.exists()
