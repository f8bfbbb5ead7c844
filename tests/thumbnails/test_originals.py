from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from accounts.models import Role
from libraries.models import LibraryFile, LibraryRoot
from libraries.names import to_text
from tests import factories
from tests.libraries.dead_disk import dead_disk
from tests.pages import logged_in, words_of
from tests.site.browsing import Gunicorn
from tests.tree import tree
from tests.waiting import until
from thumbnails import originals
from thumbnails.ranges import NotThere, Span, asked_for

pytestmark = pytest.mark.django_db

CONTENT = bytes(range(256)) * 4096  # 1 MiB: more than a pipe holds


@pytest.fixture
def operator() -> Client:
    return logged_in(Role.OPERATOR)


@pytest.fixture
def library(tmp_path: Path) -> LibraryRoot:
    root = tmp_path / "photos"
    root.mkdir()
    return factories.library(root_path=str(root))


def put(library: LibraryRoot, name: str | bytes, content: bytes = CONTENT) -> str:
    """Put a file there, index it and return its address."""
    raw = os.fsencode(name)
    tree(Path(library.root_path), {raw: content})
    return address(indexed(library, raw))


def indexed(library: LibraryRoot, name: bytes) -> LibraryFile:
    return factories.library_file(to_text(name), library)


def address(file: LibraryFile) -> str:
    return f"/thumbs/original/{file.pk}/"


def body_of(answer: Any) -> bytes:
    return b"".join(answer.streaming_content)


def broken_off(answer: Any, harm: Callable[[], None]) -> bytes:
    """What still comes when `harm` is done after the first piece; the connection must break at its end."""
    pieces = iter(answer.streaming_content)
    got = [next(pieces)]
    harm()
    with pytest.raises(ConnectionResetError):
        got.extend(pieces)
    answer.close()
    return b"".join(got)


def children() -> list[int]:
    found = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in found if "original_process" in _command(pid)]


def _command(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


# --- The file ---------------------------------------------------------------------------------------------
def test_the_whole_file_is_streamed_and_nothing_of_it_can_act_as_our_page(
    operator: Client, library: LibraryRoot
) -> None:
    answer = operator.get(put(library, "a/b/clip.mp4"))
    assert (answer.status_code, body_of(answer)) == (200, CONTENT)
    assert answer["Content-Type"] == "video/mp4"
    assert answer["Content-Length"] == str(len(CONTENT))
    assert answer["Content-Disposition"] == 'inline; filename="clip.mp4"'
    assert answer["Accept-Ranges"] == "bytes"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Cache-Control"] == "private, no-cache"
    # A player fetches its file itself, for which it needs our origin; there is no script that could use it.
    assert answer["Content-Security-Policy"].startswith("sandbox allow-same-origin; default-src 'none'; ")
    assert "script" not in answer["Content-Security-Policy"]
    assert answer["Cross-Origin-Opener-Policy"] == "unsafe-none"
    answer.close()
    assert until(lambda: not children(), "the process to end")


@pytest.mark.parametrize(
    ("name", "kind", "how"),
    [
        ("a.JPG", "image/jpeg", "inline"),
        ("notes.txt", "text/plain; charset=utf-8", "inline"),
        ("song.flac", "audio/flac", "inline"),
        ("page.html", "application/octet-stream", "attachment"),
        ("drawing.svg", "application/octet-stream", "attachment"),
        ("paper.pdf", "application/octet-stream", "attachment"),
        ("feed.xml", "application/octet-stream", "attachment"),
        ("program.js", "application/octet-stream", "attachment"),
        ("jpg", "application/octet-stream", "attachment"),
        (".png/readme", "application/octet-stream", "attachment"),
    ],
)
def test_only_what_is_harmless_is_shown_and_all_else_is_saved(
    operator: Client, library: LibraryRoot, name: str, kind: str, how: str
) -> None:
    answer = operator.head(put(library, name, b"<script>alert(1)</script>"))
    assert answer["Content-Type"] == kind
    assert answer["Content-Disposition"].startswith(f"{how}; ")
    sandbox = "sandbox allow-same-origin" if kind.startswith("audio/") else "sandbox"
    assert answer["Content-Security-Policy"].startswith(f"{sandbox}; default-src 'none'; ")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (b'a"b\\c.jpg', r'inline; filename="a\"b\\c.jpg"'),
        (b"x\r\nSet-Cookie: a=b.jpg", r'inline; filename="x\\r\\nSet-Cookie: a=b.jpg"'),
        (b"caf\xe9.jpg", r'inline; filename="caf\\xe9.jpg"'),
        ("Grüße.jpg".encode(), "inline; filename*=utf-8''Gr%C3%BC%C3%9Fe.jpg"),
        ("exe.\u202egpj.html".encode(), r'attachment; filename="exe.\\u202egpj.html"'),
    ],
)
def test_hostile_names_break_no_header(operator: Client, library: LibraryRoot, name: bytes, said: str) -> None:
    answer = operator.get(put(library, name))
    assert answer["Content-Disposition"] == said
    assert body_of(answer) == CONTENT


