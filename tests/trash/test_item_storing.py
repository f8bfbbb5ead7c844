"""What is recorded of the files of an act."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from libraries.models import LibraryFile
from tests.trash.acts import authorised, carry_out, items, library
from trash import acting
from trash.acting import Acting
from trash.models import TrashItem

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("everything_allowed")]
Patch = pytest.MonkeyPatch
FILES = {f"{name}{n}": b"%d" % n for n in range(6) for name in ("a", "b/copy")}
STATUSES = [status.value for status in TrashItem.Status]


def test_a_row_that_a_scan_gave_to_another_path_is_not_called_missing(tmp_path: Path, monkeypatch: Patch) -> None:
    library(tmp_path / "photos", FILES)
    act = authorised()
    act_on = Acting._act_on

    def and_a_scan(self: Acting, batch: Any) -> Any:
        LibraryFile.objects.filter(relative_path="b/copy3").update(relative_path="elsewhere")
        return act_on(self, batch)

    monkeypatch.setattr(Acting, "_act_on", and_a_scan)
    assert carry_out(act).done_count == 6
    assert {row.status for row in items(act).values()} == {"trashed"}
    missing = LibraryFile.objects.filter(is_missing=True).values_list("relative_path", flat=True)
    assert sorted(missing) == [f"b/copy{n}" for n in range(6) if n != 3]


@pytest.mark.parametrize(("files", "told"), [(2, 4), (4, 2), (100, 1)])
def test_groups_are_counted_after_so_many_files_and_at_the_end(
    tmp_path: Path, settings: Any, monkeypatch: Patch, files: int, told: int
) -> None:
    settings.ACT_BATCH_FILES = 2
    monkeypatch.setattr(acting, "LISTEN_FILES", files)
    monkeypatch.setattr(acting, "LISTEN_SECONDS", 3600.0)
    library(tmp_path / "photos", FILES)
    act = authorised()
    calls: list[int] = []
    monkeypatch.setattr(acting, "files_changed", lambda: calls.append(1))
    assert carry_out(act).done_count == 6
    assert len(calls) == told


@pytest.mark.parametrize("start", STATUSES)
def test_a_status_moves_only_along_its_arrows(tmp_path: Path, start: str) -> None:
    library(tmp_path / "photos", {"a": b"one", "b/copy": b"one"})
    act = carry_out(authorised())
    row = act.items.get()
    allowed = set()
    for end in STATUSES:
        row.delete()
        row.status = start
        row.save(force_insert=True)
        try:
            with transaction.atomic():
                TrashItem.objects.filter(pk=row.pk).update(status=end)
        except IntegrityError:
            continue
        allowed.add(end)
    assert allowed == {start, *TrashItem.MOVES.get(start, ())}
