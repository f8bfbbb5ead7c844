"""`doctor` counts the groups a second time, and says which of them the summary has wrong."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from database.examining import Finding, Grade
from duplicates import examining, members, summary
from duplicates.models import DuplicateGroup
from libraries.models import LibraryFile, LibraryRoot
from tests import factories
from tests.duplicates.contents import copies, digest_of, key_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def photos() -> LibraryRoot:
    return factories.library("photos", protected_folders="keep\nother folder")


@pytest.fixture(autouse=True)
def _several_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examining, "PAGE", 3)
    monkeypatch.setattr(examining, "TOGETHER", 2)
    monkeypatch.setattr(members, "PORTION", 4)


def found() -> Finding:
    (finding,) = examining.check_groups()
    return finding


def wrong(content: str, **values: Any) -> None:
    DuplicateGroup.objects.filter(content_hash=digest_of(content)).update(**values)


@pytest.fixture
def groups(photos: LibraryRoot) -> None:
    """Every case that the summary tells apart: links in and outside, protected places, backups, two libraries."""
    backup = factories.library("backup", role="backup", protected_folders="never mind")
    vault = factories.library("vault", role="protected")
    for number in range(8):
        copies(f"c{number}", f"{number}/a", f"{number}/b", in_library=photos, size=number)
    linked = {"inode": 900, "nlink": 2}
    copies("linked", "l1", "l2", in_library=photos, **linked)
    copies("half linked", "h1", in_library=photos, inode=901, nlink=2)
    copies("half linked", "h2", in_library=photos)
    copies("protected", "keep/p1", "p2", "p3", in_library=photos)
    copies("backed up", "x", in_library=photos)
    copies("backed up", "x", "never mind/y", in_library=backup)
    copies("vaulted", "v", "w", in_library=photos)
    copies("vaulted", "v", in_library=vault)
    copies("same numbers", "n1", "n2", in_library=photos, inode=902, nlink=1)
    copies("unknown inodes", "u1", "u2", in_library=photos, inode=None, device=None, nlink=None)
    copies("many", *(f"m{number}" for number in range(11)), in_library=photos)
    copies("gone", "g1", in_library=photos, is_missing=True)
    copies("gone", "g2", in_library=photos)


@pytest.mark.usefixtures("groups")
def test_a_right_summary_is_well() -> None:
    assert found() == Finding(Grade.OK, "their summary is what the files amount to")
    assert DuplicateGroup.objects.count() == 16
    reclaimable = dict(DuplicateGroup.objects.values_list("content_hash", "reclaimable_bytes"))
    told = {bytes(digest): space for digest, space in reclaimable.items()}
    for content, space in {
        "linked": 0, "half linked": 10, "protected": 20, "backed up": 0, "vaulted": 20, "unknown inodes": 10,
        "many": 100, "c7": 7, "same numbers": 10,
    }.items():  # fmt: skip
        assert told[digest_of(content)] == space, content


@pytest.mark.usefixtures("groups")
def test_what_is_wrong_is_named_with_the_way_out() -> None:
    summary.bring_up_to_date()
    wrong("c1", file_count=3, reclaimable_bytes=0)
    wrong("many", library_ids=",77,")
    DuplicateGroup.objects.filter(content_hash=digest_of("c2")).delete()
    DuplicateGroup.objects.create(
        hash_algorithm="sha256", content_hash=digest_of("gone"), size_bytes=1, file_count=2, total_size_bytes=2,
        inode_count=2, reclaimable_bytes=1, newest_ns=1, sample_file_id=1, library_ids=",1,", spans_libraries=False,
    )  # fmt: skip
    finding = found()
    assert finding.grade == Grade.ERROR
    assert finding.message.startswith("4 groups are counted wrongly: ")
    assert f"{key_of('c1')}: file_count is 3, not 2, reclaimable_bytes is 0, not 1" in finding.message
    assert f"{key_of('many')}: libraries is (77,)" in finding.message
    assert f"{key_of('c2')} is missing" in finding.message
    assert f"{key_of('gone')} is listed, but no two files have that content" in finding.message
    assert "doctor --fix" in finding.remedy
    assert finding.mend is not None
    finding.mend()
    assert found().grade == Grade.OK


@pytest.mark.usefixtures("groups")
def test_many_wrong_ones_are_counted_and_a_few_named() -> None:
    summary.bring_up_to_date()
    DuplicateGroup.objects.update(newest_ns=5)
    finding = found()
    assert finding.message.startswith("16 groups are counted wrongly: ")
    assert finding.message.endswith("; and 11 more")
    assert finding.message.count("newest_ns is 5, not 1") == 5


@pytest.mark.usefixtures("groups")
def test_a_summary_without_its_triggers_is_found_out(photos: LibraryRoot) -> None:
    """The check does not trust the notes: here nobody wrote any."""
    summary.bring_up_to_date()
    rows = LibraryFile.objects.filter(relative_path="m0")
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("SELECT sql FROM sqlite_master WHERE name = 'duplicates_note_update'")
            (made,) = cursor.fetchone()
            cursor.execute("DROP TRIGGER duplicates_note_update")
            try:
                rows.update(is_missing=True)
            finally:
                cursor.execute(made)
    else:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE library_files DISABLE TRIGGER USER")
            try:
                rows.update(is_missing=True)
            finally:
                cursor.execute("ALTER TABLE library_files ENABLE TRIGGER USER")
    assert f"{key_of('many')}: file_count is 11, not 10" in found().message


@pytest.mark.usefixtures("groups")
def test_what_changes_meanwhile_is_not_called_wrong(photos: LibraryRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file arrives after the summary was read and before the files are."""
    read = examining._read_summary
    arrived: list[LibraryFile] = []

    def then_one_arrives(*arguments: Any) -> Any:
        page = list(read(*arguments))
        if not arrived:
            arrived.extend(copies("c3", "late", in_library=photos, size=3))
        return iter(page)

    monkeypatch.setattr(examining, "_read_summary", then_one_arrives)
    assert found().grade == Grade.OK
    assert arrived
