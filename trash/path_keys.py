"""A short name for a path, to find what happened there: a path may be longer than an index can hold."""

from __future__ import annotations

import hashlib

from libraries.names import to_bytes

KEY_BYTES = 16


def path_key(path: bytes | str) -> bytes:
    """Of the path's own bytes below the library's root; as text it is taken as the index stores it."""
    raw = to_bytes(path) if isinstance(path, str) else path
    return hashlib.blake2b(raw, digest_size=KEY_BYTES).digest()
