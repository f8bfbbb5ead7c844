from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries
from pytest_django.fixtures import Settings

from database.clock import SecondsFromNow
from jobs.models import Job, WorkerHeartbeat
from libraries import changing, queueing
from libraries.models import HashRun, HashState, LibraryRoot, ScanRequest, ScanSession
from logbook.models import LogbookEvent
from tests import factories
from tests.pages import HTMX, text_of, words_of

pytestmark = pytest.mark.django_db

NORMAL, HIGH = ScanRequest.Priority.NORMAL, ScanRequest.Priority.HIGH


def queue_of(client: Client, **headers: str) -> str:
    return text_of(client, "/queue/", **headers)


def part_of(html: str, name: str) -> str:
    """The words of the section with this heading's id."""
    place = html.index(f'aria-labelledby="{name}"')
    return words_of(html[place : html.index("</section>", place)])


def ask(name: str, priority: int = HIGH, **fields: Any) -> ScanRequest:
    library = LibraryRoot.objects.filter(name=name).first() or factories.library(name)
    request = queueing.submit(library.pk, priority, actor="otto" if priority else "schedule")
    ScanRequest.objects.filter(pk=request.pk).update(**fields) if fields else None
    request.refresh_from_db()
    return request


def hashing(**run: Any) -> Job:
    job, _lease = factories.running_job("hash")
    HashRun.objects.create(job=job, **run)
    return job


# --- What runs --------------------------------------------------------------------------------------------
def test_empty_queue_is_designed_and_asks_for_nothing(viewer: Client) -> None:
    html = queue_of(viewer)
    for words in (
        "Nothing runs: the next",
        "Nothing waits",
        "No scan has ended in this time",
        "Nothing waits to be hashed",
    ):
        assert words in html
    assert "hx-trigger" not in html


def test_queue_shows_who_holds_the_slot_since_when_and_how_far_it_is(viewer: Client) -> None:
    WorkerHeartbeat.objects.create(worker_id="nas:7", hostname="nas.example")
    request = ask("photos")
    assert "waits for a consumer" in part_of(queue_of(viewer), "slot-name")
    assert Job.objects.claim("nas:7") is not None
    request.refresh_from_db()
    Job.objects.update(started_at=SecondsFromNow(-605))
    ScanSession.objects.create(
        library=request.library, job=request.job, files_seen=1_234, bytes_seen=5_000_000,
        started_at=SecondsFromNow(-100), updated_at=SecondsFromNow(0),
    )  # fmt: skip
    slot = part_of(queue_of(viewer), "slot-name")
    for part in ("Scan of photos", "1,234 files seen", "12 files/s", "nas:7", "nas.example", "10 min ago", "5.0 MB"):
        assert part in slot, part
    assert "1 consumer alive" in slot
    assert str(request.job_id)[:8] in slot


def test_queue_shows_hashing_with_its_rate_and_what_is_left(viewer: Client) -> None:
    hashing(phase="hashing", files_done=3, files_total=9, bytes_done=4 * 10**9, bytes_total=10**10, busy_seconds=10)
    html = queue_of(viewer)
    slot = part_of(html, "slot-name")
    for part in ("Hashing", "40 %", "400.0 MB /s", "about 15 s left", "reading whole files", "4.0 GB / 10.0 GB"):
        assert part in slot, part
    assert "no consumer of ours that is alive" in slot
    assert 'max="1000" value="400"' in html


def test_queue_says_whether_a_consumer_is_alive(viewer: Client) -> None:
    assert "No consumer is alive" in queue_of(viewer)
    WorkerHeartbeat.objects.create(worker_id="nas:7")
    assert "No consumer is alive" not in queue_of(viewer)


# --- What waits -------------------------------------------------------------------------------------------
def test_queue_shows_what_waits_in_its_order_with_hashing_in_its_place(viewer: Client) -> None:
    ask("slot")
    ask("by schedule", NORMAL)
    ask("second", created_at=SecondsFromNow(-60))
    ask("first", created_at=SecondsFromNow(-120))
    HashState.objects.create(pk=1, is_due=True)
    waiting = part_of(queue_of(viewer), "waiting-name")
    assert re.search(r"Waiting 4 .* 1 first otto .* 2 second otto .* 3 Hashing .* 4 by schedule schedule", waiting)
    assert "slot" not in waiting


