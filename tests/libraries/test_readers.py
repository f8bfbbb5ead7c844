"""The pool of reader processes: what it does when one of them is killed, hangs or has to wait."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from pytest_django import Settings

from libraries import readers
from libraries.readers import WARM_TASKS, Done, Failed, Part, Read, ReaderPool, ReadersGone, reader_count
from libraries.reading import UNIT_FILES
from libraries.walking import WALK, Unit, Walk
from tests.cold_files import cold
from tests.tree import tree
from tests.waiting import until

MIB = 1 << 20
#: Readers have to be started, which takes a busy machine a while.
SECONDS = 60


def stamped(path: Path) -> tuple[bytes, bytes, int, int]:
    info = path.stat()
    return os.fsencode(path.parent), os.fsencode(path.name), info.st_size, info.st_mtime_ns


def hash_task(path: Path, stride: int = 0) -> tuple[Any, ...]:
    return ("hash", *stamped(path), "blake3", stride)


def answers(pool: ReaderPool) -> list[Any]:
    found = []
    while pool.in_hand:
        event = pool.next(timeout=SECONDS)
        assert event is not None
        found.append(event)
    return found


def test_many_tasks_come_back_each_with_its_own_answer(tmp_path: Path) -> None:
    contents = {f"{number}": os.urandom(200_000) for number in range(12)}
    tree(tmp_path, contents)
    with ReaderPool(3) as pool:
        for number in range(12):
            pool.submit(number, hash_task(tmp_path / f"{number}"))
        found = {event.key: event.value for event in answers(pool)}
    assert found == {int(name): blake3(content).digest() for name, content in contents.items()}


def test_a_file_that_can_not_be_read_is_told_with_its_reason(tmp_path: Path) -> None:
    tree(tmp_path, {"a": b"1"})
    root, name, size, mtime_ns = stamped(tmp_path / "a")
    with ReaderPool(1) as pool:
        pool.submit(1, ("hash", root, b"nowhere", 1, 1, "blake3", 0))
        pool.submit(2, ("hash", root, name, size + 1, mtime_ns, "blake3", 0))
        gone, changed = sorted(answers(pool), key=lambda event: int(event.key))
    assert gone == Failed(1, "ENOENT: No such file or directory", is_changed=False)
    assert (changed.key, changed.is_changed) == (2, True)


def test_a_reader_in_strides_reads_on_only_when_it_may(tmp_path: Path) -> None:
    tree(tmp_path, {"a": os.urandom(5 * MIB)})
    with ReaderPool(1) as pool:
        pool.submit(1, hash_task(tmp_path / "a", stride=2 * MIB))
        assert pool.next(timeout=SECONDS) == Read(1, 2 * MIB)
        assert pool.next(timeout=0.3) is None, "it waits"
        assert pool.doing() == [str(tmp_path / "a")]
        pool.grant(1)
        assert pool.next(timeout=SECONDS) == Read(1, 2 * MIB)
        pool.grant(1)
        assert pool.next(timeout=SECONDS) == Done(1, blake3((tmp_path / "a").read_bytes()).digest())


def test_a_short_task_is_given_ahead_of_time_and_a_long_one_waits_for_an_idle_reader(tmp_path: Path) -> None:
    """A reader that is stopped shows what it was given."""
    tree(tmp_path, {name: os.urandom(100) for name in "abcd"})
    with ReaderPool(1) as pool:
        pool.submit(0, hash_task(tmp_path / "a"))
        assert isinstance(pool.next(timeout=SECONDS), Done)
        (reader,) = pool._readers.pids.values()
        os.kill(reader, signal.SIGSTOP)
        for key, name, is_short in ((1, "a", True), (2, "b", True), (3, "c", True), (4, "d", False)):
            pool.submit(key, hash_task(tmp_path / name), is_short=is_short)
        until(lambda: list(pool._busy.values()) == [[1, 2]], "two tasks in the reader's hands")
        os.kill(reader, signal.SIGCONT)
        assert [event.key for event in answers(pool)] == [1, 2, 3, 4]
        pool.submit(5, hash_task(tmp_path / "a", stride=10))
        assert pool.next(timeout=SECONDS) == Read(5, 100)
        pool.submit(6, hash_task(tmp_path / "b"), is_short=True)
        pool.grant(5)
        assert [event.key for event in answers(pool)] == [5, 6], "leave is not taken for a task, nor a task for leave"


def test_readers_let_pages_go_first_where_both_want_a_core() -> None:
    with ReaderPool(2) as pool:
        until(lambda: len(pool._readers.pids) == 2, "both readers")
        nicenesses = {os.getpriority(os.PRIO_PROCESS, pid) for pid in pool._readers.pids.values()}
    assert nicenesses == {min(os.getpriority(os.PRIO_PROCESS, 0) + 5, 19)}


def test_a_killed_reader_is_noticed(tmp_path: Path) -> None:
    tree(tmp_path, {"a": os.urandom(3 * MIB)})
    with ReaderPool(2) as pool:
        pool.submit(1, hash_task(tmp_path / "a", stride=MIB))
        assert pool.next(timeout=SECONDS) == Read(1, MIB)
        (busy,) = (pool._readers.pids[each] for each in pool._busy)
        os.kill(busy, signal.SIGKILL)
        with pytest.raises(ReadersGone, match="out of memory"):
            pool.next(timeout=SECONDS)


def test_a_fault_in_the_pool_reaches_the_caller_instead_of_leaving_it_to_wait(tmp_path: Path) -> None:
    tree(tmp_path, {"a": b"a"})

    def expand(_: Any) -> Any:
        raise ValueError("no way to go on")

    with ReaderPool(2, expand) as pool:
        pool.submit(1, hash_task(tmp_path / "a"))
        with pytest.raises(ValueError, match="no way to go on"):
            pool.next(timeout=10)


def test_what_is_left_of_a_walk_is_spread_over_the_readers() -> None:
    walk = Walk(b"/root", (), 0, None)
    left = [str(number).encode() for number in range(1000)]
    for count in (0, 1, 2, 3, 9, 64, 255, 1000):
        cut = [task[-1] for task in walk.expand((left[:count],))]
        assert [folder for folders in cut for folder in folders] == left[:count]
        assert len(cut) >= min(count, 3), "not all of it in one reader's hands"
        assert all(len(folders) <= 64 for folders in cut)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_reader_that_hangs_is_killed_when_the_work_ends(tmp_path: Path) -> None:
    tree(tmp_path, {"a": os.urandom(3 * MIB)})
    with ReaderPool(2) as pool:
        pool.submit(1, hash_task(tmp_path / "a", stride=MIB))
        assert pool.next(timeout=SECONDS) == Read(1, MIB)
        pids = list(pool._readers.pids.values())
        (busy,) = (pool._readers.pids[each] for each in pool._busy)
        os.kill(busy, signal.SIGSTOP)
    until(lambda: not any(map(is_running, pids)), "the readers to end")


START_READERS = """
import django; django.setup()
import signal, sys
from libraries.readers import ReaderPool
with ReaderPool(2) as pool:
    pool.submit(1, ("sample", b"/", b"nowhere", 1, 1))
    pool.next(timeout=60)
    print(*pool._readers.pids.values(), flush=True)
    signal.pause()
