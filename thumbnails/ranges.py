"""Which part of a file a request asks for (RFC 9110, section 14): one range of bytes, or the whole."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

#: One range. Several at once are answered with the whole file, which every client must take.
_ONE_RANGE = re.compile(r"bytes=[ \t]*(\d{0,19})-(\d{0,19})[ \t]*", re.ASCII | re.IGNORECASE)


class Span(NamedTuple):
    """A part of a file."""

    start: int
    length: int

    def content_range(self, size: int) -> str:
        return f"bytes {self.start}-{self.start + self.length - 1}/{size}"


class NotThere(Exception):
    """The range lies behind the end of the file."""


def asked_for(headers: Mapping[str, str], size: int, etag: str) -> Span | None:
    """The part that `Range` and `If-Range` ask for; None for the whole. Raises `NotThere`.

    What can't be understood asks for the whole. `If-Range` must name this very version: a time is not exact enough to
    say so, and the whole file is right whatever the client has.
    """
    if headers.get("If-Range", etag) != etag:
        return None
    found = _ONE_RANGE.fullmatch(headers.get("Range", ""))
    if found is None or not any(found.groups()):
        return None
    first, last = found.groups()
    if not first:
        return _tail(int(last), size)
    start, end = int(first), int(last) if last else size - 1
    if last and end < start:
        return None
    if start >= size:
        raise NotThere
    return Span(start, min(end, size - 1) - start + 1)


def _tail(length: int, size: int) -> Span:
    if not length or not size:
        raise NotThere
    return Span(max(size - length, 0), min(length, size))
