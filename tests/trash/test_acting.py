"""Carrying out a plan on real files: what it does, and everything that makes it leave a file alone."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from duplicates.models import Plan, PlanFile
from jobs import deciding
from jobs.models import Job
from libraries.models import LibraryFile, LibraryRoot, LibraryState
from tests.duplicates.plans import planned
from tests.libraries.scans import scan
from tests.native import require_native
from tests.odd_times import set_odd_time
from tests.trash.acts import (
    OLD_NS,
    acted,
    age,
    authorised,
    carry_out,
    contents,
    items,
    library,
    reasons,
    trash_of,
    two_names,
)
from tests.trash.disks import loop_disk
from tests.trash.folder import before, moves_and_syncs, remember
from tests.tree import tree
from trash import (
    acting_on_file,
    authorising,
    checking_items,
    filesystem_kinds,
    open_folders,
    preparing,
    settling,
    small_pairs,
    switching,
)
from trash.acting import Acting
from trash.empty_folders import remove_empty_folders
from trash.models import Act, TrashItem

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("everything_allowed")]
Patch = pytest.MonkeyPatch


def when_proved(patch: Patch, verb: Callable[[], Any], time: int = 1) -> None:
    """Do something between a proof and the move that follows it."""
    reached = []

    def reach(point: str) -> None:
        if point == "proved":
            reached.append(point)
            if len(reached) == time:
                verb()

    patch.setattr("trash.acting_on_file.reach", reach)


@pytest.fixture(params=["at once", "step by step"])
def way(request: pytest.FixtureRequest, monkeypatch: Patch) -> None:
    """Both ways of proving small files: nothing may depend on whether there was a compiler."""
    if request.param == "step by step":
        monkeypatch.setattr(acting_on_file, "small_pairs", lambda: None)
    else:
        require_native("small_pairs", small_pairs.VERSION)


def plan_of(act: Act) -> Plan:
    return Plan.objects.get(acts=act)


# --- What it does -----------------------------------------------------------------------------------------
def test_it_moves_exactly_what_the_plan_says_into_the_trash(tmp_path: Path) -> None:
    photos = library(tmp_path / "photos")
    act = acted()
    assert (act.done_count, act.skipped_count, act.trashed_count, act.trashed_bytes) == (2, 0, 2, 6)
    key = f".dedupfs-trash/{act.key}/files"
    ids = {path: row.plan_file_id for path, row in items(act).items()}
    assert contents(tmp_path / "photos") == {
        "a": b"one",
        "c": b"two",
        f"{key}/{ids['b/a-copy']}": b"one",
        f"{key}/{ids['d/c-copy']}": b"two",
    }
    assert {row.status for row in items(act).values()} == {"trashed"}
    missing = LibraryFile.objects.filter(library=photos, is_missing=True)
    assert set(missing.values_list("relative_path", flat=True)) == {"b/a-copy", "d/c-copy"}
    assert plan_of(act).status == "done"
    assert trash_of(tmp_path / "photos", act).parent.stat().st_mode & 0o777 == 0o700
    job = Job.objects.get(pk=act.job_id)
    assert (job.status, job.processed_items, job.progress) == ("completed", 2, 1.0)
    assert act.busy_seconds > 0
    assert next(iter(act.space.values()))[0] > 0


def test_a_hard_link_takes_the_name_and_the_old_inode_lies_in_the_trash(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library(root, {"a": b"one", "b/a1": b"one", "b/a-copy": b"one"})
    inodes = {name: (root / name).stat().st_ino for name in ("a", "b/a1", "b/a-copy")}
    act = acted("hardlink")
    for name in ("b/a1", "b/a-copy"):
        assert (root / name).stat().st_ino == inodes["a"]
        row = items(act)[name]
        kept = trash_of(root, act) / "files" / str(row.plan_file_id)
        assert kept.stat().st_ino == inodes[name]
        assert (row.status, row.inode, row.linked_inode) == ("trashed", inodes[name], inodes["a"])
    rows = LibraryFile.objects.filter(is_missing=False)
    found = {(row.inode, row.nlink, row.ctime_ns, row.mtime_ns, row.hashed_mtime_ns) for row in rows}
    info = (root / "a").stat()
    assert found == {(inodes["a"], 3, info.st_ctime_ns, info.st_mtime_ns, info.st_mtime_ns)}
    before = {row.pk: row.hashed_at for row in rows}
    assert scan(LibraryRoot.objects.get()).status == "completed"
    after = {row.pk: row.hashed_at for row in LibraryFile.objects.filter(is_missing=False)}
    assert after == before, "nothing is read again because of a link"


def test_deleting_leaves_neither_the_file_nor_a_trash(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library(root)
    act = acted("delete")
    assert contents(root) == {"a": b"one", "c": b"two"}
    assert not (root / ".dedupfs-trash").exists()
    assert {row.status for row in items(act).values()} == {"deleted"}
    assert (act.done_count, act.trashed_count) == (2, 0)


@pytest.mark.usefixtures("way")
def test_names_that_are_no_text_are_acted_on_byte_for_byte(tmp_path: Path) -> None:
    names = [b"caf\xe9", b"new\nline", b"-rf", b"trailing ", b"\xef\x9f\xa9", b"n" * 255]
    files = {b"d/" + name: bytes([number]) * 9 for number, name in enumerate(names)}
    library(tmp_path / "photos", files | {b"longer/" + name: content for name, content in files.items()})
    act = acted()
    assert act.done_count == len(names)
    left = sorted(os.listdir(os.fsencode(tmp_path / "photos" / "d")))
    assert left == sorted(names)
    assert not os.listdir(tmp_path / "photos" / "longer" / "d")


def test_metadata_survives_the_move(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library(root, {"a": b"one", "b/copy": b"one"})
    (root / "b/copy").chmod(0o640)
    os.utime(root / "b/copy", ns=(OLD_NS, OLD_NS))
    with_attributes = _set_attribute(root / "b/copy")
    scan(LibraryRoot.objects.get())
    act = acted()
    moved = trash_of(root, act) / "files" / str(items(act)["b/copy"].plan_file_id)
    assert (moved.stat().st_mode & 0o777, moved.stat().st_mtime_ns) == (0o640, OLD_NS)
    if with_attributes:
        assert os.getxattr(moved, "user.rating") == b"5"
        noted = {b"user.rating".hex(): b"5".hex()}
        lines = (trash_of(root, act) / "manifest.jsonl").read_text().splitlines()
        assert [json.loads(line).get("attributes") for line in lines] == [None, noted]


def _set_attribute(path: Path) -> bool:
    try:
        os.setxattr(path, "user.rating", b"5")
    except OSError:
        return False
    return True


def test_empty_folders_stay_unless_the_plan_says_otherwise(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library(root, {"a": b"one", "x/y/copy": b"one", "x/z/other": b"kept", "p/q/copy2": b"one"})
    acted()
    assert (root / "x/y").is_dir()
    assert (root / "p/q").is_dir()


def test_empty_folders_go_with_their_files_where_the_plan_says_so(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library(
        root,
        {"a": b"one", "x/y/copy": b"one", "x/z/other": b"kept", "p/q/copy2": b"one", "safe/copy3": b"one"},
    )
    (root / "never-had-any").mkdir()
    (root / "p").chmod(0o750)
    act = authorised(plan=planned(), removes_empty_folders=True)
    act = carry_out(act)
    assert act.status == "completed", act.note
    assert not (root / "x/y").exists()
    assert (root / "x/z/other").exists()
    assert not (root / "p").exists()
    assert (root / "never-had-any").is_dir()
    removed = {row.folder: row.mode for row in act.removed_folders.all()}
    assert removed.keys() == {"x/y", "p/q", "p", "safe"}
    assert removed["p"] == 0o750
    lines = (trash_of(root, act) / "manifest.jsonl").read_text()
    assert '"folder":"p/q"' in lines


def _protect(_folder: Path) -> None:
    LibraryRoot.objects.update(protected_folders="safe")


@pytest.mark.parametrize("change", [_protect, set_odd_time])
def test_an_empty_folder_stays_where_it_is_protected_or_could_not_be_made_again(
    tmp_path: Path, monkeypatch: Patch, change: Callable[[Path], None]
) -> None:
    """Since the moment after its file went. A time that no column holds can't be given back."""
    root = tmp_path / "photos"
    library(root, {"a": b"one", "safe/copy": b"one"})
    act = authorised(removes_empty_folders=True)

    def change_first(*arguments: Any) -> int:
        change(root / "safe")
        return remove_empty_folders(*arguments)

    monkeypatch.setattr("trash.acting.remove_empty_folders", change_first)
    act = carry_out(act)
    assert act.status == "completed", act.note
    assert (root / "safe").is_dir()


