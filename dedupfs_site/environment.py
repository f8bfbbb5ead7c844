"""Reads settings from the environment; a bad value fails at once and names its variable.

Every variable is declared here by the call that reads it, so the list in ``docs/operating/settings.md``
can be held against the code.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS = frozenset({"0", "false", "no", "off", ""})


class SettingError(Exception):
    """A setting that can't be used; the message is one line for the person who set it."""


@dataclass(frozen=True)
class Declared:
    name: str
    default: str


DECLARED: dict[str, Declared] = {}


def _read(name: str, default: str, parse: Callable[[str], T]) -> T:
    DECLARED[name] = Declared(name, default)
    raw = os.environ.get(name, default)
    try:
        return parse(raw)
    except ValueError as error:
        raise SettingError(f"{name}={raw!r}: {error}") from None


def text(name: str, default: str = "") -> str:
    return _read(name, default, str.strip)


def flag(name: str, *, default: bool = False) -> bool:
    def parse(raw: str) -> bool:
        word = raw.strip().lower()
        if word in TRUE_WORDS:
            return True
        if word in FALSE_WORDS:
            return False
        raise ValueError("write 1 or 0")

    return _read(name, "1" if default else "0", parse)


def whole(name: str, default: int, *, least: int, most: int) -> int:
    def parse(raw: str) -> int:
        value = int(raw) if raw.strip().lstrip("-").isdigit() else None
        if value is None or not least <= value <= most:
            raise ValueError(f"write a whole number from {least} to {most}")
        return value

    return _read(name, str(default), parse)


def choice(name: str, default: str, among: tuple[str, ...]) -> str:
    def parse(raw: str) -> str:
        if raw not in among:
            raise ValueError(f"write one of {', '.join(among)}")
        return raw

    return _read(name, default, parse)


def words(name: str, default: str = "") -> list[str]:
    """A list separated by commas."""
    return _read(name, default, lambda raw: [word.strip() for word in raw.split(",") if word.strip()])


def folder(name: str, default: str) -> Path:
    """One absolute folder; ``~`` and relative paths are resolved against the current folder."""
    return _read(name, default, lambda raw: Path(raw).expanduser().absolute())


def folders(name: str, default: str) -> list[Path]:
    """A list of absolute folders separated by ``:``, as in PATH."""
    return _read(name, default, lambda raw: [Path(part).expanduser().absolute() for part in raw.split(":") if part])
