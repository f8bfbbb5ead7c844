"""The maintenance page: what it says in each state, what its form does, and what it costs."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django.fixtures import Settings

from database.clock import SecondsFromNow
from dedupfs_site.charts import draw
from jobs.models import IoRateLimit, Job, WalMaintenanceJob, WalSize, WorkerHeartbeat
from libraries.names import to_text
from logbook.models import LogbookEvent
from tests import factories
from tests.jobs.checkpoints import carry_out, completed, fill_log, on_postgresql, on_sqlite
from tests.pages import HTMX, text_of, words_of
from thumbnails.models import ThumbnailCleanupJob

pytestmark = pytest.mark.django_db
ADDRESS = "/maintenance/"
FORM = 'action="/maintenance/checkpoint/"'
HOSTILE = to_text(b"caf\xe9 <script>alert(1)</script>\n")


def sampled(*sizes: int, minutes: int = 10) -> None:
    """Figures so many minutes apart, the last one just now."""
    WalSize.objects.bulk_create(
        WalSize(bytes_size=size, seen_at=SecondsFromNow(-60 * minutes * (len(sizes) - 1 - place)))
        for place, size in enumerate(sizes)
    )


def everything() -> None:
    WorkerHeartbeat.objects.create(worker_id="nas:7", hostname="nas")
    sampled(*(number % 7 * 1_000_000 for number in range(100)))
    completed(seconds_ago=100, requested_by="otto", reason=HOSTILE)
    WalMaintenanceJob.objects.create(
        requested_mode="restart", status="retryable", retry_count=2, retry_after=SecondsFromNow(240),
        error_code="WAL_CHECKPOINT_BUSY", checkpoint_busy=1, checkpoint_log_frames=9, checkpointed_frames=4,
    )  # fmt: skip
    Job.objects.bulk_create(Job(kind="thumbnail", status="retryable") for _ in range(3))
    library = factories.library(HOSTILE, read_bytes_per_second=5_000_000)
    file = factories.library_file("a", library)
    for number, status in enumerate(["pending", "running", "failed", "ready", "ready"]):
        wait = SecondsFromNow(60) if status == "failed" else None
        factories.pending_thumbnail(f"{number}", of=file, status=status, bytes_size=1000, retry_after=wait)
    ThumbnailCleanupJob.objects.create(group_key="a", execute_after=SecondsFromNow(-7200))
    ThumbnailCleanupJob.objects.create(group_key="b", execute_after=SecondsFromNow(7200))
    ahead = int(datetime.now(UTC).timestamp() + 3000) * 1000
    IoRateLimit.objects.create(bucket_key=f"library:{library.pk}", next_available_at_ms=ahead)
    IoRateLimit.objects.create(bucket_key="thumbnail_io_global", next_available_at_ms=0)


# --- What it says -----------------------------------------------------------------------------------------
def test_empty_page_says_what_is_not_there(viewer: Client) -> None:
    words = words_of(text_of(viewer, ADDRESS))
    assert "No consumer is alive: maintenance waits" in words
    assert "no clean-up of thumbnails waits" in words
    assert "nothing has to be tried again" in words
    assert "No budget was used so far" in words
    if connection.vendor == "sqlite":
        assert "No figures yet" in words
        assert "None was asked for so far" in words


def test_full_page_tells_lag_backlog_budgets_and_queue(viewer: Client) -> None:
    everything()
    html = text_of(viewer, ADDRESS)
    words = words_of(html)
    assert "Clean-up lag 2 h 1 clean-up of thumbnails is due" in words
    assert re.search(r"Waiting for another try [45] the first in \d+ s", words)
    assert re.search(r"Jobs 3 . Thumbnails 1 in \d+ (s|min) ", words)
    assert bool(re.search(r"Checkpoints 1 in \d min", words)) == (connection.vendor == "sqlite")
    assert "Thumbnail cache 2.0 kB of 4.3 GB · 2 pictures" in words
    assert re.search(r"5\.0 MB /s (49|50) min", words)
    assert "Thumbnails no limit" in words
    assert re.search(r"Pending 1 . Running 1 . Ready 2 2\.0 kB Failed 1 . ", words), "only pictures take room"
    assert "<script>alert" not in html
    assert r"caf\xe9 <script>alert(1)</script>\n" in words


@on_sqlite
def test_checkpoints_are_listed_with_their_figures(viewer: Client) -> None:
    everything()
    words = words_of(text_of(viewer, ADDRESS))
    assert "Passive Completed otto" in words
    assert "7 / 7" in words
    assert re.search(r"Restart Retryable . WAL_CHECKPOINT_BUSY 4 / 9 2 . next try in 3 min", words)


@on_sqlite
@pytest.mark.parametrize(("frames", "shown"), [(0, "0 / 0"), (-1, "\N{EN DASH}")])
def test_a_log_that_was_empty_has_figures_and_one_that_was_busy_has_none(
    viewer: Client, frames: int, shown: str
) -> None:
    row = completed()
    WalMaintenanceJob.objects.update(checkpoint_log_frames=frames, checkpointed_frames=frames)
    html = text_of(viewer, ADDRESS)
    (line,) = re.findall(rf'<tr id="checkpoint-{row.pk}">.*?data-name="frames">(.*?)</td>', html, re.S)
    assert words_of(line).strip() == shown


def test_a_failed_thumbnail_whose_time_has_come_waits_for_nothing(viewer: Client) -> None:
    factories.pending_thumbnail("past", status="failed", retry_after=SecondsFromNow(-5))
    words = words_of(text_of(viewer, ADDRESS))
    assert "Waiting for another try 0 nothing has to be tried again" in words
    assert re.search(r"Jobs 0 . Thumbnails 0 . ", words)


@on_sqlite
def test_chart_is_a_picture_with_a_title_and_a_table(viewer: Client) -> None:
    sampled(1_000_000, 3_400_000, 2_000_000)
    html = text_of(viewer, ADDRESS)
    assert 'role="img" aria-labelledby="wal-chart-title"' in html
    assert "Size of the write-ahead log from" in words_of(html)
    assert 'id="wal-table" class="only-read"' in html, "screen readers have the figures without a click"
    assert "3.4 MB" in words_of(html)
    shown = text_of(viewer, f"{ADDRESS}?table=1")
    assert 'id="wal-table" class="wal-table"' in shown
    assert 'aria-current="true">7 days' in text_of(viewer, f"{ADDRESS}?span=week")
    assert viewer.get(f"{ADDRESS}?span=year").status_code == 404


@on_postgresql
def test_on_postgresql_it_says_that_checkpoints_do_not_apply(operator: Client) -> None:
    everything()
    html = text_of(operator, ADDRESS)
    assert "Checkpoints do not apply here: the database is PostgreSQL" in words_of(html)
    assert FORM not in html
    answer = operator.post(f"{ADDRESS}checkpoint/", {"mode": "passive"}, follow=True)
    assert "This does not apply here" in words_of(answer.content.decode())
    assert WalMaintenanceJob.objects.count() == 2


def test_a_live_page_gets_everything_in_one_answer_without_its_form(operator: Client) -> None:
    everything()
    page = text_of(operator, f"{ADDRESS}?table=1")
    assert 'hx-get="/maintenance/?table=1" hx-trigger="every 5s"' in page
    part = operator.get(f"{ADDRESS}?table=1", headers=HTMX).content.decode()
    assert "<html" not in part
    assert FORM not in part
    assert part.count('hx-swap-oob="true"') == (3 if connection.vendor == "sqlite" else 2)
    assert "HX-Request" in operator.get(ADDRESS).headers["Vary"]


def test_a_quiet_page_asks_once_a_minute(viewer: Client) -> None:
    assert 'hx-trigger="every 60s"' in text_of(viewer, ADDRESS)


def test_page_takes_the_same_number_of_statements_however_much_there_is(viewer: Client) -> None:
    text_of(viewer, ADDRESS)
    with CaptureQueriesContext(connection) as few:
        text_of(viewer, ADDRESS)
    everything()
    for number in range(20):
        library = factories.library(f"{number}")
        IoRateLimit.objects.create(bucket_key=f"library:{library.pk}")
    with CaptureQueriesContext(connection) as more:
        text_of(viewer, ADDRESS)
    assert len(more) == len(few) <= 24


# --- The form ---------------------------------------------------------------------------------------------
@on_sqlite
def test_operator_asks_for_a_checkpoint(operator: Client) -> None:
    fill_log()
    html = text_of(operator, ADDRESS)
    assert 'value="restart"' in html
    assert 'value="truncate"' not in html
    answer = operator.post(f"{ADDRESS}checkpoint/", {"mode": "restart", "reason": "tidy"}, follow=True)
    assert "A restart checkpoint is on its way." in words_of(answer.content.decode())
    row = WalMaintenanceJob.objects.get()
    assert (row.requested_mode, row.requested_by, row.reason) == ("restart", "operator", "tidy")
    assert LogbookEvent.objects.get(event_type="requested").actor == "operator"
    carry_out()
    assert "Restart Completed operator tidy" in words_of(text_of(operator, ADDRESS))
    again = operator.post(f"{ADDRESS}checkpoint/", {"mode": "passive"}, follow=True)
    assert "ask again in" in words_of(again.content.decode())
    forced = operator.post(f"{ADDRESS}checkpoint/", {"mode": "passive", "force": "on"}, follow=True)
    assert "A passive checkpoint is on its way." in words_of(forced.content.decode())


@on_sqlite
def test_modes_that_are_not_allowed_are_refused_with_the_way_out(operator: Client, settings: Settings) -> None:
    answer = operator.post(f"{ADDRESS}checkpoint/", {"mode": "truncate"}, follow=True)
    assert "add it to DEDUPFS_WAL_MODES" in words_of(answer.content.decode())
    assert operator.post(f"{ADDRESS}checkpoint/", {}, follow=True).status_code == 200
    assert not WalMaintenanceJob.objects.exists()
    settings.WAL_MODES = ["passive", "truncate"]
    assert 'value="truncate"' in text_of(operator, ADDRESS)
    settings.WAL_MODES = []
    assert "No mode is allowed here" in words_of(text_of(operator, ADDRESS))


@on_sqlite
def test_one_that_was_busy_is_named_with_what_can_be_done(operator: Client) -> None:
    WalMaintenanceJob.objects.create(requested_mode="restart", status="retryable", retry_after=SecondsFromNow(100))
    answer = operator.post(f"{ADDRESS}checkpoint/", {"mode": "restart"}, follow=True)
    assert "was busy before and waits for its next try. Force it" in words_of(answer.content.decode())


def test_a_viewer_sees_and_can_not_press(viewer: Client) -> None:
    html = text_of(viewer, ADDRESS)
    assert FORM not in html
    assert "Operators and admins can ask" in words_of(html) or connection.vendor != "sqlite"
    assert viewer.post(f"{ADDRESS}checkpoint/", {"mode": "passive"}).status_code == 403
    assert not WalMaintenanceJob.objects.exists()


# --- The chart --------------------------------------------------------------------------------------------
UNTIL = datetime(2026, 1, 2, tzinfo=UTC)
SINCE = UNTIL - timedelta(hours=24)
HOUR = timedelta(hours=1)


def test_chart_keeps_peaks_and_breaks_where_nobody_looked() -> None:
    minutes = [SINCE + timedelta(minutes=number) for number in range(1440)]
    points = [(moment, 90_000 if number == 700 else 10) for number, moment in enumerate(minutes)]
    chart = draw(points, SINCE, UNTIL, 50_000, HOUR)
    assert chart is not None
    assert (chart.top, chart.limit_y) == (100_000, "50.00")
    assert " 10.00" in chart.line, "one minute of a day is not averaged away"
    assert chart.line.count("M") == 1
    assert [row.most for row in chart.rows] == [10] * 11 + [90_000] + [10] * 12
    hole = [point for point in points if not 300 <= (point[0] - SINCE).total_seconds() / 60 <= 400]
    broken = draw(hole, SINCE, UNTIL, 0, HOUR)
    assert broken is not None
    assert (broken.line.count("M"), broken.limit_y) == (2, None)


def test_chart_of_nothing_of_zero_and_of_one_point() -> None:
    assert draw([], SINCE, UNTIL, 1, HOUR) is None
    one = draw([(UNTIL, 0)], SINCE, UNTIL, 1 << 40, HOUR)
    assert one is not None
    assert (one.top, one.limit_y) == (1000, None)
    assert re.fullmatch(r"M[\d.]+ 100\.00 L[\d.]+ 100\.00", one.line)
    early = draw([(SINCE - HOUR, 5), (UNTIL + HOUR, 7)], SINCE, UNTIL, 0, HOUR)
    assert early is not None
    assert all(0 <= float(x) <= 1000 for x in re.findall(r"[ML]([\d.]+) ", early.line))
