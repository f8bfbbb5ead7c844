"""Pages by keyset: the next page is what comes after the last row shown, whatever was added meanwhile.

The anchor is looked up by its key inside the statement, and compared as a row value: no time travels through
Python (see `database.clock`), and the index is walked from the anchor on, so page 5,000 costs what page 1 does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db import connections
from django.db.models import BooleanField, Model, QuerySet
from django.db.models.expressions import RawSQL

M = TypeVar("M", bound=Model)


class UnknownCursor(ValueError):
    """A cursor that this server never handed out."""


@dataclass(frozen=True)
class Page(Generic[M]):
    rows: list[M]
    next_cursor: str | None


def newest_first(
    rows: QuerySet[M],
    *,
    columns: tuple[str, ...],
    cursor: str | None,
    size: int,
    parse: Callable[[str], Any] = str,
) -> Page[M]:
    """Return one page of `rows`, ordered by `columns` descending; the last column is the key.

    `cursor` is the key of the last row of the page before.
    """
    ordered = rows.order_by(*(f"-{column}" for column in columns))
    if cursor is not None:
        ordered = ordered.filter(_before(rows, columns, _anchor(rows, cursor, parse)))
    found = list(ordered[: size + 1])
    more = len(found) > size
    page = found[:size]
    return Page(page, str(page[-1].pk) if more else None)


def _anchor(rows: QuerySet[M], cursor: str, parse: Callable[[str], Any]) -> Any:
    try:
        key = parse(cursor)
    except ValueError:
        raise UnknownCursor(f"{cursor[:80]!r} is not a cursor of this list") from None
    if not rows.model._default_manager.using(rows.db).filter(pk=key).exists():
        raise UnknownCursor(f"{cursor[:80]!r} is not a cursor of this list")
    return key


def _before(rows: QuerySet[M], columns: tuple[str, ...], key: Any) -> Any:
    meta = rows.model._meta
    quote = connections[rows.db].ops.quote_name
    table = quote(meta.db_table)
    names = [quote(meta.get_field(column).column) for column in columns]  # type: ignore[union-attr, arg-type]
    qualified = ", ".join(f"{table}.{name}" for name in names)
    anchor = ", ".join(f"anchor.{name}" for name in names)
    return RawSQL(  # noqa: S611  names come from the model, the key is a parameter
        f"({qualified}) < (SELECT {anchor} FROM {table} AS anchor WHERE anchor.{names[-1]} = %s)",
        [key],
        output_field=BooleanField(),
    )
