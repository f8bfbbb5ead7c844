"""Real children, real signals."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pytest_django import Settings

from tests.thumbnails.pictures import encoded, flat_png, opened, sample, scene, shows_scene, video
from tests.waiting import until
from thumbnails import render_pool
from thumbnails.render_board import Board
from thumbnails.render_errors import (
    DECODE_FAILED,
    GENERATION_FAILED,
    OUT_OF_MEMORY,
    TIMED_OUT,
    TOO_LARGE,
    VIDEO_FAILED,
    RenderError,
)
from thumbnails.render_pool import Rendered, close_all, render
from thumbnails.render_process import MOST_GROWTH_BYTES, MOST_RENDERS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _fresh_pool() -> Iterator[None]:
    close_all()
    yield
    close_all()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[int]:
    """A picture that takes a while, of which the caller hears often."""
    monkeypatch.setattr(render_pool, "TICK_SECONDS", 0.01)
    with opened(tmp_path / "slow.png", flat_png(10_000, 9_000)) as descriptor:
        yield descriptor


def image(source: int, **more: Any) -> Rendered:
    wanted = {"media_type": "image", "format": "webp", "max_dimension": 160, "advance": lambda: None}
    return render(source, **{**wanted, **more})


def children() -> list[int]:
    return sorted(child.pid for child in [*render_pool._idle, *render_pool._busy])


def has_read() -> bool:
    """Whether a child has begun with what it was given: on a busy machine that takes a while."""
    boards = [(child._number, *child._board.read()) for child in render_pool._busy]
    return any(number == begun and bytes_read > 0 for number, begun, bytes_read in boards)


def is_gone(pid: int) -> bool:
    try:
        return ") Z" in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True


def kilobytes(pid: int, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found
    return int(found.group(1))


# --- What it does -------------------------------------------------------------------------------------------
def test_gives_back_the_picture_and_what_was_read(tmp_path: Path) -> None:
    data = encoded(scene(), "jpeg")
    with opened(tmp_path / "a.jpg", data) as descriptor:
        os.lseek(descriptor, 11, os.SEEK_SET)
        rendered = image(descriptor)
        assert os.lseek(descriptor, 0, os.SEEK_CUR) == 11
    assert (rendered.width, rendered.height) == (160, 120)
    assert shows_scene(rendered.data)
    assert len(data) <= rendered.bytes_read <= len(data) + 64


def test_renders_videos_too_and_loads_their_decoders_only_then(tmp_path: Path) -> None:
    with opened(tmp_path / "a.png", encoded(scene(), "png")) as descriptor:
        image(descriptor)
    (pid,) = children()
    assert "libavcodec" not in Path(f"/proc/{pid}/maps").read_text()
    with opened(tmp_path / "a.mp4", video("mp4")) as descriptor:
        assert shows_scene(image(descriptor, media_type="video").data)
    assert children() == [pid]
    assert "libavcodec" in Path(f"/proc/{pid}/maps").read_text()


def test_uses_one_child_again_and_again(tmp_path: Path) -> None:
    with opened(tmp_path / "a.jpg", sample("jpeg")) as descriptor:
        image(descriptor)
        before = children()
        handles = len(os.listdir("/proc/self/fd")), len(os.listdir(f"/proc/{before[0]}/fd"))
        for _ in range(30):
            image(descriptor)
        assert (len(os.listdir("/proc/self/fd")), len(os.listdir(f"/proc/{before[0]}/fd"))) == handles
    assert children() == before


def test_lends_each_thread_a_child_of_its_own(tmp_path: Path) -> None:
    sizes = {number: (40 + number, 30) for number in range(4)}
    found: dict[int, set[tuple[int, int]]] = {number: set() for number in sizes}
    start = threading.Barrier(len(sizes))

    def work(number: int) -> None:
        with opened(tmp_path / f"{number}.bmp", encoded(scene(sizes[number]), "bmp")) as descriptor:
            start.wait()
            for _ in range(25):
                rendered = image(descriptor)
                found[number].add((rendered.width, rendered.height))

    threads = [threading.Thread(target=work, args=(number,)) for number in sizes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: {size} for number, size in sizes.items()}
    assert 1 <= len(children()) <= len(sizes)


def test_a_child_outlives_the_thread_that_needed_it_first(tmp_path: Path) -> None:
    with opened(tmp_path / "a.jpg", sample("jpeg")) as descriptor:
        thread = threading.Thread(target=image, args=(descriptor,))
        thread.start()
        thread.join()
        (pid,) = children()
        image(descriptor)
        assert children() == [pid]


def test_passes_no_secret_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://somebody:PASSWORD@there/db")
    monkeypatch.setenv("DEDUPFS_SECRET_KEY", "THE KEY")
    with opened(tmp_path / "a.jpg", sample("jpeg")) as descriptor:
        image(descriptor)
    environment = Path(f"/proc/{children()[0]}/environ").read_bytes()
    assert b"PASSWORD" not in environment
    assert b"THE KEY" not in environment


# --- Errors -------------------------------------------------------------------------------------------------
def test_an_error_is_the_files_and_the_child_goes_on(tmp_path: Path) -> None:
    with opened(tmp_path / "good.jpg", sample("jpeg")) as good, opened(tmp_path / "bad.jpg", b"\xff\xd8\xff no") as bad:
        image(good)
        before = children()
        with pytest.raises(RenderError) as caught:
            image(bad)
        assert (caught.value.code, caught.value.bytes_read > 0) == (DECODE_FAILED, True)
        with pytest.raises(RenderError) as caught:
            image(bad, media_type="video")
        assert caught.value.code == VIDEO_FAILED
        image(good)
    assert children() == before


def test_ends_a_picture_that_takes_too_long(slow: int, tmp_path: Path, settings: Settings) -> None:
    """Its time stands still until the child has begun."""
    clock = SimpleNamespace(monotonic=lambda: 1.0 if has_read() else 0.0)
    with opened(tmp_path / "a.jpg", sample("jpeg")) as good:
        image(good)
        (pid,) = children()
        settings.THUMBNAIL_SECONDS = {"image": 0.1, "video": 30}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(render_pool, "time", clock)
            with pytest.raises(RenderError) as caught:
                image(slow)
        assert caught.value.code == TIMED_OUT
        assert "longer than the 0.1 seconds" in caught.value.message
        assert caught.value.bytes_read > 0
        assert is_gone(pid)
        settings.THUMBNAIL_SECONDS = {"image": 20, "video": 30}
        assert shows_scene(image(good).data)


def test_ends_a_child_that_is_frozen(tmp_path: Path, settings: Settings) -> None:
    with opened(tmp_path / "a.jpg", sample("jpeg")) as good:
        image(good)
        (pid,) = children()
        os.kill(pid, signal.SIGSTOP)
        settings.THUMBNAIL_SECONDS = {"image": 0.2, "video": 30}
        with pytest.raises(RenderError) as caught:
            image(good)
        assert caught.value.code == TIMED_OUT
        assert is_gone(pid)


def test_says_what_killed_the_decoder(slow: int, tmp_path: Path) -> None:
    def crash() -> None:
        for pid in children() if has_read() else []:
            os.kill(pid, signal.SIGSEGV)

    with opened(tmp_path / "a.jpg", sample("jpeg")) as good:
        image(good)
        with pytest.raises(RenderError) as caught:
            image(slow, advance=crash)
        assert caught.value.code == GENERATION_FAILED
        assert "SIGSEGV" in caught.value.message
        assert caught.value.bytes_read > 0
        assert shows_scene(image(good).data)


def test_stops_when_the_caller_must(slow: int, tmp_path: Path) -> None:
    class Lost(Exception):
        pass

    def lose() -> None:
        raise Lost

    with opened(tmp_path / "a.jpg", sample("jpeg")) as good:
        image(good)
        (pid,) = children()
        with pytest.raises(Lost):
            image(slow, advance=lose)
        assert is_gone(pid)
        assert children() == []
        image(good)


def test_children_that_died_between_two_pictures_are_nobodys_failure(tmp_path: Path) -> None:
    with opened(tmp_path / "a.jpg", sample("jpeg")) as good:
        for child in [render_pool._started() for _ in range(render_pool.TRIES + 1)]:
            render_pool._give_back(child)
        dead = children()
        for pid in dead:
            os.kill(pid, signal.SIGKILL)
        until(lambda: all(map(is_gone, dead)), "their end")
        assert shows_scene(image(good).data)
        assert len(children()) == 1


def test_a_child_that_died_before_it_began_is_nobodys_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render_pool, "TICK_SECONDS", 0.05)
    with opened(tmp_path / "a.jpg", sample("jpeg")) as good:
        image(good)
        (pid,) = children()
        os.kill(pid, signal.SIGSTOP)

        def kill() -> None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

        assert shows_scene(image(good, advance=kill).data)
        assert pid not in children()


def test_children_that_can_not_be_killed_are_not_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frozen ones that the signal does not reach stand for those that hang in the kernel."""
    monkeypatch.setattr(render_pool, "KILL_SECONDS", 0.01)
    stuck = [render_pool._started() for _ in range(render_pool.MOST_STUCK)]
    for child in stuck:
        os.kill(child.pid, signal.SIGSTOP)
        monkeypatch.setattr(child._process, "kill", lambda: None)
        render_pool._discard(child)
    with opened(tmp_path / "a.jpg", sample("jpeg")) as good:
        with pytest.raises(RenderError, match="4 processes") as caught:
            image(good)
        assert caught.value.code == GENERATION_FAILED
        for child in stuck:
            os.kill(child.pid, signal.SIGKILL)
        until(lambda: all(is_gone(child.pid) for child in stuck), "their end")
        monkeypatch.undo()  # the next children are waited for as usual
        assert shows_scene(image(good).data)
    assert render_pool._stuck == []


