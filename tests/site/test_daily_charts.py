"""Thirty days on the overview: bars, a line, shares; each a picture with a title, and a table."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django.fixtures import Settings

from database.clock import SecondsFromNow
from dedupfs_site.daily_charts import draw_line, last_days, round_up, shares, stack
from dedupfs_site.models import DailySample
from jobs.models import Job
from tests import factories
from tests.pages import text_of, words_of
from tests.site.overviews import library

pytestmark = pytest.mark.django_db
ADDRESS = "/"


def test_charts_have_titles_and_tables(viewer: Client) -> None:
    library()
    today = timezone.localdate()
    for back, size in ((3, 5_000), (2, 4_000), (0, 9_000)):
        DailySample.objects.create(day=today - timedelta(days=back), reclaimable_bytes=size)
    factories.finished_job("thumbnail")
    factories.finished_job("thumbnail", "failed")
    Job.objects.create(kind="thumbnail", status="cancelled", created_at=SecondsFromNow(-29 * 86400))
    Job.objects.create(kind="thumbnail", status="completed", created_at=SecondsFromNow(-32 * 86400))
    html = text_of(viewer, ADDRESS)
    words = words_of(html)
    assert f"{today:%Y-%m-%d}: 1 completed, 0 cancelled, 1 failed" in words
    assert "1 completed 1 cancelled 1 failed" in words, "older ones are left out"
    assert f"Day To win back {today - timedelta(days=3):%Y-%m-%d} 5.0 kB" in words
    assert "+ 4.0 kB since" in words
    for chart in ("activity", "over-time"):
        assert f'role="img" aria-labelledby="{chart}-title"' in html
        assert f'<title id="{chart}-title">' in html


def test_days_are_those_of_the_configured_zone(viewer: Client, settings: Settings) -> None:
    settings.TIME_ZONE = "Pacific/Kiritimati"
    library()
    factories.finished_job("thumbnail")
    here = (datetime.now(UTC) + timedelta(hours=14)).date()
    assert f"{here:%Y-%m-%d}: 1 completed" in words_of(text_of(viewer, ADDRESS))


def test_charts_say_where_there_is_nothing_to_draw(viewer: Client) -> None:
    library()
    words = words_of(text_of(viewer, ADDRESS))
    assert "No job has ended in these days." in words
    assert "A consumer notes the figures once a day; none has yet." in words


DAYS = last_days(date(2026, 3, 30), 30)


def test_bars_are_stacked_from_the_ground_up() -> None:
    found = {DAYS[0]: {"completed": 6, "failed": 2}, DAYS[29]: {"completed": 1}}
    bars = stack(DAYS, found, ("completed", "failed"))
    assert (bars.top, bars.totals) == (8, {"completed": 7, "failed": 2})
    assert [(layer.key, layer.y, layer.height) for layer in bars.bars[0].layers] == [
        ("completed", "25.00", "75.00"), ("failed", "0.00", "25.00"),
    ]  # fmt: skip
    assert not bars.bars[1].layers
    assert float(bars.bars[29].x) + float(bars.width) <= 1000


def test_line_breaks_where_a_day_is_missing_and_shows_a_single_one() -> None:
    line = draw_line(DAYS, {DAYS[0]: 10, DAYS[1]: 5_900, DAYS[5]: 100})
    assert line is not None
    assert (line.top, line.line.count("M"), line.change) == (6000, 2, 90)
    assert line.line.endswith("M178.3 98.33 L188.3 98.33")
    assert draw_line(DAYS, {}) is None


def test_shares_fill_the_bar_and_none_is_too_thin_to_be_seen() -> None:
    pieces = shares([10**12, 0, 1])
    assert [float(piece.width) > 3 for piece in pieces] == [True, False, True]
    assert sum(float(piece.width) for piece in pieces) == pytest.approx(1000, abs=0.05)
    assert shares([0, 0]) == []
    assert [round_up(value, least=4) for value in (0, 5, 61, 100)] == [4, 6, 80, 100]
