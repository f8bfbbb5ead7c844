"""Which files have pictures, by their names. Nothing here opens a file, or loads a decoder."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from threading import Lock
from typing import NamedTuple

from django.conf import settings

logger = logging.getLogger(__name__)
#: The question takes a third of a second; a machine that is busy starting up may take longer, but a page waits for it.
ASKING_SECONDS = 10
#: Where not all of them answered, they are asked again after so long.
AGAIN_SECONDS = 60


#: By extension: what decodes it (see `thumbnails.codecs`), and what it is.
KINDS = {
    "jpg": ("jpeg", "image"),
    "jpeg": ("jpeg", "image"),
    "jpe": ("jpeg", "image"),
    "jfif": ("jpeg", "image"),
    "png": ("png", "image"),
    "gif": ("gif", "image"),
    "webp": ("webp", "image"),
    "bmp": ("bmp", "image"),
    "tif": ("tiff", "image"),
    "tiff": ("tiff", "image"),
    "heic": ("heif", "image"),
    "heif": ("heif", "image"),
    "hif": ("heif", "image"),
    "avif": ("avif", "image"),
    "mp4": ("mov", "video"),
    "m4v": ("mov", "video"),
    "mov": ("mov", "video"),
    "mkv": ("matroska", "video"),
    "webm": ("webm", "video"),
    "avi": ("avi", "video"),
    "mpg": ("mpeg", "video"),
    "mpeg": ("mpeg", "video"),
    "wmv": ("asf", "video"),
}


def media_of(name: str | bytes) -> str | None:
    """Whether a file of that name is an `image` or a `video`; None where no picture of it can be made here."""
    text = name.decode("ascii", "replace") if isinstance(name, bytes) else name
    stem, _, extension = text.rpartition("/")[2].rpartition(".")
    found = KINDS.get(extension.lower())
    if found is None or not stem:
        return None
    kind, media_type = found
    return media_type if kind in decodable() else None


class _Known(NamedTuple):
    kinds: frozenset[str] = frozenset()
    #: By the monotonic clock.
    until: float = float("-inf")


_known = _Known()
_asking = Lock()


def decodable() -> frozenset[str]:
    """What the libraries on this machine can decode. They are asked once, when the first file has a promising name; and
    again after a while where not all of them could be asked."""
    global _known
    if time.monotonic() < _known.until:
        return _known.kinds
    with _asking:
        if time.monotonic() >= _known.until:
            _known = _ask()
    return _known.kinds


def _ask() -> _Known:
    """What was answered holds, also where that was not all."""
    command = [sys.executable, "-m", "thumbnails.codecs"]
    try:
        asked = subprocess.run(command, cwd=settings.BASE_DIR, capture_output=True, check=True, timeout=ASKING_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip()
        logger.error("Not all decoders could be asked: %s %s", error, said[-500:])
        kinds = _known.kinds | _kinds(getattr(error, "stdout", None))
        return _Known(kinds, time.monotonic() + AGAIN_SECONDS)
    return _Known(_kinds(asked.stdout), float("inf"))


def _kinds(answered: bytes | None) -> frozenset[str]:
    return frozenset((answered or b"").decode(errors="replace").split())
