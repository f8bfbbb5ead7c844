"""Thumbnails as pages show them: which picture stands for a content, and why there is none."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from thumbnails.admitting import SOURCE_MISSING, ready
from thumbnails.formats import media_of
from thumbnails.models import Thumbnail
from thumbnails.touching import touch

#: The longer side: in a row, and where there is one picture on the page. Each for screens of double density.
SMALL, LARGE = 320, 640
DIMENSIONS = (SMALL, LARGE)
FORMAT = Thumbnail.Format.WEBP.value
WHY = {
    "THUMB_DECODE_FAILED": gettext_noop("It can't be decoded: it is damaged, or not what its name says."),
    "THUMB_VIDEO_FFMPEG_FAILED": gettext_noop("No frame of the video can be decoded."),
    "THUMB_TIMED_OUT": gettext_noop("Reading it took too long."),
    "THUMB_TOO_LARGE": gettext_noop("It has too many pixels."),
    "THUMB_OUT_OF_MEMORY": gettext_noop("Decoding it takes too much memory."),
    SOURCE_MISSING: gettext_noop("The file is not there any more."),
    "THUMB_SOURCE_CHANGED": gettext_noop("The file changed since the last scan."),
    "THUMB_SOURCE_UNREADABLE": gettext_noop("The file can't be read."),
    "THUMB_SOURCE_UNREACHABLE": gettext_noop("The disk of its library doesn't answer."),
    "THUMB_PATH_POLICY_REJECTED": gettext_noop("The file is not where the last scan found it."),
}
SOMETHING_WENT_WRONG = gettext_noop("No picture could be made of it.")

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Picture:
    """What a tile shows of one content."""

    #: The file of which a picture is asked for.
    file_id: int
    dimension: int
    #: What can be shown at once: the picture itself, or a smaller one until it is there.
    thumbnail: Thumbnail | None
    is_whole: bool


def pictures(files: Mapping[K, Sequence[tuple[int, str]]], dimension: int = SMALL) -> dict[K, Picture]:
    """A picture for each content, of whose files some are given as (id, path): the first is the one to ask for, but
    that of any other will do. In at most two queries, and now and then a note that they were looked at; contents that
    no picture can be made of are not in the answer."""
    able = {key: [file_id for file_id, path in some if media_of(path)] for key, some in files.items()}
    every = [file_id for some in able.values() for file_id in some]
    whole = ready(every, dimension, FORMAT) if every else {}
    smaller = ready(every, SMALL, FORMAT) if len(whole) < len(every) and dimension > SMALL else {}
    found = {key: _picture(some, dimension, whole, smaller) for key, some in able.items() if some}
    # A browser that has a picture never asks for it again: this is the only sign that it is looked at.
    touch(picture.thumbnail for picture in found.values() if picture.thumbnail)
    return found


def _picture(
    files: list[int], dimension: int, whole: Mapping[int, Thumbnail], smaller: Mapping[int, Thumbnail]
) -> Picture:
    for found in (whole, smaller):
        for file_id in files:
            if file_id in found:
                return Picture(file_id, dimension, found[file_id], found is whole)
    return Picture(files[0], dimension, None, False)


def why_words(error_code: str | None) -> str:
    """Why there is no picture, as a person reads it."""
    return _(WHY.get(error_code or "", SOMETHING_WENT_WRONG))
