"""Values as earlier implementations wrote them, turned into the forms of the protocol.

Each function takes what SQLite returned (None, int, float, str, bytes) and returns what to store; `Unusable`
says that it can't be done without a guess.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from database.protocol import LEGAL

Normaliser = Callable[[Any], Any]

DIGEST_BYTES = 32
HASH_ALGORITHMS = LEGAL["library_files", "hash_algorithm"]
TRUE = frozenset({"1", "true", "t", "yes", "y", "on"})
FALSE = frozenset({"0", "false", "f", "no", "n", "off"})
#: The forms that PROTOCOL allows and SQLite compares rightly: no fraction, milliseconds, microseconds.
CANONICAL = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{3}|\.\d{6})?")
HEX = re.compile(r"[0-9a-f]+")


class Unusable(ValueError):
    """A value that has no counterpart in the protocol."""


def anything(value: Any) -> Any:
    return value


def text(value: Any) -> Any:
    """Text as it is; bytes that aren't UTF-8 (they arrive as surrogates) become question marks."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    return value


def path(value: Any) -> Any:
    """A path keeps every byte or is not taken at all."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    if not isinstance(value, str):
        raise Unusable("not a path")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise Unusable("not UTF-8") from None
    return value


def one_of(legal: frozenset[str], *, is_nullable: bool) -> Normaliser:
    """An enum's name or value, in whatever case, as its lower-case value."""

    def normalise(value: Any) -> str | None:
        if value is None and is_nullable:
            return None
        word = value.strip().lower() if isinstance(value, str) else None
        if word not in legal:
            raise Unusable(f"not one of {', '.join(sorted(legal))}")
        return word

    return normalise


def moment(value: Any) -> datetime | None:
    """The time that a text names; without an offset it is UTC."""
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(value.strip())
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise Unusable("not a time") from None


def timestamp(value: Any) -> str | None:
    """UTC text with a space; a text that already is one stays as it is, to the letter."""
    found = moment(value)
    if found is None:
        return None
    if CANONICAL.fullmatch(value):
        return str(value)
    fraction = f".{found.microsecond:06d}" if found.microsecond else ""
    # strftime("%Y") doesn't pad years below 1000.
    return found.replace(microsecond=0, tzinfo=None).isoformat(sep=" ") + fraction


def flag(value: Any) -> int | None:
    if value is None:
        return None
    word = str(value).strip().lower()
    if word in TRUE:
        return 1
    if word in FALSE:
        return 0
    raise Unusable("not a yes or no")


def whole(value: Any) -> int | None:
    """A whole number of 64 bits, also where it was stored as text or as a float without a fraction."""
    if value is None or isinstance(value, int):
        return value
    try:
        number = float(value) if isinstance(value, float) else int(value)
    except (TypeError, ValueError):
        raise Unusable("not a whole number") from None
    if number != number or not -(2**63) <= number < 2**63 or number != int(number):
        raise Unusable("not a whole number of 64 bits")
    return int(number)


def file_number(value: Any) -> int | None:
    """An inode or a device: unsigned in the kernel, kept here as signed.

    One that was stored as a float has lost digits; the next scan finds it again.
    """
    if isinstance(value, float):
        return None
    number = int(value) if isinstance(value, str) and value.strip().isdigit() else value
    if isinstance(number, int) and 2**63 <= number < 2**64:
        return number - 2**64
    return whole(number)


def real(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        raise Unusable("not a number") from None


def digest(value: Any) -> tuple[str | None, bytes | None]:
    """A content hash (32 raw bytes, their hex, or `algorithm:hex`) and the algorithm, where it is told."""
    if value is None or value in ("", b""):
        return None, None
    if isinstance(value, bytes) and len(value) == DIGEST_BYTES:
        return None, value
    word = value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
    algorithm, _, hexadecimal = word.strip().lower().rpartition(":")
    is_known = algorithm in HASH_ALGORITHMS or not algorithm
    if not is_known or len(hexadecimal) != 2 * DIGEST_BYTES or not HEX.fullmatch(hexadecimal):
        raise Unusable("not a digest of 32 bytes")
    return algorithm or None, bytes.fromhex(hexadecimal)


def job_id(value: Any) -> str:
    """A uuid with dashes; an id of another kind stays as it is, if it fits."""
    if isinstance(value, bytes) and len(value) == 16:
        return str(uuid.UUID(bytes=value))
    word = str(value).strip() if isinstance(value, str | int) else ""
    try:
        return str(uuid.UUID(word))
    except ValueError:
        if not 1 <= len(word) <= 36:
            raise Unusable("not an id of a job") from None
        return word


def payload(value: Any) -> str | None:
    """A JSON object; anything else is kept, as text, inside one."""
    if value is None:
        return None
    written = text(value) if isinstance(value, str | bytes) else json.dumps(value)
    return written if _is_object(written) else json.dumps({"adopted_text": written})


def _is_object(written: str) -> bool:
    try:
        return isinstance(json.loads(written, parse_constant=_refuse_constant), dict)
    except (ValueError, RecursionError):
        return False


def _refuse_constant(name: str) -> None:
    """Python reads NaN and Infinity; SQLite and the JSON standard don't."""
    raise ValueError(name)


BY_COLUMN: dict[tuple[str, str], Normaliser] = {
    ("jobs", "id"): job_id,
    ("jobs", "payload"): payload,
    ("library_files", "inode"): file_number,
    ("library_files", "device"): file_number,
    ("library_files", "relative_path"): path,
    # Judged together with the algorithm, by the copier.
    ("library_files", "content_hash"): anything,
}
BY_TYPE: dict[str, Normaliser] = {
    "datetime": timestamp,
    "bool": flag,
    "integer": whole,
    "bigint": whole,
    "real": real,
}


def normaliser(table: str, column: str, declared_type: str, *, is_nullable: bool) -> Normaliser:
    """How the values of one column of this version's schema are normalised."""
    if (table, column) in LEGAL:
        return one_of(LEGAL[table, column], is_nullable=is_nullable)
    return BY_COLUMN.get((table, column)) or BY_TYPE.get(declared_type.lower(), text)