"""


def test_readers_end_with_the_process_that_started_them(child_environment: dict[str, str]) -> None:
    environment = {"DJANGO_SETTINGS_MODULE": "tests.settings", **child_environment}
    command = [sys.executable, "-c", START_READERS]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        pids = [int(word) for word in starter.stdout.readline().split()]
        starter.kill()
    assert pids
    until(lambda: not any(map(is_running, pids)), "the readers to end")


def test_answers_that_nobody_takes_hold_the_readers_back(tmp_path: Path) -> None:
    names = [f"{number}" for number in range(20)]
    tree(tmp_path, dict.fromkeys(names, b"1"))
    with ReaderPool(1, most_answers=2) as pool:
        for number, name in enumerate(names):
            pool.submit(number, hash_task(tmp_path / name))
        until(lambda: pool._waiting >= 2, "two answers")
        assert pool._waiting <= 3
        assert len(answers(pool)) == 20


def test_a_pool_with_an_answer_on_its_way_has_something_in_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scan that found nothing in hand would end without its last unit, and call its files missing."""
    tree(tmp_path, {"a": b"1"})
    in_hand: list[int] = []
    answer = ReaderPool._answer

    def noted(pool: ReaderPool, *event: Any, **more: Any) -> None:
        in_hand.append(pool.in_hand)
        answer(pool, *event, **more)

    monkeypatch.setattr(ReaderPool, "_answer", noted)
    with ReaderPool(1) as pool:
        pool.submit(1, hash_task(tmp_path / "a"))
        assert isinstance(pool.next(timeout=SECONDS), Done)
        assert pool.in_hand == 0
    assert in_hand == [1]


# --- Answers in parts -------------------------------------------------------------------------------------
def flat_walk(root: Path, count: int) -> Walk:
    tree(root, {f"a name of some length, so that it is not over soon {number}": b"" for number in range(count)})
    return Walk(os.fsencode(root), (), 0, None)


