"""Files that an act was to take out of the trash and that stay there, as commands tell of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from libraries.names import to_display
from trash.models import Act, TrashItem

#: So many are told of one by one.
MOST_TOLD = 50


def stayed_of(act: Act) -> list[TrashItem]:
    rows = act.taken.filter(status=TrashItem.Status.TRASHED).select_related("plan_file")
    return list(rows.order_by("pk"))


def in_words(stayed: Sequence[TrashItem]) -> Iterator[str]:
    for item in stayed[:MOST_TOLD]:
        yield f"! {to_display(item.plan_file.relative_path)}: {item.reason} ({item.reason_code})"
    if len(stayed) > MOST_TOLD:
        yield f"… and {len(stayed) - MOST_TOLD:,} more; the page of the trash has all of them."


def as_objects(stayed: Sequence[TrashItem]) -> list[dict[str, Any]]:
    return [
        {
            "item": item.pk,
            "library_id": item.library_id,
            "path": to_display(item.plan_file.relative_path),
            "reason_code": item.reason_code,
            "reason": item.reason,
        }
        for item in stayed
    ]
