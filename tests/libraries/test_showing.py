from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from libraries.models import HashRun, LibraryState, ScanRequest, ScanSession
from libraries.showing import ALMOST, Pace, hash_pace, scan_pace
from libraries.templatetags.names import algorithm, short, shown_name

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def pace(files: tuple[int, int] = (0, 0), size: tuple[int, int] = (0, 0), seconds: float = 100, **more: Any) -> Pace:
    return Pace(*files, *size, seconds, **more)


def session(seconds: float, **fields: Any) -> ScanSession:
    values = {"files_seen": 0, "bytes_seen": 0, "status": "running", **fields}
    return ScanSession(started_at=START, updated_at=START + timedelta(seconds=seconds), **values)


@pytest.mark.parametrize(
    ("done", "total", "share"),
    [(0, 0, None), (5, 0, None), (0, 10, 0), (1, 3, 333), (10, 10, ALMOST), (11, 10, ALMOST), (-5, 10, 0)],
)
def test_share_is_of_the_last_total_and_never_whole_while_it_runs(done: int, total: int, share: int | None) -> None:
    assert pace((done, total)).share == share


def test_share_is_whole_when_it_has_ended_whatever_was_counted() -> None:
    assert pace((7, 10), has_ended=True).share == 1000


def test_more_than_the_last_time_claims_no_end_and_no_time_left() -> None:
    grown = pace((1_200, 1_000))
    assert (grown.percent, grown.left) == (99, None)


def test_share_never_goes_backwards_while_counts_grow() -> None:
    shares = [pace((done, 1_000)).share or 0 for done in range(0, 1_500, 7)]
    assert shares == sorted(shares)


def test_a_second_try_does_not_take_back_what_was_shown_but_measures_itself() -> None:
    again = pace((100, 1_000), files_before=600, seconds=10)
    assert (again.files_shown, again.share) == (600, 600)
    assert again.files_per_second == 10
    assert again.left == timedelta(seconds=90)


@pytest.mark.parametrize("seconds", [0, 0.5])
def test_too_short_a_time_says_nothing(seconds: float) -> None:
    young = pace((500, 1_000), (500, 1_000), seconds)
    assert (young.files_per_second, young.bytes_per_second, young.left) == (None, None, None)


def test_too_small_a_share_says_no_time_left() -> None:
    assert pace((19, 1_000)).left is None
    assert pace((20, 1_000)).left == timedelta(seconds=100 * 980 / 20)


def test_nothing_done_has_no_rate() -> None:
    assert (pace((0, 10)).files_per_second, pace().bytes_per_second) == (None, None)


def test_reading_goes_by_bytes_and_by_files_where_bytes_are_not_known() -> None:
    assert pace((1, 100), (300, 1_000), is_by_bytes=True).share == 300
    assert pace((1, 100), (300, 0), is_by_bytes=True).share == 10
    assert pace((0, 0), (300, 0), is_by_bytes=True).share is None


def test_hash_measures_bytes_by_the_time_spent_reading() -> None:
    run = HashRun(files_done=1, files_total=4, bytes_done=400, bytes_total=1_000, share_held=0, busy_seconds=4.0)
    shown = hash_pace(run)
    assert (shown.share, shown.bytes_per_second, shown.left) == (400, 100, timedelta(seconds=6))


def test_scan_measures_itself_by_the_last_complete_walk_until_its_last_word() -> None:
    state = LibraryState(walked_files=1_000, walked_bytes=50)
    shown = scan_pace(session(20, files_seen=250, bytes_seen=10), state, ScanRequest(scanned_paths=0))
    assert (shown.share, shown.files_per_second, shown.left) == (250, 12, timedelta(seconds=60))
    ended = session(20, files_seen=250, status="succeeded", finished_at=START + timedelta(seconds=25))
    assert (scan_pace(ended, state).share, scan_pace(ended, state).seconds) == (1000, 25)


def test_a_clock_that_stepped_back_costs_no_error() -> None:
    assert scan_pace(session(-30, files_seen=5), LibraryState(walked_files=10, walked_bytes=0)).left is None


def test_long_names_lose_their_middle_and_never_their_end() -> None:
    text = "a" * 300 + "\uf7e9\n.jpg"
    shown = short(text, 60)
    assert len(shown) == 60
    assert shown.startswith("a" * 20 + "…")
    assert shown.endswith("\\xe9\\n.jpg")
    assert short("photo.jpg", 60) == "photo.jpg"
    assert shown_name(None) == ""
    assert (algorithm("sha256"), algorithm("other"), algorithm(None)) == ("SHA-256", "other", "")