def paths_of(events: list[Any]) -> list[str]:
    return [row[0] for event in events if event.key == WALK for row in Unit.of(event.value).rows()]


def is_asleep(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] == "S"


def test_parts_that_nobody_takes_hold_their_reader_back(tmp_path: Path) -> None:
    walk = flat_walk(tmp_path, 12 * UNIT_FILES)
    with ReaderPool(1, walk.expand, most_answers=2) as pool:
        walk.start(pool)
        until(lambda: pool._waiting >= 2, "two parts")
        (reader,) = pool._readers.pids.values()
        until(lambda: is_asleep(reader), "the reader to wait until it can send the next")
        assert pool._waiting == 2
        assert pool.doing() == [str(tmp_path)]
        *parts, done = answers(pool)
        assert (pool.in_hand, pool._in_parts) == (0, set())
    assert [type(event) for event in (*parts, done)] == [Part] * len(parts) + [Done]
    assert len(parts) > 5
    assert sorted(paths_of([*parts, done])) == sorted(os.listdir(tmp_path)), "each once"


def test_a_reader_that_is_killed_while_it_is_held_back_is_noticed(tmp_path: Path) -> None:
    walk = flat_walk(tmp_path, 6 * UNIT_FILES)
    with ReaderPool(1, walk.expand, most_answers=1) as pool:
        walk.start(pool)
        until(lambda: pool._waiting >= 1, "a part")
        (reader,) = pool._readers.pids.values()
        os.kill(reader, signal.SIGKILL)
        with pytest.raises(ReadersGone):
            answers(pool)


def test_folders_that_are_left_beside_a_large_one_are_walked_meanwhile(tmp_path: Path) -> None:
    """By another reader, while the one that found them is held back."""
    walk = flat_walk(tmp_path, 6 * UNIT_FILES)
    tree(tmp_path, {f"below/{number}/x": b"" for number in range(50)})
    with ReaderPool(2, walk.expand) as pool:
        walk.start(pool)
        events = answers(pool)
    assert sum(isinstance(event, Done) for event in events) > 1
    assert len(paths_of(events)) == len(set(paths_of(events))) == 6 * UNIT_FILES + 50


@pytest.mark.parametrize("count", [1, 2])
def test_tasks_of_the_caller_hold_a_walk_back_where_another_reader_does_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """He keeps what he needs for their answers, and more parts would give him more of it."""
    monkeypatch.setattr(readers, "MOST_TASKS", 3)
    walk = flat_walk(tmp_path / "walked", 12 * UNIT_FILES)
    tree(tmp_path, {"a": b"1"})
    with ReaderPool(count, walk.expand) as pool:
        until(lambda: len(pool._readers.pids) == count, "the readers")
        walk.start(pool)
        assert isinstance(pool.next(timeout=SECONDS), Part)
        (walker,) = pool._busy
        others = [pid for end, pid in pool._readers.pids.items() if end != walker]
        for pid in others:
            os.kill(pid, signal.SIGSTOP)
        for key in range(1, 9):
            pool.submit(key, hash_task(tmp_path / "a"))
        found = []
        while event := pool.next(timeout=0.5):
            found.append(event)
        is_held = not any(event.key == WALK and isinstance(event, Done) for event in found)
        for pid in others:
            os.kill(pid, signal.SIGCONT)
        found += answers(pool)
    assert is_held == (count > 1)
    assert sorted(event.key for event in found if isinstance(event, Done)) == list(range(9))


def test_how_many_readers_there_are_is_a_knob(settings: Settings) -> None:
    """DEDUPFS_READERS"""
    settings.READERS = 3
    assert reader_count() == 3
    settings.READERS = 0
    assert reader_count() == min(8, 4 * (os.cpu_count() or 1))


def test_a_disk_gets_more_readers_than_memory_does(tmp_path: Path) -> None:
    content = os.urandom(MIB)
    tree(tmp_path, {"a": content})
    with cold(tmp_path / "a") as file, ReaderPool(8) as pool:
        for_memory = pool.active
        pool.submit(1, hash_task(tmp_path / "a"))
        (found,) = answers(pool)
        for_disk = pool.active
        assert os.pread(file, MIB, 0) == content
        for key in range(WARM_TASKS):
            pool.submit(key, hash_task(tmp_path / "a"))
        answers(pool)
        assert (found.value, pool.active) == (blake3(content).digest(), for_memory)
    assert (for_memory, for_disk) == (min(8, max(2, os.cpu_count() or 1)), 8)
