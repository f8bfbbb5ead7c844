"""Emptying: removed for good is only what has a living copy, read at that moment, outside every trash."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from duplicates.models import PlanFile
from jobs.models import Job
from libraries.models import LibraryFile
from tests.duplicates.plans import planned
from tests.trash.acts import allow
from tests.trash.disks import loop_disk
from tests.trash.on_disk import carried_out, index, item_at, library_on, trash_of, trashed
from trash import switching
from trash.act_results import only_skipped, results_of
from trash.authorising import authorise_emptying
from trash.choosing_items import deleted_for_good, figures, lying
from trash.emptying import Emptying
from trash.heeding import Heeding
from trash.models import Act, TrashItem

pytestmark = pytest.mark.django_db
TWO = {"a.jpg": b"one", "old/b.jpg": b"one"}


@pytest.fixture(autouse=True)
def _allowed(settings: Settings, young_files_too: None) -> None:
    settings.ALLOW_REAL_DELETE = True
    allow()


def asked(**selection: Any) -> Act:
    count, _size = figures(lying(selection))
    return authorise_emptying(selection, count, actor="ada")


def emptied(**selection: Any) -> Act:
    return carried_out(asked(**selection))


def told(path: str) -> tuple[str, str, bool]:
    item = item_at(path)
    return item.status, item.reason_code, item.is_last_copy


def in_trash(root: Path, path: str) -> Path:
    item = item_at(path)
    return trash_of(root) / item.act.key / "files" / str(item.plan_file_id)


def test_emptying_removes_what_has_a_copy_and_the_records_say_so(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library_on(root, {**TWO, "old/c.jpg": b"one", "d.jpg": b"two", "old/d.jpg": b"two"})
    source = trashed(planned())
    act = emptied(all=True)
    assert (act.status, act.done_count, act.skipped_count, act.bytes_done) == ("completed", 3, 0, 9)
    assert {each.status for each in TrashItem.objects.all()} == {"emptied"}
    assert all(each.left_by_id == act.pk and each.left_at for each in TrashItem.objects.all())
    assert not trash_of(root).exists()
    assert (root / "a.jpg").read_bytes() == b"one"
    source.refresh_from_db()
    assert (source.trashed_count, source.trashed_bytes) == (0, 0)
    assert LibraryFile.objects.get(relative_path="old/b.jpg").is_missing


def test_emptying_works_in_batches(tmp_path: Path, settings: Settings) -> None:
    settings.ACT_BATCH_FILES = 2
    library_on(tmp_path / "photos", {"a": b"1", **{f"x/{n}": b"1" for n in range(5)}})
    trashed(planned())
    assert emptied(all=True).done_count == 5
    assert not trash_of(tmp_path / "photos").exists()


def test_emptying_tells_the_space_as_the_filesystem_saw_it(tmp_path: Path) -> None:
    with loop_disk(tmp_path / "disk") as disk:
        content = os.urandom(2 << 20)
        library = library_on(disk.point, {"a.bin": content, "old/b.bin": content})
        trashed(planned())
        before = disk.free_bytes
        act = emptied(all=True)
        ((name, (told_before, told_after)),) = act.space.items()
        assert name == library.state.filesystems[""]
        assert told_before == before
        assert told_after - told_before >= len(content)
        assert disk.free_bytes >= told_after


# --- Caution 20 ---------------------------------------------------------------------------------------------
def _gone(root: Path) -> None:
    (root / "a.jpg").unlink()


def _edited(root: Path) -> None:
    info = (root / "a.jpg").stat()
    (root / "a.jpg").write_bytes(b"eno")
    os.utime(root / "a.jpg", ns=(info.st_atime_ns, info.st_mtime_ns))  # nothing but its bytes tells


def _became_a_link(root: Path) -> None:
    (root / "a.jpg").rename(root / "real.jpg")
    (root / "a.jpg").symlink_to("real.jpg")


def _became_a_folder(root: Path) -> None:
    (root / "a.jpg").unlink()
    (root / "a.jpg").mkdir()


def _moved_into_the_trash_by_hand(root: Path) -> None:
    (root / "a.jpg").rename(trash_of(root) / "a.jpg")
    LibraryFile.objects.filter(relative_path="a.jpg").update(relative_path=".dedupfs-trash/a.jpg")


@pytest.mark.parametrize("happened", [_gone, _edited, _became_a_link, _became_a_folder, _moved_into_the_trash_by_hand])
def test_caution_20_the_last_copy_is_never_destroyed(tmp_path: Path, happened: Any) -> None:
    root = tmp_path / "photos"
    library_on(root, TWO)
    trashed(planned())
    happened(root)
    act = emptied(all=True)
    assert (act.status, act.done_count, act.skipped_count) == ("completed", 0, 1)
    assert told("old/b.jpg") == ("trashed", "LAST_COPY", True)
    assert in_trash(root, "old/b.jpg").read_bytes() == b"one"


def test_caution_20_two_copies_in_the_trash_and_none_outside_both_stay(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library_on(root, {**TWO, "old/c.jpg": b"one"})
    trashed(planned())
    (root / "a.jpg").unlink()
    assert emptied(all=True).done_count == 0
    assert in_trash(root, "old/b.jpg").exists()
    assert in_trash(root, "old/c.jpg").exists()


def test_caution_20_any_copy_of_the_index_will_do(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library_on(root, TWO)
    trashed(planned())
    (root / "a.jpg").unlink()
    library_on(tmp_path / "other", {"kept.jpg": b"one"}, "other")
    assert emptied(all=True).done_count == 1
    assert not in_trash(root, "old/b.jpg").exists()
    assert (tmp_path / "other/kept.jpg").read_bytes() == b"one"


def test_caution_20_a_copy_that_only_the_index_has_will_not(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library_on(root, TWO)
    trashed(planned())
    (root / "a.jpg").unlink()
    library_on(tmp_path / "other", {"kept.jpg": b"one"}, "other")
    (tmp_path / "other/kept.jpg").unlink()
    assert emptied(all=True).done_count == 0
    assert told("old/b.jpg") == ("trashed", "LAST_COPY", True)


def test_caution_20_another_name_of_the_trashed_file_is_a_copy_only_outside_the_trash(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library = library_on(root, TWO)
    trashed(planned())
    (root / "a.jpg").unlink()
    (trash_of(root) / "more").mkdir()
    (trash_of(root) / "more/name").hardlink_to(in_trash(root, "old/b.jpg"))
    LibraryFile.objects.filter(relative_path="a.jpg").update(relative_path=".dedupfs-trash/more/name")
    assert emptied(all=True).done_count == 0
    (root / "name").hardlink_to(in_trash(root, "old/b.jpg"))
    index(library, b"name")
    assert emptied(all=True).done_count == 1
    assert (root / "name").read_bytes() == b"one"


def test_caution_20_a_trash_that_is_mounted_elsewhere_is_a_trash(tmp_path: Path) -> None:
    """By the path nothing tells that the copy is the very file that is about to go."""
    from tests.libraries.dead_disk import mounted

    root, other = tmp_path / "photos", tmp_path / "other"
    library_on(root, {**TWO, "old/c.jpg": b"one"})
    trashed(planned())
    (root / "a.jpg").unlink()
    (trash_of(root) / "more").mkdir()
    shutil.copy2(in_trash(root, "old/b.jpg"), trash_of(root) / "more/copy")
    other.mkdir()
    with mounted("--bind", str(trash_of(root) / "more"), str(other)):
        library = library_on(other, {}, "other")
        index(library, b"copy")
        assert emptied(all=True).done_count == 0


def test_caution_20_what_was_changed_in_the_trash_has_no_copy(tmp_path: Path) -> None:
    """A program that had it open may have gone on writing."""
    root = tmp_path / "photos"
    library_on(root, {**TWO, "big": b"x" * 300_000, "old/big": b"x" * 300_000})
    trashed(planned())
    for path, content in (("old/b.jpg", b"eno"), ("old/big", b"y" * 300_000)):
        in_trash(root, path).write_bytes(content)
    assert emptied(all=True).done_count == 0
    assert told("old/b.jpg") == ("trashed", "TRASH_CHANGED", False)
    assert told("old/big") == ("trashed", "TRASH_CHANGED", False)
    assert in_trash(root, "old/b.jpg").read_bytes() == b"eno"


def test_caution_20_a_hard_link_made_by_us_is_no_copy_of_the_file_in_the_trash(tmp_path: Path) -> None:
    """It is a copy only as long as it has the bytes."""
    root = tmp_path / "photos"
    library_on(root, TWO)
    trashed(planned("hardlink"))
    (root / "old/b.jpg").write_bytes(b"new")  # in both names
    assert emptied(all=True).done_count == 0
    assert in_trash(root, "old/b.jpg").read_bytes() == b"one"
    (root / "old/b.jpg").write_bytes(b"one")
    assert emptied(all=True).done_count == 1


def _edited_in_the_trash(root: Path) -> None:
    file = in_trash(root, "old/b.jpg")
    info = file.stat()
    file.write_bytes(b"eno")
    os.utime(file, ns=(info.st_atime_ns, info.st_mtime_ns))


@pytest.mark.parametrize(
    ("happened", "code"),
    [
        (_gone, "KEEPER_GONE"),
        (_edited, "KEEPER_CHANGED"),
        (_became_a_link, "NOT_A_FILE"),
        (_moved_into_the_trash_by_hand, "KEEPER_GONE"),
        (_edited_in_the_trash, "TRASH_CHANGED"),
    ],
)
def test_caution_20_a_copy_that_goes_while_it_is_asked_keeps_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, happened: Any, code: str
) -> None:
    """The question comes after the proof, and the database may take its time to answer."""
    root = tmp_path / "photos"
    library_on(root, TWO)
    trashed(planned())
    heed = Heeding.heed

    def heed_slowly(heeding: Heeding, *, is_final: bool = False) -> None:
        if is_final:
            happened(root)
        heed(heeding, is_final=is_final)

    monkeypatch.setattr(Heeding, "heed", heed_slowly)
    act = emptied(all=True)
    assert (act.status, act.done_count, act.skipped_count) == ("completed", 0, 1)
    assert told("old/b.jpg") == ("trashed", code, False)
    assert in_trash(root, "old/b.jpg").read_bytes() == (b"eno" if code == "TRASH_CHANGED" else b"one")


def test_a_copy_that_is_found_later_lets_it_go(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library = library_on(root, TWO)
    trashed(planned())
    (root / "a.jpg").unlink()
    emptied(all=True)
    (root / "again.jpg").write_bytes(b"one")
    index(library, b"again.jpg")
    assert emptied(all=True).done_count == 1
    assert told("old/b.jpg") == ("emptied", "", False)


# --- May it? ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("what", ["switch", "environment"])
def test_what_was_allowed_when_asked_is_asked_again_when_it_runs(tmp_path: Path, settings: Settings, what: str) -> None:
    root = tmp_path / "photos"
    library_on(root, TWO)
    trashed(planned())
    act = asked(all=True)
    if what == "switch":
        switching.change(actor="ada", is_acting_allowed=True, is_removing_allowed=False, empty_after_days=None)
    else:
        settings.ALLOW_REAL_DELETE = False
    carried_out(act)
    assert act.status == "failed"
    assert "Removing for good" in act.note
    assert in_trash(root, "old/b.jpg").exists()
    assert Job.objects.get(pk=act.job_id).status == "failed"


@pytest.mark.parametrize("what", ["switch", "environment"])
def test_what_is_forbidden_in_the_middle_of_a_batch_keeps_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings, what: str
) -> None:
    root = tmp_path / "photos"
    library_on(root, {"a": b"1", **{f"x/{n}": b"1" for n in range(5)}})
    trashed(planned())
    act = asked(all=True)
    take_out, taken = Emptying.take_out, []

    def forbidden_at_the_third(*arguments: Any) -> Any:
        taken.append(arguments)
        if len(taken) == 3 and what == "switch":
            switching.change(actor="ada", is_acting_allowed=True, is_removing_allowed=False, empty_after_days=None)
        elif len(taken) == 3:
            settings.ALLOW_REAL_DELETE = False
        return take_out(*arguments)

    monkeypatch.setattr(Emptying, "take_out", forbidden_at_the_third)
    carried_out(act)
    assert (act.status, act.done_count, act.skipped_count) == ("failed", 2, 0)
    assert "Removing for good" in act.note
    statuses = list(TrashItem.objects.order_by("pk").values_list("status", flat=True))
    assert statuses == ["emptied", "emptied", "trashed", "trashed", "trashed"]
    assert len(list(in_trash(root, "x/0").parent.iterdir())) == 3


def test_what_grew_old_after_it_was_authorised_stays(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library_on(root, {"a": b"1", "x/b": b"1", "x/c": b"1"})
    plan = planned()
    trashed(plan, days_ago=31)
    young = item_at("x/c")
    TrashItem.objects.filter(pk=young.pk).update(acted_at=_days_ago(29.5))
    act = asked(older_than_days=30)
    assert act.file_count == 1
    Act.objects.filter(pk=act.pk).update(authorised_at=_days_ago(0))
    TrashItem.objects.filter(pk=young.pk).update(acted_at=_days_ago(29.9999))
    carried_out(act)
    assert (act.done_count, told("x/c")[0]) == (1, "trashed")


def _days_ago(days: float) -> Any:
    from database.clock import SecondsFromNow

    return SecondsFromNow(-days * 86_400)


# --- Disks --------------------------------------------------------------------------------------------------
def test_a_disk_that_is_not_mounted_keeps_its_files_on_record(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    root.mkdir()
    with loop_disk(root / "disk", image=tmp_path / "disk.img") as disk:
        library_on(root, {"a.jpg": b"one", "disk/old/b.jpg": b"one"})
        trashed(planned())
        disk.unmount()
        emptied(all=True)
        assert told("disk/old/b.jpg") == ("trashed", "TRASH_GONE", False)
        disk.mount()
        assert emptied(all=True).done_count == 1


def test_a_trash_that_somebody_took_away_is_no_longer_told_of(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library_on(root, TWO)
    trashed(planned())
    shutil.rmtree(trash_of(root))
    act = emptied(all=True)
    assert told("old/b.jpg") == ("emptied", "TRASH_GONE", False)
    assert (act.done_count, act.skipped_count, deleted_for_good({"all": True})) == (0, 1, 0)
    (reason,) = results_of(act).reasons
    assert (reason.code, reason.count) == ("TRASH_GONE", 1)
    assert list(only_skipped(act, "TRASH_GONE")) == [item_at("old/b.jpg")]
    source = item_at("old/b.jpg").act
    assert (source.trashed_count, source.trashed_bytes) == (0, 0)


def test_a_read_only_disk_keeps_its_files(tmp_path: Path) -> None:
    with loop_disk(tmp_path / "disk") as disk:
        library_on(disk.point, TWO)
        trashed(planned())
        disk.make_read_only()
        emptied(all=True)
        assert told("old/b.jpg") == ("trashed", "READ_ONLY", False)


def test_the_keeper_is_read_once_for_all_that_went_because_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library_on(tmp_path / "photos", {"a": b"1" * 1000, **{f"x/{n}": b"1" * 1000 for n in range(5)}})
    trashed(planned())
    read: list[int] = []
    monkeypatch.setattr(Emptying, "report", lambda _self, amount: read.append(amount))
    assert emptied(all=True).done_count == 5
    assert sum(read) == 6 * 1000
    assert PlanFile.objects.filter(role="keep").count() == 1
