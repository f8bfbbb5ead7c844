"""Which acts the trash's page follows: what takes files out of it or brings them there now, and what lately ended."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Q

from database.clock import SecondsFromNow
from trash.models import Act
from trash.showing import LOST, PAUSED, WAITS, ShownAct, as_shown, shown

#: So long an act that has ended is told of.
RECENT_SECONDS = 900
MOST_ACTS = 10
MOST_ENDED = 2


def read_leaving() -> list[ShownAct]:
    """What lives, and the last that took files out a short time ago; the newest first."""
    lately = Q(finished_at__gte=SecondsFromNow(-RECENT_SECONDS)) & ~Q(verb=Act.Verb.ACT)
    acts = Act.objects.filter(Q(status__in=Act.LIVING) | lately)
    found = as_shown(list(shown(acts).order_by("-pk")[:MOST_ACTS]))
    ended = [act for act in found if not act.is_live][:MOST_ENDED]
    return [act for act in found if act.is_live] + ended


def asks_every(acts: Sequence[ShownAct]) -> str:
    """How often to ask again: often while one is at work, seldom while all wait, never otherwise."""
    phases = [act.phase for act in acts if act.is_live]
    if not phases:
        return ""
    return "5s" if all(phase in (WAITS, LOST, PAUSED) for phase in phases) else "2s"
