"""Answers for requests that are turned away; each says which setting would let them in."""

from __future__ import annotations

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse

PLAIN = "text/plain; charset=utf-8"


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form that came from elsewhere, or from an address this server doesn't know as its own."""
    origin = request.META.get("HTTP_ORIGIN", "")
    lines = ["This form was not sent from a page of this server, so nothing was done.", f"Reason: {reason}"]
    if origin.startswith("https:") and not request.is_secure():
        lines.append(
            f"You came by {origin}. If that is DedupFS behind a TLS proxy, set DEDUPFS_PUBLIC_URL={origin} and restart."
        )
    else:
        lines.append("Load the page again. If DedupFS is behind a proxy, add its address to DEDUPFS_TRUSTED_ORIGINS.")
    return HttpResponse("\n".join(lines) + "\n", status=403, content_type=PLAIN)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """`handler400`: most often a host name that isn't in the list."""
    if isinstance(exception, DisallowedHost):
        host = request.META.get("HTTP_HOST", "")[:200]
        text = (
            f"DedupFS doesn't answer to the name {host!r}.\n"
            "If it is right, add it to DEDUPFS_ALLOWED_HOSTS (a list separated by commas) and restart.\n"
        )
        return HttpResponse(text, status=400, content_type=PLAIN)
    return HttpResponse("This request can't be understood.\n", status=400, content_type=PLAIN)
