"""Which files have pictures, by their names. Nothing here opens a file, or loads a decoder."""

from __future__ import annotations

import logging
import subprocess
import sys
from functools import cache
from typing import NamedTuple

from django.conf import settings

logger = logging.getLogger(__name__)
#: The question takes a third of a second; a machine that is busy starting up may take longer.
ASKING_SECONDS = 60


class Media(NamedTuple):
    media_type: str
    content_type: str
    extension: str


#: By extension: what decodes it (see `thumbnails.codecs`), and what it is.
KINDS = {
    "jpg": ("jpeg", "image", "image/jpeg"),
    "jpeg": ("jpeg", "image", "image/jpeg"),
    "jpe": ("jpeg", "image", "image/jpeg"),
    "jfif": ("jpeg", "image", "image/jpeg"),
    "png": ("png", "image", "image/png"),
    "gif": ("gif", "image", "image/gif"),
    "webp": ("webp", "image", "image/webp"),
    "bmp": ("bmp", "image", "image/bmp"),
    "tif": ("tiff", "image", "image/tiff"),
    "tiff": ("tiff", "image", "image/tiff"),
    "heic": ("heif", "image", "image/heic"),
    "heif": ("heif", "image", "image/heif"),
    "hif": ("heif", "image", "image/heif"),
    "avif": ("avif", "image", "image/avif"),
    "mp4": ("mov", "video", "video/mp4"),
    "m4v": ("mov", "video", "video/x-m4v"),
    "mov": ("mov", "video", "video/quicktime"),
    "mkv": ("matroska", "video", "video/x-matroska"),
    "webm": ("webm", "video", "video/webm"),
    "avi": ("avi", "video", "video/x-msvideo"),
    "mpg": ("mpeg", "video", "video/mpeg"),
    "mpeg": ("mpeg", "video", "video/mpeg"),
    "wmv": ("asf", "video", "video/x-ms-wmv"),
}


def media_of(name: str | bytes) -> Media | None:
    """What a file of that name is; None where no picture of it can be made on this machine."""
    text = name.decode("ascii", "replace") if isinstance(name, bytes) else name
    stem, _, extension = text.rpartition("/")[2].rpartition(".")
    found = KINDS.get(extension.lower())
    if found is None or not stem:
        return None
    kind, media_type, content_type = found
    return Media(media_type, content_type, extension.lower()) if kind in decodable() else None


@cache
def decodable() -> frozenset[str]:
    """What the libraries on this machine can decode. They are asked once, when the first file has a promising name."""
    command = [sys.executable, "-m", "thumbnails.codecs"]
    asked = subprocess.run(
        command, cwd=settings.BASE_DIR, capture_output=True, text=True, check=False, timeout=ASKING_SECONDS
    )
    if asked.returncode:
        # What was answered before it ended still holds.
        logger.error("Not all decoders could be asked (%s): %s", asked.returncode, asked.stderr.strip()[-500:])
    return frozenset(asked.stdout.split())
