from __future__ import annotations

import re
from html import unescape

import pytest
from django.db.models.functions import Now
from django.test import Client

from accounts.models import Role
from database.clock import SecondsFromNow
from jobs import deciding
from jobs.models import Job, WorkerHeartbeat
from logbook.models import LogbookEvent, write_event
from tests import factories
from tests.pages import AGO, HTMX

pytestmark = pytest.mark.django_db

HOSTILE = "<script>alert('x')</script> & \"quotes\""


@pytest.fixture
def viewer(client: Client) -> Client:
    client.force_login(factories.user("vera", Role.VIEWER))
    return client


@pytest.fixture
def operator() -> Client:
    client = Client()
    client.force_login(factories.user("otto", Role.OPERATOR))
    return client


def text_of(client: Client, address: str, **headers: str) -> str:
    answer = client.get(address, headers=headers)
    assert answer.status_code == 200, answer.status_code
    return answer.content.decode()


def jobs_in(html: str) -> list[str]:
    return re.findall(r'<tr id="job-([^"]+)"', html)


def next_in(html: str) -> str | None:
    found = re.search(r'id="load-more" href="([^"]+)"', html)
    return unescape(found[1]) if found else None


def many_jobs(count: int, **fields: object) -> list[str]:
    """Jobs of the same moment, so that only their ids tell them apart."""
    values: dict[str, object] = {"kind": "thumbnail", "status": "completed", **fields}
    made = [job.pk for job in Job.objects.bulk_create([Job(**values) for _ in range(count)])]
    Job.objects.filter(pk__in=made).update(created_at=Now())
    return made


def words_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


# --- The list ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("address", ["/jobs/", "/jobs/live/", "/jobs/workers/", "/jobs/{job}/"])
@pytest.mark.parametrize("headers", [{}, HTMX], ids=["page", "fragment"])
def test_pages_and_fragments_ask_a_stranger_to_log_in(client: Client, address: str, headers: dict[str, str]) -> None:
    job = factories.pending_job()
    answer = client.get(address.format(job=job.pk), headers=headers)
    assert answer.status_code == 302 or "HX-Redirect" in answer.headers
    assert job.pk not in answer.content.decode()


def test_list_shows_every_column_of_a_job(viewer: Client) -> None:
    job, lease = factories.running_job("hash")
    lease.renew(1500, 2000)
    lease.finish("failed", code="WORKER_FAILURE", message="disk")
    words = words_of(text_of(viewer, "/jobs/"))
    for part in ("Hash", job.pk[:8], "Failed", "1,500 / 2,000", "75 %", "factory", "WORKER_FAILURE"):
        assert part in words, part
    assert re.search(AGO, words)


def test_list_filters_by_kind_and_status_in_the_address(viewer: Client) -> None:
    failed_scan = factories.finished_job("scan", "failed")
    done_scan = factories.finished_job("scan")
    failed_hash = factories.finished_job("hash", "failed")
    assert jobs_in(text_of(viewer, "/jobs/?kind=scan&status=failed")) == [failed_scan.pk]
    assert set(jobs_in(text_of(viewer, "/jobs/?kind=scan"))) == {failed_scan.pk, done_scan.pk}
    assert set(jobs_in(text_of(viewer, "/jobs/?status=failed"))) == {failed_scan.pk, failed_hash.pk}


def test_list_marks_the_filters_that_are_on_and_keeps_the_other_one(viewer: Client) -> None:
    html = text_of(viewer, "/jobs/?kind=scan&status=failed")
    current = [unescape(each) for each in re.findall(r'class="choice" href="([^"]+)" aria-current="true"', html)]
    assert current == ["/jobs/?kind=scan&status=failed"] * 2
    assert 'href="/jobs/?kind=scan&amp;status=running"' in html


@pytest.mark.parametrize(
    "query", ["kind=banana", "status=%00", "cursor=nothing", "cursor=%00", "cursor=", "cursor=" + "x" * 5000]
)
def test_list_refuses_what_it_never_offered_and_says_so(viewer: Client, query: str) -> None:
    factories.pending_job()
    answer = viewer.get(f"/jobs/?{query}")
    assert answer.status_code == 404
    assert re.search(r"Start again from the newest|no such kind or status", answer.content.decode())


