"""Rings for consumers: a message says only "look at this queue". The row is the truth; losing every message loses
nothing.
"""

from __future__ import annotations

import logging

from django.db import transaction

logger = logging.getLogger(__name__)


def ring(queue: str) -> None:
    """Tell a consumer to look at `queue`, once the caller's transaction is committed."""
    transaction.on_commit(lambda: _ring_now(queue))


def _ring_now(queue: str) -> None:
    from jobs.tasks import look

    try:
        look(queue)
    except Exception:
        # The sweep rings for whatever nobody rang for, so a lost message costs time, never work.
        logger.warning("The doorbell for %s could not be rung; the sweep will find it.", queue, exc_info=True)
