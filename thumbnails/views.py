"""The pictures of files on pages: one by its key, all that a page has room for, and the file itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django.http import Http404, HttpRequest, HttpResponseBase, JsonResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from accounts.guarding import role_required
from accounts.models import Role
from libraries.models import LibraryFile
from thumbnails import admitting, serving
from thumbnails.admitting import SOURCE_MISSING, Asked, QueueFull
from thumbnails.keys import fingerprint, is_key
from thumbnails.models import Thumbnail
from thumbnails.original_answers import answer_original
from thumbnails.showing import DIMENSIONS, FORMAT, SMALL, why_words

#: Pictures that one request asks for.
MOST_FILES = 200
_KEY = re.compile(r"\d{1,18}", re.ASCII)


@require_safe
def content(request: HttpRequest, thumb_key: str) -> HttpResponseBase:
    """The picture of that key."""
    thumbnail = Thumbnail.objects.filter(thumb_key=thumb_key).first() if is_key(thumb_key) else None
    if thumbnail is None:
        raise Http404(_("There is no such thumbnail."))
    return serving.answer(request, thumbnail)


@require_safe
def of_file(request: HttpRequest, file_id: int) -> HttpResponseBase:
    """A file's picture for a page without JavaScript; as long as there is none, a drawing in its place."""
    dimension = _dimension(request.GET.get("size"))
    file = LibraryFile.objects.filter(pk=file_id).first()
    if file is None or dimension is None:
        raise Http404(_("There is no such file."))
    found, _is_full = _request([file], dimension)
    asked = found.get(file.pk)
    thumbnail = Thumbnail.objects.filter(thumb_key=asked.key).first() if asked and asked.status == "ready" else None
    if thumbnail is None:
        return serving.placeholder()
    response = serving.answer(request, thumbnail)
    # This address stands for whatever picture the file has at the time.
    response["Cache-Control"] = "private, no-cache"
    return response


@require_POST
@role_required(Role.VIEWER)
def ask(request: HttpRequest) -> JsonResponse:
    """For the tiles that somebody looks at: which pictures are there, which are on their way, and why some never come.

    What is not there yet is asked for. Where no more is taken at present, the answer says so, and the page asks again.
    """
    keys, dimension = request.POST.getlist("file"), _dimension(request.POST.get("size"))
    if not 0 < len(keys) <= MOST_FILES or not all(map(_KEY.fullmatch, keys)) or dimension is None:
        return JsonResponse({"detail": _("This asks for no pictures that there could be.")}, status=400)
    files = LibraryFile.objects.in_bulk(set(map(int, keys)))
    found, is_full = _request(list(files.values()), dimension)
    told = {key: _told(found.get(int(key)), is_known=int(key) in files) for key in keys}
    response = JsonResponse({"pictures": told, "is_full": is_full})
    response["Cache-Control"] = "no-store"
    return response


def _request(files: list[LibraryFile], dimension: int) -> tuple[Mapping[int, Asked], bool]:
    """What came of asking, and whether the queue was full before all were admitted."""
    groups = {file.pk: fingerprint(file) for file in files if file.content_hash is not None and not file.needs_hash}
    try:
        return admitting.request(files, group_keys=groups, max_dimension=dimension, format=FORMAT), False
    except QueueFull as full:
        return full.asked, True


def _told(asked: Asked | None, *, is_known: bool) -> dict[str, Any]:
    if not is_known:
        return {"status": "failed", "why": why_words(SOURCE_MISSING)}
    if asked is None or asked.status in (Thumbnail.Status.PENDING, Thumbnail.Status.RUNNING):
        return {"status": "waiting"}
    if asked.status == Thumbnail.Status.READY:
        address = reverse("thumbs:content", args=[asked.key])
        return {"status": "ready", "address": address, "width": asked.width, "height": asked.height}
    if asked.status == Thumbnail.Status.FAILED:
        return {"status": "failed", "why": why_words(asked.error_code)}
    return {"status": "none"}


def _dimension(text: str | None) -> int | None:
    """One of the sizes that pages have; None for any other."""
    return next((size for size in DIMENSIONS if str(size) == text), None) if text else SMALL


@require_safe
@role_required(Role.OPERATOR)
def original(request: HttpRequest, file_id: int) -> HttpResponseBase:
    """The file itself, as its disk has it now."""
    file = LibraryFile.objects.select_related("library").filter(pk=file_id).first()
    if file is None:
        raise Http404(_("There is no such file."))
    return answer_original(request, file)
