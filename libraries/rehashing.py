"""Changing the algorithm of the whole system: identity is (algorithm, digest), so all files change at once.

While everything is read again the new digests stand aside, in `rehashes`, and the old ones stay in force: groups are
whole all the time. What is new meanwhile is hashed by the old algorithm first, like everything else, and then again by
the new one. When no file is left, one transaction puts the new digests in place.

A file that can't be read, in spite of some tries, or that is missing, does not hold the switch up: it loses its digest
and is hashed when it can be. The files of a paused library do: nobody reads them until it is resumed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from django.conf import settings
from django.db import connections
from django.db.models.functions import Now

from database.crash_points import reach
from database.routing import EXECUTOR
from libraries.candidates import run
from libraries.hash_hands import Owner
from libraries.listening import algorithm_switches
from libraries.models import HashState, LibraryFile
from logbook.models import write_event

#: A file that could not be read so often is not waited for.
TRIES = 3

_MATCHES = (
    "r.file_id = library_files.id AND r.size_bytes = library_files.size_bytes AND r.mtime_ns = library_files.mtime_ns"
)
_WAITED_FOR = """
SELECT 1 FROM library_files f JOIN library_roots l ON l.id = f.library_id
 WHERE NOT f.is_missing AND NOT f.needs_hash AND f.content_hash IS NOT NULL AND l.removing_at IS NULL
   AND (l.is_paused OR f.hash_error_count < %s)
   AND NOT EXISTS (SELECT 1 FROM rehashes r
                    WHERE r.file_id = f.id AND r.size_bytes = f.size_bytes AND r.mtime_ns = f.mtime_ns)
 LIMIT 1"""


def decide(fenced: Callable[[], AbstractContextManager[None]]) -> None:
    """Compare the setting with what is in force, and begin or give up a switch. Nothing hashed yet: it is in force."""
    wanted: str = settings.HASH_ALGORITHM
    state = HashState.objects.using(EXECUTOR).filter(pk=1).values("algorithm", "switching_to").first()
    if state is not None and wanted == (state["switching_to"] or state["algorithm"]):
        return
    with fenced():
        state_row, _ = HashState.objects.using(EXECUTOR).get_or_create(pk=1)
        state_row.refresh_from_db(using=EXECUTOR)
        if not LibraryFile.objects.using(EXECUTOR).filter(content_hash__isnull=False).exists():
            if wanted != state_row.algorithm or state_row.switching_to:
                _put_in_force(wanted)
            return
        target = None if wanted == state_row.algorithm else wanted
        if target != state_row.switching_to:
            _forget_rehashes()
            HashState.objects.using(EXECUTOR).filter(pk=1).update(switching_to=target, updated_at=Now())
            _note("switching" if target else "switch given up", to=target)


def is_going_on() -> bool:
    return HashState.objects.using(EXECUTOR).filter(pk=1, switching_to__isnull=False).exists()


def switch(owner: Owner) -> bool:
    """Put the new digests in place if they are complete; whether that was done."""
    if not is_going_on():
        return False
    with owner.fenced():
        if run(_WAITED_FOR, [TRIES]):
            return False
        wanted = HashState.objects.using(EXECUTOR).values_list("switching_to", flat=True).get(pk=1)
        assert wanted is not None
        reach("hash_before_switch")
        # In this order: whoever counts by digest learns first that all of them change, and notes nothing of each.
        _put_in_force(wanted)
        algorithm_switches(wanted)
        _exchange(wanted)
    reach("hash_switched")
    return True


def _exchange(wanted: str) -> None:
    yes = "1" if connections[EXECUTOR].vendor == "sqlite" else "true"
    with connections[EXECUTOR].cursor() as cursor:
        cursor.execute(
            "UPDATE library_files SET hash_algorithm = %s, content_hash ="
            " (SELECT r.content_hash FROM rehashes r WHERE r.file_id = library_files.id)"
            " WHERE content_hash IS NOT NULL AND NOT needs_hash"
            f" AND EXISTS (SELECT 1 FROM rehashes r WHERE {_MATCHES})",
            [wanted],
        )
        cursor.execute(
            "UPDATE library_files SET hash_algorithm = NULL, content_hash = NULL, hashed_size_bytes = NULL,"
            f" hashed_mtime_ns = NULL, hashed_at = NULL, needs_hash = {yes}"
            " WHERE content_hash IS NOT NULL AND hash_algorithm <> %s",
            [wanted],
        )
    _forget_rehashes()


def _forget_rehashes() -> None:
    with connections[EXECUTOR].cursor() as cursor:
        cursor.execute("DELETE FROM rehashes")


def _put_in_force(algorithm: str) -> None:
    HashState.objects.using(EXECUTOR).filter(pk=1).update(algorithm=algorithm, switching_to=None, updated_at=Now())
    _note("switched", to=algorithm)


def _note(event: str, to: str | None) -> None:
    write_event("hash_states", "1", event, using=EXECUTOR, title="hashing", to=to)
