"""Why a picture could not be made, in a code for programs and a sentence for a person."""

from __future__ import annotations

DECODE_FAILED = "THUMB_DECODE_FAILED"
VIDEO_FAILED = "THUMB_VIDEO_FFMPEG_FAILED"
GENERATION_FAILED = "THUMB_GENERATION_FAILED"
TIMED_OUT = "THUMB_TIMED_OUT"
TOO_LARGE = "THUMB_TOO_LARGE"
OUT_OF_MEMORY = "THUMB_OUT_OF_MEMORY"
#: What a library says of a file may hold anything the file holds.
MOST_CHARACTERS = 200


class RenderError(Exception):
    """No picture; `bytes_read` of the file were read all the same."""

    def __init__(self, code: str, message: str, bytes_read: int = 0) -> None:
        super().__init__(message)
        self.code, self.message, self.bytes_read = code, message, bytes_read


def told_by(error: BaseException) -> str:
    """What a library said, fit to be shown: one line, printable, short."""
    said = " ".join(str(error).split()) or type(error).__name__
    return "".join(each if each.isprintable() else "?" for each in said)[:MOST_CHARACTERS]
