"""A time that a file may have and no column can hold."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

YEAR_2381 = 12_969_000_000


def set_odd_time(path: Path) -> None:
    os.utime(path, (YEAR_2381, YEAR_2381))
    if path.stat().st_mtime != YEAR_2381:
        pytest.skip("this filesystem holds no such time")
