"""What can't be taken over from an older day: rooms say by which statements a restored database is put right."""

from __future__ import annotations

_statements: list[str] = []


def after_restore(*statements: str) -> None:
    """Have these run in every restored database before anybody uses it, in this order. Both databases must understand
    them, and they must do no harm a second time."""
    _statements.extend(each for each in statements if each not in _statements)


def statements() -> tuple[str, ...]:
    return tuple(_statements)
