"""The one door: every page asks for a login unless its view says otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.urls import ResolverMatch, reverse
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

from accounts.guarding import SAFE_METHODS, person, refusal, role_for
from accounts.models import Role, User

View = Callable[..., HttpResponseBase]

#: Django's admin brings doors of its own; ours count the attempts and write the logbook.
REPLACED_IN_ADMIN = {
    "login": "accounts:login",
    "password_change": "accounts:password",
    "password_change_done": "accounts:password",
}
#: What somebody who must choose a password first may still reach.
OPEN_BEFORE_FIRST_PASSWORD = frozenset({"accounts:password", "accounts:logout", "health"})


class Doorway:
    """Middleware that looks at a request once it is known where it goes."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)


class LoginOrTokenMiddleware(Doorway):
    """Pages send a stranger to the login; the API asks for itself, since it takes tokens as well.

    A viewer's form is refused here unless its view says `role_required(Role.VIEWER)`; none can forget it.
    """

    def process_view(self, request: HttpRequest, view: View, *_: Any) -> HttpResponseBase | None:
        match = _match(request)
        is_admin = match.app_name == "admin"
        if "ninja" in match.app_names:
            return None
        if not is_admin and not getattr(view, "login_required", True):
            return None
        if not request.user.is_authenticated:
            return _send_to_login(request)
        needed = Role.OPERATOR if is_admin else getattr(view, "needed_role", role_for(request.method))
        if not person(request).may(needed):
            raise PermissionDenied(refusal(needed))
        if is_admin and match.url_name in REPLACED_IN_ADMIN:
            return redirect(REPLACED_IN_ADMIN[match.url_name])
        return None


class FirstPasswordMiddleware(Doorway):
    """Whoever still has a password that was made for them must choose one before anything else.

    The API refuses such a session itself, with its own words.
    """

    def process_view(self, request: HttpRequest, *_: Any) -> HttpResponseBase | None:
        match = _match(request)
        if "ninja" in match.app_names or match.view_name in OPEN_BEFORE_FIRST_PASSWORD:
            return None
        if not (isinstance(request.user, User) and request.user.must_change_password):
            return None
        return _go(request, reverse("accounts:password"))


def _match(request: HttpRequest) -> ResolverMatch:
    """Where the request goes; there is always a place once `process_view` is called."""
    assert request.resolver_match is not None
    return request.resolver_match


def _send_to_login(request: HttpRequest) -> HttpResponseBase:
    return _go(request, redirect_to_login(_page_to_return_to(request), reverse("accounts:login")).url)


def _page_to_return_to(request: HttpRequest) -> str:
    """For a fragment the page that asked for it; for a form, which is lost anyway, the start."""
    htmx: HtmxDetails = request.htmx  # type: ignore[attr-defined]
    if htmx:
        return htmx.current_url_abs_path or reverse("home")
    return request.get_full_path() if request.method in SAFE_METHODS else reverse("home")


def _go(request: HttpRequest, url: str) -> HttpResponseBase:
    """HTMX would follow a redirect and put that page inside the one shown, so it is told to go there."""
    if request.htmx:  # type: ignore[attr-defined]
        return HttpResponseClientRedirect(url)
    return redirect(url)
