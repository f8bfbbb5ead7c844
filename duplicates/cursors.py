"""Orders of the groups, and the cursors that say where a page begins.

A cursor holds the place itself, not a key to be looked up: the group it was made from may be gone. Order "copies" has
the protocol's payload, by the letter; the others name their order, so that none is taken for another's.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from duplicates.facts import Digest
from duplicates.models import DuplicateGroup
from libraries.models import LibraryFile

LARGEST = 2**63 - 1
DIGEST_BYTES = 32
#: Longer than any that is handed out.
MOST_CHARACTERS = 1024

_DIGEST = ("hash_algorithm", "content_hash_hex")

#: What a row is compared with: the values of an order's columns.
Anchor = tuple[Any, ...]


class BadCursor(ValueError):
    """A cursor that this server never handed out for this list."""


class BadGroupKey(ValueError):
    """Not `<algorithm>:<digest>`; its text says what is wrong."""


@dataclass(frozen=True)
class Order:
    """Largest figure first, then by digest or by the file that stands for a group: a total order, so that a page can
    begin anywhere."""

    name: str
    label: Promise
    #: Columns of a group, the decisive one first.
    figures: tuple[str, ...]
    #: The generated columns that hold them negated; the index goes over these and what tells equal ones apart.
    negated: tuple[str, ...]
    last: tuple[str, ...] = ("sample_file_id",)

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.negated, *self.last)

    @property
    def is_protocols(self) -> bool:
        return self.last != ("sample_file_id",)

    def place_of(self, group: DuplicateGroup) -> Anchor:
        figures = tuple(-getattr(group, figure) for figure in self.figures)
        if self.is_protocols:
            return (*figures, group.hash_algorithm, bytes(group.content_hash))
        return (*figures, group.sample_file_id)

    def cursor(self, place: Anchor) -> str:
        negated = place[: len(self.figures)]
        payload: dict[str, Any] = {figure: -value for figure, value in zip(self.figures, negated, strict=True)}
        if self.is_protocols:
            payload |= {"hash_algorithm": place[-2], "content_hash_hex": bytes(place[-1]).hex()}
        else:
            payload |= {"order": self.name, "sample_file_id": place[-1]}
        text = json.dumps(payload, separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    def place(self, cursor: str) -> Anchor:
        """Where the page after `cursor` begins."""
        payload = _payload(cursor)
        if set(payload) != {*self.figures, *(_DIGEST if self.is_protocols else ("order", "sample_file_id"))}:
            raise _bad(cursor)
        if payload.get("order", self.name) != self.name:
            raise _bad(cursor)
        figures = [payload[figure] for figure in self.figures]
        numbers = figures if self.is_protocols else [*figures, payload["sample_file_id"]]
        if any(type(number) is not int or abs(number) > LARGEST for number in numbers):
            raise _bad(cursor)
        negated = (-figure for figure in figures)
        return (*negated, *_digest(payload, cursor)) if self.is_protocols else (*negated, payload["sample_file_id"])


ORDERS: dict[str, Order] = {
    order.name: order
    for order in (
        Order(
            "copies",
            gettext_lazy("Most copies"),
            ("file_count", "total_size_bytes"),
            ("by_files", "by_total"),
            ("hash_algorithm", "content_hash"),
        ),
        Order("reclaimable", gettext_lazy("Most space to win"), ("reclaimable_bytes",), ("by_reclaimable",)),
        Order("newest", gettext_lazy("Newest change"), ("newest_ns",), ("by_newest",)),
        Order("size", gettext_lazy("Largest files"), ("size_bytes",), ("by_size",)),
    )
}


def parse_group_key(text: str) -> Digest:
    """`<algorithm>:<digest>`, whatever its case and the spaces around it."""
    key = text.strip().lower()
    algorithm, colon, digest = key.partition(":")
    if not colon:
        raise BadGroupKey(_("“%(key)s” is no group key: it is <algorithm>:<digest>.") % {"key": key[:80]})
    if algorithm not in LibraryFile.HashAlgorithm.values:
        known = ", ".join(LibraryFile.HashAlgorithm.values)
        words = {"algorithm": algorithm[:80], "known": known}
        raise BadGroupKey(_("“%(algorithm)s” is no hash algorithm of a group key; known are %(known)s.") % words)
    if len(digest) != 2 * DIGEST_BYTES:
        words = {"algorithm": algorithm, "expected": str(2 * DIGEST_BYTES), "count": str(len(digest))}
        raise BadGroupKey(
            _("A digest by %(algorithm)s has %(expected)s hexadecimal digits; this one has %(count)s.") % words
        )
    if not all(digit in "0123456789abcdef" for digit in digest):
        raise BadGroupKey(_("The digest of a group key has hexadecimal digits only, 0-9 and a-f."))
    return algorithm, bytes.fromhex(digest)


def _digest(payload: dict[str, Any], cursor: str) -> Digest:
    algorithm, digest = payload["hash_algorithm"], payload["content_hash_hex"]
    if not isinstance(algorithm, str) or not isinstance(digest, str):
        raise _bad(cursor)
    try:
        return parse_group_key(f"{algorithm}:{digest}")
    except BadGroupKey:
        raise _bad(cursor) from None


def _payload(cursor: str) -> dict[str, Any]:
    if len(cursor) > MOST_CHARACTERS or not cursor.isascii():
        raise _bad(cursor)
    bare = cursor.rstrip("=")
    try:
        text = base64.b64decode(bare + "=" * (-len(bare) % 4), altchars=b"-_", validate=True)
        payload = json.loads(text)
    except (binascii.Error, ValueError, RecursionError):
        raise _bad(cursor) from None
    if not isinstance(payload, dict):
        raise _bad(cursor)
    return payload


def _bad(cursor: str) -> BadCursor:
    return BadCursor(_("%(cursor)s is not a cursor of this list") % {"cursor": repr(cursor[:80])})
