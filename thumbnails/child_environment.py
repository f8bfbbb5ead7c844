"""What a child process gets of the environment: it reads files that anybody may have made."""

from __future__ import annotations

import os

#: What it needs; passwords and keys it does not.
NAMES = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "LANG", "LC_ALL")


def child_environment(**more: str) -> dict[str, str]:
    return {name: os.environ[name] for name in NAMES if name in os.environ} | more
