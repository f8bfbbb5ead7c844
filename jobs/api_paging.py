"""Lists over the API whose pages end at a row's key: what is asked, what the cursor says, and one page of rows."""

from __future__ import annotations

from typing import TypeVar

from django.db.models import Model, QuerySet
from ninja import Schema
from ninja.errors import HttpError
from pydantic import Field

PAGE_SIZE = 50
LARGEST_PAGE = 1000
LARGEST_KEY = 2**63 - 1
M = TypeVar("M", bound=Model)


class PageAsked(Schema):
    limit: int = Field(PAGE_SIZE, ge=1, le=LARGEST_PAGE)
    cursor: str | None = Field(None, description="`next_cursor` of the page before.")


def key_of(cursor: str | None) -> int | None:
    """The key that a page begins behind; None for the first one."""
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdecimal()) or len(cursor) > 19 or int(cursor) > LARGEST_KEY:
        raise HttpError(422, f"cursor: {cursor[:80]!r} is not a cursor of this list")
    return int(cursor)


def newest_page(rows: QuerySet[M], asked: PageAsked) -> tuple[list[M], str | None]:
    """The newest rows that the page before has not shown, and the cursor of the next one."""
    before = key_of(asked.cursor)
    ordered = rows.order_by("-pk")
    found = list((ordered if before is None else ordered.filter(pk__lt=before))[: asked.limit + 1])
    page = found[: asked.limit]
    return page, str(page[-1].pk) if len(found) > asked.limit else None
