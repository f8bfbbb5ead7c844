"""Somebody knocks: where from, and what they are told after too many wrong passwords (for django-axes)."""

from __future__ import annotations

import ipaddress
import math
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import ngettext

from accounts.models import User


def client_address(request: HttpRequest) -> str | None:
    """Where the knock comes from. Of what a proxy forwards, only the last entry is its own word."""
    peer: str | None = request.META.get("REMOTE_ADDR") or None
    if not settings.TRUST_PROXY_HEADERS:
        return peer
    forwarded = request.META.get("HTTP_X_FORWARDED_FOR", "").rpartition(",")[2].strip()
    return forwarded if _is_address(forwarded) else peer


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def locked(request: HttpRequest, _: HttpResponse | None, credentials: dict[str, Any]) -> HttpResponse:
    """The page after too many wrong passwords, in place of the login's own answer."""
    username = credentials.get("username") or ""
    if getattr(request, "axes_failures_since_start", None):  # unset where the door was locked before
        _write_lockout(request, username)
    seconds = math.ceil(settings.AXES_COOLOFF_TIME.total_seconds())
    context = {"username": username, "wait": _minutes(seconds), "limit": settings.AXES_FAILURE_LIMIT}
    page = render(request, "accounts/locked.html", context, status=429)
    page.headers["Retry-After"] = str(seconds)
    return page


def _write_lockout(request: HttpRequest, username: str) -> None:
    """Only for people we know: a stranger must not be able to fill the logbook with names."""
    user = User.objects.filter(username=username).first()
    if user is not None:
        user.write("locked_out", None, address=client_address(request))


def _minutes(seconds: float) -> str:
    minutes = math.ceil(seconds / 60)
    return ngettext("%(count)d minute", "%(count)d minutes", minutes) % {"count": minutes}
