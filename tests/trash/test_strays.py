"""A newer version that came into the trash in the last moment and could not go back: undo brings it back, emptying
leaves it, and the page says what it is."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from accounts.models import Role
from jobs.models import Job
from libraries.models import LibraryFile
from tests import factories
from tests.conftest import Manage
from tests.odd_times import set_odd_time
from tests.pages import logged_in, text_of, with_token, words_of
from tests.trash.acts import acted, carry_out, items, library, trash_of
from tests.trash.test_settling import ended, left_open
from trash import authorising, steps
from trash.choosing_items import figures, lying
from trash.from_manifest import undo_from
from trash.models import Act, TrashItem
from trash.proof_reading import open_proof

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("everything_allowed")]
NEWER = b"newer"
#: As long as the one that was planned: nothing but its bytes and its time tells.
AS_LONG = b"eno"
WRITTEN_NS = 1_650_000_000_000_000_007


def stranded(root: Path, monkeypatch: pytest.MonkeyPatch, content: bytes = NEWER, action: str = "trash") -> Act:
    """A new version took the name right before the move, and yet another one before it could be moved back."""
    library(root, {"a": b"one", "b/copy": b"one"})
    move, saves = steps.rename_new, [content, b"newest"]

    def saved_before(*names: Any, **folders: Any) -> None:
        if saves:
            new = root / "new"
            new.write_bytes(saves.pop(0))
            new.chmod(0o640)
            os.setxattr(new, "user.tag", b"red")
            os.utime(new, ns=(1, WRITTEN_NS))
            new.rename(root / "b/copy")
        move(*names, **folders)

    with monkeypatch.context() as patch:
        patch.setattr(steps, "rename_new", saved_before)
        act = acted(action)
    row = items(act)["b/copy"]
    assert (row.status, row.reason_code) == ("trashed", "VICTIM_CHANGED")
    assert in_trash(root, act).read_bytes() == content
    assert (root / "b/copy").read_bytes() == b"newest"
    return act


def in_trash(root: Path, act: Act) -> Path:
    return trash_of(root, act) / "files" / str(items(act)["b/copy"].plan_file_id)


def undone(**selection: Any) -> Act:
    return carry_out(authorising.ask_undo(selection or {"all": True}, actor="otto"))


def emptied() -> Act:
    return carry_out(authorising.authorise_emptying({"all": True}, figures(lying({"all": True}))[0], actor="ada"))


def told(act: Act) -> tuple[str, str]:
    row = items(act)["b/copy"]
    return row.status, row.reason_code


# --- Undo -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("action", ["trash", "delete"])
@pytest.mark.parametrize("content", [NEWER, AS_LONG])
def test_undo_brings_it_back_once_its_place_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, action: str
) -> None:
    root = tmp_path / "photos"
    act = stranded(root, monkeypatch, content, action)
    undone()
    assert told(act) == ("trashed", "PLACE_TAKEN")
    assert (root / "b/copy").read_bytes() == b"newest"
    (root / "b/copy").rename(root / "b/newest")
    before = in_trash(root, act).stat()
    undo = undone(items=[items(act)["b/copy"].pk])
    assert told(act) == ("undone", "")
    back = root / "b/copy"
    assert (back.read_bytes(), back.stat().st_ino, back.stat().st_mtime_ns) == (content, before.st_ino, WRITTEN_NS)
    assert (back.stat().st_mode & 0o7777, os.getxattr(back, "user.tag")) == (0o640, b"red")
    act.refresh_from_db()
    assert (act.trashed_count, act.trashed_bytes) == (0, 0)
    # The index claims nothing of bytes that nobody has read.
    row = LibraryFile.objects.get(relative_path="b/copy")
    assert row.is_missing or row.mtime_ns != WRITTEN_NS
    with open_proof(undo) as file:
        line = json.loads(file.read().splitlines()[1])
    assert (line["done"], line["compared"]) == ("undone", False)


def test_what_somebody_changed_in_the_trash_since_is_left_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "photos"
    act = stranded(root, monkeypatch)
    (root / "b/copy").unlink()
    in_trash(root, act).write_bytes(b"wrong")
    undone()
    assert told(act) == ("trashed", "TRASH_CHANGED")
    assert not (root / "b/copy").exists()


def test_it_is_brought_back_by_the_manifest_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "photos"
    stranded(root, monkeypatch, AS_LONG)
    (told_now,) = undo_from(os.fsencode(root / ".dedupfs-trash"))
    assert (told_now.status, told_now.code) == ("stays", "PLACE_TAKEN")
    (root / "b/copy").unlink()
    (told_now,) = undo_from(os.fsencode(root / ".dedupfs-trash"))
    assert told_now.is_undone
    assert (root / "b/copy").read_bytes() == AS_LONG
    assert (root / "b/copy").stat().st_mtime_ns == WRITTEN_NS


def test_the_commands_bring_it_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_manage: Manage) -> None:
    root = tmp_path / "photos"
    act = stranded(root, monkeypatch, AS_LONG)
    (root / "b/copy").unlink()
    done = run_manage("undo", "--from-manifest", str(root / ".dedupfs-trash"))
    assert done.returncode == 0, done.stderr
    assert "The database knew 1 of them" in done.stdout
    assert (root / "b/copy").read_bytes() == AS_LONG
    assert told(act) == ("undone", "")
    row = LibraryFile.objects.get(relative_path="b/copy")
    assert row.is_missing or row.mtime_ns != WRITTEN_NS, "nobody has read its bytes"


@pytest.mark.parametrize("way", ["records", "manifest"])
def test_one_that_a_kill_left_there_comes_back_too(tmp_path: Path, way: str) -> None:
    """Killed right after the move: whoever settles finds another file, and its place is taken."""
    root = tmp_path / "photos"
    act, kept = left_open(root)
    kept.write_bytes(NEWER)
    os.utime(kept, ns=(1, WRITTEN_NS))
    ended(act)
    assert told(act) == ("trashed", "VICTIM_CHANGED")
    (root / "b/copy").rename(root / "b/newest")
    if way == "records":
        undone(items=[items(act)["b/copy"].pk])
        assert told(act) == ("undone", "")
    else:
        (told_now,) = undo_from(os.fsencode(root / ".dedupfs-trash"))
        assert told_now.is_undone
    assert (root / "b/copy").read_bytes() == NEWER


@pytest.mark.parametrize("way", ["records", "manifest"])
def test_one_with_a_time_that_no_column_holds_is_recorded_and_comes_back(tmp_path: Path, way: str) -> None:
    """Whatever its time is, it must not keep others from being settled."""
    root = tmp_path / "photos"
    act, kept = left_open(root)
    kept.write_bytes(NEWER)
    set_odd_time(kept)
    odd = kept.stat().st_mtime_ns
    ended(act)
    assert told(act) == ("trashed", "VICTIM_CHANGED")
    (root / "b/copy").unlink()
    if way == "records":
        undone()
        assert told(act) == ("undone", "")
    else:
        (told_now,) = undo_from(os.fsencode(root / ".dedupfs-trash"))
        assert told_now.is_undone
    assert ((root / "b/copy").read_bytes(), (root / "b/copy").stat().st_mtime_ns) == (NEWER, odd)


def test_a_link_s_place_is_not_given_up_for_it(tmp_path: Path) -> None:
    """Its bytes are others than those of the link: that would be gone, and may be the last name of its file."""
    root = tmp_path / "photos"
    act, kept = left_open(root, "hardlink")
    kept.write_bytes(AS_LONG)
    (root / "b/copy").unlink()
    (root / "a").rename(root / "b/copy")
    ended(act)
    assert told(act) == ("trashed", "VICTIM_CHANGED")
    before = {(root / "b/copy").read_bytes(), kept.read_bytes()}
    os.link(root / "b/copy", root / "b/other")
    undone()
    assert told(act)[0] == "trashed"
    assert {(root / "b/copy").read_bytes(), kept.read_bytes()} == before


# --- Emptying ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("content", [NEWER, AS_LONG, b"one"])
def test_emptying_leaves_it_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Whatever its bytes are, nobody has approved that this version goes."""
    root = tmp_path / "photos"
    act = stranded(root, monkeypatch, content)
    done = emptied()
    assert (done.done_count, done.skipped_count) == (0, 1)
    assert told(act) == ("trashed", "STRAY")
    assert in_trash(root, act).read_bytes() == content
    (root / "b/copy").unlink()
    undone()
    assert (root / "b/copy").read_bytes() == content