def test_hashing_that_gave_way_waits_though_nothing_new_is_due(viewer: Client) -> None:
    """As after a change of algorithm: nothing asked for it but the setting."""
    state = HashState.objects.create(pk=1, switching_to="sha256")
    given_back = factories.pending_job("hash", status="retryable", error_code="GAVE_WAY", attempts=99)
    ask("photos")
    html = queue_of(viewer)
    assert re.search("Waiting 1 .* 1 Hashing", part_of(html, "waiting-name"))
    assert "Due: it begins when its turn comes" in part_of(html, "hashing-name")
    HashState.objects.filter(pk=state.pk).update(is_paused=True)
    assert "Nothing waits" in part_of(queue_of(viewer), "waiting-name")
    HashState.objects.filter(pk=state.pk).update(is_paused=False)
    Job.objects.filter(pk=given_back.pk).update(error_code="WORKER_FAILURE")
    assert "Nothing waits to be hashed" in queue_of(viewer), "its attempts are used up"


def test_a_paused_library_s_request_keeps_its_row_and_has_no_place(viewer: Client) -> None:
    ask("slot")
    request = ask("photos")
    ask("second")
    ask("by schedule", NORMAL)
    HashState.objects.create(pk=1, is_due=True)
    changing.pause(request.library_id, actor="ada")
    waiting = part_of(queue_of(viewer), "waiting-name")
    assert re.search(" \N{EN DASH} photos paused otto .* 1 second .* 2 Hashing .* 3 by schedule", waiting)
    rows = words_of(viewer.get("/libraries/").content.decode())
    assert "scan waits until the library is resumed" in rows
    assert "scan waits for the slot" in rows
    assert "number 2 of the scans" in rows


def test_hostile_names_are_shown_and_never_run(operator: Client) -> None:
    ask("<script>alert('x')</script>" + "W" * 220)
    ask("<b>second</b>")
    html = queue_of(operator)
    assert "<script>alert" not in html
    assert "<b>second" not in html
    assert "&lt;script&gt;alert" in html


# --- What ended -------------------------------------------------------------------------------------------
def ended(name: str, status: str, hours_ago: float = 1, **fields: Any) -> ScanRequest:
    library = factories.library(name)
    times = {"started_at": SecondsFromNow(-hours_ago * 3600 - 200), "completed_at": SecondsFromNow(-hours_ago * 3600)}
    return ScanRequest.objects.create(library=library, status=status, **times, **fields)


def test_queue_shows_what_came_of_the_last_day(viewer: Client, settings: Settings) -> None:
    ended("good", "completed", added_count=1_234, changed_count=5, removed_count=6, failed_count=7)
    ended("bad", "failed", 2, error="The folder is empty.")
    ended("stopped", "cancelled", 3)
    ended("aged", "completed", 25)
    history = part_of(queue_of(viewer), "history-name")
    assert "1,234 added · 5 changed · 6 removed · 7 failed" in history
    assert re.search(r"good Completed .* bad Failed The folder is empty. .* stopped Cancelled", history)
    assert "3 min 20 s" in history
    assert "aged" not in history
    settings.SCAN_HISTORY_HOURS = 48
    assert "aged" in part_of(queue_of(viewer), "history-name")


