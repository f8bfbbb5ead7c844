"""Emptying removes what was in the trash when its number was typed, nothing that came back or came there since."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from database.clock import SecondsFromNow
from duplicates.models import group_key
from libraries.errors import Refused
from libraries.models import LibraryFile
from tests.duplicates.plans import planned
from tests.trash.acts import acted, authorised, carry_out, contents, items, library
from trash import authorising
from trash.authorising import ask_undo, authorise_emptying
from trash.choosing_items import figures, lying
from trash.models import Act, TrashItem
from trash.undoing import Undoing

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("everything_allowed")]
FILES = 10


def emptying(selection: dict[str, Any]) -> Act:
    return authorise_emptying(selection, figures(lying(selection))[0], actor="ada")


def test_what_an_undo_has_in_hand_can_not_be_emptied_until_it_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not counted, and is in the trash again where the undo refuses it."""
    root = tmp_path / "photos"
    library(root, {f"{name}{n}": b"content %d" % n for n in range(FILES) for name in ("a", "b/copy")})
    act = acted()
    rows = items(act)
    first, second = ([rows[f"b/copy{n}"].pk for n in some] for some in (range(4), range(4, FILES)))
    for n in range(4):
        (root / f"b/copy{n}").write_bytes(b"somebody else's")
    undo = ask_undo({"items": first}, actor="otto")
    take_out, meanwhile = Undoing.take_out, list[Act]()

    def asked_meanwhile(*arguments: Any) -> Any:
        if not meanwhile:
            assert figures(lying({"all": True}))[0] == 6
            with pytest.raises(Refused, match="4 files of these are being moved, put back or removed"):
                emptying({"all": True})
            meanwhile.append(emptying({"items": second}))
        return take_out(*arguments)

    monkeypatch.setattr(Undoing, "take_out", asked_meanwhile)
    carry_out(undo)
    undo.refresh_from_db()
    assert (undo.status, undo.skipped_count) == ("completed", 4)
    meanwhile[0].refresh_from_db()
    assert (meanwhile[0].status, meanwhile[0].done_count) == ("completed", 6), "others may be emptied"
    assert TrashItem.objects.filter(status="trashed").count() == 4
    act = carry_out(emptying({"all": True}))
    assert (act.status, act.file_count, act.done_count) == ("completed", 4, 4)


@pytest.mark.parametrize("status", ["intended", "undoing", "emptying"])
def test_nothing_is_authorised_while_somebody_has_files_of_it_in_hand(tmp_path: Path, status: str) -> None:
    library(tmp_path / "photos", {f"{name}{n}": b"content %d" % n for n in range(2) for name in ("a", "b/copy")})
    row = items(acted())["b/copy0"]
    if status == "intended":
        row.delete()
        row.status = status
        row.save(force_insert=True)
    else:
        TrashItem.objects.filter(pk=row.pk).update(status=status)
    with pytest.raises(Refused, match="1 file of these is being moved, put back or removed"):
        emptying({"all": True})
    assert not Act.objects.filter(verb="empty").exists()


def two_plans(root: Path) -> tuple[Act, Act]:
    """The files of the first lie in the trash, the second is authorised."""
    library(root, {"a": b"one", "b/copy": b"one", "c": b"two!", "d/copy": b"two!"})
    rows = {row.relative_path: row for row in LibraryFile.objects.all()}
    plans = [
        planned(group_keys=[group_key(str(rows[path].hash_algorithm), bytes(rows[path].content_hash or b""))])
        for path in ("a", "c")
    ]
    first = carry_out(authorised(plan=plans[0]))
    assert first.status == "completed"
    return first, authorised(plan=plans[1])


def test_what_an_act_brings_into_the_trash_later_stays(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    _, second = two_plans(root)
    act = emptying({"all": True})
    assert act.file_count == 1
    carry_out(second)
    act.refresh_from_db()
    assert (act.status, act.done_count) == ("completed", 1)
    assert items(second)["d/copy"].status == "trashed"
    assert sorted(contents(root).values()) == [b"one", b"two!", b"two!"]


def test_no_file_goes_where_more_would_than_were_authorised(tmp_path: Path) -> None:
    """Another act's file, by a clock that was set back meanwhile."""
    root = tmp_path / "photos"
    _, second = two_plans(root)
    act = emptying({"all": True})
    authorising.pause(act.pk, actor="ada")
    carry_out(second)
    TrashItem.objects.filter(act=second).update(acted_at=SecondsFromNow(-3600))
    authorising.resume(act.pk, actor="ada")
    act = carry_out(act)
    assert (act.status, act.done_count) == ("failed", 0)
    assert "It would be 2 files by now, and the number that was authorised is 1" in act.note
    assert sorted(contents(root).values()) == [b"one", b"one", b"two!", b"two!"]
    again = carry_out(emptying({"all": True}))
    assert (again.status, again.done_count) == ("completed", 2)
