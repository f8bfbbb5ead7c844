"""Ignoring a group is remembered by its content, until somebody takes it back."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, connection, connections, transaction

from database.routing import EXECUTOR, POLICY
from duplicates import ignoring, listing
from duplicates.cursors import BadGroupKey
from duplicates.filtering import Filter
from duplicates.models import IgnoredGroup
from jobs.errors import Refused
from libraries.models import LibraryFile, LibraryRoot, Rehash
from libraries.running_now import hash_now
from logbook.models import LogbookEvent
from tests import factories
from tests.duplicates.contents import copies, digest_of, key_of
from tests.indexing import indexed
from tests.tree import tree

pytestmark = pytest.mark.django_db


@pytest.fixture
def photos() -> LibraryRoot:
    return factories.library("photos")


def shown(**asked: str) -> list[str]:
    return [group.key for group in listing.page(Filter.parse(asked), "copies", None, 100).groups]


def history(content: str, algorithm: str = "sha256") -> list[tuple[str, str | None]]:
    events = LogbookEvent.objects.about("duplicate_groups", key_of(content, algorithm))
    return [(event.event_type, event.actor) for event in events]


def test_an_ignored_group_stays_so_whatever_happens_to_its_files(photos: LibraryRoot) -> None:
    copies("x", "a", "b", in_library=photos)
    ignoring.ignore(f" {key_of('x').upper()}", actor="vera", note=" on purpose ")
    assert (shown(), shown(ignored="only")) == ([], [key_of("x")])
    LibraryFile.objects.all().delete()
    assert shown(ignored="all") == []
    copies("x", "c", "d", in_library=photos)
    assert (shown(), shown(ignored="all")) == ([], [key_of("x")])
    row = IgnoredGroup.objects.get()
    assert (row.note, row.ignored_by) == ("on purpose", "vera")
    assert ignoring.stop_ignoring(key_of("x"), actor="mia")
    assert shown() == [key_of("x")]
    assert history("x") == [("ignored", "vera"), ("no longer ignored", "mia")]


def test_saying_it_twice_is_saying_it_once() -> None:
    first = ignoring.ignore(key_of("x"), actor="vera", note="one")
    again = ignoring.ignore(key_of("x"), actor="mia")
    assert (again.pk, again.note, again.ignored_by) == (first.pk, "one", "vera")
    assert ignoring.ignore(key_of("x"), actor="mia", note="two").note == "two"
    assert history("x") == [("ignored", "vera"), ("ignored", "mia")]
    assert LogbookEvent.objects.about("duplicate_groups", key_of("x"))[1].payload_json == {"note": "two"}
    assert ignoring.stop_ignoring(key_of("x"), actor="mia")
    assert not ignoring.stop_ignoring(key_of("x"), actor="mia")
    assert len(history("x")) == 3


def test_what_can_not_be_kept_is_refused() -> None:
    for note in ("x" * 256, "a\0b", "\ud800"):
        with pytest.raises(Refused):
            ignoring.ignore(key_of("x"), actor="vera", note=note)
    for verb in (ignoring.ignore, ignoring.stop_ignoring):
        with pytest.raises(BadGroupKey):
            verb("md5:0", actor="vera")
    assert not IgnoredGroup.objects.exists()
    assert history("x") == []


def test_the_event_and_the_change_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_more: object) -> None:
        raise IntegrityError("the logbook is full")

    ignoring.ignore(key_of("known"), actor="vera")
    monkeypatch.setattr(ignoring, "write_event", fail)
    with pytest.raises(IntegrityError):
        ignoring.ignore(key_of("new"), actor="vera")
    with pytest.raises(IntegrityError):
        ignoring.stop_ignoring(key_of("known"), actor="vera")
    assert [str(row) for row in IgnoredGroup.objects.all()] == [key_of("known")]


def test_the_ignored_ones_among_many_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ignoring, "_MOST", 3)
    for number in (1, 5, 8):
        ignoring.ignore(key_of(f"c{number}"), actor="vera")
    digests = [("sha256", digest_of(f"c{number}")) for number in range(10)]
    assert ignoring.ignored_among(digests) == {digests[number] for number in (1, 5, 8)}
    assert ignoring.ignored_among([]) == set()
    assert ignoring.ignored_among([("blake3", digest_of("c1"))]) == set(), "the algorithm is part of it"


# --- Another algorithm --------------------------------------------------------------------------------------
def rehashed(file: LibraryFile, content: str, **fields: int) -> None:
    values = {"size_bytes": file.size_bytes, "mtime_ns": file.mtime_ns, **fields}
    Rehash.objects.create(file=file, content_hash=digest_of(f"blake3 of {content}"), **values)


def carried() -> dict[tuple[str, bytes], str]:
    with transaction.atomic():
        ignoring.carry_over("blake3", using=POLICY)
    return {(row.hash_algorithm, bytes(row.content_hash)): row.note for row in IgnoredGroup.objects.all()}


def test_another_algorithm_takes_the_ignored_contents_along(photos: LibraryRoot) -> None:
    for file in copies("x", "a", "b", "c", in_library=photos):
        rehashed(file, "x")
    (changed,) = copies("changed", "d", in_library=photos)
    rehashed(changed, "changed", mtime_ns=99)
    for content in ("x", "gone", "changed"):
        ignoring.ignore(key_of(content), actor="vera", note=content)
    assert carried() == {
        ("blake3", digest_of("blake3 of x")): "x",
        ("sha256", digest_of("gone")): "gone",
        ("sha256", digest_of("changed")): "changed",
    }
    assert history("blake3 of x", "blake3") == [("ignored", "vera")]
    event = LogbookEvent.objects.about("duplicate_groups", key_of("blake3 of x", "blake3"))[0]
    assert event.payload_json == {"note": "x", "known_before_as": key_of("x")}


def test_what_is_ignored_by_both_digests_is_ignored_once(photos: LibraryRoot) -> None:
    for file in copies("x", "a", "b", in_library=photos):
        rehashed(file, "x")
    ignoring.ignore(key_of("x"), actor="vera", note="old")
    ignoring.ignore(key_of("blake3 of x", "blake3"), actor="mia", note="known already")
    assert carried() == {("blake3", digest_of("blake3 of x")): "known already"}
    assert carried() == {("blake3", digest_of("blake3 of x")): "known already"}, "nothing more to do"


def test_it_begins_with_the_few_that_are_ignored(photos: LibraryRoot) -> None:
    """Not with the files, of which there are millions."""
    copies("x", "a", "b", in_library=photos)
    join = "CROSS JOIN" if connection.vendor == "sqlite" else "JOIN"
    with connections[EXECUTOR].cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(f"EXPLAIN QUERY PLAN {ignoring._CARRIED.format(join=join)}")
            plan = [row[3] for row in cursor.fetchall()]
            assert plan[0].startswith("SCAN i"), plan
            assert all(line.startswith("SEARCH") for line in plan[1:3]), plan


def test_the_real_switch_takes_it_along(tmp_path: Path, settings: Any) -> None:
    indexed(tree(tmp_path, {"a": b"same", "b": b"same"}))
    assert hash_now(actor="test").status == "completed"
    (before,) = shown()
    ignoring.ignore(before, actor="vera", note="on purpose")
    settings.HASH_ALGORITHM = "sha256"
    assert hash_now(actor="test").status == "completed"
    assert shown() == []
    assert shown(ignored="only") == [f"sha256:{sha256(b'same').hexdigest()}"]
    assert IgnoredGroup.objects.get().note == "on purpose"