# --- Who may ----------------------------------------------------------------------------------------------
def test_what_was_switched_off_since_is_not_done(tmp_path: Path) -> None:
    library(tmp_path / "photos")
    act = authorised()
    switching.change(actor="ada", is_acting_allowed=False, is_removing_allowed=False, empty_after_days=None)
    act = carry_out(act)
    assert (act.status, act.done_count) == ("failed", 0)
    assert "switched off" in act.note
    assert plan_of(act).status == "ready"
    assert ".dedupfs-trash" not in {path.name for path in (tmp_path / "photos").iterdir()}


def test_deleting_needs_the_environment_at_the_moment_of_acting_too(tmp_path: Path, settings: Any) -> None:
    library(tmp_path / "photos")
    act = authorised("delete")
    settings.ALLOW_REAL_DELETE = False
    act = carry_out(act)
    assert (act.status, act.done_count) == ("failed", 0)
    assert "DEDUPFS_ALLOW_REAL_DELETE" in act.note
    assert len(contents(tmp_path / "photos")) == 4


def test_a_job_that_nobody_authorised_touches_nothing(tmp_path: Path) -> None:
    library(tmp_path / "photos")
    plan = planned()
    job = Job.objects.create(kind="delete", dry_run=False, payload={"plan_id": plan.pk})
    deciding.requeue_retryable()
    from jobs.executing import drain

    drain("jobs")
    job.refresh_from_db()
    assert (job.status, job.error_code) == ("failed", "NOT_AUTHORISED")
    assert len(contents(tmp_path / "photos")) == 4