def test_head_tells_the_same_and_sends_nothing(operator: Client, library: LibraryRoot) -> None:
    where = put(library, "a.jpg")
    head, whole = operator.head(where), operator.get(where)
    assert (head.status_code, head.content) == (200, b"")
    body_of(whole)
    assert dict(head.headers) == dict(whole.headers)
    assert operator.head(where, headers={"Range": "bytes=1-2"}).status_code == 200, "there are no parts of nothing"
    whole.close()
    assert not children()


def test_an_empty_file_is_an_empty_answer(operator: Client, library: LibraryRoot) -> None:
    where = put(library, "empty.txt", b"")
    answer = operator.get(where)
    assert (answer.status_code, body_of(answer), answer["Content-Length"]) == (200, b"", "0")
    assert operator.get(where, headers={"Range": "bytes=0-"}).status_code == 416


# --- Parts ------------------------------------------------------------------------------------------------
def test_a_range_gives_that_part(operator: Client, library: LibraryRoot) -> None:
    where, size = put(library, "a.mp4"), len(CONTENT)
    for asked, start, end in (
        ("bytes=0-0", 0, 0),
        ("bytes=1000-", 1000, size - 1),
        ("bytes=5-9999999999", 5, size - 1),
        ("bytes=-7", size - 7, size - 1),
        ("Bytes=70000-700000", 70_000, 700_000),
    ):
        answer = operator.get(where, headers={"Range": asked})
        assert answer.status_code == 206, asked
        assert body_of(answer) == CONTENT[start : end + 1], asked
        assert answer["Content-Range"] == f"bytes {start}-{end}/{size}"
        assert answer["Content-Length"] == str(end - start + 1)


@pytest.mark.parametrize("asked", ["bytes=1-2,4-5", "lines=1-2", "bytes=9-3", "bytes=a-b", "bytes=-", "bytes", "1-2"])
def test_what_is_no_single_range_gives_the_whole(operator: Client, library: LibraryRoot, asked: str) -> None:
    answer = operator.get(put(library, "a.mp4"), headers={"Range": asked})
    assert (answer.status_code, body_of(answer)) == (200, CONTENT)
    assert "Content-Range" not in answer


@pytest.mark.parametrize("asked", [f"bytes={len(CONTENT)}-", "bytes=-0", "bytes=9999999999999999999-"])
def test_a_range_behind_the_end_is_416(operator: Client, library: LibraryRoot, asked: str) -> None:
    answer = operator.get(put(library, "a.mp4"), headers={"Range": asked})
    assert (answer.status_code, answer.content) == (416, b"")
    assert answer["Content-Range"] == f"bytes */{len(CONTENT)}"
    assert not children()


