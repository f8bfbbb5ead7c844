"""Figures for Prometheus: read from the database when they are asked for, by whoever has an API token."""

from __future__ import annotations

import logging

from django.contrib.auth.decorators import login_not_required
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseNotAllowed
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from ninja.errors import HttpError
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from accounts.guarding import TokenAuth
from accounts.models import Role, User
from dedupfs_site.api_edge import as_answer, problem, stranger
from dedupfs_site.metric_collecting import Metrics, collect

logger = logging.getLogger(__name__)


class FromDatabase(Collector):
    """All of it is in the database, so no process keeps figures of its own."""

    def collect(self) -> Metrics:
        return collect()


#: Not the library's own, which would add figures of this one process.
registry = CollectorRegistry()
registry.register(FromDatabase())


@login_not_required
@never_cache
def metrics(request: HttpRequest) -> HttpResponseBase:
    refused = _refuse(request)
    if refused is not None:
        return refused
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    try:
        return HttpResponse(encode(registry), content_type=content_type)
    except (OperationalError, InterfaceError):
        logger.warning("Metrics: the database could not be asked", exc_info=True)
        return problem(503, _("The database can't be reached right now. Try again in a moment."))


def _refuse(request: HttpRequest) -> HttpResponse | None:
    """A stranger, a bad token, and a browser: what is read every few seconds for years needs no session."""
    try:
        if TokenAuth(Role.VIEWER)(request) is not None:
            return None
    except HttpError as error:
        return as_answer(error)
    words = _("Figures are for programs: send an API token as `Authorization: Bearer dfs_…`.")
    return problem(403, words) if isinstance(request.user, User) else stranger(words)
