"""Batches of files: whose they are, who may write them, and how they are found."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from database.clock import SecondsFromNow
from jobs.lease import Lease
from jobs.models import Job
from jobs.working import Work
from libraries import candidates
from libraries.candidates import REHASH_STAGES, STAGES, Amount, Bounds, Candidate, Search
from libraries.hash_claims import are_live, reign_of
from libraries.hash_hands import Helper, Owner
from libraries.hash_storing import HashStore, Results
from libraries.models import LibraryFile, LibraryRoot
from tests import factories
from tests.indexing import indexed
from tests.tree import tree

pytestmark = pytest.mark.django_db

DIGEST = b"d" * 32
EXECUTOR = "executor"


@pytest.fixture
def lease(tmp_path: Path) -> Lease[Job]:
    indexed(tree(tmp_path, {"one": b"1", "two": b"22"}))
    return factories.running_job("hash")[1]


def take(hands: Owner | Helper) -> list[Candidate]:
    with hands.fenced():
        return hands.claims.take(Search(hands.claims.reign), Bounds(100, 1 << 30))


def store(hands: Owner | Helper, rows: list[Candidate]) -> None:
    with hands.fenced():
        HashStore(hands.claims.token).store(Results(digests=[(row, DIGEST, None) for row in rows]), "blake3")


def helper(lease: Lease[Job]) -> Helper:
    return Helper(lease.row.pk, lease.worker_id)


def hashed() -> set[str]:
    return set(LibraryFile.objects.filter(content_hash__isnull=False).values_list("relative_path", flat=True))


def test_a_file_is_in_one_hand_at_a_time(lease: Lease[Job]) -> None:
    owner, other = Owner(Work(lease)), helper(lease)
    assert {row.path for row in take(owner)} == {"one", "two"}
    assert take(other) == []
    assert are_live(owner.claims.reign)
    owner.claims.let_go()
    assert not are_live(owner.claims.reign)
    assert len(take(other)) == 2


def test_a_stale_claim_is_taken_over_and_its_old_holder_writes_nothing(lease: Lease[Job]) -> None:
    first, second = helper(lease), helper(lease)
    rows = take(first)
    LibraryFile.objects.update(hash_claimed_at=SecondsFromNow(-301))
    assert not are_live(first.claims.reign)
    assert take(second) == rows
    store(first, rows)
    first.claims.let_go()
    assert hashed() == set()
    store(second, rows)
    assert hashed() == {"one", "two"}


def test_a_renewed_claim_does_not_go_stale(lease: Lease[Job]) -> None:
    first, second = helper(lease), helper(lease)
    take(first)
    LibraryFile.objects.update(hash_claimed_at=SecondsFromNow(-301))
    with first.fenced():
        first.claims.renew()
    assert take(second) == []


def test_a_claim_under_an_earlier_lease_is_nobody_s(lease: Lease[Job]) -> None:
    old = Owner(Work(lease))
    take(old)
    factories.expire(lease.row)
    Job.objects.recover()
    Job.objects.filter(pk=lease.row.pk).update(status="pending")
    again = Job.objects.claim("next")
    assert again is not None
    new = Owner(Work(again))
    assert not are_live(new.claims.reign)
    assert len(take(new)) == 2


@pytest.mark.parametrize("hands", [lambda lease: Owner(Work(lease)), helper], ids=["owner", "helper"])
def test_nothing_is_written_once_the_job_does_not_run(lease: Lease[Job], hands: Any) -> None:
    from jobs.errors import LeaseLost

    hand = hands(lease)
    rows = take(hand)
    lease.finish("completed")
    with pytest.raises(LeaseLost):
        store(hand, rows)
    with pytest.raises(LeaseLost):
        take(hand)
    assert hashed() == set()


@pytest.mark.parametrize("column", ["size_bytes", "mtime_ns", "ctime_ns"])
def test_a_digest_is_stored_only_for_the_version_that_was_read(lease: Lease[Job], column: str) -> None:
    owner = Owner(Work(lease))
    rows = take(owner)
    LibraryFile.objects.filter(relative_path="one").update(**{column: 7})
    store(owner, rows)
    assert hashed() == {"two"}


def test_a_version_without_a_ctime_is_stored(lease: Lease[Job]) -> None:
    LibraryFile.objects.update(ctime_ns=None)
    owner = Owner(Work(lease))
    store(owner, take(owner))
    assert hashed() == {"one", "two"}


# --- How files are found ----------------------------------------------------------------------------------
def many_files() -> None:
    """Sizes that nobody shares, that three share, samples that two of them share."""
    library = factories.library(hash_everything=True)
    LibraryFile.objects.bulk_create(
        LibraryFile(
            library=library,
            relative_path=str(number),
            size_bytes=70_000 + (number if number % 4 == 0 else number // 4 * 4 + 1),
            mtime_ns=1,
            sample_hash=b"s" * 32 if number % 4 > 1 else None,
            needs_hash=number % 4 < 3,
            content_hash=None if number % 4 < 3 else DIGEST,
            hash_algorithm=None if number % 4 < 3 else "blake3",
            is_missing=False,
        )
        for number in range(2000)
    )


def plans(statements: list[dict[str, str]]) -> str:
    with connections[EXECUTOR].cursor() as cursor:
        if connections[EXECUTOR].vendor == "postgresql":
            # With so few rows the planner would read the table; what counts is that it needs not.
            cursor.execute("SET enable_seqscan = off")
            cursor.execute("SET enable_bitmapscan = off")
        explain = "EXPLAIN QUERY PLAN" if connections[EXECUTOR].vendor == "sqlite" else "EXPLAIN"
        found = []
        for statement in statements:
            if statement["sql"].startswith(("SELECT", "WITH")) and "library_files" in statement["sql"]:
                cursor.execute(f"{explain} {statement['sql']}".replace("%", "%%"), ())
                found += [" ".join(map(str, row)) for row in cursor.fetchall()]
        if connections[EXECUTOR].vendor == "postgresql":
            cursor.execute("RESET ALL")
    return "\n".join(found)


def walk_through(stages: Any) -> int:
    reign = reign_of("worker")
    search, found = Search(reign, stages), 0
    while rows := search.next(Bounds(400, 1 << 40)):
        found += len(rows)
        taken = LibraryFile.objects.filter(pk__in=[row.id for row in rows])
        taken.update(hash_claim_token=f"{reign}:x", hash_claimed_at=SecondsFromNow(0))
    return found


@pytest.mark.parametrize("stage", [*STAGES, *REHASH_STAGES, candidates.outstanding], ids=lambda stage: stage.__name__)
def test_no_look_for_files_reads_the_whole_table(stage: Any) -> None:
    many_files()
    with CaptureQueriesContext(connections[EXECUTOR]) as queries:
        if stage is candidates.outstanding:
            assert stage().files > 0
        else:
            small_too = LibraryFile.objects.filter(pk__lte=LibraryFile.objects.order_by("pk")[9].pk)
            small_too.update(size_bytes=1)
            assert Search("reign", [stage]).next(Bounds(400, 1 << 40))
    plan = plans(list(queries.captured_queries))
    assert plan
    assert not re.search(r"SCAN [fu]\b(?! USING)|Seq Scan on library_files", plan), plan
    if stage not in REHASH_STAGES:
        assert re.search("ix_library_files_(size|unhashed)", plan), plan


def test_what_is_outstanding_counts_each_file_once_and_those_without_a_twin_where_they_are_wanted() -> None:
    many_files()
    due = LibraryFile.objects.filter(needs_hash=True)
    assert candidates.outstanding() == Amount(1500, sum(due.values_list("size_bytes", flat=True)))
    LibraryRoot.objects.update(hash_everything=False)
    assert candidates.outstanding().files == 1000


def test_each_file_is_found_once_by_a_look_through_the_index() -> None:
    """As many statements as there are batches, however many files can have no twin."""
    many_files()
    with CaptureQueriesContext(connections[EXECUTOR]) as queries:
        found = walk_through(STAGES)
    assert found == LibraryFile.objects.filter(hash_claim_token__isnull=False).count()
    assert found == 1500
    assert len(queries) < 60