# --- What people see --------------------------------------------------------------------------------------
def test_the_page_and_the_api_say_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "photos"
    act = stranded(root, monkeypatch, b"x" * 7_000)
    undone()  # a try overwrites the reason, and must not make it look like any other file
    viewer = logged_in(Role.VIEWER)
    words = words_of(text_of(viewer, "/trash/"))
    assert "another version" in words
    assert "saved in the last moment" in words
    assert "7.0 kB" in words
    assert "until it is emptied" not in words.replace("on the disks, until it is emptied", "")
    assert "1 file in the trash has no other copy that is known" in words
    assert 'title="b/copy"' in text_of(viewer, "/trash/?last=1")
    row = TrashItem.objects.get(act=act)
    history = text_of(viewer, f"/trash/history/?library={row.library_id}&path=b/copy")
    assert "Another version of it" in words_of(history)
    (item,) = with_token(Role.OPERATOR).get("/api/v1/trash/items").json()["items"]
    assert (item["is_stray"], item["size_bytes"]) == (True, 7_000)


# --- Runs that are repeated -------------------------------------------------------------------------------
def test_a_run_that_is_settled_and_repeated_forgets_the_stray(tmp_path: Path) -> None:
    """What was noted of another file is void once the planned one went by the same name."""
    root = tmp_path / "photos"
    act, kept = left_open(root)
    with (kept.parent.parent / "manifest.jsonl").open("a") as file:
        file.write(json.dumps({"stray": int(kept.name), "size": 5, "mtime_ns": 7}) + "\n")
    factories.expire(Job.objects.get(pk=act.job_id))
    Job.objects.recover()
    act = carry_out(act)
    assert told(act) == ("trashed", "")
    (told_now,) = undo_from(os.fsencode(root / ".dedupfs-trash"))
    assert told_now.is_undone
    assert (root / "b/copy").read_bytes() == b"one"
