"""The summary of the groups is right whenever it is read, whoever wrote the files."""

from __future__ import annotations

from threading import Thread
from typing import Any

import pytest
from django.db import connection, connections, transaction

from database.objects import install
from database.routing import EXECUTOR
from duplicates import summary
from duplicates.models import DuplicateGroup, GroupChange, Summary
from libraries.models import HashState, LibraryFile, LibraryRoot
from tests.factories import library, library_file
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "executor"])
A, B = b"a" * 32, b"b" * 32
Group = tuple[str, int, int, int, int]


def hashed(path: str, digest: bytes = A, in_library: LibraryRoot | None = None, **fields: Any) -> LibraryFile:
    inode = LibraryFile.objects.count() + 1
    values = {"size_bytes": 10, "inode": inode, "device": 1, "nlink": 1, "needs_hash": False, **fields}
    return library_file(
        path,
        in_library or LibraryRoot.objects.get(name="photos"),
        hash_algorithm="blake3",
        content_hash=digest,
        **values,
    )


def groups() -> list[Group]:
    """After counting: digest's letter, files, inodes, total, reclaimable."""
    assert summary.bring_up_to_date()
    return [
        (bytes(each.content_hash)[:1].decode(), each.file_count, each.inode_count, each.total_size_bytes,
         each.reclaimable_bytes)
        for each in DuplicateGroup.objects.order_by("content_hash")
    ]  # fmt: skip


@pytest.fixture(autouse=True)
def photos() -> LibraryRoot:
    return library()


# --- What changes a group -----------------------------------------------------------------------------------
def test_one_file_is_no_group_and_two_are() -> None:
    hashed("1")
    assert groups() == []
    hashed("2")
    assert groups() == [("a", 2, 2, 20, 10)]
    hashed("3", B)
    assert groups() == [("a", 2, 2, 20, 10)]


def test_every_way_to_change_a_file_changes_its_group(photos: LibraryRoot) -> None:
    files = [hashed(name) for name in "123"]
    assert groups() == [("a", 3, 3, 30, 20)]
    rows = LibraryFile.objects.filter(pk=files[0].pk)
    rows.update(is_missing=True)
    assert groups() == [("a", 2, 2, 20, 10)]
    rows.update(is_missing=False, needs_hash=True)
    assert groups() == [("a", 2, 2, 20, 10)]
    rows.update(needs_hash=False, content_hash=B)
    assert groups() == [("a", 2, 2, 20, 10)]
    LibraryFile.objects.filter(pk=files[1].pk).update(content_hash=B)
    assert groups() == [("b", 2, 2, 20, 10)]
    LibraryFile.objects.filter(pk=files[2].pk).update(content_hash=B)
    assert groups() == [("b", 3, 3, 30, 20)]
    rows.delete()
    assert groups() == [("b", 2, 2, 20, 10)]
    LibraryFile.objects.filter(pk=files[1].pk).update(inode=files[2].inode, nlink=2)
    LibraryFile.objects.filter(pk=files[2].pk).update(nlink=2)
    assert groups() == [("b", 2, 1, 20, 0)]
    LibraryFile.objects.filter(library=photos).delete()
    assert groups() == []


def test_what_does_not_matter_to_a_group_is_not_noted() -> None:
    hashed("1"), hashed("2")
    groups()
    LibraryFile.objects.update(hash_claim_token="x", hash_error_count=1)
    LibraryFile.objects.update(size_bytes=10, is_missing=False)
    assert not GroupChange.objects.exists()


def test_a_file_that_is_inserted_below_the_others_is_noticed() -> None:
    """SQLite's ids only grow by themselves; a foreign writer may choose one."""
    hashed("1", pk=5), hashed("2", pk=9)
    assert groups() == [("a", 2, 2, 20, 10)]
    hashed("3", pk=7)
    assert groups() == [("a", 3, 3, 30, 20)]


