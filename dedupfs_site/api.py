"""The JSON API, version 1: each room brings its own router."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponseBase
from django.urls import URLPattern, URLResolver, path
from django.utils.translation import gettext as _
from ninja import NinjaAPI, Status
from ninja.errors import HttpError, ValidationError
from ninja.openapi.views import openapi_view

from accounts.guarding import api_auth
from dedupfs_site.api_edge import (
    StrictParser,
    UnusableBody,
    as_answer,
    at_the_edge,
    describe,
    nowhere,
    problem,
    refuse_stranger,
)
from duplicates.api import router as duplicates_router
from duplicates.plan_api import router as plans_router
from jobs.api import router as jobs_router
from jobs.errors import LeaseLost, Refused
from jobs.health import Health, look_at_health
from jobs.wal_api import router as wal_router
from libraries.api import router as libraries_router
from libraries.errors import NotThere
from libraries.queue_api import router as scan_requests_router
from libraries.queue_api import scan_router
from thumbnails.api import router as thumbs_router
from trash.api import router as acts_router

logger = logging.getLogger(__name__)
DESCRIPTION = """Everything but `/health` needs a login or an API token (`Authorization: Bearer dfs_…`).
Reading needs the role viewer, everything else operator.
Errors are `{"detail": "…"}`. Times are UTC and end in `Z`."""


class Api(NinjaAPI):
    """Ninja's API, with addresses that answer in JSON whatever is asked of them."""

    @property
    def urls(self) -> tuple[list[URLResolver | URLPattern], str, str]:
        patterns, app_name, namespace = super().urls
        for pattern in patterns:
            if isinstance(pattern, URLPattern):
                pattern.callback = at_the_edge(pattern.callback)
        return [*patterns, path("<path:rest>", nowhere)], app_name, namespace


def for_callers(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """The API's description is for those who may use it; a stranger's browser goes to the login."""
    is_page = getattr(view, "func", None) is openapi_view

    @wraps(view)
    def guarded(request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        refused = refuse_stranger(request)
        if refused is None:
            return view(request, **kwargs)
        if is_page and refused.status_code == 401:
            return redirect_to_login(request.get_full_path())
        return refused

    return guarded


api = Api(
    title="DedupFS",
    version="1",
    description=DESCRIPTION,
    urls_namespace="api",
    auth=api_auth,
    docs_decorator=for_callers,
    parser=StrictParser(),
)


@api.exception_handler(HttpError)
def _refused_by_http(_request: HttpRequest, error: HttpError) -> HttpResponseBase:
    if isinstance(error.__cause__, UnusableBody):
        return problem(422, str(error.__cause__))
    return as_answer(error)


@api.exception_handler(ValidationError)
def _not_as_described(_request: HttpRequest, error: ValidationError) -> HttpResponseBase:
    return problem(422, describe(error.errors))


@api.exception_handler(RequestDataTooBig)
def _too_big(_request: HttpRequest, _error: RequestDataTooBig) -> HttpResponseBase:
    return problem(413, _("The body is too large."))


@api.exception_handler(Refused)
@api.exception_handler(LeaseLost)
def _refused_by_state(_request: HttpRequest, error: Refused | LeaseLost) -> HttpResponseBase:
    return problem(409, str(error))


@api.exception_handler(NotThere)
def _not_there(_request: HttpRequest, error: NotThere) -> HttpResponseBase:
    return problem(404, str(error))


@api.exception_handler(OperationalError)
@api.exception_handler(InterfaceError)
def _database_away(request: HttpRequest, error: Exception) -> HttpResponseBase:
    logger.error("%s %s: the database could not be asked", request.method, request.path, exc_info=error)
    answer = problem(503, _("The database can't be reached right now. Try again in a moment."))
    answer["Retry-After"] = "5"
    return answer


@api.exception_handler(Exception)
def _broken(request: HttpRequest, error: Exception) -> HttpResponseBase:
    logger.error("%s %s failed", request.method, request.path, exc_info=error)
    return problem(500, _("Something went wrong in the server. Its log says what."))


@api.get(
    "/health",
    auth=None,
    response={200: Health, 503: Health},
    summary="Is the system well?",
    tags=["health"],
)
def health(request: HttpRequest) -> Status[Health]:  # noqa: ARG001  ninja's signature
    """Open to everybody; also answered at `/health` outside the API."""
    found = look_at_health()
    return Status(found.http_status, found)


api.add_router("/jobs", jobs_router)
api.add_router("/duplicates", duplicates_router)
api.add_router("/plans", plans_router)
api.add_router("/libraries", scan_router)
api.add_router("/scan-requests", scan_requests_router)
api.add_router("/libraries", libraries_router)
api.add_router("/thumbs", thumbs_router)
api.add_router("/maintenance/wal", wal_router)
api.add_router("", acts_router)
