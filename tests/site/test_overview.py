"""The overview: what it says of space, of what needs a person, of what runs, of thirty days; and what it costs."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.utils import timezone

from accounts.models import Role
from database.clock import SecondsFromNow
from dedupfs_site import safe_space
from dedupfs_site.models import DailySample
from duplicates.models import DuplicateGroup, Plan, RuleSet
from jobs.models import Job
from libraries.models import HashRun, LibraryRoot, ScanRequest, ScanSession
from tests import factories
from tests.duplicates.plans import SHORTEST, copies
from tests.pages import HTMX, QueryCounter, logged_in, text_of, words_of
from tests.site.overviews import everything, library, running_act
from trash.models import Act

pytestmark = pytest.mark.django_db
ADDRESS = "/"
COUNTED = "/?count=1"


# --- Figures ----------------------------------------------------------------------------------------------
def test_a_new_installation_leads_an_admin_to_the_first_steps() -> None:
    html = text_of(logged_in(Role.ADMIN), ADDRESS)
    assert re.search(r'id="first-steps" href="/(first-steps|libraries/add)/"', html)
    assert 'id="overview"' not in html
    words = words_of(text_of(logged_in(Role.VIEWER), ADDRESS))
    assert "An admin has to choose the first folder." in words
    assert "No consumer is alive" in words


def test_figures_come_from_states_acts_and_filesystems(viewer: Client) -> None:
    library(files=1_284_000, size=18_200_000_000_000)
    library("music", files=310, size=1_000)
    LibraryRoot.objects.filter(name="music").update(last_scanned_at=SecondsFromNow(-7300))
    Act.objects.create(verb="empty", authorised_by="ada", status="completed", space={"disk": [0, 1_200_000_000]})
    Act.objects.create(verb="empty", authorised_by="ada", status="completed", trashed_bytes=20_100_000, trashed_count=3)
    words = words_of(text_of(viewer, ADDRESS))
    assert "In trash 20.1 MB 3 files · not free yet" in words
    assert "Freed 1.2 GB as the filesystems told it" in words
    assert "Indexed 1,284,310 files 18.2 TB · scanned 2 h ago" in words


def test_what_can_be_won_is_asked_for_afterwards_and_once(viewer: Client) -> None:
    copies(library(), 1, "a", "old/a", size=2_000)
    page = text_of(viewer, ADDRESS)
    assert 'id="to-win" hx-get="/?count=1" hx-trigger="load"' in page
    assert "Count it being added up" in words_of(page), "without JavaScript there is a link"
    part = text_of(viewer, COUNTED, **HTMX)
    assert "<html" not in part
    assert "hx-trigger" not in part
    assert "To win back 2.0 kB 1 group" in words_of(part)
    whole = text_of(viewer, COUNTED)
    assert "To win back 2.0 kB 1 group" in words_of(whole)
    assert 'hx-trigger="load"' not in whole


def test_before_the_first_scan_nothing_is_said_of_equal_files(viewer: Client) -> None:
    library()
    LibraryRoot.objects.update(last_scanned_at=None)
    assert "To win back 0 B known after the first scan" in words_of(text_of(viewer, COUNTED))
    LibraryRoot.objects.update(last_scanned_at=timezone.now())
    assert "To win back 0 B no two files are the same" in words_of(text_of(viewer, COUNTED))


def test_until_it_is_counted_the_last_sample_is_shown_with_its_age(viewer: Client) -> None:
    library()
    sample = DailySample.objects.create(day=timezone.localdate(), reclaimable_bytes=412_600_000_000)
    DailySample.objects.update(updated_at=SecondsFromNow(-200))
    assert "To win back 412.6 GB as of 3 min ago" in words_of(text_of(viewer, ADDRESS))
    DailySample.objects.filter(pk=sample.pk).update(updated_at=SecondsFromNow(-4000))
    assert "Count it being added up" in words_of(text_of(viewer, ADDRESS)), "an old one is no figure of now"


def test_safe_is_what_the_saved_rules_would_free(operator: Client) -> None:
    photos = library()
    copies(photos, 1, "a", "keep/a", "b/a", size=2_000)
    copies(photos, 2, "b", "other/b", size=700)
    assert "Save keep rules to see how much of it is safe" in words_of(text_of(operator, COUNTED))
    never = {"kind": "never_touch", "folders": [{"library": photos.pk, "path": "b"}]}
    cache.clear()
    RuleSet.objects.create(name="Broken", rules=[{"kind": "eat"}])
    RuleSet.objects.create(name="Careful", rules=[never, *SHORTEST])
    words = words_of(text_of(operator, COUNTED))
    assert "To win back 4.7 kB 2 groups" in words
    assert "2.7 kB of it is safe under Careful" in words, "a file that is never touched stays as well"


def test_safe_says_of_how_many_groups_it_speaks(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = library()
    for number, size in enumerate((9_000, 4_000, 700)):
        copies(photos, number, f"{number}", f"old/{number}", size=size)
    RuleSet.objects.create(name="Shortest", rules=SHORTEST)
    monkeypatch.setattr(safe_space, "PAGE_GROUPS", 1)
    monkeypatch.setattr(safe_space, "MOST_GROUPS", 2)
    monkeypatch.setattr(safe_space, "PATIENCE_SECONDS", 60)
    assert "13.0 kB of the 13.0 kB in the first 2 groups is safe under Shortest" in words_of(text_of(operator, COUNTED))


def test_bar_has_a_piece_for_each_library_and_a_table(viewer: Client) -> None:
    for number in range(8):
        library(f"lib {number}", size=100 * (number + 1))
    html = text_of(viewer, ADDRESS)
    (bar,) = re.findall(r'<svg class="share-bar".*?</svg>', html, re.S)
    assert bar.count("<rect") == 6
    assert 'role="img" aria-labelledby="share-title"' in bar
    assert "<title>lib 7: 800 B</title>" in bar
    assert "3 others" in bar
    words = words_of(html)
    assert "lib 7 800 B · 22 %" in words
    assert re.search(r"Files and bytes by library .* lib 7 10 800 B 22 % .* Others 30 600 B 17 %", words)


# --- What runs --------------------------------------------------------------------------------------------
def test_a_running_scan_tells_how_far_it_is_and_can_be_cancelled(operator: Client) -> None:
    photos = library(walked_files=1_000, walked_bytes=1_000_000)
    job, _lease = factories.running_job("scan")
    request = ScanRequest.objects.create(library=photos, status="running", job=job)
    begun = SecondsFromNow(-60)
    ScanSession.objects.create(library=photos, job=job, files_seen=500, started_at=begun, updated_at=SecondsFromNow(0))
    html = text_of(operator, ADDRESS)
    words = words_of(html)
    assert re.search(r"Scan of photos 500 / 1,000 · about (59 s|1 min|1 min 0 s) left 50 %", words)
    assert f'action="/queue/{request.pk}/cancel/"' in html
    assert f'data-watch="{job.pk}"' in html, "its end is told"
    assert "1 running, 0 waiting" in words
    assert operator.post(f"/queue/{request.pk}/cancel/").status_code == 302
    assert Job.objects.get(pk=job.pk).status == "cancelled"


def test_hashing_tells_its_rate_and_what_it_is_doing(operator: Client) -> None:
    library()
    job, _lease = factories.running_job("hash")
    HashRun.objects.create(
        job=job, phase="hashing", files_done=4, files_total=10, bytes_done=780, bytes_total=1000, busy_seconds=10
    )
    html = text_of(operator, ADDRESS)
    assert "Hashing reading whole files 4 / 10 · 78 B /s · about 2 s left 78 %" in words_of(html)
    assert f'action="/jobs/{job.pk}/cancel/"' in html


def test_an_act_is_stopped_by_an_admin_only() -> None:
    library()
    plan = Plan.objects.create(status="ready")
    act = running_act(plan, done_count=2, skipped_count=1, bytes_done=300, busy_seconds=10)
    stop = f'action="/acts/{act.pk}/stop/"'
    assert stop not in text_of(logged_in(Role.OPERATOR), ADDRESS)
    html = text_of(logged_in(Role.ADMIN), ADDRESS)
    assert stop in html
    assert html.count('<li class="run"') == 1, "its job is not a second line"
    assert f"Plan {plan.pk} The plan is being carried out 3 / 10 · 30 B /s · about 23 s left 30 %" in words_of(html)


def test_a_plan_that_is_made_and_a_job_of_no_known_length(viewer: Client) -> None:
    library()
    job, lease = factories.running_job("delete", dry_run=True)
    plan = Plan.objects.create(job=job)
    lease.renew(30, 120)
    factories.running_job("thumbnail")
    html = text_of(viewer, ADDRESS)
    words = words_of(html)
    assert re.search(rf"Making plan {plan.pk} 30 / 120( · about [^%]+ left)? 25 %", words)
    assert "Thumbnail at work" in words
    assert "/cancel/" not in html, "a viewer sees and can not press"


def test_more_than_fit_are_counted(viewer: Client) -> None:
    library()
    for _ in range(14):
        factories.running_job("thumbnail")
    html = text_of(viewer, ADDRESS)
    assert html.count('<li class="run"') == 12
    assert "2 more run." in words_of(html)


# --- Live -------------------------------------------------------------------------------------------------
def test_a_page_asks_again_often_while_something_runs_and_else_once_a_minute(viewer: Client) -> None:
    library()
    assert 'id="overview" hx-get="/?idle=1" hx-trigger="every 60s"' in text_of(viewer, ADDRESS)
    job = factories.pending_job("thumbnail")
    assert 'id="overview" hx-get="/" hx-trigger="every 10s"' in text_of(viewer, ADDRESS)
    Job.objects.filter(pk=job.pk).claim("worker")
    assert 'id="overview" hx-get="/" hx-trigger="every 3s"' in text_of(viewer, ADDRESS)


def test_a_live_page_gets_everything_in_one_answer_and_the_charts_at_the_end(viewer: Client) -> None:
    copies(library(), 1, "a", "old/a", size=2_000)
    _job, lease = factories.running_job("thumbnail")
    part = text_of(viewer, ADDRESS, **HTMX)
    assert "<html" not in part
    assert 'id="overview-charts"' not in part
    assert "To win back 2.0 kB" in words_of(part)
    assert 'hx-trigger="load"' not in part, "what is counted already is not asked for again"
    assert 'id="running-now"' in part
    lease.finish("completed")
    last = text_of(viewer, ADDRESS, **HTMX)
    assert 'id="overview-charts" hx-swap-oob="true"' in last
    assert 'id="overview" hx-get="/?idle=1" hx-trigger="every 60s"' in last
    assert "HX-Request" in viewer.get(ADDRESS).headers["Vary"]


# --- What it costs ----------------------------------------------------------------------------------------
def statements(client: Client, address: str, **headers: str) -> int:
    """With nothing kept: on a slow machine some figures would be."""
    cache.clear()
    counter = QueryCounter()
    with connection.execute_wrapper(counter):
        text_of(client, address, **headers)
    return counter.count


def test_the_page_takes_the_same_number_of_statements_however_much_there_is(viewer: Client) -> None:
    nothing = statements(viewer, ADDRESS)
    everything()
    assert statements(viewer, ADDRESS) == nothing <= 26


def test_a_live_answer_takes_the_same_number_of_statements_however_much_there_is(viewer: Client) -> None:
    RuleSet.objects.create(name="Newest", rules=[{"kind": "keep_newest"}])
    copies(library(), 99, "x", "old/x")
    factories.running_job("thumbnail")
    text_of(viewer, ADDRESS, **HTMX)
    few = statements(viewer, ADDRESS, **HTMX)
    Job.objects.filter(status="running").update(status="completed")
    everything()
    text_of(viewer, ADDRESS, **HTMX)
    assert DuplicateGroup.objects.count() > 10
    assert statements(viewer, ADDRESS, **HTMX) == few <= 40


def test_no_statement_reads_through_a_large_table(viewer: Client) -> None:
    """What may hold millions of rows is searched by an index, on SQLite as its planner says."""
    if connection.vendor != "sqlite":
        pytest.skip("plans are SQLite's")
    everything()
    seen: list[tuple[str, Any]] = []

    def collect(execute: Any, sql: str, params: Any, *more: Any) -> Any:
        seen.append((sql, params))
        return execute(sql, params, *more)

    with connection.execute_wrapper(collect):
        text_of(viewer, ADDRESS)
    for sql, params in seen:
        if not sql.startswith("SELECT"):
            continue
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}", params)
            steps = [row[3] for row in cursor.fetchall()]
        for table in ("library_files", "duplicate_groups", "trash_items", "plan_files", "jobs", "thumbnails"):
            assert not [
                step for step in steps if re.match(rf"SCAN {table}(?! USING INDEX ix_library_files_failed)", step)
            ]
