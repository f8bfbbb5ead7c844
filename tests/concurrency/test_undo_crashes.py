"""SIGKILL at every step of undoing and of emptying: each file is taken out once or not at all, the record says which,
and the next run does the rest."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from blake3 import blake3
from django.core.management import call_command
from django.db import connections, transaction
from pytest_django import Settings

from database.clock import SecondsFromNow
from duplicates.models import group_key
from jobs import deciding
from jobs.executing import drain_all
from jobs.models import Job
from libraries.models import LibraryFile
from tests.concurrency.test_act_crashes import is_stopped
from tests.conftest import BELOW_WATCHED, ROOT, WATCHED
from tests.duplicates.plans import planned
from tests.trash.on_disk import library_on, remove_empty_folders, trash_of, trashed
from tests.waiting import until
from trash import settling, switching, witness
from trash.authorising import ask_undo, authorise_emptying
from trash.choosing_items import figures, lying
from trash.locking import Busy
from trash.models import Act, RemovedFolder, TrashItem

pytestmark = pytest.mark.django_db
FILES = {
    "a": b"one",
    "x/1.jpg": b"one",
    "x/2.jpg": b"one",
    "gone/3.jpg": b"one",
    "b": b"two!",
    "x/link.jpg": b"two!",
}
LINKED = {"x/link.jpg"}


@pytest.fixture(autouse=True)
def _allowed(settings: Settings, tmp_path: Path) -> None:
    settings.YOUNG_HOURS = 0
    settings.ALLOW_REAL_DELETE = True
    settings.STATE_ROOT = tmp_path / "state"
    switching.change(actor="ada", is_acting_allowed=True, is_removing_allowed=True, empty_after_days=None)


class Ended(NamedTuple):
    code: int
    #: How often the point was reached; nobody knows of one that was killed.
    times: int


Kill = Callable[..., Ended]


@pytest.fixture
def kill(child_environment: dict[str, str], tmp_path: Path) -> Iterator[Kill]:
    """Carry an act out in a process that dies at a point."""
    environment = {**child_environment, "DEDUPFS_STATE_ROOT": str(tmp_path / "state")}
    environment |= {"DEDUPFS_YOUNG_HOURS": "0", "DEDUPFS_ALLOW_REAL_DELETE": "1"}
    command = [sys.executable, "-m", "tests.concurrency.undo_victim"]
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout
    assert stdout.readline() == "ready\n"

    def carry_out(act: Act, point: str, kind: str = "usual") -> Ended:
        connections.close_all()
        stdin.write(f"{point} {act.job_id} {kind}\n")
        stdin.flush()
        code, count = stdout.readline().split()
        return Ended(int(code), 0 if count == "-" else int(count))

    yield carry_out
    stdin.close()
    process.wait(timeout=30)
    stdout.close()


# --- A world ------------------------------------------------------------------------------------------------
def snapshot(root: Path) -> dict[str, Any]:
    """Every file below the root that is in no trash, and what undoing has to bring back of it."""
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_file() and not name.startswith(".dedupfs-trash"):
            info = path.stat()
            found[name] = (path.read_bytes(), info.st_mode, info.st_uid, info.st_mtime_ns, info.st_ino)
    folder = (root / "gone").stat()
    found["gone"] = (folder.st_mode, folder.st_uid, folder.st_mtime_ns)
    return found


def world(root: Path) -> dict[str, Any]:
    """Files in the trash: moved, replaced by a hard link, and of a folder that went with them."""
    library_on(root, FILES)
    os.chown(root / "gone", 77, 78)
    os.utime(root / "gone", ns=(1, 1_300_000_000_000_000_000))
    for number, path in enumerate(FILES):
        os.utime(root / path, ns=(1, 1_400_000_000_000_000_000 + number))
        LibraryFile.objects.filter(relative_path=path).update(mtime_ns=1_400_000_000_000_000_000 + number)
    before = snapshot(root)
    moved = trashed(planned("trash", group_keys=[group_key("blake3", blake3(b"one").digest())]))
    trashed(planned("hardlink", group_keys=[group_key("blake3", blake3(b"two!").digest())]))
    os.utime(root / "gone", ns=(1, 1_300_000_000_000_000_000))
    remove_empty_folders(moved)
    assert not (root / "gone").exists()
    return before


def all_contents(root: Path) -> set[bytes]:
    return {path.read_bytes() for path in root.rglob("*") if path.is_file() and path.name != "manifest.jsonl"}


def check_settled(root: Path, done: str) -> None:
    """Each file is where its row says, once."""
    for item in TrashItem.objects.select_related("plan_file", "act"):
        name = item.plan_file.relative_path
        file = trash_of(root) / item.act.key / "files" / str(item.plan_file_id)
        assert item.status in ("trashed", done), (name, item.status)
        assert file.exists() == (item.status == "trashed"), (name, item.status)
        place = root / name
        if item.status == "undone":
            assert place.stat().st_ino == item.inode, name
            assert place.stat().st_nlink == 1, name
        elif name in LINKED:
            assert place.samefile(root / "b")
        else:
            assert not place.exists(), name
    for act in Act.objects.filter(verb="act"):
        lying_there = TrashItem.objects.filter(act=act, status="trashed")
        assert (act.trashed_count, act.trashed_bytes) == figures(lying_there)
    assert not list(root.rglob("*.dedupfs-link"))


def settle() -> None:
    settling.settle_all()
    assert not TrashItem.objects.filter(status__in=TrashItem.OPEN).exists()


def go_on(act: Act) -> None:
    Job.objects.filter(status="running").update(lease_expires_at=SecondsFromNow(-1))
    Job.objects.recover()
    deciding.requeue_retryable()
    drain_all("jobs")
    act.refresh_from_db()
    assert (act.status, act.done_count, act.skipped_count) == ("completed", 4, 0), act.note
    assert Job.objects.get(pk=act.job_id).status == "completed"


def play_undo(root: Path, kill: Kill, point: str, kind: str) -> bool:
    """Whether it was killed: a run that has fewer steps comes to its end."""
    before = world(root)
    act = ask_undo({"all": True}, actor="otto")
    ended = kill(act, point, kind)
    contents = {b"one", b"two!"}
    assert all_contents(root) >= contents
    if ended.code == 0:
        assert 0 < ended.times < int(point.partition(":")[2])
        return False
    assert ended.code == -signal.SIGKILL, ended
    settle()
    check_settled(root, "undone")
    go_on(act)
    check_settled(root, "undone")
    assert snapshot(root) == before
    assert not trash_of(root).exists()
    assert not LibraryFile.objects.filter(is_missing=True).exists()
    assert RemovedFolder.objects.get().is_back
    return True


def play_emptying(root: Path, kill: Kill, point: str) -> bool:
    world(root)
    act = authorise_emptying({"all": True}, figures(lying({"all": True}))[0], actor="ada")
    Job.objects.filter(pk=act.job_id).update(retry_after=None)
    ended = kill(act, point)
    if ended.code == 0:
        assert 0 < ended.times < int(point.partition(":")[2])
        return False
    assert ended.code == -signal.SIGKILL, ended
    settle()
    check_settled(root, "emptied")
    assert all_contents(root) >= {b"one", b"two!"}
    go_on(act)
    check_settled(root, "emptied")
    assert (root / "a").read_bytes() == b"one"
    assert not trash_of(root).exists()
    return True


# --- A few, always ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("point", "kind"), [("disk:8", "usual"), ("disk:13", "usual"), ("disk:22", "plain"), ("record:3", "usual")]
)
def test_a_killed_undo_is_settled_and_goes_on(tmp_path: Path, kill: Kill, point: str, kind: str) -> None:
    assert play_undo(tmp_path / "photos", kill, point, kind)


@pytest.mark.parametrize("point", ["disk:2", "disk:5", "record:5"])
def test_a_killed_emptying_is_settled_and_goes_on(tmp_path: Path, kill: Kill, point: str) -> None:
    assert play_emptying(tmp_path / "photos", kill, point)


# --- Frozen -------------------------------------------------------------------------------------------------
def _deleted(copy: Path) -> None:
    copy.unlink()


def _edited(copy: Path) -> None:
    info = copy.stat()
    copy.write_bytes(b"eno")
    os.utime(copy, ns=(info.st_atime_ns, info.st_mtime_ns))  # nothing but its bytes and its ctime tell


@pytest.mark.parametrize("happened", [_deleted, _edited])
def test_an_emptying_frozen_between_proof_and_removal_removes_no_last_copy(
    tmp_path: Path, child_environment: dict[str, str], happened: Callable[[Path], None]
) -> None:
    root = tmp_path / "photos"
    library_on(root, {"a": b"one", "x/1.jpg": b"one", "c": b"two!", "x/2.jpg": b"two!"})
    trashed(planned(), days_ago=2)
    switching.change(actor="ada", is_acting_allowed=True, is_removing_allowed=True, empty_after_days=1)
    frozen = subprocess.Popen(
        [sys.executable, str(ROOT / "manage.py"), "empty_trash", "--older-than", "1d"],
        env={**child_environment, "DEDUPFS_ALLOW_REAL_DELETE": "1", "DEDUPFS_STOP_POINT": "proved"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: is_stopped(frozen), "the emptying to stand still")
        with pytest.raises(Busy):
            settling.settle_all()
        # Rows are taken in their order, so it is the first that is in hand.
        item = TrashItem.objects.select_related("plan_file__keeper").order_by("pk")[0]
        assert item.plan_file.keeper is not None
        content = (root / item.plan_file.keeper.relative_path).read_bytes()
        happened(root / item.plan_file.keeper.relative_path)
    finally:
        os.kill(frozen.pid, signal.SIGCONT)
    _, errors = frozen.communicate(timeout=60)
    assert frozen.returncode == 0, errors
    assert content in all_contents(root)
    act = Act.objects.get(verb="empty")
    assert (act.status, act.done_count, act.skipped_count) == ("completed", 1, 1)
    item.refresh_from_db()
    assert (item.status, item.reason_code) == (
        "trashed",
        "KEEPER_GONE" if happened is _deleted else "KEEPER_CHANGED",
    )


# --- All of them --------------------------------------------------------------------------------------------
def _every(play: Callable[[str, Path], bool], tmp_path: Path) -> int:
    """Kill at the first place, the second, … until one run comes to its end."""
    kills = 0
    for name in ("disk", "record"):
        number = 1
        while play(f"{name}:{number}", tmp_path / f"{name}{number}"):
            kills, number = kills + 1, number + 1
            _forget_everything(tmp_path)
        _forget_everything(tmp_path)
    return kills


def _forget_everything(tmp_path: Path) -> None:
    # It would tell that the database is an older one.
    (tmp_path / "state" / witness.NAME).unlink(missing_ok=True)
    # Watched rows first: deleting one writes into the logbook.
    with transaction.atomic(), connections["default"].cursor() as cursor:
        for table in dict.fromkeys(("removed_folders", "trash_items", *BELOW_WATCHED, "acts", *WATCHED)):
            cursor.execute(f"DELETE FROM {table}")
    call_command("flush", verbosity=0, interactive=False)
    switching.change(actor="ada", is_acting_allowed=True, is_removing_allowed=True, empty_after_days=None)


@pytest.mark.torture
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("kind", ["usual", "plain"])
def test_undo_killed_at_every_step(tmp_path: Path, kill: Kill, kind: str) -> None:
    assert _every(lambda point, root: play_undo(root, kill, point, kind), tmp_path) > 40


@pytest.mark.torture
@pytest.mark.timeout(3000)
def test_emptying_killed_at_every_step(tmp_path: Path, kill: Kill) -> None:
    assert _every(lambda point, root: play_emptying(root, kill, point), tmp_path) > 15
