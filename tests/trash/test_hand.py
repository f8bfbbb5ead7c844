"""Many files are proved and moved by a process of its own: it goes by the same rules, and by fresh words."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from database.crash_points import STOP_VARIABLE, VARIABLE
from duplicates.models import Action
from jobs.models import Job
from libraries.messages import receive, send
from libraries.models import LibraryRoot
from tests import factories
from tests.conftest import ROOT
from tests.trash.acts import acted, authorised, carry_out, contents, items, library, reasons, trash_of, two_names
from tests.trash.hands import hands_of, stands_still, when_in_hand
from tests.waiting import until
from trash import authorising, hand, settling
from trash.acting_on_file import FileActing
from trash.hand import Hand
from trash.hand_messages import given, heard, planned, told
from trash.hand_process import LOOK_SECONDS
from trash.hand_process import Hand as HandItself
from trash.locking import Busy, held
from trash.models import Act, TrashItem
from trash.outbox import Outbox
from trash.planned import DELETE, DELETED, HARDLINK, INTENDED, SKIPPED, TRASHED, Done, Kept, Linked, Planned, Stray

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("everything_allowed")]
Patch = pytest.MonkeyPatch
MOVES = pytest.mark.parametrize("action", ["trash", "hardlink"])
FILES, IN_HAND = 30, 10


@pytest.fixture(autouse=True)
def _hand_from_the_first_file(settings: Any) -> None:
    settings.ACT_HAND_FILES = 1


@pytest.fixture
def never_here(monkeypatch: Patch) -> None:
    """This process acts on no file itself."""

    def fail(*_: object) -> None:
        raise AssertionError("a file was acted on here")

    monkeypatch.setattr(FileActing, "act_on", fail)


@pytest.fixture
def never_by_hand(monkeypatch: Patch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("files were given to the hand")

    monkeypatch.setattr(Hand, "act_on", fail)


def pairs(root: Path, count: int = FILES) -> None:
    library(root, {f"{name}{n}": b"content %d" % n for n in range(count) for name in ("a", "b/copy")})


def messages_sent(patch: Patch) -> list[tuple[Any, ...]]:
    """What hands are told, noted when it is on its way."""
    sent: list[tuple[Any, ...]] = []
    send_message = Hand._send

    def noted(self: Hand, *message: Any) -> None:
        send_message(self, *message)
        sent.append(message if message[0] in ("refuse", "stop") else message[:1])

    patch.setattr(Hand, "_send", noted)
    return sent


def ends(sent: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [message for message in sent if message[0] in ("stop", "left")]


def in_trash(root: Path) -> list[str]:
    return [path for path in contents(root) if ".dedupfs-trash" in path]


# --- What goes by it --------------------------------------------------------------------------------------
@MOVES
@pytest.mark.usefixtures("never_here")
def test_it_does_what_is_planned_and_is_gone_afterwards(tmp_path: Path, settings: Any, action: str) -> None:
    root = tmp_path / "photos"
    library(root, {"a": b"one", "b/copy": b"one", "b/copy2": b"one", "caf\udce9": b"two", "d/\udce9\n~$": b"two"})
    settings.ACT_BATCH_FILES = 2
    act = acted(action)
    assert (act.done_count, act.skipped_count, reasons(act)) == (3, 0, {})
    held_files = {path.name: path.read_bytes() for path in (trash_of(root, act) / "files").iterdir()}
    assert held_files == {str(row.plan_file_id): bytes(_content(row)) for row in items(act).values()}
    kept = {"a": b"one", "caf\udce9": b"two"}
    links = {"b/copy": "a", "b/copy2": "a", "d/\udce9\n~$": "caf\udce9"}
    outside = {path: data for path, data in contents(root).items() if ".dedupfs-trash" not in path}
    assert outside == kept | ({path: kept[keeper] for path, keeper in links.items()} if action == "hardlink" else {})
    if action == "hardlink":
        assert all((root / path).samefile(root / keeper) for path, keeper in links.items())
    assert hands_of(os.getpid()) == []
    with held():
        pass  # nobody has the lock any more


def _content(row: TrashItem) -> bytes:
    return b"one" if row.plan_file.size_bytes == 3 and "copy" in row.plan_file.relative_path else b"two"


@pytest.mark.usefixtures("never_by_hand")
def test_few_files_go_without_one(tmp_path: Path, settings: Any) -> None:
    pairs(tmp_path / "photos", 3)
    settings.ACT_HAND_FILES = 4
    assert acted().done_count == 3


@pytest.mark.usefixtures("never_by_hand")
def test_what_is_final_goes_without_one(tmp_path: Path) -> None:
    pairs(tmp_path / "photos", 3)
    assert acted("delete").done_count == 3


@pytest.mark.usefixtures("never_by_hand")
def test_where_reading_is_limited_it_is_not_used(tmp_path: Path) -> None:
    pairs(tmp_path / "photos", 3)
    LibraryRoot.objects.update(read_bytes_per_second=10**9)
    assert acted().done_count == 3


# --- What it leaves ---------------------------------------------------------------------------------------
@MOVES
@pytest.mark.usefixtures("never_here")
def test_caution_12_whatever_changed_since_the_plan_is_left_with_its_reason(tmp_path: Path, action: str) -> None:
    root = tmp_path / "photos"
    pairs(root, 6)
    act = authorised(action)
    (root / "a0").write_bytes(b"changed 0")
    (root / "a1").unlink()
    (root / "a2").unlink()
    (root / "a2").symlink_to("a3")
    # The same size and the same time, but other bytes: only reading tells.
    before = (root / "a4").stat()
    (root / "a4").write_bytes(b"content !")
    os.utime(root / "a4", ns=(before.st_atime_ns, before.st_mtime_ns))
    carry_out(act)
    left = reasons(act)
    assert left == {
        "b/copy0": "KEEPER_CHANGED",
        "b/copy1": "KEEPER_GONE",
        "b/copy2": "NOT_A_FILE",
        "b/copy4": "DIGEST_DIFFERS",
    }
    assert {row.status for path, row in items(act).items() if path not in left} == {"trashed"}
    assert all((root / path).read_bytes() == b"content %s" % path[-1].encode() for path in left)


@pytest.mark.usefixtures("never_here")
def test_a_role_that_came_while_it_worked_counts(tmp_path: Path, monkeypatch: Patch) -> None:
    root = tmp_path / "photos"
    pairs(root)
    act = authorised()
    monkeypatch.setattr("trash.acting.FRESH_SECONDS", -1)
    sent = messages_sent(monkeypatch)

    def protect() -> None:
        LibraryRoot.objects.update(role="protected")
        is_told = ("refuse", FILES)
        until(lambda: is_told in [(what, len(rest[0])) for what, *rest in sent if rest], "the hand to be told")

    with when_in_hand(monkeypatch, IN_HAND, protect):
        act = carry_out(act)
    assert act.done_count == IN_HAND, "the one in hand had been asked for before"
    assert set(reasons(act).values()) == {"PROTECTED"}
    assert len(reasons(act)) == FILES - IN_HAND


@pytest.mark.usefixtures("never_here")
@pytest.mark.parametrize("batch", [1, 2])
def test_a_ctime_that_this_act_changed_makes_nothing_young(
    tmp_path: Path, settings: Any, monkeypatch: Patch, batch: int
) -> None:
    """Two names of one file go: moving the first changes the ctime of the second, in the same batch or the next."""
    root = tmp_path / "photos"
    two_names(root)
    settings.ACT_BATCH_FILES = batch
    act = authorised()
    before = max((root / path).stat().st_ctime_ns for path in ("a", "b/copy"))
    settings.YOUNG_HOURS = 24
    monkeypatch.setattr("trash.checking_items.time.time_ns", lambda: before + 24 * 3600 * 10**9 + 1)
    act = carry_out(act)
    assert (act.done_count, reasons(act)) == (2, {})


def test_what_an_earlier_run_touched_is_asked_of_the_records(tmp_path: Path, settings: Any, monkeypatch: Patch) -> None:
    """The hand that moved the first name of a file is gone when another one comes to the second."""
    root = tmp_path / "photos"
    two_names(root)
    settings.ACT_BATCH_FILES = 1
    act = authorised()
    before = max((root / path).stat().st_ctime_ns for path in ("a", "b/copy"))
    settings.YOUNG_HOURS = 24
    monkeypatch.setattr("trash.checking_items.time.time_ns", lambda: before + 24 * 3600 * 10**9 + 1)
    with when_in_hand(monkeypatch, 1, lambda: authorising.pause(act.pk, actor="ada")):
        carry_out(act)
    settling.tend()
    act.refresh_from_db()
    assert act.done_count == 1
    authorising.resume(act.pk, actor="ada")
    act = carry_out(act)
    assert (act.done_count, reasons(act)) == (2, {})


# --- Words ------------------------------------------------------------------------------------------------
@MOVES
@pytest.mark.usefixtures("never_here")
@pytest.mark.parametrize("say", [authorising.stop, authorising.pause])
def test_a_stop_and_a_pause_hold_before_the_next_file(
    tmp_path: Path, monkeypatch: Patch, say: Callable[..., Act], action: str
) -> None:
    root = tmp_path / "photos"
    pairs(root)
    act = authorised(action)
    monkeypatch.setattr("trash.heeding.EVERY_SECONDS", 0)
    monkeypatch.setattr("trash.hand.END_SECONDS", 60)
    sent, leave = messages_sent(monkeypatch), Hand.__exit__

    def noted(self: Hand, *reason: object) -> None:
        sent.append(("left",))
        leave(self, *reason)

    monkeypatch.setattr(Hand, "__exit__", noted)

    def speak() -> None:
        say(act.pk, actor="ada")
        until(lambda: ends(sent), "the hand to be told, or to be left alone")

    with when_in_hand(monkeypatch, IN_HAND, speak):
        carry_out(act)
    assert ends(sent) == ([("left",)] if say is authorising.stop else [("stop",), ("left",)])
    settling.tend()
    act.refresh_from_db()
    assert (act.done_count, act.skipped_count) == (IN_HAND, 0)
    assert act.status == ("cancelled" if say is authorising.stop else "running")
    trashed = {str(row.plan_file_id) for row in items(act).values() if row.status == "trashed"}
    assert {path.name for path in (trash_of(root, act) / "files").iterdir()} == trashed
    if say is authorising.pause:
        authorising.resume(act.pk, actor="ada")
        assert (carry_out(act).status, act.done_count) == ("completed", FILES)


@pytest.mark.usefixtures("never_here")
def test_nothing_moves_by_a_word_that_is_old(tmp_path: Path, monkeypatch: Patch) -> None:
    """Whoever gives the files stood still after it had looked, so its words are old when they are heard."""
    root = tmp_path / "photos"
    pairs(root, 3)
    act = authorised()
    say = Hand._say
    silence: list[list[int]] = []

    def late(self: Hand, check: Any) -> Any:
        if not silence:
            send(self._socket.fileno(), ("word", time.monotonic() - 60))
            assert receive(self._socket.fileno())[0] == "told"
            silence.append(select.select([self._socket.fileno()], [], [], 1)[0])
            assert in_trash(root) == []
        return say(self, check)

    monkeypatch.setattr(Hand, "_say", late)
    assert carry_out(act).done_count == 3
    assert silence == [[]], "it moved files, or said so, without a word"


# --- Ends -------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("never_here")
def test_a_hand_that_was_killed_leaves_the_act_to_the_next_run(tmp_path: Path, monkeypatch: Patch) -> None:
    root = tmp_path / "photos"
    pairs(root)
    act = authorised()
    monkeypatch.setenv(VARIABLE, f"proved:{IN_HAND}")
    carry_out(act)
    job = Job.objects.get(pk=act.job_id)
    assert (job.status, job.error_code) == ("retryable", "HAND_GONE")
    assert {row.status for row in items(act).values()} == {"intended"}
    monkeypatch.delenv(VARIABLE)
    act = carry_out(act)
    assert (act.status, act.done_count, act.skipped_count) == ("completed", FILES, 0)
    assert len(list((trash_of(root, act) / "files").iterdir())) == FILES


def test_the_lock_lasts_until_the_hand_has_ended_whatever_became_of_the_rest(
    tmp_path: Path, child_environment: dict[str, str]
) -> None:
    root = tmp_path / "photos"
    pairs(root)
    act = authorised()
    more = {"DEDUPFS_ACT_HAND_FILES": "1", "DEDUPFS_YOUNG_HOURS": "0", "DEDUPFS_STOP_POINT": f"proved:{IN_HAND}"}
    parent = subprocess.Popen(
        [sys.executable, str(ROOT / "manage.py"), "act", str(act.plan_id)],
        env={**child_environment, **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    hand = until(lambda: next(iter(hands_of(parent.pid)), None), "the hand")
    try:
        until(lambda: stands_still(hand), "it to stand still")
        parent.kill()
        parent.wait()
        with pytest.raises(Busy):
            settling.settle_all()
        before, since = len(in_trash(root)), time.monotonic()
        until(lambda: time.monotonic() - since > 2 * LOOK_SECONDS, "what it has heard to be old")
    finally:
        os.kill(hand, signal.SIGCONT)
    parent.communicate(timeout=60)  # the hand had its output, too
    assert len(in_trash(root)) <= before + 1
    settling.tend()
    factories.expire(Job.objects.get(pk=act.job_id))
    Job.objects.recover()
    act = carry_out(act)
    assert (act.status, act.done_count, act.skipped_count) == ("completed", FILES, 0)


# --- Messages ---------------------------------------------------------------------------------------------
KEPT = Kept(1, 2, 3, "caf\ue0e9", 4, 5, None)
ITEM = Planned(6, 7, 8, "b/copy", 9, -10, -11, "blake3", b"\xff" * 32, "hardlink", KEPT, True)


@pytest.mark.parametrize(
    "done",
    [
        Done(ITEM, TRASHED),
        Done(ITEM, SKIPPED, "KEEPER_GONE", "It is not there."),
        Done(ITEM, TRASHED, "VICTIM_CHANGED", "It lies in the trash."),
        Done(ITEM, TRASHED, "VICTIM_CHANGED", "It lies in the trash.", stray=Stray(1, -2, -3)),
        Done(ITEM, TRASHED, linked=Linked(1 << 63, 2, -3, 4, 5)),
    ],
)
def test_files_and_outcomes_come_through_a_socket_as_they_were(done: Done) -> None:
    here, there = os.pipe()
    send(there, (given(ITEM), told(done)))
    item, outcome = receive(here)
    os.close(here)
    os.close(there)
    assert planned(*item) == ITEM
    assert heard(ITEM, outcome) == done


def test_its_words_are_those_of_the_rows() -> None:
    statuses = TrashItem.Status
    assert (INTENDED, SKIPPED) == (statuses.INTENDED, statuses.SKIPPED)
    assert (TRASHED, DELETED) == (statuses.TRASHED, statuses.DELETED)
    assert (HARDLINK, DELETE) == (Action.HARDLINK, Action.DELETE)


def test_it_loads_nothing_of_django() -> None:
    code = "import sys, trash.hand_process; print(any(name.startswith('django') for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("now", "most", "folders", "then"), [(256, 4096, 2000, 2800), (256, 1024, 224, 1024), (256, 512, 200, 512)]
)
def test_it_opens_as_many_folders_as_it_may(now: int, most: int, folders: int, then: int) -> None:
    """It gives itself descriptors as far as the machine lets it; with few it has as many as everybody."""
    code = (
        "import resource\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({now}, {most}))\n"
        "from trash.hand_process import allow_many_folders\n"
        "print(allow_many_folders(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(folders), str(then)]


# --- One that reads nothing -------------------------------------------------------------------------------
def when_full(patch: Patch) -> threading.Event:
    """Is set when the hand has not taken most of what it was sent."""
    full, has_room = threading.Event(), Outbox.has_room

    def noted(self: Outbox) -> bool:
        if has_room(self):
            return True
        full.set()
        return False

    patch.setattr(Outbox, "has_room", noted)
    return full


def test_a_stop_is_heeded_while_the_hand_stands_still_and_takes_no_words(tmp_path: Path, monkeypatch: Patch) -> None:
    """As on a disk that is dead: whoever waited for it to take the next word would wait as long."""
    root = tmp_path / "photos"
    pairs(root)
    act = authorised()
    monkeypatch.setattr(hand, "WORD_SECONDS", 0.001)
    monkeypatch.setattr(hand, "END_SECONDS", 0.1)
    full = when_full(monkeypatch)

    def stop() -> None:
        full.wait()
        authorising.stop(act.pk, actor="ada")
        connections.close_all()

    monkeypatch.setenv(STOP_VARIABLE, f"proved:{IN_HAND}")
    thread = threading.Thread(target=stop)
    thread.start()
    act = carry_out(act)
    thread.join()
    settling.tend()
    act.refresh_from_db()
    assert act.status == "cancelled"
    assert hands_of(os.getpid()) == [], "it was ended where it stood"
    assert {row.status for row in items(act).values()} <= {"trashed", "skipped"}
    assert len(in_trash(root)) >= IN_HAND - 1


def test_a_hand_that_answers_at_length_before_it_reads_is_heard(monkeypatch: Patch) -> None:
    """Both would wait for the other to read, if either waited before it wrote."""
    monkeypatch.setattr(hand, "WORD_SECONDS", 0.0001)
    ours, theirs = socket.socketpair()
    full, outbox = when_full(monkeypatch), Outbox(ours)
    told_of = [("skipped", "X", "x" * 1000, None, None)] * 1000
    with ours, theirs:
        acting = Hand.__new__(Hand)
        acting._socket, acting._outbox = ours, outbox

        def answer() -> None:
            full.wait()
            send(theirs.fileno(), ("ended", told_of))

        thread = threading.Thread(target=answer)
        thread.start()
        kept = Kept(2, 2, 1, "a", 3, 1, 1)
        files = [Planned(1, 1, 1, "b", 3, 1, 1, "blake3", b"", "trash", kept, True)] * len(told_of)
        outcomes, leaving = acting._follow(files, lambda: None, lambda *_: False, lambda *_: None)
        thread.join()
    assert (len(outcomes), leaving) == (len(told_of), None)


def test_it_tells_how_much_of_a_large_file_it_has_read() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        itself = HandItself(theirs, 10)
        itself.word_of, itself.number, itself.path = time.monotonic(), 7, "large"
        itself._read(8 << 20)
        assert receive(ours.fileno()) == ("told", 7, "large", 8 << 20)
