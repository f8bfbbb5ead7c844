"""What is sent to a process that may not be reading: nobody waits for it, and nothing is lost."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from libraries.messages import receive
from trash.outbox import Outbox

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_more_than_a_socket_holds_is_kept_and_comes_in_order(pair: Pair) -> None:
    outbox, end = Outbox(pair[0]), pair[1].fileno()
    for number in range(3):
        outbox.put(number, b"x" * 400_000)
    assert outbox, "nobody has read yet, and nobody was waited for"
    done = threading.Event()

    def go_on() -> None:
        while not done.wait(0.001):
            outbox.flush()

    thread = threading.Thread(target=go_on)
    thread.start()
    found = [receive(end) for _ in range(3)]
    done.set()
    thread.join()
    assert found == [(number, b"x" * 400_000) for number in range(3)]
    assert not outbox


def test_there_is_no_room_before_the_other_side_has_read(pair: Pair) -> None:
    outbox, count = Outbox(pair[0]), 0
    while outbox.has_room():
        outbox.put("word", 1.0)
        count += 1
    assert count > 10
    assert not outbox, "what was sent is on its way"
    for _ in range(count):
        assert receive(pair[1].fileno()) == ("word", 1.0)
    assert outbox.has_room()


def test_one_that_is_gone_is_an_error(pair: Pair) -> None:
    outbox = Outbox(pair[0])
    pair[1].close()
    with pytest.raises(BrokenPipeError):
        outbox.put("word", 1.0)
