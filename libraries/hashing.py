"""The hash job: what its owner does from the claim to the end. The reading is `libraries.hash_reading`'s.

The owner looks through the index until nothing is due and no consumer that helps has anything in hand. It makes room
for a scan that somebody asked for, and goes on afterwards from what is stored.
"""

from __future__ import annotations

import time

from django.db.models import Min
from django.db.models.functions import Now

from database.crash_points import reach
from database.routing import EXECUTOR
from jobs.models import Job
from jobs.working import Work
from libraries import rehashing
from libraries.candidates import REHASH_STAGES, STAGES, outstanding, outstanding_in_a_switch, to_rehash
from libraries.hash_claims import are_live
from libraries.hash_hands import Owner, is_paused, paused
from libraries.hash_reading import ASK_SECONDS, TURN_SECONDS, Hasher
from libraries.lanes import Disks
from libraries.listening import files_changed
from libraries.models import HashState, LibraryFile


def hash_files(work: Work[Job], disks: Disks | None = None) -> None:
    """Carry out a hash job."""
    if is_paused():
        raise paused()
    owner = Owner(work)
    rehashing.decide(owner.fenced)
    with Hasher(owner, disks) as hasher:
        hasher.open()
        while True:
            is_switching = rehashing.is_going_on()
            claimed = hasher.go_through(STAGES, outstanding_in_a_switch if is_switching else outstanding)
            if is_switching:
                claimed += hasher.go_through(REHASH_STAGES, to_rehash)
            # What was read may have shown twins, and what others gave back may be due: only an empty look is the last.
            if claimed or _wait_for_helpers(owner):
                continue
            if rehashing.switch(owner):
                continue  # what lost its digest is hashed by the new algorithm
            files_changed()
            reach("hash_before_finish")
            _finish(owner, has_failures=hasher.has_failures)
            return


def _wait_for_helpers(owner: Owner) -> bool:
    """Let other consumers end what they have in hand, or their claims go stale; whether there were any."""
    owner.claims.let_go()
    had_to_wait, asked_at = False, time.monotonic()
    while are_live(owner.claims.reign):
        had_to_wait = True
        owner.check()
        owner.advance("waiting for other consumers")
        if time.monotonic() - asked_at > ASK_SECONDS:
            asked_at = time.monotonic()
            if (reason := owner.asked_to_leave()) is not None:
                raise reason
        time.sleep(TURN_SECONDS)
    return had_to_wait


def _finish(owner: Owner, *, has_failures: bool) -> None:
    """Note that nothing is due before the first file that could not be read may be tried again."""
    with owner.fenced():
        state = HashState.objects.using(EXECUTOR).filter(pk=1)
        knows_failures = has_failures or state.filter(retry_at__isnull=False).exists()
        state.update(is_due=False, retry_at=_retry_at() if knows_failures else None, updated_at=Now())


def _retry_at() -> object:
    """When the first of the files that could not be read may be tried again."""
    waiting = LibraryFile.objects.using(EXECUTOR).filter(is_missing=False, hash_retry_after__gt=Now())
    readable = waiting.filter(library__is_paused=False, library__removing_at__isnull=True)
    return readable.aggregate(first=Min("hash_retry_after"))["first"]