def test_list_is_designed_when_empty(viewer: Client) -> None:
    assert "No jobs yet" in text_of(viewer, "/jobs/")
    assert "Show all jobs" in text_of(viewer, "/jobs/?status=failed")


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["links", "fragments"])
def test_list_pages_to_the_end_without_repeat_or_gap_while_jobs_arrive(viewer: Client, headers: dict[str, str]) -> None:
    wanted = many_jobs(130)
    seen: list[str] = []
    address: str | None = "/jobs/"
    while address:
        html = text_of(viewer, address, **headers)
        assert ("<html" in html) == (not headers)
        seen += jobs_in(html)
        late = many_jobs(3)
        Job.objects.filter(pk__in=late).update(created_at=SecondsFromNow(60))
        address = next_in(html)
    assert seen == sorted(wanted, reverse=True)


def test_load_more_is_a_link_that_keeps_the_filters(viewer: Client) -> None:
    many_jobs(26)
    html = text_of(viewer, "/jobs/?kind=thumbnail")
    address = next_in(html)
    assert address is not None
    assert address.startswith("/jobs/?kind=thumbnail&cursor=")
    assert f'hx-get="{address.replace("&", "&amp;")}"' in html
    older = text_of(viewer, address)
    assert len(jobs_in(older)) == 1
    assert 'href="/jobs/?kind=thumbnail">Back to the newest' in older


@pytest.mark.parametrize("address", ["/jobs/", "/jobs/{job}/"])
def test_addresses_that_serve_pages_and_fragments_vary(viewer: Client, address: str) -> None:
    job = factories.pending_job()
    assert "HX-Request" in viewer.get(address.format(job=job.pk)).headers["Vary"]


def test_list_costs_the_same_number_of_queries_whatever_it_shows(
    viewer: Client, django_assert_max_num_queries: object
) -> None:
    many_jobs(60)
    factories.running_job("scan")
    assert callable(django_assert_max_num_queries)
    with django_assert_max_num_queries(6):
        text_of(viewer, "/jobs/")


# --- Live -------------------------------------------------------------------------------------------------
def test_list_asks_again_with_one_request_while_something_runs(viewer: Client) -> None:
    running, _lease = factories.running_job("scan")
    waiting = factories.pending_job("thumbnail")
    done = factories.finished_job("delete")
    html = text_of(viewer, "/jobs/")
    assert html.count("hx-trigger=") == 1
    assert 'hx-trigger="every 2s"' in html
    assert set(re.findall(r'name="id" value="([^"]+)"', html)) == {running.pk, waiting.pk}
    assert done.pk in jobs_in(html)


def test_list_asks_less_often_while_something_only_waits(viewer: Client) -> None:
    factories.pending_job()
    assert 'hx-trigger="every 5s"' in text_of(viewer, "/jobs/")


def test_list_does_not_ask_again_when_everything_has_ended(viewer: Client) -> None:
    factories.finished_job("scan")
    factories.finished_job("scan", "failed")
    html = text_of(viewer, "/jobs/")
    assert '<div id="live"></div>' in html
    assert "hx-trigger" not in html


def test_live_brings_the_rows_up_to_date_and_ends_the_asking(viewer: Client) -> None:
    job, lease = factories.running_job("scan")
    lease.renew(1, 4)
    html = text_of(viewer, f"/jobs/live/?id={job.pk}", **HTMX)
    assert re.search(rf'<tr id="job-{job.pk}" hx-swap-oob="true">', html)
    assert "25 %" in html
    assert 'hx-trigger="every 2s"' in html
    assert 'id="running-now"' in html
    lease.finish("completed")
    html = text_of(viewer, f"/jobs/live/?id={job.pk}", **HTMX)
    assert "Completed" in html
    assert "Nothing runs" in html
    assert '<div id="live"></div>' in html
    assert "hx-trigger" not in html


@pytest.mark.parametrize("query", ["", "id=unknown", "id=%00", "id=" + "y" * 300, "id=&id="])
def test_live_answers_whatever_it_is_asked_about(viewer: Client, query: str) -> None:
    html = text_of(viewer, f"/jobs/live/?{query}", **HTMX)
    assert jobs_in(html) == []
    assert "hx-trigger" not in html


