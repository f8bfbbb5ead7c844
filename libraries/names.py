"""File names are bytes; columns are text. This is the one-to-one mapping between them.

Names that are UTF-8 are stored as they are. A byte that is not part of valid UTF-8 becomes one character of a
private-use range (`0xE9` becomes U+F7E9). A real character of that range would be mistaken for such a byte, so its own
UTF-8 bytes are mapped the same way. Every byte string has exactly one text, and every text that came from a name leads
back to it.
"""

from __future__ import annotations

import re

#: What the column of a path holds.
PATH_CHARACTERS = 4096
#: U+F780 to U+F7FF stand for the bytes 0x80 to 0xFF.
BASE = 0xF700
_STAND_INS = re.compile("[\uf780-\uf7ff]")
_UNSTORABLE = re.compile("[\uf780-\uf7ff\udc80-\udcff]")


def to_text(name: bytes) -> str:
    """The text a name is stored as."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        text = name.decode(errors="surrogateescape")
    return text if text.isascii() else _UNSTORABLE.sub(_stand_in, text)


def to_bytes(text: str) -> bytes:
    """The name that `text` stands for."""
    if text.isascii() or not _STAND_INS.search(text):
        return text.encode()
    return _STAND_INS.sub(lambda found: chr(ord(found[0]) - BASE + 0xDC00), text).encode(errors="surrogateescape")


def to_display(text: str) -> str:
    """What a person sees: bytes that are no text as `\\xe9`, control characters as their escapes."""
    if text.isprintable():
        return text  # stand-ins are not
    shown = _STAND_INS.sub(lambda found: f"\\x{ord(found[0]) - BASE:02x}", text)
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in shown)


def _stand_in(found: re.Match[str]) -> str:
    return "".join(chr(BASE + byte) for byte in found[0].encode(errors="surrogateescape"))