def test_what_a_child_tells_is_cut() -> None:
    with pytest.raises(RenderError) as caught:
        render_pool._taken({"code": "X" * 999, "message": "y" * 9_999, "bytes_read": 7}, b"")
    assert (len(caught.value.code), len(caught.value.message), caught.value.bytes_read) == (64, 2_000, 7)


def test_holds_a_picture_to_its_pixels(tmp_path: Path, settings: Settings) -> None:
    settings.THUMBNAIL_PIXELS = 320 * 240 - 1
    with opened(tmp_path / "a.jpg", sample("jpeg")) as descriptor, pytest.raises(RenderError) as caught:
        image(descriptor)
    assert caught.value.code == TOO_LARGE


# --- Memory -------------------------------------------------------------------------------------------------
def test_holds_a_picture_to_its_memory(tmp_path: Path, settings: Settings) -> None:
    """What it takes is measured while it takes it, and what it may take is turned."""
    peaks: list[int] = []

    def look() -> None:
        for pid in children():
            with suppress(OSError, AssertionError):
                peaks.append(kilobytes(pid, "VmHWM") << 10)

    with (
        opened(tmp_path / "small.jpg", sample("jpeg")) as small,
        opened(tmp_path / "large.png", flat_png(9_000, 8_000)) as large,
    ):
        image(small)
        start = kilobytes(children()[0], "VmHWM") << 10
        settings.THUMBNAIL_MEMORY_BYTES = 128 << 20
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(render_pool, "TICK_SECONDS", 0.005)
            with pytest.raises(RenderError) as caught:
                image(large, advance=look)
        assert caught.value.code == OUT_OF_MEMORY
        assert "128 MB" in caught.value.message
        assert not peaks or max(peaks) < start + (128 << 20)
        assert shows_scene(image(small).data)

        settings.THUMBNAIL_MEMORY_BYTES = 768 << 20
        image(large)
        peak = kilobytes(children()[0], "VmHWM") << 10
        assert 200 << 20 < peak < 768 << 20