# --- Between plan and act anything may change -------------------------------------------------------------
Change = Callable[[Path], None]


def _edit(path: Path) -> None:
    path.write_bytes(path.read_bytes()[::-1])


def _edit_secretly(path: Path) -> None:
    """The same inode, size and mtime: only reading tells."""
    info = path.stat()
    _edit(path)
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


def _replace(path: Path) -> None:
    new = path.with_name("new")
    new.write_bytes(path.read_bytes())
    os.utime(new, ns=(OLD_NS, OLD_NS))
    new.rename(path)


def _link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/hostname")


def _unlink(path: Path) -> None:
    path.unlink()


def _make_same(path: Path) -> None:
    path.unlink()
    os.link(path.parent.parent / "keeper", path)


def _link_folder(path: Path) -> None:
    folder = path.parent
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("elsewhere")


KEEPER, VICTIM = "keeper", "sub/victim"
CHANGES: list[tuple[Change, str, str]] = [
    (_edit, VICTIM, "VICTIM_CHANGED"),
    (_edit, KEEPER, "KEEPER_CHANGED"),
    (_edit_secretly, VICTIM, "CONTENT_DIFFERS"),
    (_edit_secretly, KEEPER, "DIGEST_DIFFERS"),
    (_replace, VICTIM, "VICTIM_CHANGED"),
    (_replace, KEEPER, "KEEPER_CHANGED"),
    (_link, VICTIM, "NOT_A_FILE"),
    (_link, KEEPER, "NOT_A_FILE"),
    (_unlink, VICTIM, "VICTIM_GONE"),
    (_unlink, KEEPER, "KEEPER_GONE"),
    (_make_same, VICTIM, "VICTIM_CHANGED"),
    (_link_folder, VICTIM, "NOT_A_FILE"),
]


