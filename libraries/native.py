"""What was compiled from C beside Python, where there was a compiler (`scripts/build_native.sh`). Everything works
without; it only takes longer."""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import Any

FOLDER = f"{sys.prefix}/native"


@cache
def library(name: str, version: int) -> Any:
    """The build of `name.c` as a `ctypes.CDLL`, or None where there is none from the source of this version."""
    built = f"{FOLDER}/{name}.so"
    if not os.access(built, os.R_OK):
        return None
    import ctypes  # takes a while to load

    try:
        found = ctypes.CDLL(built)
        is_this = ctypes.c_int.in_dll(found, f"dedupfs_{name}_version").value == version
    except (OSError, ValueError):
        return None  # of another machine, or of a source that had no version
    return found if is_this else None
