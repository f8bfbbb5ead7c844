"""What the overview says that needs a person, and when it stops saying so."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from database.clock import SecondsFromNow
from duplicates.models import Plan, RuleSet
from jobs.models import WalMaintenanceJob
from libraries.models import LibraryFile, LibraryRoot, LibraryState, ScanRequest
from tests import factories
from tests.duplicates.plans import SHORTEST, copies, planned
from tests.pages import text_of, words_of
from tests.site.overviews import HOSTILE, a_consumer, ended_scan, library
from tests.trash.trashed import carried_out
from trash.models import Act

pytestmark = pytest.mark.django_db
ADDRESS = "/"
COUNTED = "/?count=1"


def needs_in(client: Client) -> str:
    """Without what only screen readers read a second time."""
    (part,) = re.findall(r'<section class="card" id="needs".*?</section>', text_of(client, ADDRESS), re.S)
    return words_of(re.sub(r'<span class="only-read">.*?</span>', "", part))


def test_nothing_waits_where_all_is_well(viewer: Client) -> None:
    a_consumer()
    ended_scan(library(), "completed")
    assert "Nothing waits for you." in needs_in(viewer)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"mount": "absent"}, "photos looks unmounted"),
        ({"mount": "empty"}, "photos is empty, and was not before"),
        ({"mount": "different"}, "photos: another disk is there"),
        ({"gone_count": 2_310}, "photos: are 2,310 files really gone?"),
        ({"error_count": 12}, "photos: 12 paths can't be read"),
    ],
)
def test_a_library_that_needs_somebody_is_named(viewer: Client, state: dict[str, Any], words: str) -> None:
    library(**state)
    assert words in needs_in(viewer)


def test_without_a_consumer_everything_waits(viewer: Client) -> None:
    library()
    assert "No consumer is alive: background work waits" in needs_in(viewer)
    a_consumer()
    assert "No consumer" not in needs_in(viewer)


def test_the_last_scan_counts_not_an_older_one(viewer: Client) -> None:
    photos = library()
    ended_scan(photos, "failed", 300, error="The disk broke.")
    assert "The scan of photos failed The disk broke." in needs_in(viewer)
    ended_scan(photos, "cancelled", 200)
    assert "The scan of photos failed" in needs_in(viewer), "cancelling mends nothing"
    ended_scan(photos, "completed", 100)
    assert "failed" not in needs_in(viewer)
    ended_scan(photos, "failed", 50)
    LibraryState.objects.update(mount="absent")
    assert "The scan of photos failed" not in needs_in(viewer), "its disk is away, and that is said"


def test_a_scheduled_scan_that_did_not_run_is_told(viewer: Client) -> None:
    photos = library()
    LibraryRoot.objects.update(scan_interval_minutes=60, next_scan_at=SecondsFromNow(600))
    assert "did not run" not in needs_in(viewer)
    LibraryRoot.objects.update(next_scan_at=SecondsFromNow(-7300))
    assert "The scheduled scan of photos did not run It was due 2 h ago." in needs_in(viewer)
    LibraryRoot.objects.update(is_paused=True)
    assert "did not run" not in needs_in(viewer)
    LibraryRoot.objects.update(is_paused=False, next_scan_at=SecondsFromNow(600))
    ScanRequest.objects.create(library=photos, created_at=SecondsFromNow(-7300))
    assert "The scheduled scan of photos did not run It was asked for 2 h ago." in needs_in(viewer)
    factories.running_job("hash")
    assert "did not run" not in needs_in(viewer), "it waits for its turn"


def test_a_scan_that_somebody_asked_for_and_that_does_not_begin_is_told(viewer: Client) -> None:
    photos = library()
    ScanRequest.objects.create(library=photos, priority=1, requested_by="ada", created_at=SecondsFromNow(-60))
    assert "not begun" not in needs_in(viewer)
    ScanRequest.objects.update(created_at=SecondsFromNow(-7300))
    assert "The scan of photos has not begun It was asked for 2 h ago." in needs_in(viewer)
    factories.running_job("hash")
    assert "not begun" not in needs_in(viewer), "it waits for its turn"


def test_files_that_could_not_be_hashed_count_as_unreadable(viewer: Client) -> None:
    photos = library(error_count=2)
    factories.library_file("a", photos, hash_error_count=3)
    factories.library_file("gone", photos, hash_error_count=3, is_missing=True)
    assert "photos: 3 paths can't be read" in needs_in(viewer)


def test_plans_that_wait_and_plans_that_failed(viewer: Client) -> None:
    library()
    waits = Plan.objects.create(status="ready", remove_count=2_310, freed_bytes=88_100_000_000)
    Plan.objects.create(status="ready", remove_count=0)
    Plan.objects.create(status="planning", job=factories.finished_job("delete", "failed", dry_run=True))
    words = needs_in(viewer)
    assert f"Plan {waits.pk} waits for approval 2,310 files, 88.1 GB" in words
    assert words.count("waits for approval") == 1, "nothing goes by an empty plan"
    assert "could not be made" in words


def test_acts_that_came_to_nothing_until_another_follows(viewer: Client) -> None:
    library()
    plan = Plan.objects.create(status="ready")
    now = SecondsFromNow(0)
    Act.objects.create(plan=plan, authorised_by="ada", status="failed", note="Read-only.", finished_at=now)
    assert f"Plan {plan.pk}: It could not be carried out to its end Read-only." in needs_in(viewer)
    void = Act.objects.create(plan=plan, authorised_by="ada", status="void", finished_at=now)
    words = needs_in(viewer)
    assert "Its approval no longer counts" in words
    assert "could not be carried out" not in words
    Act.objects.filter(pk=void.pk).update(finished_at=SecondsFromNow(-40 * 86400))
    assert "no longer counts" not in needs_in(viewer)


def test_a_paused_act_waits_for_a_person(viewer: Client) -> None:
    library()
    job = factories.pending_job("delete", dry_run=False)
    plan = Plan.objects.create(status="authorised")
    Act.objects.create(
        plan=plan, job=job, authorised_by="ada", status="running", is_paused=True, file_count=10, done_count=4
    )
    html = text_of(viewer, ADDRESS)
    assert f"Plan {plan.pk} is paused 4 of 10 files are done" in words_of(html)
    assert '<li class="run"' not in html


def test_last_copies_in_the_trash_are_told(viewer: Client) -> None:
    photos = library()
    copies(photos, 1, "a", "old/a")
    carried_out(planned())
    assert "last copy" not in needs_in(viewer)
    LibraryFile.objects.update(is_missing=True)
    cache.clear()
    assert "The trash holds the last copy of 1 file" in needs_in(viewer)


def test_what_fails_again_and_again_is_told(viewer: Client) -> None:
    photos = library()
    file = factories.library_file("a", photos)
    factories.pending_thumbnail("k", of=file, status="failed", error_count=2)
    WalMaintenanceJob.objects.create(status="retryable", retry_count=2)
    assert "again and again" not in needs_in(viewer)
    factories.pending_thumbnail("l", of=file, status="failed", error_count=3)
    WalMaintenanceJob.objects.update(retry_count=3)
    factories.finished_job("hash", "failed")
    words = needs_in(viewer)
    assert "1 thumbnail fails again and again" in words
    assert "The write-ahead log can't be written back" in words
    assert "Hashing failed" in words


def test_of_many_only_some_are_named_and_the_worst_come_first(viewer: Client) -> None:
    for number in range(9):
        library(f"lib {number}", mount="absent", error_count=1)
    words = needs_in(viewer)
    assert words.count("looks unmounted") == 4
    assert words.count("5 more like this") == 2
    assert words.rindex("looks unmounted") < words.index("can't be read")


def more_leads_to(client: Client) -> list[str]:
    return re.findall(r'id="need-more-[^"]*" href="([^"]*)"', text_of(client, ADDRESS))


@pytest.mark.parametrize(
    ("fields", "address"),
    [
        ({"status": "failed", "finished_at": SecondsFromNow(0)}, "/plans/"),
        ({"status": "void", "finished_at": SecondsFromNow(0)}, "/plans/"),
        ({"status": "running", "is_paused": True}, "/trash/"),
    ],
    ids=["failed", "void", "paused"],
)
def test_of_many_acts_the_rest_is_where_acts_are_told_of(viewer: Client, fields: dict[str, Any], address: str) -> None:
    library()
    for _ in range(9):
        job = factories.pending_job("delete", dry_run=False) if "is_paused" in fields else None
        Act.objects.create(plan=Plan.objects.create(status="ready"), job=job, authorised_by="ada", **fields)
    assert "5 more like this" in needs_in(viewer)
    assert more_leads_to(viewer) == [address]


def test_of_many_libraries_and_plans_the_rest_is_in_their_lists(viewer: Client) -> None:
    for number in range(9):
        library(f"lib {number}", mount="absent")
        Plan.objects.create(status="ready", remove_count=3)
    assert more_leads_to(viewer) == ["/libraries/", "/plans/"]


def test_names_of_others_can_not_do_harm(viewer: Client) -> None:
    made = library(HOSTILE, mount="absent", mount_note=HOSTILE)
    ended_scan(made, "failed", error=HOSTILE)
    RuleSet.objects.create(name="<script>alert(2)</script>", rules=SHORTEST)
    copies(made, 1, "a", "old/a")
    html = text_of(viewer, COUNTED)
    assert "<script>alert" not in html
    assert r"caf\xe9 <script>alert(1)</script>\n looks unmounted" in words_of(html)
