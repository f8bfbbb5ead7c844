"""Who stands before the door, and whether their role opens it: the same rule for pages and for the API.

What changes something needs at least an operator unless its view says otherwise: a forgotten guard refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase
from django.utils.translation import gettext as _
from ninja.errors import AuthenticationError, HttpError
from ninja.operation import Operation
from ninja.security.base import AuthBase
from ninja.utils import check_csrf, contribute_operation_callback

from accounts.models import ApiToken, Role, User
from frame.refusals import csrf_words

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
#: What `LogbookEvent.actor` holds.
ACTOR_CHARACTERS = 150

P = ParamSpec("P")
R = TypeVar("R", bound=HttpResponseBase)
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Caller:
    """Whoever sent an API request: a person by their session, or one of their tokens."""

    user: User
    token: ApiToken | None = None

    @property
    def name(self) -> str:
        """As the logbook's actor: "vera", or "vera via token backup-script"."""
        name = f"{self.user.username} via token {self.token.name}" if self.token else self.user.username
        return name[:ACTOR_CHARACTERS]

    def may(self, needed: Role) -> bool:
        return self.token.may(needed) if self.token else self.user.may(needed)

    @property
    def may_authorise(self) -> bool:
        """Acting on files is for admins, and for those of their tokens that were given the right to."""
        return self.may(Role.ADMIN) and (self.token is None or self.token.may_authorise)


class ApiRequest(HttpRequest):
    """What an API operation gets (for annotations): a request whose caller is known."""

    auth: Caller


def person(request: HttpRequest) -> User:
    """The user of a page's request; the middleware has seen to it that there is one."""
    if not isinstance(request.user, User):
        raise PermissionDenied
    return request.user


def role_for(method: str | None) -> Role:
    """What a request needs where its view doesn't say."""
    return Role.VIEWER if method in SAFE_METHODS else Role.OPERATOR


def refusal(needed: Role) -> str:
    return _("This needs the role %(role)s.") % {"role": needed.label}


def right_refusal() -> str:
    return _(
        "This token may not authorise acting on files. Do it in the browser, or make a token with that right there."
    )


# --- Pages ------------------------------------------------------------------------------------------------
def role_required(
    role: Role,
) -> Callable[[Callable[Concatenate[HttpRequest, P], R]], Callable[Concatenate[HttpRequest, P], R]]:
    """A page for people with at least this role. `Role.VIEWER` also lets viewers send the page's forms."""

    def decorate(view: Callable[Concatenate[HttpRequest, P], R]) -> Callable[Concatenate[HttpRequest, P], R]:
        @wraps(view)
        def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> R:
            if not person(request).may(role):
                raise PermissionDenied(refusal(role))
            return view(request, *args, **kwargs)

        guarded.needed_role = role  # type: ignore[attr-defined]  # read by LoginOrTokenMiddleware
        return guarded

    return decorate


# --- The API ----------------------------------------------------------------------------------------------
def _admit(request: HttpRequest, caller: Caller, needed: Role | None, *, authorises: bool) -> Caller:
    needed = needed or role_for(request.method)
    if not caller.may(needed):
        raise HttpError(403, refusal(needed))
    if authorises and not caller.may_authorise:
        raise HttpError(403, right_refusal())
    return caller


class TokenAuth(AuthBase):
    """`Authorization: Bearer dfs_…`. (Ninja's own class writes a header it doesn't understand into the log.)"""

    openapi_type: str = "http"
    openapi_scheme: str = "bearer"

    def __init__(self, needed: Role | None = None, *, authorises: bool = False) -> None:
        super().__init__()
        self.needed, self.authorises = needed, authorises

    def __call__(self, request: HttpRequest) -> Caller | None:
        """A token that opens nothing ends the matter: the session beside it isn't asked."""
        scheme, _space, secret = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        found = ApiToken.objects.for_secret(secret.strip())
        if found is None:
            raise AuthenticationError(message=_("This token is unknown, revoked, or its owner is deactivated."))
        found.note_use()
        return _admit(request, Caller(found.user, found), self.needed, authorises=self.authorises)


class BrowserAuth(AuthBase):
    """The session of somebody who is logged in; what changes something must also pass the CSRF check."""

    openapi_type: str = "apiKey"
    openapi_in: str = "cookie"
    openapi_name: str = "dedupfs_session"
    #: Read by ninja's page of the API: its requests then carry the CSRF token.
    csrf = True

    def __init__(self, needed: Role | None = None, *, authorises: bool = False) -> None:
        super().__init__()
        self.needed, self.authorises = needed, authorises

    def __call__(self, request: HttpRequest) -> Caller | None:
        user = request.user
        if not isinstance(user, User):
            return None
        if check_csrf(request) is not None:
            raise HttpError(403, " ".join(csrf_words(request)))
        if user.must_change_password:
            raise HttpError(403, _("Choose a password of your own first: log in and follow the page."))
        return _admit(request, Caller(user), self.needed, authorises=self.authorises)


def _auth(needed: Role | None = None, *, authorises: bool = False) -> list[AuthBase]:
    return [TokenAuth(needed, authorises=authorises), BrowserAuth(needed, authorises=authorises)]


#: For `NinjaAPI(auth=…)`. Operations without `needs` take every role for reading and operators for the rest.
api_auth = _auth()


def needs(role: Role, *, authorises: bool = False) -> Callable[[F], F]:
    """What an API operation needs; written below `@router.post(…)`. One that `authorises` also needs that right.

    It is part of the authentication: whoever may not act learns that (403) before their input is looked at.
    """

    def guard(operation: Operation) -> None:
        operation.auth_param = auth = _auth(role, authorises=authorises)
        operation._set_auth(auth)

    def decorate(function: F) -> F:
        if hasattr(function, "_ninja_operation"):
            raise TypeError(f"@needs({role}) belongs below the line that makes {function.__name__} an operation")
        contribute_operation_callback(function, guard)
        return function

    return decorate


def caller_of(request: HttpRequest) -> Caller | None:
    """Who sent this, by token or session, for views of the API that ninja doesn't guard itself.

    Raises `HttpError` for a bad token or a session that may not go on.
    """
    for ask in api_auth:
        if caller := ask(request):
            return cast(Caller, caller)
    return None
