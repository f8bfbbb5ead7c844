"""The proof of an act: every file of it, from the records, and a digest that tells whether it was changed."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from django.conf import settings as django_settings

from jobs.errors import GivesWay
from logbook.models import LogbookEvent
from tests.trash.acts import acted, authorised, carry_out, items, library
from trash import authorising, proof, proof_lines, steps
from trash.acting import Acting
from trash.models import Act

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("everything_allowed")]


def read(act: Act) -> tuple[bytes, list[dict[str, Any]]]:
    data = (Path(django_settings.STATE_ROOT) / "proofs" / act.proof_name).read_bytes()
    return data, [json.loads(line) for line in data.splitlines()]


def test_it_tells_of_every_file_and_its_sha256_is_in_the_logbook(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(proof_lines, "PAGE", 2)
    root = tmp_path / "photos"
    files = {b"a": b"one", b"b/caf\xe9": b"one", b"b/new\nline": b"one", b"c": b"two", b"d/copy": b"two"}
    library(root, files)
    sizes = {name: os.stat(os.fsencode(root) + b"/" + name) for name in files}
    act = authorised()
    (root / "d/copy").write_bytes(b"changed")
    act = carry_out(act)
    data, (head, *lines) = read(act)
    assert hashlib.sha256(data).hexdigest() == act.proof_sha256
    event = LogbookEvent.objects.about("acts", str(act.pk)).get(event_type="ended")
    assert event.payload_json["proof_sha256"] == act.proof_sha256
    assert (head["plan"], head["approved_by"], head["action"]) == (act.plan_id, "ada", "trash")
    assert head["approved_at"]
    by_path = {bytes.fromhex(line["file"]["path_hex"]): line for line in lines}
    assert by_path.keys() == {b"b/caf\xe9", b"b/new\nline", b"d/copy"}
    digest = f"blake3:{blake3(b'one').hexdigest()}"
    for name in (b"b/caf\xe9", b"b/new\nline"):
        line = by_path[name]
        assert (line["done"], line["compared"], line["approved_by"]) == ("trashed", True, "ada")
        assert line["file"]["digest"] == line["stays"]["digest"] == digest
        assert (line["file"]["size"], line["file"]["mtime_ns"]) == (3, sizes[name].st_mtime_ns)
        assert line["file"]["inode"] == sizes[name].st_ino
        assert bytes.fromhex(line["stays"]["path_hex"]) == b"a"
        assert line["at"].endswith("+00:00")
    skipped = by_path[b"d/copy"]
    assert (skipped["done"], skipped["reason_code"], skipped["compared"]) == ("skipped", "VICTIM_CHANGED", False)
    assert by_path[b"b/caf\xe9"]["file"]["path"] == "b/caf\\xe9"


def test_a_link_is_proved_with_both_inodes(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library(root, {"a": b"one", "b/copy": b"one"})
    inode = (root / "b/copy").stat().st_ino
    act = acted("hardlink")
    _, (_, line) = read(act)
    assert (line["file"]["inode"], line["file"]["linked_inode"]) == (inode, (root / "a").stat().st_ino)


def test_it_is_written_again_from_the_records_with_the_same_digest(tmp_path: Path) -> None:
    library(tmp_path / "photos")
    act = acted()
    assert proof.write_proof(act) == (act.proof_name, act.proof_sha256)
    assert len(items(act)) == len(read(act)[1]) - 1


# --- While files are worked on ----------------------------------------------------------------------------
MANY = {f"{name}{number}": b"%d" % number for number in range(7) for name in ("a", "b/copy")}


@pytest.fixture
def _many_files(settings: Any) -> None:
    """As with many files: by the hand, in several batches."""
    settings.ACT_HAND_FILES, settings.ACT_BATCH_FILES = 1, 2


def in_folder() -> list[str]:
    return sorted(path.name for path in (Path(django_settings.STATE_ROOT) / "proofs").iterdir())


@pytest.mark.usefixtures("_many_files")
def test_lines_of_many_files_are_written_while_others_are_worked_on(tmp_path: Path, monkeypatch: Any) -> None:
    library(tmp_path / "photos", MANY)
    act = authorised()
    (tmp_path / "photos" / "b" / "copy3").write_bytes(b"changed")
    written: list[int] = []
    add, finish = proof.ProofDraft._add, proof.ProofDraft.finish

    def noted(self: proof.ProofDraft, file: Any, lines: list[str]) -> None:
        written.extend(json.loads(line).get("item", 0) for line in lines)
        add(self, file, lines)

    def finished(self: proof.ProofDraft) -> tuple[str, str]:
        assert len(written) == 1 + 7, "the head and every file"
        return finish(self)

    monkeypatch.setattr(proof.ProofDraft, "_add", noted)
    monkeypatch.setattr(proof.ProofDraft, "finish", finished)
    act = carry_out(act)
    assert (act.done_count, act.skipped_count) == (6, 1)
    monkeypatch.undo()
    _, (_, *lines) = read(act)
    assert [line["item"] for line in lines] == written[1:]
    assert in_folder() == [act.proof_name]
    assert proof.write_proof(act) == (act.proof_name, act.proof_sha256)


@pytest.mark.usefixtures("_many_files")
@pytest.mark.parametrize("failing", [range(1), range(2, 3), range(1, 4)])
def test_what_can_not_be_written_meanwhile_is_begun_anew(tmp_path: Path, monkeypatch: Any, failing: range) -> None:
    library(tmp_path / "photos", MANY)
    add, calls = proof.ProofDraft._add, iter(range(1000))

    def full(self: proof.ProofDraft, file: Any, lines: list[str]) -> None:
        if next(calls) in failing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        add(self, file, lines)

    monkeypatch.setattr(proof.ProofDraft, "_add", full)
    act = acted()
    monkeypatch.undo()
    assert (act.status, len(read(act)[1])) == ("completed", 1 + 7)
    assert in_folder() == [act.proof_name]
    assert proof.write_proof(act) == (act.proof_name, act.proof_sha256)


@pytest.mark.usefixtures("_many_files")
def test_an_act_that_is_taken_up_again_has_all_its_files_in_it(tmp_path: Path, monkeypatch: Any) -> None:
    library(tmp_path / "photos", MANY)
    carried_out, calls = Acting._carry_out, iter(range(1000))

    def rests(self: Acting, *args: Any) -> None:
        if next(calls) == 2:
            raise GivesWay("PAUSED", "It rests.")
        carried_out(self, *args)

    monkeypatch.setattr(Acting, "_carry_out", rests)
    act = carry_out(authorised())
    assert (act.status, act.done_count) == ("running", 4)
    assert in_folder() == [], "no draft is left behind"
    monkeypatch.undo()
    act = carry_out(act)
    assert (act.status, len(read(act)[1])) == ("completed", 1 + 7)
    assert proof.write_proof(act) == (act.proof_name, act.proof_sha256)


# --- What it does not say ---------------------------------------------------------------------------------
def test_an_act_that_never_began_leaves_none(tmp_path: Path) -> None:
    from trash import settling

    library(tmp_path / "photos")
    act = authorised()
    authorising.stop(act.pk, actor="ada")
    settling.tend()
    act.refresh_from_db()
    assert (act.status, act.proof_name) == ("cancelled", "")


def test_it_does_not_say_compared_of_another_file_that_lies_in_the_trash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new version took the name in the last moment, and yet another one before it could be moved back."""
    root = tmp_path / "photos"
    library(root, {"a": b"one", "b/copy": b"one"})
    move = steps.rename_new

    def saved_before(*names: Any, **folders: Any) -> None:
        (root / "new").write_bytes(b"newer")
        (root / "new").rename(root / "b/copy")
        move(*names, **folders)

    act = authorised()
    monkeypatch.setattr(steps, "rename_new", saved_before)
    act = carry_out(act)
    _, (_, line) = read(act)
    assert (line["done"], line["reason_code"], line["compared"]) == ("trashed", "VICTIM_CHANGED", False)


def test_nor_of_what_stays_in_the_trash_when_it_is_undone(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    library(root)
    acted()
    (root / "b/a-copy").write_bytes(b"in its place")
    act = carry_out(authorising.ask_undo({"all": True}, actor="ada"))
    _, (_, *lines) = read(act)
    found = {line["file"]["path"]: (line["done"], line["compared"]) for line in lines}
    assert found == {"b/a-copy": ("trashed", False), "d/c-copy": ("undone", True)}
