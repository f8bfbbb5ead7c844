"""Huey's consumer, told how to stop: both signals let handlers finish their batch and give back what they hold."""

from __future__ import annotations

import signal
from typing import Any

from huey.consumer import Consumer

from jobs import stopping
from jobs.living import Caretaker


class LeaseConsumer(Consumer):  # type: ignore[misc]
    def __init__(self, huey: Any, **options: Any) -> None:
        super().__init__(huey, **options)
        # Ctrl-C in a terminal is as orderly as a supervisor's SIGTERM; the second signal of either kind ends at once.
        self._signal_actions = {signal.SIGTERM: (False, True), signal.SIGINT: (False, True)}
        self.caretaker = Caretaker()

    def start(self) -> None:
        super().start()
        self.caretaker.start()

    def run(self) -> None:
        try:
            super().run()
        finally:
            self.caretaker.stop()

    def _handle_signal(self, signum: int, frame: Any) -> None:
        stopping.request()
        super()._handle_signal(signum, frame)