def test_a_limit_that_the_process_was_started_with_stays() -> None:
    program = (
        "from resource import *; from thumbnails.render_process import allow_memory; most = 4 << 30\n"
        "setrlimit(RLIMIT_AS, (most, most))\n"
        "for more in (1 << 40, 1 << 20, None):\n"
        "    allow_memory(more); soft, hard = getrlimit(RLIMIT_AS); print(hard == most, soft == most)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["True True", "True False", "True True"]


def test_a_12_megapixel_photograph_takes_little(tmp_path: Path) -> None:
    """A JPEG is decoded at an eighth: its pixels are never all in memory."""
    with (
        opened(tmp_path / "small.jpg", sample("jpeg")) as small,
        opened(tmp_path / "large.jpg", encoded(scene((4000, 3000)), "jpeg")) as large,
    ):
        image(small)
        (pid,) = children()
        before = kilobytes(pid, "VmHWM")
        image(large, max_dimension=320)
        assert kilobytes(pid, "VmHWM") - before < 16 << 10


def test_a_child_does_not_grow_and_is_replaced_in_time(tmp_path: Path) -> None:
    with opened(tmp_path / "a.bmp", encoded(scene((16, 12)), "bmp")) as descriptor:
        seen: dict[int, int] = {}
        for number in range(MOST_RENDERS + 1):
            image(descriptor, format="jpeg")
            if number in (200, MOST_RENDERS - 2):
                seen[number] = kilobytes(children()[0], "VmRSS")
                (pid,) = children()
        assert seen[MOST_RENDERS - 2] - seen[200] < 4 << 10
        assert is_gone(pid)
        assert len(children()) == 1


def test_videos_do_not_make_it_grow_either(tmp_path: Path) -> None:
    with opened(tmp_path / "a.mp4", video("mp4", 3)) as descriptor:
        for number in range(150):
            image(descriptor, media_type="video")
            if number == 30:
                before = kilobytes(children()[0], "VmRSS")
    assert kilobytes(children()[0], "VmRSS") - before < 8 << 10
    assert MOST_GROWTH_BYTES > 8 << 20


# --- The end ------------------------------------------------------------------------------------------------
def test_close_all_ends_them(tmp_path: Path) -> None:
    with opened(tmp_path / "a.jpg", sample("jpeg")) as descriptor:
        image(descriptor)
        (pid,) = children()
        close_all()
        assert children() == []
        assert is_gone(pid)
        image(descriptor)


def test_a_child_that_nobody_needs_ends_by_itself() -> None:
    ours, theirs = socket.socketpair()
    board = Board()
    given = (theirs.fileno(), board.descriptor)
    program = (
        "import sys; from thumbnails import render_process\n"
        "render_process.IDLE_SECONDS = 0.1; render_process.main(*map(int, sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, *map(str, given), str(os.getpid())]
    with ours, theirs, subprocess.Popen(command, cwd=ROOT, pass_fds=given) as child:
        assert child.wait(timeout=60) == 0
    board.close_descriptor()


@pytest.mark.parametrize("is_frozen", [False, True])
def test_children_end_with_their_parent(tmp_path: Path, is_frozen: bool) -> None:
    """Also one that is in the middle of something, and would not look at its socket."""
    path = tmp_path / "a.jpg"
    path.write_bytes(sample("jpeg"))
    program = (
        "import django, os, sys, time; django.setup()\n"
        "from thumbnails import render_pool\n"
        "source = os.open(sys.argv[1], os.O_RDONLY)\n"
        "render_pool.render(source, media_type='image', format='webp', max_dimension=99, advance=lambda: None)\n"
        "print(render_pool._idle[0].pid, flush=True); time.sleep(90)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        assert not is_gone(child)
        if is_frozen:
            os.kill(child, signal.SIGSTOP)
        parent.kill()
    until(lambda: is_gone(child), "the child's end")