def test_groups_tell_where_they_are_and_how_new(photos: LibraryRoot) -> None:
    other = library("other")
    first = hashed("1", mtime_ns=5)
    hashed("2", in_library=other, mtime_ns=7)
    hashed("3", in_library=other, mtime_ns=6)
    groups()
    group = DuplicateGroup.objects.get()
    assert set(group.library_ids.strip(",").split(",")) == {str(photos.pk), str(other.pk)}
    assert (group.library_ids[0], group.library_ids[-1]) == (",", ",")
    assert (group.spans_libraries, group.newest_ns, group.sample_file_id) == (True, 7, first.pk)
    LibraryFile.objects.filter(library=other).update(is_missing=True)
    hashed("4")
    groups()
    group = DuplicateGroup.objects.get()
    assert (group.spans_libraries, group.library_ids) == (False, f",{photos.pk},")


def test_empty_files_are_a_group_that_frees_nothing() -> None:
    hashed("1", size_bytes=0), hashed("2", size_bytes=0)
    assert groups() == [("a", 2, 2, 0, 0)]


# --- What would come back ---------------------------------------------------------------------------------
def test_hard_links_count_once_and_free_nothing_by_themselves() -> None:
    hashed("1", inode=1, nlink=2), hashed("2", inode=1, nlink=2), hashed("3", inode=3)
    assert groups() == [("a", 3, 2, 30, 10)]


def test_an_inode_with_a_name_elsewhere_can_not_be_freed() -> None:
    hashed("1", inode=1, nlink=2), hashed("2", inode=2)
    assert groups() == [("a", 2, 2, 20, 10)], "the one that can't be freed stays, the other one goes"
    LibraryFile.objects.filter(relative_path="2").update(nlink=3)
    assert groups() == [("a", 2, 2, 20, 0)]


def test_files_whose_inode_is_unknown_are_files_of_their_own() -> None:
    hashed("1", inode=None), hashed("2", inode=None, device=None)
    assert groups() == [("a", 2, 2, 20, 10)]


def test_a_backup_neither_goes_nor_lets_the_original_go() -> None:
    backup = library("backup", role="backup")
    hashed("1"), hashed("2", in_library=backup)
    assert groups() == [("a", 2, 2, 20, 0)]
    hashed("3")
    assert groups() == [("a", 3, 3, 30, 10)]


def test_a_protected_copy_lets_all_others_go() -> None:
    kept = library("kept", role="protected")
    hashed("1"), hashed("2"), hashed("3", in_library=kept)
    assert groups() == [("a", 3, 3, 30, 20)]
    hashed("4", in_library=kept)
    assert groups() == [("a", 4, 4, 40, 20)]


def test_a_protected_folder_is_as_good_as_a_protected_library(photos: LibraryRoot) -> None:
    LibraryRoot.objects.filter(pk=photos.pk).update(protected_folders="best\nother/ones")
    hashed("best/1"), hashed("best of all/2"), hashed("other/ones/deep/3")
    assert groups() == [("a", 3, 3, 30, 10)]


def test_a_changed_role_is_reckoned_anew(photos: LibraryRoot) -> None:
    hashed("1"), hashed("2")
    assert groups() == [("a", 2, 2, 20, 10)]
    LibraryRoot.objects.filter(pk=photos.pk).update(role="protected")
    assert groups() == [("a", 2, 2, 20, 0)]
    LibraryRoot.objects.filter(pk=photos.pk).update(role="normal", protected_folders="x")
    assert groups() == [("a", 2, 2, 20, 10)]


def test_another_algorithm_is_counted_anew() -> None:
    HashState.objects.create(pk=1, algorithm="blake3")
    hashed("1"), hashed("2")
    groups()
    HashState.objects.update(algorithm="sha256")
    LibraryFile.objects.update(hash_algorithm="sha256", content_hash=B)
    assert groups() == [("b", 2, 2, 20, 10)]


def test_what_changed_while_a_trigger_was_gone_is_counted() -> None:
    hashed("1"), hashed("2")
    groups()
    name = "duplicates_note_delete"
    drop = f"DROP TRIGGER {name}" if connection.vendor == "sqlite" else f"DROP TRIGGER {name}_trigger ON library_files"
    with connection.cursor() as cursor:
        cursor.execute(drop)
    LibraryFile.objects.filter(relative_path="2").delete()
    assert [mended.problem for mended in install(connection)] == ["missing"]
    assert groups() == []