def many_ended(count: int) -> list[str]:
    """So many scans of one library that ended, two in each moment; their ids as the history lists them."""
    library = factories.library("many")
    made = [ScanRequest(library=library, status="completed", requested_by=f"n{number}.") for number in range(count)]
    ScanRequest.objects.bulk_create(made)
    for number, request in enumerate(made):
        ScanRequest.objects.filter(pk=request.pk).update(completed_at=SecondsFromNow(-60 * (number // 2)))
    found = ScanRequest.objects.order_by("-completed_at", "-id").values_list("requested_by", flat=True)
    return list(found)


def asked_by(html: str) -> list[str]:
    return re.findall(r">(n\d+\.)<", html)


@pytest.mark.parametrize("headers", [HTMX, {}], ids=["by HTMX", "without JavaScript"])
def test_everything_that_ended_in_the_last_day_can_be_reached(viewer: Client, headers: dict[str, str]) -> None:
    wanted = many_ended(135)
    html = queue_of(viewer)
    assert asked_by(html) == wanted[:25]
    (address,) = re.findall(r'id="to-history" href="([^"]+)"', html)
    pages = [text_of(viewer, address)]
    while found := re.search(r'id="load-more" href="([^"]+)" hx-get="([^"]+)"', pages[-1]):
        assert found[1] == found[2]
        pages.append(text_of(viewer, unescape(found[1]), **headers))
    assert [name for page in pages for name in asked_by(page)] == wanted
    assert ("<html" in pages[1]) == (not headers)
    assert ("Back to the newest" in pages[1]) == (not headers)
    assert "hx-trigger" not in pages[0], "what has ended does not change"


def test_a_history_that_is_shown_whole_offers_no_more(viewer: Client) -> None:
    assert "No scan has ended in this time" in text_of(viewer, "/queue/history/")
    many_ended(25)
    assert "to-history" not in queue_of(viewer)
    assert "load-more" not in text_of(viewer, "/queue/history/")


def test_a_page_of_the_history_that_was_never_offered_is_not_found(viewer: Client) -> None:
    many_ended(1)
    for cursor in ("", "x", "%00", "9" * 400):
        assert viewer.get(f"/queue/history/?cursor={cursor}").status_code == 404, cursor
    aged = ended("aged", "completed", 25)
    assert "No scan has ended in this time" in text_of(viewer, f"/queue/history/?cursor={aged.pk}")


# --- Live -------------------------------------------------------------------------------------------------
def test_queue_asks_again_every_3_s_in_one_request_while_something_is_active(viewer: Client) -> None:
    request = ask("photos")
    html = queue_of(viewer)
    assert html.count("hx-trigger=") == 1
    assert 'id="queue" hx-get="/queue/" hx-trigger="every 3s"' in html
    part = queue_of(viewer, **HTMX)
    assert "<html" not in part
    assert 'id="queue"' in part
    assert 'id="running-now"' in part
    queueing.cancel(request.pk, actor="otto")
    assert "hx-trigger" not in queue_of(viewer, **HTMX)


def test_queue_costs_the_same_number_of_queries_for_3_and_30_libraries(
    operator: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    def make(count: int) -> None:
        for number in range(LibraryRoot.objects.count() // 2, count):
            ask(f"library {number}")
            ended(f"ended {number}", "completed")

    make(3)
    queue_of(operator)
    with django_assert_num_queries(11) as counted:
        queue_of(operator)
    make(30)
    with django_assert_num_queries(len(counted)):
        queue_of(operator)


# --- Decisions --------------------------------------------------------------------------------------------
def test_cancel_is_offered_where_it_makes_sense_and_done(operator: Client) -> None:
    running, waiting = ask("running"), ask("waiting")
    assert Job.objects.claim("nas:7") is not None
    over = ended("over", "completed")
    html = queue_of(operator)
    assert set(re.findall(r'action="/queue/([\w-]+)/cancel/"', html)) == {running.pk, waiting.pk}
    answer = operator.post(f"/queue/{waiting.pk}/cancel/", follow=True)
    assert answer.redirect_chain == [("/queue/", 302)]
    assert "The scan of “waiting” is cancelled" in answer.content.decode()
    answer = operator.post(f"/queue/{running.pk}/cancel/", {"from": "library"})
    assert answer["Location"] == f"/libraries/{running.library_id}/"
    assert set(ScanRequest.objects.exclude(pk=over.pk).values_list("status", flat=True)) == {"cancelled"}
    assert Job.objects.get(pk=running.job_id).status == "cancelled"
    assert LogbookEvent.objects.about("scan_requests", running.pk).get(event_type="cancel").actor == "operator"


def test_cancel_of_what_ended_is_refused_and_of_what_is_not_there_not_found(operator: Client) -> None:
    over = ended("over", "failed")
    answer = operator.post(f"/queue/{over.pk}/cancel/", {"from": "library"}, follow=True)
    assert "This scan request is failed" in answer.content.decode()
    for key in ("nothing", "%00", "x" * 400):
        assert operator.post(f"/queue/{key}/cancel/").status_code == 404
    assert operator.get(f"/queue/{over.pk}/cancel/").status_code == 405


def test_hashing_is_paused_and_resumed_by_a_button(operator: Client) -> None:
    HashState.objects.create(pk=1, is_due=True)
    assert 'action="/queue/hash/pause/"' in queue_of(operator)
    operator.post("/queue/hash/pause/")
    assert HashState.objects.get().is_paused
    html = queue_of(operator)
    assert "Paused by a person" in html
    assert "hx-trigger" not in html
    operator.post("/queue/hash/resume/")
    assert not HashState.objects.get().is_paused
    assert LogbookEvent.objects.filter(event_type="paused", actor="operator").count() == 1


def test_queue_shows_the_switch_to_another_algorithm(viewer: Client) -> None:
    HashState.objects.create(pk=1, algorithm="blake3", switching_to="sha256", retry_at=SecondsFromNow(605))
    words = part_of(queue_of(viewer), "hashing-name")
    assert "Algorithm BLAKE3 Switching to SHA-256" in words
    assert "tried again in 10 min" in words


def test_viewer_sees_no_action_and_may_not_send_one(viewer: Client) -> None:
    request = ask("photos")
    html = queue_of(viewer)
    assert "/cancel/" not in html
    assert "/queue/hash/" not in html
    for address in (f"/queue/{request.pk}/cancel/", "/queue/hash/pause/", "/queue/hash/resume/"):
        assert viewer.post(address).status_code == 403
    request.refresh_from_db()
    assert request.status == "pending"
