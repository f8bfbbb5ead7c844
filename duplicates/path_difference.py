"""What is different between the paths of equal files: the folders and names they share, and the part they don't."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from libraries.names import to_display

#: What of a shortened text is its beginning; the end says which file it is, so it gets the rest.
HEAD_SHARE = 3
#: A shared beginning is never cut to less than this: one should still recognise it.
LEAST_SHARED = 9
GAP = "…"


class Part(NamedTuple):
    """A piece of a path as it is shown."""

    text: str
    differs: bool


def differences(paths: Sequence[str], most: int | None = None) -> list[tuple[Part, ...]]:
    """Each path in up to three parts: shared beginning, what differs, shared end; joined they are the path as shown.

    Paths are in their stored form. Whole folders and names are compared, not letters: two names that differ by one
    letter are two names. With `most` a longer path loses its middle, never its end, and first what it shares.
    """
    pieces = [path.split("/") for path in paths]
    head = _shared(pieces)
    tail = _shared([each[head:][::-1] for each in pieces])
    parts = [_parts(each, head, tail) for each in pieces]
    return parts if most is None else [_shortened(each, most) for each in parts]


def _shared(pieces: Sequence[Sequence[str]]) -> int:
    """How many pieces are the same in all of them, from the beginning."""
    count = 0
    for column in zip(*pieces, strict=False):
        if any(piece != column[0] for piece in column):
            break
        count += 1
    return count


def _parts(pieces: list[str], head: int, tail: int) -> tuple[Part, ...]:
    end = len(pieces) - tail
    texts = ["/".join(pieces[:head]), "/".join(pieces[head:end]), "/".join(pieces[end:])]
    # The slash after a part belongs to it, so that joining the parts gives the path.
    filled = [index for index, text in enumerate(texts) if text]
    for index in filled[:-1]:
        texts[index] += "/"
    return tuple(Part(to_display(texts[index]), index == 1) for index in filled)


# --- Shortening -------------------------------------------------------------------------------------------
def _shortened(parts: tuple[Part, ...], most: int) -> tuple[Part, ...]:
    over = sum(len(part.text) for part in parts) - most
    if over > 0 and len(parts) > 1 and not parts[0].differs:
        first = parts[0]
        room = max(len(first.text) - over, LEAST_SHARED)
        parts = (first._replace(text=_without_middle(first.text, room)), *parts[1:])
    return _cut_across(parts, most)


def _without_middle(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    head = most // HEAD_SHARE
    return f"{text[:head]}{GAP}{text[len(text) - (most - head - 1) :]}"


def _cut_across(parts: tuple[Part, ...], most: int) -> tuple[Part, ...]:
    """Cut the middle out of the whole, whichever parts it lies in."""
    total = sum(len(part.text) for part in parts)
    if total <= most:
        return parts
    start = most // HEAD_SHARE
    end = total - (most - start - 1)
    kept: list[Part] = []
    at, gap = 0, GAP
    for part in parts:
        before = part.text[: max(start - at, 0)]
        after = part.text[max(end - at, 0) :]
        is_cut = len(before) + len(after) < len(part.text)
        text = before + (gap if is_cut else "") + after
        gap = "" if is_cut else gap
        at += len(part.text)
        if text:
            kept.append(part._replace(text=text))
    return tuple(kept)
