"""As what an original is handed out, by its name alone: nothing is guessed from its content, here or in the browser."""

from __future__ import annotations

from typing import NamedTuple

from django.utils.http import content_disposition_header

from libraries.names import to_display

#: What every browser shows or plays by itself, without running anything of it. (Chromium shows no PDF in a sandbox.)
_SHOWN = {
    "image/jpeg": "jpg jpeg jpe jfif",
    "image/png": "png",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/bmp": "bmp",
    "image/avif": "avif",
    "image/heic": "heic heif",
    "image/tiff": "tif tiff",
    "video/mp4": "mp4 m4v",
    "video/quicktime": "mov",
    "video/webm": "webm",
    "video/x-matroska": "mkv",
    "video/x-msvideo": "avi",
    "video/mpeg": "mpg mpeg",
    "video/x-ms-wmv": "wmv",
    "audio/mpeg": "mp3",
    "audio/mp4": "m4a",
    "audio/aac": "aac",
    "audio/flac": "flac",
    "audio/ogg": "ogg oga opus",
    "audio/wav": "wav",
    # Only as letters: even a page or a program is harmless then, but those are left out all the same.
    "text/plain; charset=utf-8": "txt text md csv tsv log ini srt nfo",
}
_BY_EXTENSION = {extension: kind for kind, extensions in _SHOWN.items() for extension in extensions.split()}
ANYTHING_ELSE = "application/octet-stream"


class Handing(NamedTuple):
    """How a file is handed out."""

    content_type: str
    disposition: str


def handing_of(path: str) -> Handing:
    """`path` is as it is stored. A name is shown as people see it, so that no byte of it can break a header."""
    name = path.rpartition("/")[2]
    extension = name.rpartition(".")[2].lower() if "." in name else ""
    content_type = _BY_EXTENSION.get(extension, ANYTHING_ELSE)
    disposition = content_disposition_header(content_type == ANYTHING_ELSE, to_display(name))
    assert disposition is not None
    return Handing(content_type, disposition)
