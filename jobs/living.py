"""The consumer's caretaker thread: says that the process is alive, and sweeps.

It doesn't depend on Huey's storage: leases are recovered and rows put back even while that is away.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from threading import Event, Thread

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connections
from django.db.models.functions import Now

from database.routing import EXECUTOR
from jobs.enforcing import transaction_on
from jobs.executing import sweep_all, worker_name
from jobs.models import WorkerHeartbeat

logger = logging.getLogger(__name__)


def say_alive() -> None:
    """Note this process as alive; the first time, note who it is."""
    rows = WorkerHeartbeat.objects.using(EXECUTOR)
    with transaction_on("live"):
        if rows.filter(pk=worker_name()).update(last_seen_at=Now(), stopped_at=None) == 0:
            rows.create(worker_id=worker_name(), hostname=socket.gethostname()[:255], pid=os.getpid())


def say_stopped() -> None:
    with transaction_on("live"):
        WorkerHeartbeat.objects.using(EXECUTOR).filter(pk=worker_name()).update(stopped_at=Now(), last_seen_at=Now())


class Caretaker:
    """Runs beside the workers of one consumer."""

    def __init__(self) -> None:
        self._done = Event()
        self._thread = Thread(target=self._run, name="caretaker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._done.set()
        self._thread.join(timeout=settings.STOP_SECONDS)

    def _run(self) -> None:
        swept_at = float("-inf")
        while not self._done.is_set():
            try:
                say_alive()
                if time.monotonic() - swept_at >= settings.SWEEP_SECONDS:
                    sweep_all()
                    swept_at = time.monotonic()
            except (DatabaseError, InterfaceError) as error:
                logger.warning("The database can't be reached: %s", error)
                connections.close_all()
            self._done.wait(min(settings.HEARTBEAT_SECONDS, settings.SWEEP_SECONDS))
        try:
            say_stopped()
        except (DatabaseError, InterfaceError) as error:
            logger.warning("This worker's end could not be noted: %s", error)
        connections.close_all()