def test_more_rows_begin_the_asking_when_they_bring_the_first_live_one(viewer: Client) -> None:
    old, _lease = factories.running_job("scan")
    Job.objects.filter(pk=old.pk).update(created_at=SecondsFromNow(-60))
    many_jobs(50)
    html = text_of(viewer, "/jobs/")
    assert "hx-trigger" not in html
    address = next_in(html)
    assert address is not None
    more = text_of(viewer, address, **HTMX)
    assert re.search(r'<template>\s*<div id="live" hx-swap-oob="true" hx-get="/jobs/live/"', more)


# --- One job ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("job_id", ["nothing", "%00", "z" * 400, "..%2f"])
def test_unknown_job_is_not_found(viewer: Client, job_id: str) -> None:
    assert viewer.get(f"/jobs/{job_id}/").status_code == 404


def test_job_shows_its_lease_while_it_runs(viewer: Client) -> None:
    job, lease = factories.running_job("scan")
    html = text_of(viewer, f"/jobs/{job.pk}/")
    words = words_of(html)
    assert lease.worker_id in words
    assert re.search(rf"ends in \d+ (s|min) · last heartbeat {AGO}", words)
    assert re.search(f"taken {AGO} by", words)
    assert int(re.findall(r'class="meter is-ok" max="1000" value="(\d+)"', html)[0]) > 900
    factories.expire(job)
    html = text_of(viewer, f"/jobs/{job.pk}/")
    assert "It has run out" in html
    assert 'class="meter is-danger" max="1000" value="0"' in html
    lease.row.refresh_from_db()
    assert lease.row.status == "running"


def test_job_shows_the_error_its_text_and_what_to_do(viewer: Client) -> None:
    job, lease = factories.running_job()
    lease.finish("failed", code="WORKER_FAILURE", message="x" * 3000 + " the end")
    html = text_of(viewer, f"/jobs/{job.pk}/")
    assert "the end" in html
    assert "The consumer&#x27;s log has the whole trace" in html
    assert 'data-copy="error-text"' in html


def test_hostile_text_is_shown_and_never_run(viewer: Client) -> None:
    job, lease = factories.running_job(payload={"path": HOSTILE, HOSTILE: 1})
    lease.finish("failed", code=HOSTILE[:64], message=HOSTILE)
    write_event("jobs", job.pk, HOSTILE[:64], actor=HOSTILE, reason=HOSTILE, extra=HOSTILE)
    for address in (f"/jobs/{job.pk}/", "/jobs/", f"/jobs/live/?id={job.pk}", "/logbook/", "/jobs/workers/"):
        html = text_of(viewer, address)
        assert "<script>alert" not in html
        assert 'data-x="quotes"' not in html
    assert "&lt;script&gt;alert" in text_of(viewer, f"/jobs/{job.pk}/")


def test_history_tells_who_asked_why_from_where_to_where_and_which_worker(operator: Client) -> None:
    job = deciding.enqueue("scan", actor="ada")
    lease = Job.objects.claim("nas")
    assert lease is not None
    operator.post(f"/jobs/{job.pk}/cancel/", {"reason": "wrong library"})
    html = text_of(operator, f"/jobs/{job.pk}/")
    history = words_of(html[html.index('id="job-history"') :])
    for part in (
        "Requested by ada",
        "Created as Pending",
        lease.worker_id,
        "Cancel asked for by otto",
        "wrong library",
    ):
        assert part in history, part
    assert re.search(r"Pending to Running .* Pending|Running to Cancelled .* Pending to Running", history)
    assert history.index("Cancel asked for") < history.index("Requested by ada")
    assert html.count('<li class="moment">') == LogbookEvent.objects.about("jobs", job.pk).count() == 5


def test_job_page_asks_again_while_it_can_change_and_gets_only_news(viewer: Client) -> None:
    job, lease = factories.running_job()
    html = text_of(viewer, f"/jobs/{job.pk}/")
    found = re.search(rf'hx-get="(/jobs/{job.pk}/\?seen=\d+)" hx-trigger="every 2s"', html)
    assert found is not None
    lease.renew(3, 4)
    fragment = text_of(viewer, found[1], **HTMX)
    assert "75 " in fragment
    assert "<html" not in fragment
    assert "job-history" not in fragment
    lease.finish("completed")
    fragment = text_of(viewer, found[1], **HTMX)
    assert 'id="job-history" aria-labelledby="history-name" hx-swap-oob="true"' in fragment
    assert 'id="job-actions" hx-swap-oob="true"' in fragment
    assert "hx-trigger" not in fragment


