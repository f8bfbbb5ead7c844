from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.template import Context, Template
from django.utils import timezone

from frame.templatetags import human

NOW = datetime(2026, 3, 12, 14, 3, 22, tzinfo=UTC)


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1449, "1.4 kB"),
        (999_949, "999.9 kB"),
        (999_951, "1.0 MB"),
        (1_000_000, "1.0 MB"),
        (412_600_000_000, "412.6 GB"),
        (1_400_000_000_000, "1.4 TB"),
        (10**18, "1.0 EB"),
        (5 * 10**21, "5,000.0 EB"),
        (-1_400_000_000_000, "\N{MINUS SIGN}1.4 TB"),
        (-1, "\N{MINUS SIGN}1 B"),
    ],
)
def test_size_words_take_the_unit_that_leaves_less_than_a_thousand(count: int, words: str) -> None:
    assert human.size_words(count) == words


def test_size_has_the_exact_bytes_where_hover_tap_and_focus_find_them() -> None:
    html = human.size(1_400_000_000_123)
    assert html == '<span class="exact" title="1,400,000,000,123 bytes" tabindex="0">1.4 TB</span>'
    assert 'title="\N{MINUS SIGN}1,000 bytes"' in human.size(-1000)


@pytest.mark.parametrize("of_nothing", [human.size, human.count, human.duration, human.at, lambda n: human.ago(n, NOW)])
def test_what_is_not_known_is_a_dash(of_nothing: object) -> None:
    assert callable(of_nothing)
    assert of_nothing(None) == '<span class="none">\N{EN DASH}</span>'


@pytest.mark.parametrize(
    ("number", "html"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1,000"),
        (1_284_310, "1,284,310"),
        (9_999_999, "9,999,999"),
        (-1000, "\N{MINUS SIGN}1,000"),
        (12_800_001, '<span class="exact" title="12,800,001" tabindex="0">12.8 million</span>'),
        (-12_800_001, '<span class="exact" title="−12,800,001" tabindex="0">−12.8 million</span>'),  # noqa: RUF001
    ],
)
def test_count_is_exact_as_long_as_one_can_read_it(number: int, html: str) -> None:
    assert human.count(number) == html


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.04, "0 s"),
        (0.64, "0.6 s"),
        (0.99, "0.9 s"),
        (1, "1 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (200, "3 min 20 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (86399, "23 h 59 min"),
        (86400, "1 d"),
        (3 * 86400 + 4 * 3600 + 59, "3 d 4 h"),
        (-200, "\N{MINUS SIGN}3 min 20 s"),
    ],
)
def test_duration_words_name_the_two_largest_units(seconds: float, words: str) -> None:
    assert human.duration_words(seconds) == words


def test_duration_takes_a_timedelta_and_has_the_seconds_in_its_title() -> None:
    assert human.duration(timedelta(minutes=3, seconds=20)) == (
        '<span class="exact" title="200.0 seconds" tabindex="0">3 min 20 s</span>'
    )


@pytest.mark.parametrize(
    ("before_now", "words"),
    [
        (timedelta(0), "just now"),
        (timedelta(seconds=4.9), "just now"),
        (timedelta(seconds=5), "5 s ago"),
        (timedelta(seconds=59.9), "59 s ago"),
        (timedelta(seconds=60), "1 min ago"),
        (timedelta(minutes=59, seconds=59), "59 min ago"),
        (timedelta(hours=1), "1 h ago"),
        (timedelta(hours=23, minutes=59), "23 h ago"),
        (timedelta(days=1), "1 d ago"),
        (timedelta(days=29, hours=23), "29 d ago"),
        (timedelta(days=30), "2026-02-10"),
        (timedelta(seconds=-1), "in a moment"),
        (timedelta(seconds=-42), "in 42 s"),
        (timedelta(minutes=-5), "in 5 min"),
        (timedelta(days=-30), "2026-04-11"),
    ],
)
def test_ago_words_are_relative_for_a_month(before_now: timedelta, words: str) -> None:
    assert human.ago_words(NOW - before_now, NOW) == words


def test_ago_is_a_time_element_with_the_exact_time() -> None:
    html = Template("{% load human %}{{ moment|ago:now }}").render(
        Context({"moment": NOW - timedelta(minutes=3), "now": NOW})
    )
    assert html == (
        '<time class="exact" datetime="2026-03-12T14:00:22+00:00" title="2026-03-12 14:00:22 UTC" tabindex="0">'
        "3 min ago</time>"
    )


def test_exact_times_are_in_the_zone_that_is_set() -> None:
    with timezone.override("Europe/Vienna"):
        assert human.exact_time(NOW) == "2026-03-12 15:03:22 CET"
        assert "<time" in human.at(NOW)


def test_json_for_people_is_escaped_by_the_template() -> None:
    html = Template("{% load human %}{{ value|as_json }}").render(Context({"value": {"ä": "<script>"}}))
    assert "ä" in html
    assert "<script>" not in html
