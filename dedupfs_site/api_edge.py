"""What holds for every address of the API: errors are JSON, and what no database can store stays out."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import Http404, HttpRequest, HttpResponseBase, JsonResponse
from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext as _
from ninja.errors import HttpError
from ninja.parser import Parser

from accounts.guarding import caller_of

View = Callable[..., HttpResponseBase]
#: SQLite takes JSON up to 1,000 levels deep, Python's own stack about as much; nobody needs ten.
DEEPEST_JSON = 64


class UnusableBody(ValueError):
    """A body that isn't JSON, or holds what no database of ours can store; the message is for a person."""


class StrictParser(Parser):
    """JSON by the letter: a NUL character would make PostgreSQL fail, and NaN is no JSON."""

    def parse_body(self, request: HttpRequest) -> dict[str, Any]:
        try:
            body = json.loads(request.body.decode())
        except (ValueError, RecursionError):
            raise UnusableBody(_("The body can't be read as JSON.")) from None
        refuse_unstorable(body)
        return body  # type: ignore[no-any-return]

    def parse_querydict(
        self, data: MultiValueDict[str, Any], list_fields: list[str], request: HttpRequest
    ) -> dict[str, Any]:
        if any("\0" in value for values in data.lists() for value in values[1]):
            raise HttpError(422, _("The query holds a NUL character."))
        return super().parse_querydict(data, list_fields, request)


def refuse_unstorable(value: Any, depth: int = 0) -> None:
    if depth > DEEPEST_JSON:
        raise UnusableBody(_("The body is nested too deeply."))
    if isinstance(value, str):
        _refuse_text(value)
    elif isinstance(value, float) and not math.isfinite(value):
        raise UnusableBody(_("The body holds a number that is not finite."))
    elif isinstance(value, dict):
        for key, inner in value.items():
            _refuse_text(key)
            refuse_unstorable(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            refuse_unstorable(inner, depth + 1)


def _refuse_text(text: str) -> None:
    if "\0" in text:
        raise UnusableBody(_("The body holds a NUL character."))
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise UnusableBody(_("The body holds half a surrogate pair."))


def describe(errors: list[dict[str, Any]]) -> str:
    """What pydantic found, as one line: `worker_id: String should have at least 1 character`."""
    return "; ".join(f"{_place(error['loc'])}: {error['msg']}" for error in errors)


def _place(loc: tuple[Any, ...]) -> str:
    """`("body", "asked", "worker_id")` and `("query", "limit")` as the caller knows them: `worker_id`, `limit`."""
    inner = loc[2:] if loc[0] == "body" else loc[1:]
    return ".".join(str(part) for part in inner) or str(loc[0])


def problem(status: int, detail: str) -> JsonResponse:
    return JsonResponse({"detail": detail}, status=status)


def nowhere(request: HttpRequest, **_kwargs: Any) -> HttpResponseBase:
    """An address that the API doesn't have. A stranger isn't told even that."""
    if refused := refuse_stranger(request):
        return refused
    return problem(404, _("There is nothing at this address."))


nowhere.csrf_exempt = True  # type: ignore[attr-defined]  # sessions are checked by caller_of, tokens need none


def refuse_stranger(request: HttpRequest) -> JsonResponse | None:
    """The answer for somebody who may not even ask; None for a known caller."""
    try:
        return None if caller_of(request) else stranger()
    except HttpError as error:
        return as_answer(error)


def as_answer(error: HttpError) -> JsonResponse:
    if error.status_code == 401:
        return stranger("" if error.message == "Unauthorized" else error.message)
    return problem(error.status_code, error.message)


def stranger(detail: str = "") -> JsonResponse:
    response = problem(401, detail or _("Log in, or send an API token as `Authorization: Bearer dfs_…`."))
    response["WWW-Authenticate"] = "Bearer"
    return response


def at_the_edge(view: View) -> View:
    """Wrap a view of the API so that its 404 and 405 are JSON too, and no NUL in an address reaches it."""

    @wraps(view)
    def edge(request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        if any("\0" in str(value) for value in kwargs.values()):
            return nowhere(request)
        try:
            response = view(request, **kwargs)
        except Http404:
            return nowhere(request)
        if response.status_code == 405:
            return _refuse_method(request, response)
        # Rows move all the time: an answer is kept nowhere unless its view says otherwise.
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    return edge


def _refuse_method(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    refused = nowhere(request)
    if refused.status_code != 404:
        return refused
    allowed = ", ".join(sorted(response["Allow"].split(", ")))
    answer = problem(405, _("This address takes only %(methods)s.") % {"methods": allowed})
    answer["Allow"] = allowed
    return answer
