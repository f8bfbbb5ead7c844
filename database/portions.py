"""Long lists for statements that take only so much at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def portions(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (values[start : start + size] for start in range(0, len(values), size))
