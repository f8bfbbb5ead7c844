"""The one door: every page asks for a login unless its view says otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

API_ROOT = "/api/"


class LoginOrTokenMiddleware(LoginRequiredMiddleware):
    """Pages send a stranger to the login; the API answers 401 by itself and takes tokens as well."""

    def process_view(
        self, request: HttpRequest, view_func: Callable[..., Any], view_args: Any, view_kwargs: Any
    ) -> HttpResponseBase | None:
        if request.path_info.startswith(API_ROOT) and getattr(view_func, "takes_tokens", True):
            return None
        return super().process_view(request, view_func, view_args, view_kwargs)


class FirstPasswordMiddleware:
    """Whoever still has the password made at set-up must choose one before anything else."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        user = request.user
        if user.is_authenticated and user.must_change_password:
            allowed = {reverse("accounts:password"), reverse("accounts:logout"), reverse("health")}
            if request.path not in allowed:
                return redirect("accounts:password")
        return self.get_response(request)