def test_job_with_progress_beyond_measure_stays_within_its_bar(viewer: Client) -> None:
    job, _lease = factories.running_job()
    Job.objects.filter(pk=job.pk).update(processed_items=900, total_items=3, progress=41.0)
    assert 'max="1000" value="1000"' in text_of(viewer, f"/jobs/{job.pk}/")
    Job.objects.filter(pk=job.pk).update(processed_items=-5, total_items=0, progress=-1.0)
    assert 'max="1000" value="0"' in text_of(viewer, "/jobs/")


# --- Decisions --------------------------------------------------------------------------------------------
def test_actions_are_shown_where_they_would_be_done(operator: Client) -> None:
    shown = {
        factories.pending_job("thumbnail").pk: {"cancel"},
        factories.running_job("delete", dry_run=True)[0].pk: {"cancel"},
        factories.finished_job("scan").pk: set(),
        factories.finished_job("scan", "failed").pk: {"retry"},
        factories.finished_job("delete", "failed").pk: set(),
        factories.finished_job("delete", "failed", dry_run=True).pk: {"retry"},
        factories.finished_job("scan", "cancelled").pk: {"retry"},
        factories.finished_job("scan", "retryable").pk: {"cancel", "reset"},
    }
    for pk, verbs in shown.items():
        html = text_of(operator, f"/jobs/{pk}/")
        assert set(re.findall(rf'action="/jobs/{pk}/(\w+)/"', html)) == verbs


@pytest.mark.parametrize("verb", ["cancel", "reset", "retry"])
def test_viewer_sees_no_action_and_may_not_send_one(viewer: Client, verb: str) -> None:
    job = factories.finished_job("scan", "failed" if verb == "retry" else "retryable")
    html = text_of(viewer, f"/jobs/{job.pk}/")
    assert f"/jobs/{job.pk}/{verb}/" not in html
    assert viewer.post(f"/jobs/{job.pk}/{verb}/").status_code == 403
    assert list(Job.objects.values_list("pk", "status")) == [(job.pk, job.status)]


@pytest.mark.parametrize("verb", ["cancel", "reset", "retry"])
def test_action_needs_a_post_from_our_own_page(operator: Client, verb: str) -> None:
    job = factories.finished_job("scan", "failed" if verb == "retry" else "retryable")
    assert operator.get(f"/jobs/{job.pk}/{verb}/").status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = operator.cookies
    assert strict.post(f"/jobs/{job.pk}/{verb}/").status_code == 403
    assert list(Job.objects.values_list("pk", "status")) == [(job.pk, job.status)]


@pytest.mark.parametrize("verb", ["cancel", "reset", "retry"])
@pytest.mark.parametrize("job_id", ["nothing", "%00"])
def test_action_on_an_unknown_job_is_not_found(operator: Client, verb: str, job_id: str) -> None:
    assert operator.post(f"/jobs/{job_id}/{verb}/").status_code == 404


def test_cancel_cancels_and_says_so(operator: Client) -> None:
    job, _lease = factories.running_job()
    answer = operator.post(f"/jobs/{job.pk}/cancel/", {"reason": "no longer needed"}, follow=True)
    assert answer.redirect_chain == [(f"/jobs/{job.pk}/", 302)]
    assert "This job was cancelled." in answer.content.decode()
    job.refresh_from_db()
    assert job.status == "cancelled"
    event = LogbookEvent.objects.about("jobs", job.pk).get(event_type="cancel")
    assert (event.actor, event.payload_json) == ("otto", {"reason": "no longer needed"})


def test_cancel_of_a_finished_job_is_refused_with_the_reason(operator: Client) -> None:
    job = factories.finished_job()
    answer = operator.post(f"/jobs/{job.pk}/cancel/", follow=True)
    assert "This job is completed; cancel is possible while it is pending" in answer.content.decode()
    job.refresh_from_db()
    assert job.status == "completed"


def test_cancel_with_a_reason_too_long_does_nothing(operator: Client) -> None:
    job = factories.pending_job()
    answer = operator.post(f"/jobs/{job.pk}/cancel/", {"reason": "x" * 501}, follow=True)
    assert "The reason is too long" in answer.content.decode()
    job.refresh_from_db()
    assert job.status == "pending"


