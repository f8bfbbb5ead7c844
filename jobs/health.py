"""Is the system well? One answer for load balancers, scripts and people.

It is open to strangers, so it holds no secrets.
"""

from __future__ import annotations

import logging
from typing import Literal

from django.contrib.auth.decorators import login_not_required
from django.db import Error
from django.http import HttpRequest, JsonResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from ninja import Schema

from database.clock import SecondsFromNow
from jobs.models import WorkerHeartbeat
from logbook.models import LogbookEvent, LogbookEventQuerySet

logger = logging.getLogger(__name__)

#: The event that a supervisor writes when it starts a consumer again after it died.
CONSUMER_RESTARTED = "consumer_restarted"
RESTARTS_WITHIN_SECONDS = 24 * 60 * 60


class Health(Schema):
    """`degraded` says that something needs a person; `detail` says what."""

    status: Literal["ok", "degraded"]
    detail: str
    database: Literal["reachable", "unreachable"]
    consumers_alive: int | None
    consumer_restarts_24h: int | None

    @property
    def http_status(self) -> int:
        return 200 if self.database == "reachable" else 503


def recent_restarts() -> LogbookEventQuerySet:
    """How consumers died and were started again in the last day, newest first."""
    return LogbookEvent.objects.filter(
        event_type=CONSUMER_RESTARTED,
        item_type="supervisor",
        created_at__gte=SecondsFromNow(-RESTARTS_WITHIN_SECONDS),
    )


def look_at_health() -> Health:
    """Ask the database; one that doesn't answer is an answer too."""
    try:
        alive = WorkerHeartbeat.objects.alive().count()
        restarts = recent_restarts().count()
    except Error:
        # What exactly is wrong may name hosts, users and paths: that is for the log, not for strangers.
        logger.warning("The database can't be asked for its health", exc_info=True)
        return Health(
            status="degraded",
            detail=_("The database can't be reached. The server's log says why."),
            database="unreachable",
            consumers_alive=None,
            consumer_restarts_24h=None,
        )
    return Health(
        status="ok" if alive else "degraded",
        detail=_describe(alive, restarts),
        database="reachable",
        consumers_alive=alive,
        consumer_restarts_24h=restarts,
    )


def _describe(alive: int, restarts: int) -> str:
    if alive:
        counted = ngettext("%(count)d consumer is alive.", "%(count)d consumers are alive.", alive)
        words = counted % {"count": alive}
    else:
        words = _("No consumer is alive, so background work waits: start DedupFS with `manage.py up`.")
    if restarts:
        again = ngettext(
            "In the last 24 hours a consumer died and was started again %(count)d time.",
            "In the last 24 hours consumers died and were started again %(count)d times.",
            restarts,
        )
        words = f"{words} {again % {'count': restarts}}"
    return words


@login_not_required
@never_cache
@require_safe
def health(_request: HttpRequest) -> JsonResponse:
    found = look_at_health()
    return JsonResponse(found.model_dump(), status=found.http_status)