def test_every_range_of_a_short_file_is_what_python_says() -> None:
    for size in range(5):
        whole = bytes(range(size))
        for first in range(6):
            for last in range(6):
                try:
                    found = asked_for({"Range": f"bytes={first}-{last}"}, size, '"x"')
                except NotThere:
                    assert first >= size
                else:
                    part = whole[found.start : found.start + found.length] if found else None
                    assert part == (whole[first : last + 1] if first <= last else None)
            if first and size:
                assert asked_for({"Range": f"bytes=-{first}"}, size, '"x"') == Span(
                    max(size - first, 0), min(first, size)
                )


def test_what_did_not_change_is_not_sent_again_and_a_part_of_another_version_never(
    operator: Client, library: LibraryRoot
) -> None:
    where = put(library, "a.mp4")
    etag = operator.head(where)["ETag"]
    known = operator.get(where, headers={"If-None-Match": etag})
    assert (known.status_code, known.content, known["ETag"]) == (304, b"", etag)
    part = {"Range": "bytes=0-9", "If-Range": etag}
    answer = operator.get(where, headers=part)
    assert (answer.status_code, body_of(answer)) == (206, CONTENT[:10])
    tree(Path(library.root_path), {"a.mp4": CONTENT[::-1]})
    assert operator.head(where)["ETag"] != etag
    answer = operator.get(where, headers=part)
    assert (answer.status_code, body_of(answer)) == (200, CONTENT[::-1])
    dated = {"Range": "bytes=0-9", "If-Range": "Sun, 06 Nov 1994 08:49:37 GMT"}
    assert body_of(operator.get(where, headers=dated)) == CONTENT[::-1]
    assert operator.head(where, headers={"If-Match": etag}).status_code == 412
    assert not children()


# --- Who, and what is never opened ------------------------------------------------------------------------
def test_viewers_and_strangers_get_no_originals(library: LibraryRoot) -> None:
    where = put(library, "a.jpg")
    assert logged_in(Role.VIEWER).get(where).status_code == 403
    assert Client().get(where).status_code == 302
    assert logged_in(Role.ADMIN).head(where).status_code == 200


def test_links_and_what_is_no_file_are_not_opened(operator: Client, library: LibraryRoot, tmp_path: Path) -> None:
    root = Path(library.root_path)
    tree(tmp_path, {"secret/key.txt": b"secret"})
    (root / "link.txt").symlink_to(tmp_path / "secret/key.txt")
    (root / "folder").symlink_to(tmp_path / "secret")
    (root / "real").mkdir()
    os.mkfifo(root / "pipe.txt")
    names = (b"link.txt", b"folder/key.txt", b"real", b"pipe.txt", b"gone.txt", b"../secret/key.txt", b"x" * 300)
    for name in names:
        answer = operator.get(address(indexed(library, name)))
        assert answer.status_code in (404, 502), name
        assert b"secret" not in answer.content.replace(b"../secret/key.txt", b""), name
        assert "can't be shown" in words_of(answer.content.decode())
        assert "sandbox" not in answer["Content-Security-Policy"]
    assert operator.get("/thumbs/original/999999/").status_code == 404
    assert not children()


