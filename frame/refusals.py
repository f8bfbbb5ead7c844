"""Answers for requests that are turned away; each says which setting would let them in."""

from __future__ import annotations

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.request import split_domain_port

API_ROOT = "/api/"
#: Enough of a made-up header to be recognised.
SHOWN_CHARACTERS = 200


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form that came from elsewhere, or from an address this server doesn't know as its own."""
    return _answer(request, 403, csrf_words(request, reason))


def csrf_words(request: HttpRequest, reason: str = "") -> list[str]:
    words = ["This was not sent from a page of this server, so nothing was done."]
    words += [f"Reason: {reason}"] if reason else []
    return [*words, _csrf_advice(request)]


def _csrf_advice(request: HttpRequest) -> str:
    origin = request.META.get("HTTP_ORIGIN", "")[:SHOWN_CHARACTERS]
    if settings.CSRF_COOKIE_SECURE and not request.is_secure() and not origin.startswith("https:"):
        return (
            "DEDUPFS_PUBLIC_URL says https, so the login works by https only: open that address, "
            "or have the proxy send X-Forwarded-Proto."
        )
    if origin.startswith("https:") and not request.is_secure():
        return (
            f"You came by {origin}. If that is DedupFS behind a TLS proxy, "
            f"set DEDUPFS_PUBLIC_URL={origin} (with its sub-path, if it has one) and restart."
        )
    if origin not in ("", "null"):
        return (
            f"You came by {origin}. If DedupFS is reached by that address, add it to DEDUPFS_TRUSTED_ORIGINS "
            "(a list separated by commas) and restart; else load the page again."
        )
    return "Load the page again. If DedupFS is behind a proxy, add its address to DEDUPFS_TRUSTED_ORIGINS."


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """`handler400`: most often a host name that isn't in the list."""
    if isinstance(exception, DisallowedHost):
        return _answer(request, 400, _host_advice(request))
    return _answer(request, 400, ["This request can't be understood."])


def _host_advice(request: HttpRequest) -> list[str]:
    forwarded = request.META.get("HTTP_X_FORWARDED_HOST") if settings.USE_X_FORWARDED_HOST else None
    host = (forwarded or request.META.get("HTTP_HOST", ""))[:SHOWN_CHARACTERS]
    name, _ = split_domain_port(host)
    if not name:
        return [f"{host!r} can't be the name of a host."]
    return [
        f"DedupFS doesn't answer to the name {name!r}.",
        f"If it is right, set DEDUPFS_ALLOWED_HOSTS={name} (a list separated by commas) and restart.",
        "If DedupFS is behind a proxy, set DEDUPFS_PUBLIC_URL to the address that people type instead.",
    ]


def _answer(request: HttpRequest, status: int, lines: list[str]) -> HttpResponse:
    if request.path_info.startswith(API_ROOT):
        return JsonResponse({"detail": " ".join(lines)}, status=status)
    return HttpResponse("\n".join(lines) + "\n", status=status, content_type="text/plain; charset=utf-8")