def pairs(count: int) -> dict[str, bytes]:
    """Pairs of equal files, each in a folder of its own."""
    return {f"{n:02}/{name}": b"content %02d" % n for n in range(count) for name in (KEEPER, VICTIM)}


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("action", ["trash", "hardlink", "delete"])
def test_what_changed_since_the_plan_is_skipped_with_its_reason(tmp_path: Path, action: str) -> None:
    root = tmp_path / "photos"
    library(root, pairs(len(CHANGES)))
    act = authorised(action)
    for n, (change, name, _) in enumerate(CHANGES):
        change(root / f"{n:02}" / name)
    before = contents(root)
    act = carry_out(act)
    assert reasons(act) == {f"{n:02}/{VICTIM}": code for n, (_, _, code) in enumerate(CHANGES)}
    assert all(row.reason for row in items(act).values())
    assert contents(root) == before
    assert (act.status, act.done_count, act.skipped_count) == ("completed", 0, len(CHANGES))
    assert plan_of(act).status == "ready", "nothing was touched"
    assert not (root / ".dedupfs-trash").exists()


LATE: list[tuple[Change, str]] = [
    (_unlink, KEEPER),
    (_replace, KEEPER),
    (_replace, VICTIM),
    (_link, VICTIM),
    (_unlink, VICTIM),
]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("action", ["trash", "hardlink", "delete"])
def test_what_changes_between_proof_and_move_is_left_or_brought_back(
    tmp_path: Path, action: str, monkeypatch: Patch
) -> None:
    root = tmp_path / "photos"
    library(root, pairs(len(LATE)))
    act = authorised(action)
    order: list[str] = []

    def spoil() -> None:
        """One change after the other, to the file that was just proved: they are taken as they were intended."""
        intended = TrashItem.objects.order_by("pk").values_list("plan_file__relative_path", flat=True)
        change, name = LATE[len(order)]
        order.append(intended[len(order)][:2])
        change(root / order[-1] / name)

    monkeypatch.setattr("trash.acting_on_file.reach", lambda point: spoil() if point == "proved" else None)
    act = carry_out(act)
    assert act.status == "completed", act.note
    assert {row.status for row in items(act).values()} == {"skipped"}, reasons(act)
    found = {name: data for name, data in contents(root).items() if not name.startswith(".")}
    kept = {f"{folder}/{name}" for folder in order for name in (KEEPER, VICTIM)}
    gone = {f"{folder}/{name}" for folder, (change, name) in zip(order, LATE, strict=True) if change is _unlink}
    assert found.keys() == kept - gone
    assert not (root / ".dedupfs-trash").exists()


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("action", ["trash", "hardlink", "delete"])
@pytest.mark.parametrize("name", [KEEPER, VICTIM])
@pytest.mark.parametrize("waits_for", ["the budget", "leave"])
def test_what_is_edited_while_an_act_waits_before_the_move_is_left(
    tmp_path: Path, action: str, name: str, waits_for: str, monkeypatch: Patch
) -> None:
    """With size and mtime as they were: after the move nothing would tell."""
    root = tmp_path / "photos"
    library(root, pairs(1))
    act, edited = authorised(action), list[str]()

    def edit() -> None:
        if not edited:
            edited.append(name)
            _edit_secretly(root / "00" / name)

    if waits_for == "the budget":
        monkeypatch.setattr(Acting, "_read", lambda *_: edit())
    else:
        when_proved(monkeypatch, edit)
    before = contents(root)
    act = carry_out(act)
    assert (edited, act.status, act.skipped_count) == ([name], "completed", 1), reasons(act)
    assert contents(root) == before | {f"00/{name}": b"content 00"[::-1]}


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("action", ["trash", "delete"])
def test_a_keeper_that_is_edited_during_the_move_brings_the_other_one_back(
    tmp_path: Path, action: str, monkeypatch: Patch
) -> None:
    """With size and mtime as they were. Only the other one still has what both had."""
    root = tmp_path / "photos"
    library(root, pairs(1))
    act = authorised(action)
    before(monkeypatch, "rename_new", lambda: _edit_secretly(root / "00" / KEEPER))
    act = carry_out(act)
    assert reasons(act) == {f"00/{VICTIM}": "KEEPER_CHANGED"}
    assert contents(root) == pairs(1) | {f"00/{KEEPER}": b"content 00"[::-1]}


