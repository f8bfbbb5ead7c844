"""Addresses of lists: filters and cursors are in the query, so that every view of a list can be linked to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.http import HttpRequest


@dataclass(frozen=True)
class Choice:
    """One value of a filter, as a link."""

    label: str
    address: str
    is_current: bool


def with_query(request: HttpRequest, **changes: str | None) -> str:
    """This page's address with some of its query changed; None takes a name out."""
    query = request.GET.copy()
    for name, value in changes.items():
        if value:
            query[name] = value
        else:
            query.pop(name, None)
    encoded = query.urlencode()
    return f"{request.path}?{encoded}" if encoded else request.path


def choices(request: HttpRequest, name: str, among: Iterable[tuple[str, str]]) -> list[Choice]:
    """The values of filter `name` as links; each starts from the first page."""
    current = request.GET.get(name, "")
    return [
        Choice(label, with_query(request, cursor=None, **{name: value}), value == current) for value, label in among
    ]
