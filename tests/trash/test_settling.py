"""What became of files when somebody died in the middle: told by the disk, whatever state it was left in."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from duplicates.models import Plan
from jobs import deciding
from jobs.errors import LeaseLost
from jobs.models import Job
from libraries.models import LibraryFile, LibraryState
from tests import factories
from tests.trash.acts import authorised, carry_out, contents, items, library, trash_of
from tests.trash.folder import moves_and_syncs, without_exchange
from trash import settling
from trash.folders import Trash
from trash.locking import Held
from trash.models import Act, TrashItem
from trash.proof_reading import open_proof
from trash.settling_intended import NOBODY_KNOWS

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("everything_allowed")]
TREE = {"a": b"one", "b/copy": b"one"}


def left_open(root: Path, action: str = "trash") -> tuple[Act, Path]:
    """An act that died right before it acted on its file: intended, in the manifest, and untouched."""
    library(root, TREE)
    act = authorised(action)

    def die(_point: str) -> None:
        raise LeaseLost("it died here")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trash.acting_on_file.reach", die)
        patch.setattr("trash.carrying_out._settle_for_others", lambda: None)
        carry_out(act)
    row = items(act)["b/copy"]
    assert (act.status, row.status) == ("running", "intended")
    return act, trash_of(root, act) / "files" / str(row.plan_file_id)


def ended(act: Act) -> Act:
    """Its job is cancelled, and what it left is settled."""
    deciding.cancel(act.job_id or "", actor="ada")
    settling.tend()
    act.refresh_from_db()
    return act


def status(act: Act) -> str:
    return items(act)["b/copy"].status


def test_an_intent_of_which_nothing_was_done_is_taken_up_again(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    act, _ = left_open(root)
    settling.settle_all()
    assert status(act) == "intended"
    factories.expire(Job.objects.get(pk=act.job_id))
    Job.objects.recover()
    act = carry_out(act)
    assert (act.status, act.done_count, status(act)) == ("completed", 1, "trashed")


def test_an_act_that_is_over_forgets_what_it_did_not_do(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    act, _ = left_open(root)
    act = ended(act)
    assert act.status == "cancelled"
    assert not act.items.exists()
    assert Plan.objects.get(acts=act).status == "ready"
    assert contents(root) == TREE
    assert not (root / ".dedupfs-trash").exists()


def test_a_file_that_was_moved_is_in_the_trash(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    act, kept = left_open(root)
    (root / "b/copy").rename(kept)
    assert settling.settle_all() == 1
    act.refresh_from_db()
    assert (status(act), act.done_count, act.trashed_count, act.trashed_bytes) == ("trashed", 1, 1, 3)
    assert LibraryFile.objects.get(relative_path="b/copy").is_missing
    assert settling.settle_all() == 0, "it is counted once"


def test_caution_18_the_trash_is_synced_before_the_folder_that_a_file_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "photos"
    act, kept = left_open(root)
    (root / "b/copy").rename(kept)
    told = moves_and_syncs(monkeypatch)
    settling.settle_all()
    assert status(act) == "trashed"
    assert told.index("synced files") < told.index("synced b")


def test_what_another_machine_wrote_before_it_let_the_trash_go_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the row as it was read at first, the file would go back without its keeper."""
    root = tmp_path / "photos"
    act, kept = left_open(root)
    (root / "b/copy").rename(kept)
    take = Held.take

    def written_meanwhile(lock: Held, trash: Trash) -> None:
        TrashItem.objects.update(status="trashed")
        (root / "a").unlink()
        take(lock, trash)

    monkeypatch.setattr(Held, "take", written_meanwhile)
    assert settling.settle_all() == 0
    assert status(act) == "trashed"
    assert kept.read_bytes() == b"one"


@pytest.mark.parametrize("what", ["keeper gone", "keeper changed", "another file"])
def test_a_file_that_should_not_be_in_the_trash_goes_back(tmp_path: Path, what: str) -> None:
    root = tmp_path / "photos"
    act, kept = left_open(root)
    if what == "another file":
        (root / "b/copy").unlink()
        (root / "b/copy").write_bytes(b"precious")
    (root / "b/copy").rename(kept)
    if what == "keeper gone":
        (root / "a").unlink()
    elif what == "keeper changed":
        (root / "a").write_bytes(b"uno")
    content = kept.read_bytes()
    act = ended(act)
    assert (root / "b/copy").read_bytes() == content
    assert not act.items.exists()