# --- In portions ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("using", ["default", EXECUTOR])
def test_many_are_counted_in_portions(monkeypatch: pytest.MonkeyPatch, using: str) -> None:
    monkeypatch.setattr(summary, "MOST", 3)
    digests = [bytes([65 + number]) * 32 for number in range(10)]
    for digest in digests:
        hashed(f"1 {digest!r}", digest), hashed(f"2 {digest!r}", digest)
    assert summary.bring_up_to_date(using)
    assert DuplicateGroup.objects.count() == 10
    for digest in digests:
        hashed(f"3 {digest!r}", digest)
    LibraryFile.objects.filter(relative_path__startswith="1").delete()
    assert summary.bring_up_to_date(using)
    assert [group[1] for group in groups()] == [2] * 10
    summary.recount(using)
    assert [group[1] for group in groups()] == [2] * 10


def test_what_changes_during_a_recount_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "MOST", 1)
    hashed("1", A), hashed("2", A), hashed("1b", B), hashed("2b", B)
    groups()
    counting = summary._Counting("default")
    with transaction.atomic():
        counting.begin_recount()
    counting.step()
    assert Summary.objects.get().is_stale
    hashed("3", A)
    LibraryFile.objects.filter(relative_path="2b").update(is_missing=True)
    assert groups() == [("a", 3, 3, 30, 20)]


def test_with_a_limit_of_time_the_rest_is_left_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "MOST", 1)
    for number in range(4):
        hashed(f"1 {number}", bytes([number]) * 32), hashed(f"2 {number}", bytes([number]) * 32)
    assert not summary.bring_up_to_date(seconds=0)
    assert summary.bring_up_to_date(seconds=60)
    assert DuplicateGroup.objects.count() == 4


