"""What the figures were taken on."""

from __future__ import annotations

import os
import platform
import sqlite3
from pathlib import Path


def _first(path: str, start: str) -> str:
    for line in Path(path).read_text().splitlines():
        if line.startswith(start):
            return line.split(":", 1)[1].strip()
    return "unknown"


def _kernel() -> str:
    """What figures may hang on; the rest of its name tells whose machine it is."""
    return ".".join(platform.release().split(".")[:2])


def describe() -> str:
    memory = int(_first("/proc/meminfo", "MemTotal").split()[0]) / 1024 / 1024
    return (
        f"{os.cpu_count()} cores ({_first('/proc/cpuinfo', 'model name')}), {memory:.0f} GiB memory, "
        f"Linux {_kernel()}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    )
