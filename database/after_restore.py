"""What can't be taken over from an older day: rooms say by which statements a restored database is put right."""

from __future__ import annotations

from pathlib import Path

_statements: list[str] = []
_files: list[str] = []


def after_restore(*statements: str) -> None:
    """Have these run in every restored database before anybody uses it, in this order. Both databases must understand
    them, and they must do no harm a second time."""
    _statements.extend(each for each in statements if each not in _statements)


def forget_after_restore(name: str) -> None:
    """Have this file of the state folder taken away: it tells of the database that was there before."""
    if name not in _files:
        _files.append(name)


def forget_files(state: Path) -> None:
    for name in _files:
        (state / name).unlink(missing_ok=True)


def statements() -> tuple[str, ...]:
    return tuple(_statements)
