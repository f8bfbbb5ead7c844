"""Consumers that have nothing better to do help the one that owns the hash job."""

from __future__ import annotations

import logging
from threading import Lock, Thread

from django.db import DatabaseError, InterfaceError, connections

from database.routing import EXECUTOR
from jobs.errors import LeaseLost, Stopping
from jobs.executing import worker_name
from jobs.models import Job
from libraries import rehashing
from libraries.candidates import REHASH_STAGES, STAGES
from libraries.hash_hands import Helper
from libraries.hash_reading import Hasher

logger = logging.getLogger(__name__)
_helping = Lock()


def help_if_needed() -> bool:
    """Start to help, in a thread, if another process has a hash job and this one does not help yet.

    Called by the chores of each consumer, so it must return at once. The thread is not a daemon: a consumer that stops
    waits for it, and it stops when told, as handlers do.
    """
    jobs = Job.objects.using(EXECUTOR).filter(kind="hash", status="running")
    running = jobs.values_list("pk", "worker_id").first()
    if running is None or running[1] is None or running[1].startswith(f"{worker_name()}:"):
        return False
    if not _helping.acquire(blocking=False):
        return False
    Thread(target=_help, args=running, name="hash helper").start()
    return True


def _help(job_id: str, worker_id: str) -> None:
    try:
        help_with(job_id, worker_id)
    except Stopping as reason:
        logger.info("Helping to hash ends: %s", reason)
    except LeaseLost as reason:
        logger.info("%s: nothing more is written", reason)
    except (DatabaseError, InterfaceError) as error:
        logger.warning("Helping to hash ends, the database can't be reached: %s", error)
    except Exception:
        logger.exception("Helping to hash failed")
    finally:
        connections.close_all()
        _helping.release()


def help_with(job_id: str, worker_id: str) -> int:
    """Work on the files of a job until none is left; return how many it were."""
    files = 0
    with Hasher(Helper(job_id, worker_id)) as hasher:
        while True:
            claimed = hasher.go_through(STAGES)
            if rehashing.is_going_on():
                claimed += hasher.go_through(REHASH_STAGES)
            if not claimed:
                return files
            files += claimed
