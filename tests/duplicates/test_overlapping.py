"""The search for folders that share content: which pairs it finds, what it says of them, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections
from hypothesis import given, settings
from hypothesis import strategies as st

from database.routing import EXECUTOR
from duplicates import overlap_tables, overlapping
from duplicates.models import FolderPair, FolderSearch
from jobs import executing, stopping, working
from jobs.models import Job
from libraries.models import LibraryFile, LibraryRoot
from libraries.names import to_text
from logbook.models import LogbookEvent
from tests import factories

pytestmark = pytest.mark.django_db


def index(library: LibraryRoot, files: Mapping[str, bytes | None], size: int = 10) -> None:
    """Rows of a scanned and hashed library: path → content, or None for a file that was never hashed."""
    LibraryFile.objects.bulk_create(_row(library, path, content, size) for path, content in files.items())


def _row(library: LibraryRoot, path: str, content: bytes | None, size: int) -> LibraryFile:
    digest = None if content is None else blake2b(content, digest_size=32).digest()
    return LibraryFile(
        library=library,
        relative_path=path,
        size_bytes=len(content) * size if content is not None else size,
        mtime_ns=1,
        needs_hash=digest is None,
        is_missing=False,
        hash_algorithm="blake3" if digest else None,
        content_hash=digest,
        hash_error_count=0,
    )


def search() -> FolderSearch:
    overlapping.ask("test")
    assert executing.drain(overlapping.QUEUE) == 1
    found = FolderSearch.objects.order_by("-id").first()
    assert found is not None
    assert found.status == "completed", found.error_message
    return found


def pairs(of: FolderSearch | None = None) -> list[FolderPair]:
    shown = of or search()
    return list(FolderPair.objects.filter(search=shown).order_by("by_bytes", "id"))


def names(found: list[FolderPair]) -> list[tuple[str, str]]:
    return [(pair.left_folder, pair.right_folder) for pair in found]


def figures(pair: FolderPair) -> dict[str, tuple[int, ...]]:
    return {
        "shared": (pair.shared_files, pair.shared_bytes),
        "left": (pair.left_files, pair.left_bytes, pair.left_only_files),
        "right": (pair.right_files, pair.right_bytes, pair.right_only_files),
    }


# --- Which pairs ------------------------------------------------------------------------------------------
def test_two_folders_are_a_pair_with_exact_figures() -> None:
    photos = factories.library()
    index(photos, {"old/a": b"aa", "old/b": b"bb", "new/a": b"aa", "new/b": b"bb", "new/c": b"c", "new/d": None})
    (pair,) = pairs()
    assert (pair.left_folder, pair.right_folder) == ("old", "new")
    assert figures(pair) == {"shared": (2, 40), "left": (2, 40, 0), "right": (4, 60, 2)}
    assert (pair.left_library_id, pair.right_library_id) == (photos.pk, photos.pk)


def test_a_mirrored_tree_is_one_pair() -> None:
    photos = factories.library()
    tree = {f"{year}/{month}/{n}": f"{year}{month}{n}".encode() for year in "12" for month in "abc" for n in "xyz"}
    index(photos, {f"photos/{path}": content for path, content in tree.items()})
    index(photos, {f"backup/disk/{path}": content for path, content in tree.items()})
    index(photos, {"backup/disk/1/a/more": b"only here"})
    (pair,) = pairs()
    assert (pair.left_folder, pair.right_folder) == ("photos", "backup/disk")
    assert figures(pair) == {"shared": (18, 540), "left": (18, 540, 0), "right": (19, 630, 1)}


def test_whole_libraries_are_a_pair_by_their_roots() -> None:
    tree = {"a/x": b"xx", "b/c/y": b"yy", "z": b"zz"}
    first, second = factories.library("one"), factories.library("two")
    index(first, tree)
    index(second, {**tree, "new": b"n"})
    (pair,) = pairs()
    assert (pair.left_library_id, pair.left_folder) == (first.pk, "")
    assert (pair.right_library_id, pair.right_folder) == (second.pk, "")
    assert figures(pair) == {"shared": (3, 60), "left": (3, 60, 0), "right": (4, 70, 1)}


def test_a_parent_that_shares_little_leaves_its_children_as_pairs() -> None:
    photos = factories.library()
    index(photos, {"a/x/1": b"11", "b/x/1": b"11", "a/y/2": b"22", "b/y/2": b"22"})
    index(photos, {f"a/own/{n}": b"a%03d" % n for n in range(10)} | {f"b/own/{n}": b"b%03d" % n for n in range(10)})
    assert set(names(pairs())) == {("a/x", "b/x"), ("a/y", "b/y")}


def test_folders_inside_are_found_whatever_they_are_called() -> None:
    """The pair A, B covers also what lies in A/x and B/y, once it is a pair by other folders."""
    photos = factories.library()
    index(photos, {"a/x/1": b"1111", "b/x/1": b"1111", "a/y/2": b"22", "b/z/2": b"22"})
    (pair,) = pairs()
    assert {pair.left_folder, pair.right_folder} == {"a", "b"}
    assert figures(pair) == {"shared": (2, 60), "left": (2, 60, 0), "right": (2, 60, 0)}


def test_a_folder_and_what_it_lies_in_are_no_pair() -> None:
    photos = factories.library()
    index(photos, {"a/1": b"11", "a/copy/1": b"11", "2020/x": b"xx", "2020/backup/2020/x": b"xx"})
    assert pairs() == []


def test_a_copy_of_a_folder_deeper_in_the_same_parent_is_a_pair() -> None:
    """Their parents hold one another, so the folders themselves are the answer."""
    photos = factories.library()
    index(photos, {"p/2020/1": b"11", "p/backup/2020/1": b"11"})
    assert {frozenset(pair) for pair in names(pairs())} == {frozenset({"p/2020", "p/backup/2020"})}


def test_copies_in_one_folder_are_no_pair() -> None:
    index(factories.library(), {"a/1": b"11", "a/2": b"11", "a/3": b"11"})
    assert pairs() == []


def test_several_copies_of_a_content_count_once_and_each_file_is_covered() -> None:
    index(factories.library(), {"a/1": b"11", "a/2": b"11", "a/3": b"11", "b/1": b"11", "b/2": b"22"})
    (pair,) = pairs()
    assert (pair.left_folder, pair.right_folder) == ("a", "b")
    assert figures(pair) == {"shared": (1, 20), "left": (3, 60, 0), "right": (2, 40, 1)}


def test_many_copies_inside_do_not_make_a_pair_of_their_parents() -> None:
    """Where the parents share little of what they hold, what lies below is shown."""
    photos = factories.library()
    index(photos, {f"{top}/{n}/same": b"same" for top in "ab" for n in range(4)})
    index(photos, {"a/own": b"a" * 30, "b/own": b"b" * 30})
    found = pairs()
    assert ("a", "b") not in {tuple(sorted(pair)) for pair in names(found)}
    assert len(found) > 0
    assert all(pair.left_only_files == pair.right_only_files == 0 for pair in found)


def test_empty_missing_and_changed_files_bring_no_folders_together() -> None:
    photos = factories.library()
    index(photos, {"a/e": b"", "b/e": b"", "a/m": b"mm", "b/m": b"mm", "a/c": b"cc", "b/c": b"cc"})
    LibraryFile.objects.filter(relative_path="b/m").update(is_missing=True)
    LibraryFile.objects.filter(relative_path="b/c").update(needs_hash=True)
    assert pairs() == []


def test_libraries_that_are_being_removed_are_left_out() -> None:
    first, second = factories.library("one"), factories.library("two")
    for library in (first, second):
        index(library, {"a/x": b"xx"})
    LibraryRoot.objects.filter(pk=second.pk).update(removing_at="2026-01-01T00:00:00Z")
    assert pairs() == []


def test_names_that_are_no_text_are_kept_as_they_are() -> None:
    folder = to_text(b"caf\xe9/\xff\n")
    index(factories.library(), {f"{folder}/x": b"xx", "b/x": b"xx"})
    (pair,) = pairs()
    assert {pair.left_folder, pair.right_folder} == {folder, "b"}


def test_pairs_come_by_shared_bytes_and_the_best_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    photos = factories.library()
    for number in range(1, 6):
        content = b"x" * number * 3
        index(photos, {f"left{number}/f": content, f"right{number}/f": content})
    assert [pair.shared_bytes for pair in pairs()] == [150, 120, 90, 60, 30]
    monkeypatch.setattr(overlapping, "MOST_STORED", 2)
    assert [pair.shared_bytes for pair in pairs()] == [150, 120]


# --- Limits -----------------------------------------------------------------------------------------------
def test_a_content_in_very_many_folders_brings_none_together_but_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlapping, "MOST_FOLDERS", 5)
    photos = factories.library()
    index(photos, {f"{n}/everywhere": b"everywhere" for n in range(8)} | {"0/x": b"x" * 20, "1/x": b"x" * 20})
    done = search()
    (pair,) = pairs(done)
    assert {pair.left_folder, pair.right_folder} == {"0", "1"}
    assert figures(pair) == {"shared": (2, 300), "left": (2, 300, 0), "right": (2, 300, 0)}
    assert done.error_code == overlapping.CAPPED
    assert done.error_message is not None
    assert "1 contents lie in more than 5 folders" in done.error_message


def test_too_many_pairs_leave_those_that_share_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap_tables, "MOST_PAIRS", 10)
    monkeypatch.setattr(overlapping, "PAGE_FILES", 4)
    photos = factories.library()
    for number in range(30):
        content = bytes([65 + number]) * (100 if number == 17 else 1)
        index(photos, {f"left{number}/f": content, f"right{number}/f": content})
    done = search()
    found = pairs(done)
    assert {found[0].left_folder, found[0].right_folder} == {"left17", "right17"}
    assert len(found) <= 11
    assert "were left out" in (done.error_message or "")


def test_small_pages_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    photos = factories.library()
    index(photos, {f"{top}/{n % 3}/{n}": b"%04d" % n for top in ("a", "b") for n in range(40)})
    index(photos, {f"a/0/same{n}": b"many" for n in range(9)} | {"b/0/same": b"many"})
    whole = [figures(pair) for pair in pairs()]
    for name, most in (("PAGE_FILES", 3), ("PAGE_CONTENTS", 2), ("BATCH_PAIRS", 1)):
        monkeypatch.setattr(overlapping, name, most)
    monkeypatch.setattr(overlap_tables, "MOST_REMEMBERED", 5)
    assert [figures(pair) for pair in pairs()] == whole
    assert whole == [{"shared": (41, 1640), "left": (49, 1960, 0), "right": (41, 1640, 0)}]


# --- Against a plain recount ------------------------------------------------------------------------------
PATHS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map("/".join)
TREES = st.dictionaries(
    PATHS.map(lambda path: f"{path}/file"), st.sampled_from(["1", "22", "333", "4444", ""]), max_size=24
)


@settings(max_examples=25)
@given(first=TREES, second=TREES)
def test_figures_equal_a_plain_recount(first: dict[str, str], second: dict[str, str]) -> None:
    FolderPair.objects.all().delete()
    LibraryFile.objects.all().delete()
    LibraryRoot.objects.all().delete()
    libraries = [factories.library("one"), factories.library("two")]
    for library, tree in zip(libraries, (first, second), strict=True):
        index(library, {path: content.encode() for path, content in tree.items()})
    contents = {library.pk: tree for library, tree in zip(libraries, (first, second), strict=True)}

    def below(library_id: int, folder: str) -> dict[str, str]:
        prefix = f"{folder}/" if folder else ""
        return {path: content for path, content in contents[library_id].items() if path.startswith(prefix)}

    kept = pairs()
    for pair in kept:
        left, right = below(pair.left_library_id, pair.left_folder), below(pair.right_library_id, pair.right_folder)
        shared = set(left.values()) & set(right.values())
        assert figures(pair) == {
            "shared": (len(shared), 10 * sum(map(len, shared))),
            "left": (len(left), 10 * sum(map(len, left.values())), sum(each not in shared for each in left.values())),
            "right": (
                len(right), 10 * sum(map(len, right.values())), sum(each not in shared for each in right.values()),
            ),
        }  # fmt: skip
        assert pair.left_only_files <= pair.right_only_files
        smaller = min((left, right), key=lambda each: sum(map(len, each.values())))
        assert 2 * sum(len(each) for each in smaller.values() if each in shared) >= sum(map(len, smaller.values()))
    places = [{(p.left_library_id, p.left_folder), (p.right_library_id, p.right_folder)} for p in kept]
    assert all(len(place) == 2 for place in places)
    assert len({frozenset(place) for place in places}) == len(places)


# --- Searching as work ------------------------------------------------------------------------------------
def test_asking_twice_is_one_search() -> None:
    one, two = overlapping.ask("ada"), overlapping.ask("bob")
    assert one.pk == two.pk
    assert one.status == "pending"
    assert one.requested_by == "ada"
    asked = LogbookEvent.objects.about("folder_searches", str(one.pk)).filter(event_type="requested")
    assert [event.actor for event in asked] == ["ada"]


def test_a_search_tells_how_far_it_is_and_how_many_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working, "TELL_SECONDS", 0)
    index(factories.library(), {"a/x": b"xx", "b/x": b"xx", "c/y": b"y"})
    done = search()
    assert (done.processed_items, done.total_items, done.progress, done.pair_count) == (7, 7, 1.0, 1)


def test_a_search_that_was_killed_begins_anew() -> None:
    """Whatever an earlier try has stored is gone; what pages show stays until the new one has completed."""
    photos = factories.library()
    index(photos, {"a/x": b"xx", "b/x": b"xx"})
    shown = search()
    waiting = overlapping.ask("test")
    row = FolderPair.objects.get(search=shown)
    row.pk, row.search_id = None, waiting.pk
    row._state.adding = True
    row.save()
    assert FolderSearch.objects.filter(pk=waiting.pk).claim("killed") is not None
    factories.expire(waiting)
    assert executing.drain(overlapping.QUEUE) == 1
    assert FolderPair.objects.filter(search=waiting).count() == 1
    assert FolderPair.objects.filter(search=shown).count() == 1
    last = search()
    assert set(FolderPair.objects.values_list("search_id", flat=True)) == {waiting.pk, last.pk}


def test_a_search_stops_when_told_to_and_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    index(factories.library(), {"a/x": b"xx", "b/x": b"xx"})
    asked = overlapping.ask("test")
    lease = FolderSearch.objects.claim("worker")
    assert lease is not None
    stopping.request()
    try:
        executing.carry_out_here(overlapping.QUEUE, lease)
    finally:
        stopping._requested.clear()
    asked.refresh_from_db()
    assert asked.status == "pending"
    assert not FolderPair.objects.exists()


def test_a_search_that_lost_its_lease_stores_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    index(factories.library(), {"a/x": b"xx", "b/x": b"xx"})
    asked = overlapping.ask("test")
    lease = FolderSearch.objects.claim("frozen")
    assert lease is not None
    lift = overlap_tables.Tables.depths

    def lose(tables: Any) -> list[int]:
        factories.expire(asked)
        return lift(tables)

    monkeypatch.setattr(overlap_tables.Tables, "depths", lose)
    executing.carry_out_here(overlapping.QUEUE, lease)
    asked.refresh_from_db()
    assert asked.status == "running"
    assert not FolderPair.objects.exists()


def test_nothing_is_left_in_the_connection_after_a_search_or_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    index(factories.library(), {"a/x": b"xx", "b/x": b"xx"})

    def scratch() -> list[Any]:
        listed = "sqlite_temp_master" if connections[EXECUTOR].vendor == "sqlite" else "pg_class"
        column = "name" if connections[EXECUTOR].vendor == "sqlite" else "relname"
        with connections[EXECUTOR].cursor() as cursor:
            cursor.execute(f"SELECT {column} FROM {listed} WHERE {column} LIKE 'overlap%%'", [])
            return list(cursor.fetchall())

    search()
    assert scratch() == []
    monkeypatch.setattr(overlap_tables.Tables, "choose", lambda *_: 1 / 0)
    overlapping.ask("test")
    executing.drain(overlapping.QUEUE)
    failed = FolderSearch.objects.latest("id")
    assert (failed.status, failed.error_code) == ("failed", "WORKER_FAILURE")
    assert scratch() == []


# --- The command ------------------------------------------------------------------------------------------
def test_the_command_searches_and_prints(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    photos = factories.library("photos", str(tmp_path))
    index(photos, {to_text(b"\xe9/x"): b"xx", "b/x": b"xx", "b/y": b"y"})
    call_command("folders", "--json")
    (line,) = capfd.readouterr().out.splitlines()
    said = json.loads(line)
    assert said["left"]["folder"] == "\\xe9"
    assert bytes.fromhex(said["left"]["path_hex"]).endswith(b"/\xe9")
    assert (said["shared_bytes"], said["left"]["only_files"], said["right"]["only_files"]) == (20, 0, 1)
    call_command("folders")
    out = capfd.readouterr().out
    assert "B photos: b  2 files, 1 only here" in out
    assert out.endswith("1 pairs\n")
    assert FolderSearch.objects.filter(status="completed").count() == 2
    assert not Job.objects.exists()