def test_reset_puts_back_and_is_refused_while_the_slot_is_taken(operator: Client) -> None:
    job = factories.finished_job("scan", "retryable")
    holder = factories.pending_job("hash")
    answer = operator.post(f"/jobs/{job.pk}/reset/", follow=True)
    assert f"The hash job {holder.pk} is pending" in answer.content.decode()
    deciding.cancel(holder.pk, actor="ada")
    operator.post(f"/jobs/{job.pk}/reset/")
    job.refresh_from_db()
    assert job.status == "pending"


def test_retry_leads_to_the_new_job_and_the_old_one_points_to_it(operator: Client) -> None:
    old = factories.finished_job("scan", "failed", payload={"library_id": 3})
    answer = operator.post(f"/jobs/{old.pk}/retry/", follow=True)
    new = Job.objects.exclude(pk=old.pk).get()
    assert answer.redirect_chain == [(f"/jobs/{new.pk}/", 302)]
    assert (new.status, new.payload) == ("pending", {"library_id": 3})
    assert f'href="/jobs/{new.pk}/"' in text_of(operator, f"/jobs/{old.pk}/")


# --- Workers ----------------------------------------------------------------------------------------------
def worker(name: str, seen_seconds_ago: float, **fields: object) -> None:
    WorkerHeartbeat.objects.create(
        worker_id=name, hostname="nas", pid=12, last_seen_at=SecondsFromNow(-seen_seconds_ago), **fields
    )


def test_workers_warns_when_no_consumer_is_alive(viewer: Client) -> None:
    html = text_of(viewer, "/jobs/workers/")
    assert "No consumer is alive" in html
    assert "manage.py run_huey" in html
    assert "No consumer was seen today" in html
    worker("stopped-in-order", 0, stopped_at=SecondsFromNow(0))
    assert "No consumer is alive" in text_of(viewer, "/jobs/workers/")


def test_workers_tells_alive_silent_and_stopped_apart(viewer: Client, settings: object) -> None:
    settings.HEARTBEAT_SECONDS = 10  # type: ignore[attr-defined]
    worker("fresh", 5, doing="hash of photos")
    worker("quiet", 60)
    worker("ended", 2, stopped_at=SecondsFromNow(-2))
    worker("forgotten", 2 * 86400)
    html = text_of(viewer, "/jobs/workers/")
    rows = {
        name: words_of(row)
        for name, row in re.findall(r'<td><span class="mono">([\w-]+)</span></td>(.*?)</tr>', html, flags=re.S)
    }
    assert set(rows) == {"fresh", "quiet", "ended"}
    assert "Alive" in rows["fresh"]
    assert "hash of photos" in rows["fresh"]
    assert "Silent" in rows["quiet"]
    assert "Stopped" in rows["ended"]
    assert "No consumer is alive" not in html
    settings.HEARTBEAT_SECONDS = 30  # type: ignore[attr-defined]
    assert "Silent" not in text_of(viewer, "/jobs/workers/")


def test_workers_says_who_holds_the_slot_and_since_when(viewer: Client) -> None:
    assert "Free" in words_of(text_of(viewer, "/jobs/workers/"))
    job = factories.pending_job("hash")
    Job.objects.filter(pk=job.pk).update(created_at=SecondsFromNow(-600))
    assert "asked for 10 min ago , waits for a consumer" in words_of(text_of(viewer, "/jobs/workers/"))
    lease = Job.objects.claim("nas-1")
    assert lease is not None
    Job.objects.filter(pk=job.pk).update(started_at=SecondsFromNow(-120))
    html = text_of(viewer, "/jobs/workers/")
    assert f'href="/jobs/{job.pk}/"' in html
    assert "taken 2 min ago by nas-1" in words_of(html)


def test_workers_counts_the_consumers_that_were_started_again_today(viewer: Client) -> None:
    write_event("supervisor", "consumer", "consumer_restarted", exit=-9)
    write_event("supervisor", "consumer", "consumer_restarted", exit=3)
    old = write_event("supervisor", "consumer", "consumer_restarted", exit=77)
    LogbookEvent.objects.filter(pk=old.pk).update(created_at=SecondsFromNow(-86400 - 60))
    words = words_of(text_of(viewer, "/jobs/workers/"))
    assert "2 times" in words
    assert "killed by SIGKILL" in words
    assert "exit code 3" in words
    assert "77" not in words
