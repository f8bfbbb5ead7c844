"""Wait until a live server has nothing left to do: what it still writes would meet the emptying of the tables."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

PATIENCE_SECONDS = 60


class Connections:
    """How many connections the server has taken, and how many of them have ended."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.changed = threading.Condition()
        self.open: set[Any] = set()
        self.ended: set[Any] = set()

    def begin(self, client: Any) -> None:
        with self.changed:
            self.open.add(client)

    def end(self, client: Any) -> None:
        with self.changed:
            self.open.discard(client)
            self.ended.add(client)
            self.changed.notify_all()

    def wait_for_the_last(self) -> None:
        """Connections are taken in the order they came: once one of our own has ended, all earlier ones are known."""
        with socket.create_connection(self.address) as ours:
            name = ours.getsockname()
        with self.changed:
            if not self.changed.wait_for(lambda: name in self.ended and not self.open, PATIENCE_SECONDS):
                raise TimeoutError(f"The server still answers {len(self.open)} connections of a closed browser.")


@contextmanager
def connections_counted(live_server: LiveServer) -> Iterator[Connections]:
    server = live_server.thread.httpd
    counted = Connections((live_server.thread.host, server.server_port))
    take, answer = server.process_request, server.process_request_thread

    def process_request(request: Any, client: Any) -> None:
        counted.begin(client)
        take(request, client)

    def process_request_thread(request: Any, client: Any) -> None:
        try:
            answer(request, client)
        finally:
            counted.end(client)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "process_request", process_request)
        patch.setattr(server, "process_request_thread", process_request_thread)
        yield counted