def test_where_the_place_is_taken_it_stays_in_the_trash_with_words(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    act, kept = left_open(root)
    (root / "b/copy").rename(kept)
    (root / "a").unlink()
    (root / "b/copy").write_bytes(b"new")
    settling.settle_all()
    row = items(act)["b/copy"]
    assert (row.status, row.reason_code) == ("trashed", "PLACE_TAKEN")
    assert kept.read_bytes() == b"one"
    assert (root / "b/copy").read_bytes() == b"new"


def test_another_file_that_can_not_go_back_is_told_as_another(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    act, kept = left_open(root)
    kept.write_bytes(b"precious")
    settling.settle_all()
    row = items(act)["b/copy"]
    assert (row.status, row.reason_code) == ("trashed", "VICTIM_CHANGED")
    assert kept.read_bytes() == b"precious"


@pytest.mark.parametrize("is_other", [True, False])
def test_what_lies_in_the_trash_for_a_link_whose_folder_is_gone(tmp_path: Path, is_other: bool) -> None:
    root = tmp_path / "photos"
    act, kept = left_open(root, "hardlink")
    if is_other:
        (root / "b/copy").unlink()
        kept.write_bytes(b"precious")
    else:
        (root / "b/copy").rename(kept)
    (root / "b").rmdir()
    settling.settle_all()
    row = items(act)["b/copy"]
    assert (row.status, row.reason_code) == ("trashed", "VICTIM_CHANGED" if is_other else "")


def test_what_was_to_be_deleted_and_was_only_moved_goes_back(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    act, kept = left_open(root, "delete")
    (root / "b/copy").rename(kept)
    act = ended(act)
    assert contents(root) == TREE
    assert not act.items.exists()


def test_what_was_deleted_is_told_as_deleted(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    act, _ = left_open(root, "delete")
    (root / "b/copy").unlink()
    act = ended(act)
    assert (act.status, act.done_count, status(act)) == ("cancelled", 1, "deleted")
    assert Plan.objects.get(acts=act).status == "done"


def test_what_somebody_moved_after_a_crash_is_not_told_as_compared(tmp_path: Path) -> None:
    """Whether it was removed nobody can say: neither the file nor its place in the trash is there."""
    root = tmp_path / "photos"
    act, _ = left_open(root, "delete")
    (root / "b").rename(root / "b-renamed")
    act = ended(act)
    row = act.items.get()
    assert (row.status, row.reason_code) == ("deleted", "VICTIM_GONE")
    assert "somebody has moved it" in row.reason
    with open_proof(act) as file:
        line = json.loads(file.read().splitlines()[1])
    assert (line["done"], line["reason_code"], line["compared"]) == ("deleted", "VICTIM_GONE", False)


@pytest.mark.parametrize("how", ["saved anew", "edited"])
@pytest.mark.parametrize("is_over", [True, False])
def test_what_has_the_name_of_a_file_that_was_to_be_deleted_is_left_and_the_doubt_is_told(
    tmp_path: Path, is_over: bool, how: str
) -> None:
    """Nothing tells whether it was removed before: a new file may even have its inode's number."""
    root = tmp_path / "photos"
    act, _ = left_open(root, "delete")
    if how == "saved anew":
        (root / "b/copy").unlink()
    (root / "b/copy").write_bytes(b"newer")
    if is_over:
        act = ended(act)
    else:
        settling.settle_all()
        factories.expire(Job.objects.get(pk=act.job_id))
        Job.objects.recover()
        act = carry_out(act)
    row = items(act)["b/copy"]
    assert (act.done_count, act.skipped_count) == (0, 1)
    assert (row.status, row.reason_code, row.reason) == ("skipped", "VICTIM_CHANGED", NOBODY_KNOWS)
    assert contents(root) == {"a": b"one", "b/copy": b"newer"}
    assert Plan.objects.get(acts=act).status == "ready"


def test_half_a_link_is_taken_away_and_a_whole_one_is_told(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    act, kept = left_open(root, "hardlink")
    os.link(root / "a", kept)  # the link that was to be exchanged
    settling.settle_all()
    assert status(act) == "intended"
    assert not kept.exists()
    os.link(root / "b/copy", kept)
    (root / "b/copy").unlink()
    os.link(root / "a", root / "b/copy")
    settling.settle_all()
    row = items(act)["b/copy"]
    assert (row.status, row.linked_inode) == ("trashed", (root / "a").stat().st_ino)
    assert kept.read_bytes() == b"one"


def test_a_foreign_file_that_was_exchanged_gets_its_name_back(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    act, kept = left_open(root, "hardlink")
    kept.write_bytes(b"precious")  # what had the name at the last moment
    (root / "b/copy").unlink()
    os.link(root / "a", root / "b/copy")
    settling.settle_all()
    assert (root / "b/copy").read_bytes() == b"precious"
    assert not kept.exists()
    assert status(act) == "intended"


@pytest.mark.parametrize("way", ["exchange", "no exchange"])
def test_the_last_name_of_a_deleted_keeper_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """A new version was saved over the victim in the last moment, and the keeper's own name was deleted since."""
    root = tmp_path / "photos"
    act, kept = left_open(root, "hardlink")
    kept.write_bytes(b"precious")
    (root / "b/copy").unlink()
    (root / "a").rename(root / "b/copy")
    if way == "no exchange":
        without_exchange(monkeypatch)
    settling.settle_all()
    row = items(act)["b/copy"]
    assert (row.status, row.reason_code) == ("trashed", "VICTIM_CHANGED")
    found = {(root / "b/copy").read_bytes(), kept.read_bytes()}
    assert found == {b"one", b"precious"}
    assert sorted(each.name for each in (root / "b").iterdir()) == ["copy"]
    if way == "exchange":
        assert (root / "b/copy").read_bytes() == b"precious", "the newer version has its name"
        assert "last name is kept in the trash" in row.reason
        assert LibraryFile.objects.get(relative_path="b/copy").is_missing, "a scan looks at it anew"


def test_a_victim_that_was_edited_in_the_last_moment_gets_its_name_back(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    act, kept = left_open(root, "hardlink")
    (root / "b/copy").write_bytes(b"edited")
    (root / "b/copy").rename(kept)
    os.link(root / "a", root / "b/copy")
    settling.settle_all()
    assert status(act) == "intended"
    assert contents(root) == {"a": b"one", "b/copy": b"edited"}


def test_the_index_learns_nothing_of_a_file_that_took_the_links_place(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    act, kept = left_open(root, "hardlink")
    (root / "b/copy").rename(kept)
    (root / "b/copy").write_bytes(b"new")
    settling.settle_all()
    row = items(act)["b/copy"]
    assert (row.status, row.linked_inode) == ("trashed", None)
    assert LibraryFile.objects.get(relative_path="b/copy").is_missing
    assert contents(root).keys() >= {"a", "b/copy"}


def test_nothing_is_told_of_a_disk_that_is_away(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    act, kept = left_open(root)
    (root / "b/copy").rename(kept)
    known = LibraryState.objects.get().filesystems
    LibraryState.objects.update(filesystems={"": "uuid:another"})
    act = ended(act)
    assert (act.status, status(act)) == ("running", "intended"), "nobody can say"
    LibraryState.objects.update(filesystems=known)
    settling.tend()
    act.refresh_from_db()
    assert (act.status, status(act)) == ("cancelled", "trashed")


def test_acts_end_as_their_jobs_did(tmp_path: Path) -> None:
    library(tmp_path / "photos", TREE)
    act = authorised()
    job, _ = Job.objects.get(pk=act.job_id), Job.objects.filter(pk=act.job_id).claim("x")
    factories.expire(job)
    Job.objects.recover()
    Job.objects.filter(pk=job.pk).update(status="failed", error_message="too often")
    assert settling.end_ended() == 1
    act.refresh_from_db()
    assert (act.status, act.note) == ("failed", "too often")
    assert Plan.objects.get(acts=act).status == "ready"
    assert not TrashItem.objects.exists()


def test_a_restore_makes_every_approval_void(tmp_path: Path) -> None:
    from django.db import connection

    from trash.restored import STATEMENTS

    library(tmp_path / "photos", TREE)
    act = authorised()
    with connection.cursor() as cursor:
        for statement in STATEMENTS:
            cursor.execute(statement)
    act.refresh_from_db()
    assert act.status == "void"
    assert Job.objects.get(pk=act.job_id).status == "cancelled"
    assert Plan.objects.get(acts=act).status == "ready"
    assert carry_out(act).status == "void"
    assert contents(tmp_path / "photos") == TREE