def test_the_process_that_reads_gets_no_secret(
    operator: Client, library: LibraryRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEDUPFS_SECRET_KEY", "THE KEY")
    answer = operator.get(put(library, "a.mp4"))
    assert b"THE KEY" not in Path(f"/proc/{children()[0]}/environ").read_bytes()
    answer.close()


# --- Disks that fail --------------------------------------------------------------------------------------
def test_a_dead_disk_is_given_up_in_time(operator: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "ORIGINAL_SECONDS", 1)
    with dead_disk(tmp_path / "share"):
        file = indexed(factories.library(root_path=str(tmp_path / "share")), b"a.jpg")
        began = time.monotonic()
        answer = operator.get(address(file))
        assert (answer.status_code, time.monotonic() - began < 6) == (504, True)
        assert "doesn't answer" in words_of(answer.content.decode())
    assert until(lambda: not children(), "the process to end")


def test_a_disk_that_dies_in_the_middle_breaks_the_answer_off(
    operator: Client, library: LibraryRoot, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever keeps the process from reading on, it is stopped here."""

    def die() -> None:
        monkeypatch.setattr(settings, "ORIGINAL_SECONDS", 1)  # only now: to start it may take longer
        os.kill(children()[0], signal.SIGSTOP)

    got = broken_off(operator.get(put(library, "a.mp4")), die)
    assert CONTENT.startswith(got)
    assert len(got) < len(CONTENT)
    assert "not read to its end" in caplog.text
    assert not children()


def test_a_file_that_became_shorter_breaks_the_answer_off(operator: Client, library: LibraryRoot) -> None:
    answer = operator.get(put(library, "a.mp4"))
    assert len(broken_off(answer, lambda: os.truncate(Path(library.root_path) / "a.mp4", 10))) < len(CONTENT)


def test_only_so_many_are_read_at_once_and_whoever_leaves_makes_room(
    operator: Client, library: LibraryRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "WEB_THREADS", 4)
    where = put(library, "a.mp4", CONTENT * 2)
    opened = [operator.get(where) for _ in range(2)]
    refused = operator.get(where)
    assert (refused.status_code, refused["Retry-After"]) == (503, "5")
    assert len(children()) == 2
    opened[0].close()  # without a byte having been read
    answer = operator.get(where)
    assert (answer.status_code, body_of(answer)) == (200, CONTENT * 2)
    for each in (*opened, answer):
        each.close()
    assert not children()


def test_one_that_can_not_be_killed_is_not_waited_for_and_keeps_its_place(
    library: LibraryRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(originals, "_KILL_SECONDS", 0.05)
    monkeypatch.setattr(settings, "WEB_THREADS", 2)
    # Its own process outlives the kill of the one we know: a stand-in for one that hangs in the kernel.
    hanging = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdin=-1, stdout=-1)
    monkeypatch.setattr(hanging, "kill", lambda: None)
    originals._running.append(hanging)
    originals._end(hanging)
    with pytest.raises(originals.TooMany):
        originals.open_original(indexed(library, b"a.jpg"))
    os.kill(hanging.pid, signal.SIGKILL)
    hanging.wait()
    with pytest.raises(originals.NotThere):
        originals.open_original(indexed(library, b"b.jpg"))


# --- A real web server ------------------------------------------------------------------------------------
@pytest.fixture
def server(child_environment: dict[str, str], tmp_path: Path) -> Iterator[Gunicorn]:
    started = Gunicorn({**child_environment, "DEDUPFS_ORIGINAL_SECONDS": "10"}, tmp_path / "gunicorn.log")
    yield started.wait_ready()
    started.stop()


def test_gunicorn_cuts_the_connection_instead_of_pretending_that_this_was_all(
    server: Gunicorn, library: LibraryRoot
) -> None:
    where = put(library, "a.mp4", CONTENT * 16)
    client = logged_in(Role.OPERATOR)
    cookie = f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", where, headers={"Cookie": cookie, "Range": "bytes=1-"})
    answer = connection.getresponse()
    assert (answer.status, answer.read(10)) == (206, CONTENT[1:11])
    os.kill(_reader_below(server.process.pid), signal.SIGSTOP)
    with pytest.raises(http.client.IncompleteRead):
        answer.read()
    connection.close()
    assert server.ask("/health").status in (200, 503), "and it goes on answering"
    assert "Traceback" not in server.output


def _reader_below(pid: int) -> int:
    def find(above: int) -> int | None:
        for child in Path(f"/proc/{above}/task").glob("*/children"):
            for each in child.read_text().split():
                if "original_process" in _command(each):
                    return int(each)
                if found := find(int(each)):
                    return found
        return None

    return until(lambda: find(pid), "the process that reads")
