"""Keeps the records of an act while its files are worked on: the disk and the database wait for each other no more than
they have to.

One thread with a database connection of its own does what it is asked, in that order. It is no second hand: it looks at
files and makes trashes ready for them, but moves none; and whoever asked waits for it before the lock is let go.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, Self, TypeVar

from django.db import connections

P = ParamSpec("P")
T = TypeVar("T")


class Clerk:
    """Use it as a context: at its end everything that was asked is done."""

    def __enter__(self) -> Self:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="clerk")
        self._last: Future[Any] | None = None
        return self

    def __exit__(self, *_: object) -> None:
        # Connections belong to their thread.
        self._pool.submit(connections.close_all)
        self._pool.shutdown()

    def ask(self, verb: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """What it raises is raised by `result()`: that has to be called."""
        asked = self._pool.submit(verb, *args, **kwargs)
        self._last = asked
        return asked

    @property
    def is_idle(self) -> bool:
        """Whether everything that was asked is done."""
        return self._last is None or self._last.done()
