"""When a worker counts as alive: one answer for pages, health, `doctor` and `restore`."""

from __future__ import annotations

from django.conf import settings

#: A worker that let so many heartbeats pass is gone.
HEARTBEATS_MISSED = 3


def alive_within_seconds() -> int:
    """Whoever was seen within so many seconds is alive."""
    return HEARTBEATS_MISSED * int(settings.HEARTBEAT_SECONDS)
