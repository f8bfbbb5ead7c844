"""Answers for requests that are turned away; each says which setting would let them in."""

from __future__ import annotations

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.request import split_domain_port
from django.utils.translation import gettext as _

API_ROOT = "/api/"
#: Enough of a made-up header to be recognised.
SHOWN_CHARACTERS = 200


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form that came from elsewhere, or from an address this server doesn't know as its own."""
    return _answer(request, 403, csrf_words(request, reason))


def csrf_words(request: HttpRequest, reason: str = "") -> list[str]:
    words = [_("This was not sent from a page of this server, so nothing was done.")]
    words += [_("Reason: %(reason)s") % {"reason": reason}] if reason else []
    return [*words, _csrf_advice(request)]


def _csrf_advice(request: HttpRequest) -> str:
    origin = request.META.get("HTTP_ORIGIN", "")[:SHOWN_CHARACTERS]
    if settings.CSRF_COOKIE_SECURE and not request.is_secure() and not origin.startswith("https:"):
        return _(
            "DEDUPFS_PUBLIC_URL says https, so the login works by https only: open that address, "
            "or have the proxy send X-Forwarded-Proto."
        )
    if origin.startswith("https:") and not request.is_secure():
        words = _(
            "You came by %(origin)s. If that is DedupFS behind a TLS proxy, "
            "set DEDUPFS_PUBLIC_URL=%(origin)s (with its sub-path, if it has one) and restart."
        )
        return words % {"origin": origin}
    if origin not in ("", "null"):
        words = _(
            "You came by %(origin)s. If DedupFS is reached by that address, add it to DEDUPFS_TRUSTED_ORIGINS "
            "(a list separated by commas) and restart; else load the page again."
        )
        return words % {"origin": origin}
    return _("Load the page again. If DedupFS is behind a proxy, add its address to DEDUPFS_TRUSTED_ORIGINS.")


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """`handler400`: most often a host name that isn't in the list."""
    if isinstance(exception, DisallowedHost):
        return _answer(request, 400, _host_advice(request))
    return _answer(request, 400, [_("This request can't be understood.")])


def _host_advice(request: HttpRequest) -> list[str]:
    forwarded = request.META.get("HTTP_X_FORWARDED_HOST") if settings.USE_X_FORWARDED_HOST else None
    host = (forwarded or request.META.get("HTTP_HOST", ""))[:SHOWN_CHARACTERS]
    name, _port = split_domain_port(host)
    if not name:
        return [_("%(host)s can't be the name of a host.") % {"host": repr(host)}]
    return [
        _("DedupFS doesn't answer to the name %(name)s.") % {"name": repr(name)},
        _("If it is right, set DEDUPFS_ALLOWED_HOSTS=%(name)s (a list separated by commas) and restart.")
        % {"name": name},
        _("If DedupFS is behind a proxy, set DEDUPFS_PUBLIC_URL to the address that people type instead."),
    ]


def _answer(request: HttpRequest, status: int, lines: list[str]) -> HttpResponse:
    if request.path_info.startswith(API_ROOT):
        return JsonResponse({"detail": " ".join(lines)}, status=status)
    return HttpResponse("\n".join(lines) + "\n", status=status, content_type="text/plain; charset=utf-8")
