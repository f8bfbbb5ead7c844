"""Thumbnails are kept as long as their group is one."""

from __future__ import annotations

import pytest

from duplicates import summary
from duplicates.living_groups import living_among
from duplicates.models import group_key
from libraries.models import LibraryFile
from tests import factories
from thumbnails.cleaning import living_groups
from thumbnails.keys import relpath_of, thumb_key
from thumbnails.models import Thumbnail, ThumbnailCleanupJob
from thumbnails.tidying import tidy_all

pytestmark = pytest.mark.django_db

ONE, TWO = b"1" * 32, b"2" * 32


@pytest.fixture(autouse=True)
def _files() -> None:
    library = factories.library()
    for digest in (ONE, TWO):
        for copy in "ab":
            name = f"{digest.decode()[0]}{copy}.jpg"
            factories.library_file(name, library, needs_hash=False, hash_algorithm="blake3", content_hash=digest)


def test_only_groups_that_there_are_live() -> None:
    keys = [group_key("blake3", ONE), group_key("blake3", b"3" * 32), "no key at all"]
    assert living_among(keys) == {keys[0]}
    assert living_among([f"blake3:{number:064x}" for number in range(1_000)] + keys) == {keys[0]}
    assert living_groups(keys) == {keys[0]}


def test_while_groups_are_not_counted_yet_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duplicates.living_groups.SECONDS", 0)
    monkeypatch.setattr(summary, "MOST", 1)
    keys = [group_key("blake3", b"3" * 32)]
    assert living_among(keys) is None
    assert living_groups(keys) is None


def test_a_dissolved_group_has_its_thumbnails_cleaned_up() -> None:
    file = LibraryFile.objects.get(relative_path="1a.jpg")
    key = group_key("blake3", ONE)
    made = thumb_key(file, 320, "webp")
    Thumbnail.objects.create(
        thumb_key=made, file=file, group_key=key, status="ready", media_type="image", format="webp", max_dimension=320,
        source_size_bytes=file.size_bytes, source_mtime_ns=file.mtime_ns, output_relpath=relpath_of(made, "webp"),
    )  # fmt: skip
    tidy_all()
    assert not ThumbnailCleanupJob.objects.exists()
    LibraryFile.objects.filter(relative_path="1b.jpg").update(is_missing=True)
    tidy_all()
    assert ThumbnailCleanupJob.objects.get().group_key == key
    LibraryFile.objects.filter(relative_path="1b.jpg").update(is_missing=False)
    tidy_all()
    assert not ThumbnailCleanupJob.objects.exists()