@pytest.mark.usefixtures("way")
def test_a_sync_that_fails_on_the_way_ends_the_run(tmp_path: Path, monkeypatch: Patch) -> None:
    """A disk tells of what it could not write once: whoever does not listen records as done what may be gone. Two
    folders may be open, so those of the first two files are synced when the third is opened."""
    root, count = tmp_path / "photos", 4
    library(root, pairs(count))
    act = authorised()
    moved: list[str] = []

    def fail(_handles: object) -> None:
        moved.extend(name for name in contents(root) if name.startswith(".dedupfs-trash"))
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(open_folders, "MOST_FOLDERS", 2)
        patch.setattr(open_folders, "sync_folders", fail)
        act = carry_out(act)
    job = Job.objects.get(kind="delete", dry_run=False)
    assert job.status == "failed"
    assert "Input/output error" in (job.error_message or "")
    assert {row.status for row in items(act).values()} == {"intended"}, "none is recorded as done"
    assert 0 < len(moved) < count
    settling.settle_all()
    assert [row.status for row in items(act).values()].count("trashed") == len(moved), "as the disk says"
    assert sorted(contents(root).values()) == sorted(pairs(count).values())


@pytest.mark.usefixtures("way")
def test_a_keeper_that_goes_between_two_victims_keeps_the_second(tmp_path: Path, monkeypatch: Patch) -> None:
    root = tmp_path / "photos"
    library(root, {"a": b"one", "b/copy1": b"one", "b/copy2": b"one"})
    act = authorised("delete")
    when_proved(monkeypatch, lambda: (root / "a").unlink(), time=2)
    carry_out(act)
    assert list(contents(root).values()) == [b"one"]


def test_a_batch_goes_folder_by_folder(tmp_path: Path, monkeypatch: Patch) -> None:
    """A plan goes by size; here the files of six folders take turns in it, and only two folders may be open."""
    sizes = [(number, folder, 900 - 6 * number - folder) for number in range(4) for folder in range(6)]
    names = {f"{folder}/{number}{copy}": b"x" * size for number, folder, size in sizes for copy in ("", " copy")}
    library(tmp_path / "photos", names)
    opened: list[str] = []

    class Noted(checking_items.Folder):
        def __init__(self, library: checking_items.Library, name: str) -> None:
            opened.append(name)
            super().__init__(library, name)

    monkeypatch.setattr(checking_items, "Folder", Noted)
    monkeypatch.setattr(open_folders, "MOST_FOLDERS", 2)
    act = carry_out(authorised())
    assert act.done_count == 24
    assert len(opened) <= 2 * (6 + 2), "once to look, once to act; the first and the last keep their places"


def test_where_others_may_write_to_the_disk_a_keeper_is_opened_once_more(tmp_path: Path, monkeypatch: Patch) -> None:
    """What the kernel remembers of its name is enough only on a disk of this machine alone."""
    library(tmp_path / "photos", {"keep": b"one", "sub/go": b"one"})
    act = authorised()
    monkeypatch.setattr(filesystem_kinds, "OWN", frozenset())
    remember(monkeypatch, tmp_path / "photos" / "keep")
    before(monkeypatch, "rename_new", (tmp_path / "photos" / "keep").unlink)
    act = carry_out(act)
    assert reasons(act) == {"sub/go": "KEEPER_GONE"}
    assert (tmp_path / "photos" / "sub" / "go").read_bytes() == b"one"


def test_batches_begin_small_grow_and_end_small(tmp_path: Path, monkeypatch: Patch, settings: Any) -> None:
    library(tmp_path / "photos", {f"{name}{n}": b"%d" % n for n in range(20) for name in ("a", "b/copy")})
    monkeypatch.setattr(preparing, "LEAST_FILES", 1)
    monkeypatch.setattr(preparing, "TIMES", 2)
    settings.ACT_BATCH_FILES = 4
    sizes: list[int] = []
    after = preparing.Preparing.after

    def noted(self: preparing.Preparing, last: int) -> Any:
        batch = after(self, last)
        sizes.append(len(batch.intents) if batch else 0)
        return batch

    monkeypatch.setattr(preparing.Preparing, "after", noted)
    assert carry_out(authorised()).done_count == 20
    assert sizes == [1, 2, 4, 4, 3, 2, 1, 1, 1, 1, 0]


# --- Policy at the moment of acting -----------------------------------------------------------------------
def test_protected_and_backup_places_are_refused_at_the_moment_of_acting(tmp_path: Path) -> None:
    library(tmp_path / "photos", {"a": b"one", "safe/copy": b"one", "c": b"two", "free/copy-c": b"two"})
    act = authorised()
    LibraryRoot.objects.update(protected_folders="safe")
    act = carry_out(act)
    assert reasons(act) == {"safe/copy": "PROTECTED"}
    assert act.done_count == 1


