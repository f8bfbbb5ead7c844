"""A racer's side of a race."""

from __future__ import annotations

import time
from pathlib import Path


def wait_for(gate: Path) -> None:
    print("ready", flush=True)
    while not gate.exists():
        time.sleep(0.001)
