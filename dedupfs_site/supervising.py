"""One process that looks after the web server and the consumer: starts, restarts and stops them in order.

Signals are blocked and waited for, never handled, so nothing can happen between two lines of this module.
The children have sessions of their own: Ctrl-C reaches only the supervisor, which passes it on in order.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from dedupfs_site.starting import CannotStart

logger = logging.getLogger(__name__)

LONGEST_WAIT_SECONDS = 30
#: A child that lived this long was well; its next death is the first again.
SETTLED_SECONDS = 60
#: The web server is given up when it dies this often before it ever answered.
HOPELESS = 3
PR_SET_PDEATHSIG = 1
#: Returns whether the note was taken; one that was not is offered again.
Note = Callable[[str, str | int], bool]

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


@dataclass
class Child:
    """A program that is meant to run as long as the supervisor does."""

    name: str
    command: list[str]
    folder: Path
    deaths: int = 0
    last_exit: str | int | None = None
    start_at: float = 0.0
    started_at: float = 0.0
    process: subprocess.Popen[bytes] | None = None

    def start(self, mask: set[signal.Signals]) -> None:
        self.started_at = time.monotonic()
        self.process = subprocess.Popen(
            self.command,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_child_rules(os.getpid(), mask),
        )

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def wait_seconds(self) -> int:
        """How long to wait after a death: 1, 2, 4 … and never more than half a minute."""
        return min(1 << min(self.deaths - 1, 5), LONGEST_WAIT_SECONDS)

    def bury(self) -> None:
        """It died: keep how it ended, and when it is due to start again."""
        assert self.process is not None
        self.last_exit = exit_word(self.process.returncode)
        self.clear()
        now = time.monotonic()
        self.deaths = 1 if now - self.started_at >= SETTLED_SECONDS else self.deaths + 1
        self.start_at = now + self.wait_seconds

    def clear(self) -> None:
        """End whatever is left of it: its own children are in its process group."""
        if self.process is None:
            return
        with suppress(ProcessLookupError):  # nobody is left
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process = None


def exit_word(code: int) -> str | int:
    """A process's exit code, or the name of the signal that ended it."""
    return signal.Signals(-code).name if code < 0 else code


def _child_rules(parent: int, mask: set[signal.Signals]) -> Callable[[], None]:
    """What a child does between fork and exec: unblock signals, promise not to outlive its parent."""

    def apply() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if _libc is not None:
            _libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)  # the parent was gone before the promise was made

    return apply


@dataclass
class Supervisor:
    """Runs `web` and `consumer` until it is told to stop.

    `answers` says whether the web server does; `ready` is called once, when it first did.
    """

    web: Child
    consumer: Child
    stop_seconds: float
    answers: Callable[[], bool]
    ready: Callable[[], None]
    note: Note
    is_ready: bool = False
    stop_signals: set[signal.Signals] = field(default_factory=set)
    _asked_at: float = 0.0
    _mask: set[signal.Signals] = field(default_factory=set)
    _unwritten: list[tuple[str, str | int]] = field(default_factory=list)

    def run(self) -> None:
        with self._signals_blocked():
            try:
                while not self._asked_to_stop(self._pause()):
                    self._look_after(self.web)
                    self._look_after(self.consumer)
                    self._write_notes()
                    self._greet()
            finally:
                self._stop(self.web)
                self._stop(self.consumer)

    @contextmanager
    def _signals_blocked(self) -> Iterator[None]:
        self.stop_signals = {signal.SIGINT, signal.SIGTERM}
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # `nohup` asks to outlive the terminal
            self.stop_signals.add(signal.SIGHUP)
        blocked = {*self.stop_signals, signal.SIGCHLD}
        self._mask = {signal.Signals(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, blocked)}
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _wait(self, seconds: float) -> bool:
        """Sleep until a signal comes; say whether it was one that asks to stop."""
        came = signal.sigtimedwait({*self.stop_signals, signal.SIGCHLD}, max(seconds, 0))
        return came is not None and came.si_signo in self.stop_signals

    def _asked_to_stop(self, seconds: float) -> bool:
        asked = self._wait(seconds)
        self._asked_at = time.monotonic() if asked else 0.0
        return asked

    def _pause(self) -> float:
        """How long there is nothing to do."""
        now = time.monotonic()
        due = [each.start_at - now for each in (self.web, self.consumer) if each.process is None]
        return min([LONGEST_WAIT_SECONDS if self.is_ready else 0.1, *due])

    def _look_after(self, child: Child) -> None:
        if child.process is not None and not child.is_running:
            self._bury(child)
        if child.process is None and child.start_at <= time.monotonic():
            child.start(self._mask)
            if child.last_exit is not None:
                self._unwritten.append((f"{child.name}_restarted", child.last_exit))

    def _bury(self, child: Child) -> None:
        child.bury()
        if child is self.web and not self.is_ready and child.deaths >= HOPELESS:
            raise CannotStart("the web server can't be started; the lines above say why")
        logger.warning(
            "The %s ended (%s); it is started again in %s s.", child.name, child.last_exit, child.wait_seconds
        )

    def _write_notes(self) -> None:
        """A note that the database does not take now is offered again later."""
        while self._unwritten and self.note(*self._unwritten[0]):
            self._unwritten.pop(0)

    def _greet(self) -> None:
        if not self.is_ready and self.web.is_running and self.answers():
            self.is_ready = True
            self.ready()

    def _stop(self, child: Child) -> None:
        """Ask it to leave; end it when it has not left in time, or when somebody asks again."""
        if child.process is not None and child.is_running:
            child.process.terminate()
            deadline = time.monotonic() + self.stop_seconds
            while child.is_running and time.monotonic() < deadline and not self._is_impatient(deadline):
                pass
            if child.is_running:
                logger.warning("The %s did not stop in time and was ended.", child.name)
        child.clear()

    def _is_impatient(self, deadline: float) -> bool:
        """Wait; say whether a second request to stop came. One that comes with the first is the same."""
        asked = self._wait(min(deadline - time.monotonic(), 1.0))
        return asked and time.monotonic() - self._asked_at > 1.0
