"""How files go to the hand of an act and what became of them comes back: as plain values that can be marshalled.
Knows nothing of Django."""

from __future__ import annotations

from typing import Any

from trash.planned import TRASHED, Done, Kept, Linked, Planned, Stray

#: Descriptors of one message; the kernel carries 253 at the most.
MOST_HANDLES = 200


def given(item: Planned) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return item[:10], tuple(item.keeper)


def planned(values: tuple[Any, ...], keeper: tuple[Any, ...]) -> Planned:
    return Planned._make((*values, Kept._make(keeper), True))


def told(done: Done) -> Any:
    if done.is_plain:
        return None
    return done.status, done.code, done.reason, done.linked and tuple(done.linked), done.stray and tuple(done.stray)


def heard(item: Planned, told: Any) -> Done:
    if told is None:
        return Done(item, TRASHED)
    status, code, reason, linked, stray = told
    return Done(item, status, code, reason, linked and Linked._make(linked), stray and Stray._make(stray))