@pytest.mark.parametrize(("role", "code"), [("protected", "PROTECTED"), ("backup", "BACKUP")])
def test_a_library_that_got_a_role_since_is_left_alone(tmp_path: Path, role: str, code: str) -> None:
    library(tmp_path / "photos", {"a": b"one", "b/copy": b"one"})
    act = authorised()
    LibraryRoot.objects.update(role=role)
    assert reasons(carry_out(act)) == {"b/copy": code}


def test_a_role_that_came_while_its_batch_was_worked_on_counts(tmp_path: Path, monkeypatch: Patch) -> None:
    many(tmp_path / "photos", 3)
    act = authorised()
    monkeypatch.setattr("trash.acting.FRESH_SECONDS", -1)
    when_proved(monkeypatch, lambda: LibraryRoot.objects.update(role="protected"))
    act = carry_out(act)
    assert act.done_count == 1
    assert list(reasons(act).values()) == ["PROTECTED"] * 2


def test_young_files_are_left_alone(tmp_path: Path, settings: Any) -> None:
    library(tmp_path / "photos", {"a": b"one", "b/copy": b"one"})
    act = authorised()
    settings.YOUNG_HOURS = 24  # their ctime is of this minute
    assert reasons(carry_out(act)) == {"b/copy": "TOO_YOUNG"}


def test_a_ctime_that_this_act_changed_makes_nothing_young(tmp_path: Path, settings: Any, monkeypatch: Patch) -> None:
    """Two names of one file go: moving the first changes the ctime of the second."""
    root = tmp_path / "photos"
    two_names(root)
    settings.ACT_BATCH_FILES = 1
    act = authorised()
    before = (root / "b/copy").stat().st_ctime_ns
    settings.YOUNG_HOURS = 24
    monkeypatch.setattr("trash.checking_items.time.time_ns", lambda: before + 24 * 3600 * 10**9 + 1)
    act = carry_out(act)
    assert reasons(act) == {}
    assert act.done_count == 2


def test_another_filesystem_than_the_recorded_one_is_refused(tmp_path: Path) -> None:
    library(tmp_path / "photos", {"a": b"one", "b/copy": b"one"})
    act = authorised()
    LibraryState.objects.update(filesystems={"": "uuid:another"})
    assert reasons(carry_out(act)) == {"b/copy": "OTHER_FILESYSTEM"}


def test_a_library_whose_folder_is_a_link_by_now_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library(root, {"a": b"one", "b/copy": b"one"})
    act = authorised()
    root.rename(tmp_path / "moved")
    root.symlink_to("moved")
    assert reasons(carry_out(act)) == {"b/copy": "LIBRARY_GONE"}


def test_a_library_that_is_being_removed_is_refused(tmp_path: Path) -> None:
    library(tmp_path / "photos", {"a": b"one", "b/copy": b"one"})
    act = authorised()
    from django.db.models.functions import Now

    LibraryRoot.objects.update(removing_at=Now())
    assert reasons(carry_out(act)) == {"b/copy": "LIBRARY_GONE"}


def test_libraries_that_overlap_by_now_are_refused(tmp_path: Path) -> None:
    library(tmp_path / "photos", {"a": b"one"})
    library(tmp_path / "more", {"sub/longer/copy": b"one"}, name="more")
    act = authorised()
    (tmp_path / "more" / "sub").rename(tmp_path / "photos" / "sub")
    LibraryRoot.objects.filter(name="more").update(root_path=str(tmp_path / "photos" / "sub"))
    PlanFile.objects.none()
    act = carry_out(act)
    assert set(reasons(act).values()) <= {"LIBRARIES_OVERLAP", "VICTIM_GONE"}
    assert act.done_count == 0


