"""Names for people: bytes that are no text as escapes, long ones without their middle, algorithms as they are spelt."""

from __future__ import annotations

from collections.abc import Iterable

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString

from libraries.names import to_display
from libraries.showing import ROLE_WORDS

register = template.Library()

#: What of a shortened path is its beginning; the end says which file it is, so it gets the rest.
HEAD_SHARE = 3
ALGORITHMS = {"blake3": "BLAKE3", "sha256": "SHA-256"}


@register.filter
def shown_name(text: str | None) -> str:
    return to_display(text or "")


@register.filter
def short(text: str | None, most: int = 96) -> str:
    """At most so many characters; the middle goes, never the end."""
    shown = to_display(text or "")
    if len(shown) <= most:
        return shown
    head = most // HEAD_SHARE
    return f"{shown[:head]}…{shown[len(shown) - (most - head - 1) :]}"


@register.filter
def marked_parts(parts: Iterable[tuple[str, bool]]) -> SafeString:
    """Pieces of a path, each with whether it differs from the same place of other paths."""
    tags = ((escape(text), "strong" if differs else "span") for text, differs in parts)
    return SafeString("".join(f"<{tag}>{text}</{tag}>" for text, tag in tags))


@register.filter
def is_longer_than(text: str | None, most: int) -> bool:
    return len(to_display(text or "")) > most


@register.filter
def role_word(role: str) -> str:
    """What a library's role is called."""
    return str(ROLE_WORDS.get(role, role))


@register.filter
def algorithm(value: str | None) -> str:
    return ALGORITHMS.get(value or "", value or "")
