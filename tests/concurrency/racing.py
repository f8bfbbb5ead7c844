"""Processes that do something at the same moment: each says "ready", waits for a gate, and prints what came of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def start(module: str, environment: dict[str, str], *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", f"tests.concurrency.{module}", *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def release(racers: Sequence[subprocess.Popen[str]], gate: Path) -> list[list[str]]:
    """Let them go once all are ready; the lines that each printed."""
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n", racer.stderr and racer.stderr.read()
    gate.touch()
    return [_printed(racer) for racer in racers]


def _printed(racer: subprocess.Popen[str]) -> list[str]:
    printed, errors = racer.communicate(timeout=240)
    assert racer.returncode == 0, errors
    assert "deadlock" not in errors
    return printed.split("\n")[:-1]