def test_a_keeper_in_a_trash_is_none(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library(root, {"a": b"one", "b/copy": b"one"})
    plan = planned()
    (root / ".dedupfs-trash").mkdir(mode=0o700)
    (root / "a").rename(root / ".dedupfs-trash" / "a")
    PlanFile.objects.filter(plan=plan, role="keep").update(relative_path=".dedupfs-trash/a")
    assert reasons(carry_out(authorised(plan=plan))) == {"b/copy": "KEEPER_IN_TRASH"}


def test_a_keeper_that_goes_by_another_act_is_none(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library(root, {"a": b"one", "b/copy": b"one"})
    act = authorised()
    other = planned(rules=[{"kind": "keep_longest_path"}])
    assert PlanFile.objects.get(plan=other, role="remove").relative_path == "a"
    # The database refuses this by itself; here somebody has got past it.
    stranger = Act.objects.create(verb="undo", plan=other, authorised_by="eve")
    Act.objects.filter(pk=stranger.pk).update(verb="act")
    assert reasons(carry_out(act)) == {"b/copy": "KEEPER_GOES"}
    assert len(contents(root)) == 2


def test_links_are_not_made_where_metadata_would_be_lost(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library(root, {"a": b"one", "b/copy": b"one"})
    (root / "b/copy").chmod(0o600)
    scan(LibraryRoot.objects.get())
    act = carry_out(authorised("hardlink"))
    assert reasons(act) == {"b/copy": "METADATA_DIFFERS"}
    act = carry_out(authorised("hardlink", links_despite_metadata=True))
    assert (act.status, act.done_count) == ("completed", 1)
    assert (root / "b/copy").stat().st_ino == (root / "a").stat().st_ino


# --- Disks ------------------------------------------------------------------------------------------------
def test_each_filesystem_has_a_trash_of_its_own(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    with loop_disk(root / "disk") as disk:
        library(root, {"a": b"one", "disk/in/copy": b"one", "b/copy": b"one"})
        act = acted()
        assert act.done_count == 2
        inner = disk.point / ".dedupfs-trash" / act.key
        row = items(act)["disk/in/copy"]
        assert row.trash_folder == "disk"
        assert (inner / "files" / str(row.plan_file_id)).read_bytes() == b"one"
        assert '"path":"in/copy"' in (inner / "manifest.jsonl").read_text()
        assert len(act.space) == 2


def test_a_link_across_filesystems_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    with loop_disk(root / "disk"):
        library(root, {"a": b"one", "disk/in/copy": b"one"})
        assert reasons(carry_out(authorised("hardlink"))) == {"disk/in/copy": "OTHER_FILESYSTEM"}
        assert (root / "disk/in/copy").read_bytes() == b"one"


def test_a_full_disk_ends_the_act_before_anything_was_moved(tmp_path: Path) -> None:
    with loop_disk(tmp_path / "disk") as disk:
        library(disk.point, {f"{name}{n}": b"%d" % n for n in range(20) for name in ("a", "b/copy")})
        act = authorised()
        disk.fill(leave_bytes=0)
        before = contents(disk.point)
        act = carry_out(act)
        assert act.done_count == 0
        assert contents(disk.point) == before
        assert act.status == "failed" or set(reasons(act).values()) == {"DISK_FULL"}
        assert "full" in act.note or act.skipped_count == 20
        assert plan_of(act).status == "ready"


def test_a_full_disk_that_has_a_trash_already_fails_with_words(tmp_path: Path) -> None:
    with loop_disk(tmp_path / "disk") as disk:
        library(disk.point, {f"{name}{n}": b"%d" % n for n in range(200) for name in ("a", "b/copy")})
        act = authorised()
        files = trash_of(disk.point, act) / "files"
        files.mkdir(parents=True, mode=0o700)
        disk.fill()
        act = carry_out(act)
        assert (act.status, act.done_count) == ("failed", 0)
        assert "manifest" in act.note
        assert "full" in act.note
        assert not act.items.exists(), "nothing is left open"
        assert len(contents(disk.point)) == 401


def test_a_read_only_disk_is_told_of(tmp_path: Path) -> None:
    with loop_disk(tmp_path / "disk") as disk:
        library(disk.point, {"a": b"one", "b/copy": b"one"})
        act = authorised()
        disk.make_read_only()
        assert reasons(carry_out(act)) == {"b/copy": "READ_ONLY"}
        disk.make_writable()


def test_a_disk_that_is_away_is_refused(tmp_path: Path) -> None:
    with loop_disk(tmp_path / "disk") as disk:
        library(disk.point, {"a": b"one", "b/copy": b"one"})
        act = authorised()
        disk.unmount()
        tree(disk.point, {"a": b"one", "b/copy": b"one"})
        age(disk.point)
        assert set(reasons(carry_out(act)).values()) <= {"VICTIM_CHANGED", "OTHER_FILESYSTEM"}
        assert len(contents(disk.point)) == 2


# --- Pause, cancel, budget --------------------------------------------------------------------------------
def many(root: Path, count: int = 6) -> LibraryRoot:
    return library(root, {f"{name}{n}": b"%d" % n for n in range(count) for name in ("a", "b/copy")})


def test_a_pause_takes_effect_between_batches_too_and_nothing_is_given_up(
    tmp_path: Path, settings: Any, monkeypatch: Patch
) -> None:
    many(tmp_path / "photos")
    settings.ACT_BATCH_FILES = 2
    monkeypatch.setattr("trash.heeding.EVERY_SECONDS", 3600)  # in the batch nobody asks
    act = authorised()
    when_proved(monkeypatch, lambda: authorising.pause(act.pk, actor="ada"))
    act = carry_out(act)
    assert (act.status, act.done_count, act.is_paused) == ("running", 2, True)
    job = Job.objects.get(pk=act.job_id)
    assert job.error_code == "PAUSED"
    assert carry_out(act).done_count == 2, "it rests"
    authorising.resume(act.pk, actor="ada")
    act = carry_out(act)
    assert (act.status, act.done_count) == ("completed", 6)
    assert Job.objects.get(pk=act.job_id).attempts == 0


def test_a_cancel_stops_between_files_and_what_was_done_stays_done(
    tmp_path: Path, settings: Any, monkeypatch: Patch
) -> None:
    many(tmp_path / "photos")
    settings.ACT_BATCH_FILES = 2
    act = authorised()
    when_proved(monkeypatch, lambda: authorising.stop(act.pk, actor="ada"), time=3)
    act = carry_out(act)
    assert act.status == "cancelled"
    assert act.done_count == act.trashed_count
    done = {path for path, row in items(act).items() if row.status == "trashed"}
    assert 2 <= len(done) <= 4
    left = {path for path in contents(tmp_path / "photos") if path.startswith("b/")}
    assert left == {f"b/copy{n}" for n in range(6)} - done
    assert plan_of(act).status == "done"
    assert act.proof_name


def test_the_library_s_budget_is_kept(tmp_path: Path) -> None:
    library(tmp_path / "photos", {"a": b"x" * 600_000, "b/copy": b"x" * 600_000}, read_bytes_per_second=2_000_000)
    act = acted()
    assert act.busy_seconds > 0.4


def test_a_database_that_is_older_than_the_disk_makes_the_act_void(tmp_path: Path, settings: Any) -> None:
    root = tmp_path / "photos"
    many(root)
    settings.ACT_BATCH_FILES = 2
    act = authorised()
    files = trash_of(root, act) / "files"
    files.mkdir(parents=True, mode=0o700)
    (trash_of(root, act) / "manifest.jsonl").write_text('{"format":"dedupfs-trash"}\n{"item":1}\n')
    act = carry_out(act)
    assert (act.status, act.done_count) == ("void", 0)
    assert "older" in act.note
    assert len([path for path in contents(root) if "copy" in path]) == 6
    assert plan_of(act).status == "ready"


# --- In which order ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("most", [2, 200])
@pytest.mark.parametrize("action", ["trash", "hardlink"])
def test_caution_18_where_files_came_to_is_synced_before_where_they_left_from(
    tmp_path: Path, monkeypatch: Patch, action: str, most: int
) -> None:
    """Also where so many folders are concerned that some are closed before the batch ends."""
    names = {f"d{number}" for number in range(6)}
    library(tmp_path / "photos", {"a": b"one"} | {f"{name}/copy": b"one" for name in names})
    act = authorised(action)
    monkeypatch.setattr(open_folders, "MOST_FOLDERS", most)
    told = moves_and_syncs(monkeypatch)
    carry_out(act)
    for name in names:
        moved, left = told.index(f"moved from {name}"), told.index(f"synced {name}")
        assert "synced files" in told[moved:left], name
