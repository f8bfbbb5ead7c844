"""How a thumbnail is handed out, the same by page and by API."""

from __future__ import annotations

import logging
import os
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.template.loader import render_to_string
from django.utils.cache import get_conditional_response
from django.utils.http import quote_etag

from thumbnails.admitting import repair
from thumbnails.keys import is_of_now, place_of
from thumbnails.models import Thumbnail
from thumbnails.store import OutsideRoot, open_picture
from thumbnails.touching import touch

logger = logging.getLogger(__name__)

CONTENT_TYPES = {"jpeg": "image/jpeg", "webp": "image/webp"}
#: A key names one version of one file in one form: what is behind it never changes.
FOR_EVER = "private, max-age=31536000, immutable"
#: When to look again for a picture that is being made.
AGAIN_SECONDS = 2


def answer(request: HttpRequest, thumbnail: Thumbnail) -> HttpResponseBase:
    """The picture; a neutral one in its place with 202 while it is made, with 404 where it can't be made, and with 503
    where the disk of the thumbnails fails.

    A picture that is gone from the disk is made again, unless its file is another by now.
    """
    if thumbnail.status == Thumbnail.Status.FAILED:
        return placeholder(404)
    if thumbnail.status != Thumbnail.Status.READY:
        return waiting()
    etag = quote_etag(thumbnail.thumb_key)
    known = get_conditional_response(request, etag=etag)
    if known is not None and known.status_code != HTTPStatus.NOT_MODIFIED:
        return known
    if known is not None:
        touch([thumbnail])
        return _for_ever(known, etag)
    try:
        data = _read(thumbnail)
    except OSError:
        logger.exception("The picture of thumbnail %s can't be read", thumbnail.thumb_key)
        return placeholder(503)
    if data is None:
        return waiting() if repair(thumbnail) or is_of_now(thumbnail) else placeholder(404)
    touch([thumbnail])
    return _for_ever(HttpResponse(data, content_type=CONTENT_TYPES[thumbnail.format]), etag)


def waiting() -> HttpResponse:
    response = placeholder(202)
    response["Retry-After"] = str(AGAIN_SECONDS)
    return response


def placeholder(status: int = 200) -> HttpResponse:
    """A drawing where a picture would be; it is never kept."""
    drawing = render_to_string("thumbnails/placeholder.svg")
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return HttpResponse(drawing, content_type="image/svg+xml", status=status, headers=headers)


def _for_ever(response: HttpResponseBase, etag: str) -> HttpResponseBase:
    response["ETag"] = etag
    response["Cache-Control"] = FOR_EVER
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _read(thumbnail: Thumbnail) -> bytes | None:
    """The encoded picture; None where it is gone, or not as long as it was written."""
    try:
        with os.fdopen(open_picture(place_of(thumbnail), thumbnail.bytes_size), "rb") as file:
            return file.read()
    except (FileNotFoundError, OutsideRoot) as error:
        logger.warning("The picture of thumbnail %s is gone: %s", thumbnail.thumb_key, error)
        return None
