"""A library's settings: changed with a record of what they were, refused with a reason."""

from __future__ import annotations

from typing import Any

import pytest

from libraries import changing
from libraries.errors import NotThere, Refused
from libraries.models import LibraryRoot
from logbook.models import LogbookEvent
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def library() -> LibraryRoot:
    return factories.library("photos", "/srv/photos")


def change(library: LibraryRoot, **values: Any) -> LibraryRoot:
    return changing.change(library.pk, actor="anna", **values)


def refused(library: LibraryRoot, **values: Any) -> str:
    with pytest.raises(Refused) as refusal:
        change(library, **values)
    library.refresh_from_db()
    assert not events(library)
    return str(refusal.value)


def events(library: LibraryRoot) -> list[tuple[str, Any]]:
    return list(LogbookEvent.objects.about("library_roots", str(library.pk)).values_list("event_type", "payload_json"))


def test_what_is_given_is_changed_and_the_logbook_keeps_what_it_was(library: LibraryRoot) -> None:
    changed = change(library, name=" Pictures ", min_size_bytes=5, role="normal")
    assert (changed.name, changed.min_size_bytes) == ("Pictures", 5)
    assert events(library) == [("changed", {"changes": {"name": ["photos", "Pictures"], "min_size_bytes": [0, 5]}})]
    assert LogbookEvent.objects.get().actor == "anna"


def test_what_is_as_it_was_is_no_change(library: LibraryRoot) -> None:
    change(library, name="photos", hash_everything=False)
    assert events(library) == []


def test_lists_are_kept_line_by_line(library: LibraryRoot) -> None:
    change(
        library, exclude_patterns="*.tmp\r\n\r\n  cache/  \n", protected_folders=["./a//b/", "/srv/photos/best", "a/b"]
    )
    library.refresh_from_db()
    assert library.exclude_patterns == "*.tmp\ncache/"
    assert library.protected_folders == "a/b\nbest"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"name": ""}, "needs a name"),
        ({"name": "other"}, "already"),
        ({"role": "king"}, "normal, protected, backup"),
        ({"min_size_bytes": -1}, "0 or larger"),
        ({"min_size_bytes": 2**63}, "0 or larger"),
        ({"min_size_bytes": "5"}, "0 or larger"),
        ({"read_bytes_per_second": True}, "0 or larger"),
        ({"hash_everything": "yes"}, "true or false"),
        ({"exclude_patterns": "a\0b"}, "can't be stored"),
        ({"exclude_patterns": "x" * 200_000}, "100000 characters"),
        ({"protected_folders": "../other"}, "without “..”"),
        ({"protected_folders": "/etc"}, "not in this library"),
        ({"protected_folders": "/srv/photos2/a"}, "not in this library"),
        ({"protected_folders": "/srv/photos/../x"}, "without “..”"),
        ({"protected_folders": "."}, "role protected"),
        ({"scan_interval_minutes": 5, "scan_cron": "0 2 * * *"}, "not both"),
        ({"scan_cron": "0 2 * *"}, "five"),
        ({"scan_cron": "0 " * 200}, "255 characters"),
        ({"root_path": "/etc"}, "no root_path"),
    ],
)
def test_what_can_not_be_used_is_refused_and_nothing_is_changed(
    library: LibraryRoot, values: dict[str, Any], words: str
) -> None:
    factories.library("other")
    assert words in refused(library, **values)


def test_a_schedule_is_planned_and_the_one_kind_gives_the_other_up(library: LibraryRoot) -> None:
    assert change(library, scan_interval_minutes=60).next_scan_at is not None
    changed = change(library, scan_cron="30 2 * * 0")
    assert (changed.scan_interval_minutes, changed.scan_cron) == (0, "30 2 * * 0")
    assert change(library, scan_cron="").next_scan_at is None


def test_pause_and_resume_are_told_once(library: LibraryRoot) -> None:
    change(library, scan_interval_minutes=60)
    assert changing.pause(library.pk, actor="otto").next_scan_at is None
    assert changing.pause(library.pk, actor="otto").is_paused
    resumed = changing.resume(library.pk, actor="otto")
    assert not resumed.is_paused
    assert resumed.next_scan_at is not None
    assert [event for event, _ in events(library)] == ["changed", "paused", "resumed"]


def test_a_library_that_is_not_there_or_on_its_way_out_is_named(library: LibraryRoot) -> None:
    LibraryRoot.objects.update(removing_at="2024-01-01 00:00:00+00:00")
    for verb in (changing.pause, changing.resume, changing.change):
        with pytest.raises(NotThere, match=str(library.pk)):
            verb(library.pk, actor="anna")