def test_a_change_that_is_not_committed_yet_is_not_lost() -> None:
    """On PostgreSQL a file may be written while the groups are counted, and committed afterwards."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time")
    hashed("1"), hashed("2"), hashed("3", B)
    groups()
    other = connections[EXECUTOR].copy("late")
    try:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute("UPDATE library_files SET content_hash = %s WHERE relative_path = '3'", [A])
        LibraryFile.objects.filter(relative_path="2").update(mtime_ns=99)
        assert groups() == [("a", 2, 2, 20, 10)]
        other.commit()
    finally:
        other.close()
    assert groups() == [("a", 3, 3, 30, 20)]


def test_the_pages_of_a_walk_by_key_use_their_index() -> None:
    """A page costs the same at any depth: the index is walked from the anchor, and nothing is sorted."""
    columns = {
        "ix_duplicate_groups_files": "by_files, by_total, hash_algorithm, content_hash",
        "ix_duplicate_groups_reclaim": "by_reclaimable, sample_file_id",
        "ix_duplicate_groups_newest": "by_newest, sample_file_id",
        "ix_duplicate_groups_size": "by_size, sample_file_id",
    }
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL takes another plan for a small table; `make bench` looks at a large one")
    for index, names in columns.items():
        values = "-2, -20, 'blake3', X'00'" if "by_total" in names else "-2, 7"
        with connection.cursor() as cursor:
            cursor.execute(
                f"EXPLAIN QUERY PLAN SELECT * FROM duplicate_groups WHERE ({names}) > ({values})"
                f" ORDER BY {names} LIMIT 100"
            )
            plan = " ".join(row[3] for row in cursor.fetchall())
        # Every column of the comparison is searched for, or a page deep among equal figures would walk all of them.
        assert f"{index} (({names.replace(' ', '')})>(" in plan
        assert "TEMP B-TREE" not in plan


def test_a_group_keeps_its_id_as_long_as_it_lives() -> None:
    """What refers to a group while it is changed finds it again."""
    hashed("1"), hashed("2"), hashed("3", B), hashed("4", B)
    groups()
    before = dict(DuplicateGroup.objects.values_list("content_hash", "id"))
    hashed("5"), hashed("6", B)
    assert groups() == [("a", 3, 3, 30, 20), ("b", 3, 3, 30, 20)]
    summary.recount()
    LibraryFile.objects.filter(relative_path="6").update(is_missing=True)
    assert groups() == [("a", 3, 3, 30, 20), ("b", 2, 2, 20, 10)]
    assert dict(DuplicateGroup.objects.values_list("content_hash", "id")) == before


def test_a_file_that_gets_another_id_is_noticed() -> None:
    first, second, _ = hashed("1"), hashed("2"), hashed("3")
    groups()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE library_files SET id = %s WHERE id = %s", [first.pk + 1_000, first.pk])
    groups()
    assert DuplicateGroup.objects.get().sample_file_id == second.pk


def test_groups_are_counted_from_the_index_alone() -> None:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL takes another plan for a small table; `make bench` looks at a large one")
    asked: list[tuple[str, Any]] = []

    def look(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.strip().startswith("INSERT INTO counted_digests"):
            asked.append((sql, params))
        return execute(sql, params, many, context)

    hashed("1"), hashed("2")
    with connection.execute_wrapper(look):
        groups()
        hashed("3")
        groups()
    assert len(asked) == 2
    with connection.cursor() as cursor:
        for sql, params in asked:
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}", params)
            plan = [row[3] for row in cursor.fetchall()]
            assert any("f USING COVERING INDEX ix_library_files_dedup_group" in line for line in plan), plan
            assert not any("TEMP B-TREE" in line for line in plan), plan


def test_a_new_file_that_was_counted_for_another_and_goes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first portion looks at the first file alone, but counts all of its content."""
    hashed("0", B)
    groups()
    monkeypatch.setattr(summary, "MOST", 1)
    monkeypatch.setattr(summary, "RECOUNT_SHARE", 0)
    hashed("1"), hashed("2"), hashed("3")
    summary._Counting("default").step()
    assert DuplicateGroup.objects.get().file_count == 3
    LibraryFile.objects.filter(relative_path__in=("2", "3")).delete()
    assert groups() == []


def test_a_file_that_was_counted_by_a_recount_and_changes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "MOST", 1)
    hashed("1"), hashed("2"), hashed("3", B), hashed("4", B)
    counting = summary._Counting("default")
    with counting.transaction():
        counting.begin_recount()
    counting.step()
    hashed("5", B)
    counting.step()
    LibraryFile.objects.filter(relative_path="5").update(content_hash=b"c" * 32)
    assert groups() == [("a", 2, 2, 20, 10), ("b", 2, 2, 20, 10)]


def test_a_recount_walks_a_bounded_number_of_files_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "MOST_WALKED", 2)
    for number in range(9):
        hashed(str(number), bytes([number]) * 32)
    hashed("twin", bytes([7]) * 32), hashed("triplet", bytes([7]) * 32)
    summary.recount()
    assert [(bytes(group.content_hash)[0], group.file_count) for group in DuplicateGroup.objects.all()] == [(7, 3)]


def test_a_role_that_changes_during_a_recount_is_not_lost(photos: LibraryRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """On PostgreSQL the change waits for the portion that is being counted, and has its say afterwards."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time")
    monkeypatch.setattr(summary, "MOST", 1)
    hashed("1"), hashed("2"), hashed("3", B), hashed("4", B)
    counting = summary._Counting("default")
    with counting.transaction():
        counting.begin_recount()
    counting.step()

    def change() -> None:
        try:
            LibraryRoot.objects.filter(pk=photos.pk).update(role="protected")
        finally:
            connections.close_all()

    changing = Thread(target=change)
    with counting.transaction():
        counting.alone()
        state = counting._state()
        changing.start()
        until(_is_waited_for, "the change of the role to wait")
        counting._recount_some(state)
    changing.join()
    assert [group[-1] for group in groups()] == [0, 0]


def _is_waited_for() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_locks WHERE NOT granted")
        return cursor.fetchone() is not None
