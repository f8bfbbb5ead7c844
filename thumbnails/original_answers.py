"""How a file itself is handed out: in parts, and so that nothing in it can ever act as a page of ours."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import render
from django.utils.cache import get_conditional_response

from libraries.models import LibraryFile
from thumbnails import ranges
from thumbnails.content_types import handing_of
from thumbnails.originals import Original, OriginalError, TooMany, open_original
from thumbnails.ranges import Span

#: No script, no form, no frame; only what a browser itself puts around a picture or a video.
_POLICY = (
    "default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
POLICY = f"sandbox; {_POLICY}"
#: A player fetches its file a second time, and without an origin it may not. There is still no script to use it.
PLAYER_POLICY = f"sandbox allow-same-origin; {_POLICY}"
#: A connection over which nothing has gone for so long is given up: its thread and its process are wanted elsewhere.
STALLED_SECONDS = 120.0
AGAIN_SECONDS = 5


def answer_original(request: HttpRequest, file: LibraryFile) -> HttpResponseBase:
    """The file or the part that was asked for, as its disk has it now; a page that says why where it can't be."""
    try:
        original = open_original(file)
    except OriginalError as error:
        return _failed(request, file, error)
    try:
        response = _answer(request, original, file)
    except BaseException:
        original.close()
        raise
    if not response.streaming:
        original.close()
    return response


def _answer(request: HttpRequest, original: Original, file: LibraryFile) -> HttpResponseBase:
    known = get_conditional_response(request, etag=original.etag)
    if known is not None:
        return _dressed(known, original, file)
    try:
        # There are no parts of what has no body.
        span = ranges.asked_for(request.headers, original.size, original.etag) if request.method == "GET" else None
    except ranges.NotThere:
        response = HttpResponse(status=416, headers={"Content-Range": f"bytes */{original.size}"})
        return _dressed(response, original, file)
    chosen = span or Span(0, original.size)
    body: HttpResponse | StreamingHttpResponse
    if request.method == "HEAD":
        body = HttpResponse()
    else:
        original.choose(chosen)
        _give_up_when_stalled(request)
        body = StreamingHttpResponse(original)
    body["Content-Length"] = str(chosen.length)
    if span is not None:
        body.status_code = 206
        body["Content-Range"] = span.content_range(original.size)
    return _dressed(body, original, file)


def _dressed(response: HttpResponseBase, original: Original, file: LibraryFile) -> HttpResponseBase:
    handing = handing_of(file.relative_path)
    response["Content-Type"] = handing.content_type
    response["Content-Disposition"] = handing.disposition
    is_played = handing.content_type.startswith(("video/", "audio/"))
    response["Content-Security-Policy"] = PLAYER_POLICY if is_played else POLICY
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "private, no-cache"
    response["Accept-Ranges"] = "bytes"
    response["ETag"] = original.etag
    # A browser opens nothing that is sandboxed and asks for a window of its own at once, as our pages do.
    response["Cross-Origin-Opener-Policy"] = "unsafe-none"
    return response


def _give_up_when_stalled(request: HttpRequest) -> None:
    """A video that somebody paused holds its connection, and with it a thread. The browser asks again when it needs
    more. (gunicorn makes the socket wait without end again before its next request.)"""
    connection = request.META.get("gunicorn.socket")
    if connection is not None:
        connection.settimeout(STALLED_SECONDS)


def _failed(request: HttpRequest, file: LibraryFile, error: OriginalError) -> HttpResponse:
    context = {"path": file.relative_path, "library": file.library, "why": str(error)}
    response = render(request, "thumbnails/original_failed.html", context, status=error.status)
    if isinstance(error, TooMany):
        response["Retry-After"] = str(AGAIN_SECONDS)
    return response
