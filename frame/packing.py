"""Pages are sent compressed: a list of fifty rows is ten times as long otherwise."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware


class PageGZipMiddleware(GZipMiddleware):
    """Pages and fragments only. What streams (exports, originals with their ranges) goes out as it is, and so do
    pictures, which are compressed already. Django adds random bytes, so that nobody guesses
    a secret by the length of an answer."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        is_page = isinstance(response, HttpResponse) and response.get("Content-Type", "").startswith("text/html")
        return super().process_response(request, response) if is_page else response
